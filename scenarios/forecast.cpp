#include "scenarios/forecast.h"

#include <utility>
#include <vector>

#include "models/lower.h"
#include "sim/engine.h"
#include "sim/errors.h"
#include "sim/fold.h"
#include "sim/run_many.h"

namespace flopcast {

namespace {

Plan plan_of(const Scenario& scenario, const Cluster& cluster, FoldMode fold) {
  const auto lowered = [&](Ranks ranks) {
    return lower(scenario.job, cluster, scenario.profile, ranks);
  };
  if (fold == FoldMode::off) return lowered(Ranks::all);
  if (routing_differs(scenario.job)) return folded(lowered(Ranks::all));
  Plan plan = lowered(Ranks::by_stage);
  return plan.alike ? std::move(plan) : folded(lowered(Ranks::all));
}

std::vector<int> stages_of_ranks(const Plan& plan) {
  std::vector<int> stages;
  stages.reserve(plan.workload.ranks.size());
  for (const Rank& rank : plan.workload.ranks) {
    stages.push_back(plan.stage_of[index_of(rank.program)]);
  }
  return stages;
}

DisturbedStep run_disturbed(Workload workload, bool folds) {
  if (!folds) return disturbed_step(run(workload), {});
  const Folding folding = fold(std::move(workload));
  return disturbed_step(run(folding.workload), folding.rank_class);
}

/// The step as it is without jitter, then several with it, side by side; shown is the median one.
Forecast disturbed_forecast(const Scenario& scenario, const Cluster& cluster, TimelineSink* sink,
                            FoldMode fold) {
  const StepJitter& jitter = *scenario.job.jitter;
  const Plan calm = plan_of(scenario, cluster, fold);
  const UndisturbedStep undisturbed = undisturbed_step(calm.workload, run(calm.workload));
  Plan plan = lower(scenario.job, cluster, scenario.profile, Ranks::all);
  const std::vector<int> stages = stages_of_ranks(plan);
  const bool folds = fold == FoldMode::automatic && !jitter.all_differ();
  std::vector<DisturbedStep> steps(static_cast<std::size_t>(jitter.steps));
  for_each_parallel(steps.size(), [&](std::size_t step) {
    Workload workload = plan.workload;
    disturb(workload, jitter, static_cast<int>(step));
    steps[step] = run_disturbed(std::move(workload), folds);
  });
  disturb(plan.workload, jitter, static_cast<int>(median_step(steps)));
  if (folds) plan = folded(std::move(plan));
  const Result result = run(plan.workload, sink);
  StepReport report = step_report(scenario.job, cluster, plan, result);
  report.jitter = jitter_report(jitter, undisturbed, steps, stages);
  report.evidence = weakest(report.evidence, jitter.evidence);
  return {.report = std::move(report), .workload = std::move(plan.workload)};
}

}  // namespace

Forecast forecast(const Scenario& scenario, TimelineSink* sink, FoldMode fold) {
  if (const auto gap = lowering_gap(scenario.job)) {
    throw Unsupported(scenario.file + ": " + *gap);
  }
  const Cluster cluster(scenario.cluster);
  if (scenario.job.jitter) return disturbed_forecast(scenario, cluster, sink, fold);
  Plan plan = plan_of(scenario, cluster, fold);
  const Result result = run(plan.workload, sink);
  StepReport report = step_report(scenario.job, cluster, plan, result);
  return {.report = std::move(report), .workload = std::move(plan.workload)};
}

}  // namespace flopcast
