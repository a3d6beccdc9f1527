#pragma once

// Measured runs against their forecasts: errors by group, and whether layouts are ranked as
// measured.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/batch.h"
#include "scenarios/error_band.h"
#include "scenarios/expectation.h"

namespace flopcast {

/// A measured value of a run beside the forecast one.
struct Comparison {
  const Trial* trial = nullptr;
  Metric metric{};
  double measured = 0;
  double predicted = 0;

  /// Relative; of a time: positive means that the forecast is too slow.
  double error() const { return predicted / measured - 1; }
};

/// Whether it is a step time.
bool is_time(const Comparison& run);

/// Errors of some runs, relative. The 90th percentile is the smallest size that 90 % do not exceed.
struct GroupErrors {
  std::string group;  // "gpu h100-sxm"
  std::size_t runs = 0;
  double median = 0;  // of sizes, as are mean and p90
  double mean = 0;
  double p90 = 0;
  double bias = 0;  // the median with its sign
};

/// Runs that differ in nothing but how the job is split.
struct Sweep {
  std::string name;
  std::size_t runs = 0;
  double rank_correlation = 0;  // Spearman's, of measured and predicted step time
  double best_gap =
      0;  // how much slower, as measured, the predicted best is than the measured best
};

/// How many runs that no band was made of lie in it.
struct BandCoverage {
  ErrorBand band;
  int runs = 0;  // marked test, of the band's style
  int inside = 0;
};

struct Validation {
  std::vector<Comparison> runs;  // in the order of the trials
  std::vector<GroupErrors> groups;
  std::vector<Sweep> sweeps;  // of at least kSmallestSweep runs
  std::vector<BandCoverage> bands;
};

inline constexpr std::size_t kSmallestSweep = 4;

/// The file of a trial without folder and extension: the source of a published run.
std::string source_of(const Trial& trial);
/// What stands before the first "-" of the model's name.
std::string family_of(const Trial& trial);

/// Of all trials with an answer, the metrics whose value is expected. The trials must outlive it.
Validation validation_of(std::span<const Trial> trials, std::span<const ErrorBand> bands = {});

/// A band for each style of the runs marked fit, where there are enough.
std::vector<ErrorBand> error_bands(std::span<const Comparison> runs);

/// Spearman's rank correlation; ties share their mean rank. 0 where a side does not vary.
double rank_correlation(std::span<const double> a, std::span<const double> b);

}  // namespace flopcast
