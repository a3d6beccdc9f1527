#pragma once

// GPUs of one kind are not of one speed, and no GPU is at all times: how that varies over GPUs,
// steps and kernels, and what a step then takes, since whoever meets waits for the slowest.
//
// The slowest of n draws: a step whose n ranks meet once takes 1 + sigma E(max of n normals) times
// the mean. Source: Tippett, Biometrika 17(3/4), 1925; for synchronised programs Petrini, Kerbyson
// and Pakin, SC 2003.
//
// Communication does not vary, nor does a GPU change its speed within a step.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/evidence.h"
#include "sim/result.h"
#include "sim/units.h"
#include "sim/workload.h"

namespace flopcast {

/// Each sigma is that of the logarithm of a time, whose mean stays what it is without.
struct StepJitter {
  std::uint64_t seed = 1;
  double kernel_sigma = 0;      // of each kernel by itself
  double rank_sigma = 0;        // of all kernels of a GPU, the same in every step
  double step_sigma = 0;        // of all kernels of a GPU in one step, anew in every step
  double slow_probability = 0;  // that a GPU is slow in a step
  double slow_speed = 1;        // its speed then
  int steps = 20;               // that are simulated
  int classes = 0;  // GPU r draws as GPU r mod classes, so that GPUs can be folded; 0: for itself
  Evidence evidence = Evidence::assumed;
  std::string source;

  /// Whether GPUs that draw for themselves all differ.
  bool all_differ() const {
    return classes == 0 && (kernel_sigma > 0 || rank_sigma > 0 || step_sigma > 0);
  }
};

/// Row r of `workload` is rank r: sets its speed and draws in this step.
void disturb(Workload& workload, const StepJitter& jitter, int step);

/// What is kept of one step. Waiting: the compute stream stood still since another rank was not
/// there yet, or had ended before the step did.
struct DisturbedStep {
  SimTime makespan;
  std::vector<SimTime> waiting;  // by rank
  std::vector<SimTime> busy;     // by rank, of the compute stream
};
/// `row_of`: the result's row of each rank; empty where they are the same.
DisturbedStep disturbed_step(const Result& result, std::span<const RankId> row_of);

/// Times of the steps, and of ranks in the mean over steps. A percentile is the smallest value that
/// so many are not above.
struct JitterReport {
  int steps = 0;
  Seconds undisturbed;  // the same step without jitter
  Seconds mean;
  Seconds shortest;
  Seconds median;
  Seconds p99;
  Seconds longest;
  Seconds undisturbed_waiting;  // mean over ranks
  Seconds waiting_mean;
  Seconds waiting_p50;
  Seconds waiting_p99;
  Seconds waiting_most;
  int slowest_rank = 0;        // computes longest, beside the mean of its pipeline rank
  double slowest_factor = 1;   // by so much
  double slowest_waiting = 0;  // its waiting over the mean
  Evidence evidence = Evidence::assumed;

  double slowdown() const { return mean / undisturbed; }
};

struct UndisturbedStep {
  Seconds step;
  Seconds waiting;  // mean over ranks
};
UndisturbedStep undisturbed_step(const Workload& workload, const Result& result);

/// `stage_of`: pipeline rank of each rank.
JitterReport jitter_report(const StepJitter& jitter, const UndisturbedStep& undisturbed,
                           std::span<const DisturbedStep> steps, std::span<const int> stage_of);

/// The step whose time is the median: the one to show.
std::size_t median_step(std::span<const DisturbedStep> steps);

}  // namespace flopcast
