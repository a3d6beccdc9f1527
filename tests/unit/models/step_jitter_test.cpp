// How the speed of GPUs varies, and what a whole step makes of it.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "models/step_jitter.h"
#include "simple_machine.h"

using namespace flopcast;
using namespace flopcast::test;

namespace {

/// One layer, data parallel: all compute, then all meet. Communication takes no time.
Job job_of(int ranks) {
  Job job;
  job.model = small_model(1);
  job.layout.grid.dp = ranks;
  job.training.batch = {.sequence = 64, .micro_batch = 1, .global_batch = ranks};
  job.training.framework.host_per_operator = seconds(0);
  return job;
}

struct Trial {
  Seconds calm;
  std::vector<DisturbedStep> steps;
  JitterReport report;
};

Trial trial(int ranks, const StepJitter& jitter) {
  const Job job = job_of(ranks);
  const Cluster cluster(simple_cluster(ranks, bytes_per_second(kEndless)));
  const Plan plan = lower(job, cluster, simple_profile({}), Ranks::all);
  const Result calm = run(plan.workload);
  Trial out{.calm = to_seconds(calm.makespan), .steps = {}, .report = {}};
  for (int step = 0; step < jitter.steps; ++step) {
    Workload workload = plan.workload;
    disturb(workload, jitter, step);
    out.steps.push_back(disturbed_step(run(workload), {}));
  }
  const std::vector<int> stages(static_cast<std::size_t>(ranks), 0);
  out.report = jitter_report(jitter, undisturbed_step(plan.workload, calm), out.steps, stages);
  return out;
}

}  // namespace

// After the reduction each rank takes its optimizer step by itself, so two maxima enter; both of
// the same draws.
TEST_CASE("a step takes the expected maximum of its GPUs' speeds") {
  // Harter, Biometrika 48, 1961, table 1.
  constexpr double kMaximumOf10 = 1.53875;
  constexpr double kMaximumOf50 = 2.24907;
  StepJitter jitter{.step_sigma = 0.002, .steps = 600, .source = {}};
  for (const auto& [ranks, maximum] : {std::pair{10, kMaximumOf10}, std::pair{50, kMaximumOf50}}) {
    CAPTURE(ranks);
    const JitterReport report = trial(ranks, jitter).report;
    CHECK((report.slowdown() - 1) / jitter.step_sigma == Approx(maximum).margin(0.1));
    // A rank takes 1 in the mean, the step 1 + sigma maximum: the rest is waiting.
    const Seconds waited = report.waiting_mean - report.undisturbed_waiting;
    CHECK(waited / (report.mean - report.undisturbed) == Approx(1).epsilon(0.05));
  }
}

// Tsafrir, Etsion, Feitelson and Kirkpatrick, ICS 2005: some of n ranks is hit with the probability
// 1 - (1 - p)^n, and one is enough.
TEST_CASE("one slow GPU slows all, and the more GPUs the likelier") {
  const StepJitter jitter{.slow_probability = 0.01, .slow_speed = 0.5, .steps = 1000, .source = {}};
  for (const int ranks : {1, 16, 64}) {
    CAPTURE(ranks);
    const Trial found = trial(ranks, jitter);
    int slow = 0;
    for (const DisturbedStep& step : found.steps) {
      const double times = to_seconds(step.makespan) / found.calm;
      if (times > 1.5) ++slow;
      CHECK((times == Approx(1) || times == Approx(2)));
    }
    const double expected = 1 - std::pow(1 - jitter.slow_probability, ranks);
    const double error = std::sqrt(expected * (1 - expected) / jitter.steps);
    CHECK(slow / static_cast<double>(jitter.steps) == Approx(expected).margin(4 * error));
  }
}

TEST_CASE("a GPU that is slow in all steps is named and waits least") {
  const StepJitter jitter{.seed = 3, .rank_sigma = 0.1, .steps = 3, .source = {}};
  const Trial found = trial(16, jitter);
  const auto& busy = found.steps.front().busy;
  const auto slowest = std::ranges::max_element(busy) - busy.begin();
  CHECK(found.report.slowest_rank == slowest);
  CHECK(found.report.slowest_waiting < 0.2);
  CHECK(found.report.shortest == found.report.longest);  // the same speeds in all steps
  CHECK(found.report.waiting_p50 < found.report.waiting_p99);
}

TEST_CASE("percentiles of steps are steps, and the median is the one to show") {
  std::vector<DisturbedStep> steps;
  for (const std::int64_t time : {50, 10, 40, 20, 30}) {
    steps.push_back({.makespan = {time * 1'000'000}, .waiting = {{0}}, .busy = {{1}}});
  }
  const std::vector<int> stages{0};
  const JitterReport report =
      jitter_report({}, {.step = microseconds(20), .waiting = {}}, steps, stages);
  CHECK(report.shortest.value == Approx(10e-6));
  CHECK(report.median.value == Approx(30e-6));
  CHECK(report.p99.value == Approx(50e-6));
  CHECK(report.mean.value == Approx(30e-6));
  CHECK(report.slowdown() == Approx(1.5));
  CHECK(median_step(steps) == 4);
}
