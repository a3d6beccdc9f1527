#include "scenarios/forecast.h"

#include <utility>
#include <vector>

#include "models/step_network.h"
#include "sim/engine.h"
#include "sim/errors.h"
#include "sim/fold.h"
#include "sim/run_many.h"

namespace flopcast {

namespace {

Plan plan_of_all(const Scenario& scenario, const Cluster& cluster) {
  Plan plan = lower(scenario.job, cluster, scenario.profile, Ranks::all, scenario.other_profiles);
  if (scenario.job.network == NetworkDetail::fluid) return plan;
  if (const auto gap = step_network_gap(plan)) throw Unsupported(scenario.file + ": " + *gap);
  return with_step_network(std::move(plan), cluster);
}

Plan plan_of(const Scenario& scenario, const Cluster& cluster, FoldMode fold) {
  if (fold == FoldMode::off) return plan_of_all(scenario, cluster);
  if (scenario.job.network == NetworkDetail::steps) return folded(plan_of_all(scenario, cluster));
  return lower(scenario.job, cluster, scenario.profile, Ranks::fewest, scenario.other_profiles);
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

/// The step as it is without jitter, then several with it, side by side; the median one is kept.
Prepared disturbed(const Scenario& scenario, Cluster cluster, FoldMode fold) {
  const StepJitter& jitter = *scenario.job.jitter;
  const Plan calm = plan_of(scenario, cluster, fold);
  const UndisturbedStep undisturbed = undisturbed_step(calm.workload, run(calm.workload));
  Plan plan = plan_of_all(scenario, cluster);
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
  return {.cluster = std::move(cluster),
          .plan = std::move(plan),
          .jitter = jitter_report(jitter, undisturbed, steps, stages)};
}

}  // namespace

Prepared prepare(const Scenario& scenario, FoldMode fold) {
  if (const auto gap = lowering_gap(scenario.job)) {
    throw Unsupported(scenario.file + ": " + *gap);
  }
  Cluster cluster(scenario.cluster);
  if (scenario.job.jitter) return disturbed(scenario, std::move(cluster), fold);
  Plan plan = plan_of(scenario, cluster, fold);
  return {.cluster = std::move(cluster), .plan = std::move(plan), .jitter = {}};
}

Forecast run_prepared(const Scenario& scenario, const Prepared& prepared, TimelineSink* sink) {
  Result result = run(prepared.plan.workload, sink);
  StepReport report = step_report(scenario.job, prepared.cluster, prepared.plan, result);
  if (prepared.jitter) {
    report.jitter = prepared.jitter;
    report.evidence = weakest(report.evidence, prepared.jitter->evidence);
  }
  if (scenario.reliability) report.goodput = goodput_report(*scenario.reliability, report.step);
  return {.report = std::move(report), .result = std::move(result)};
}

Forecast forecast(const Scenario& scenario, TimelineSink* sink, FoldMode fold) {
  return run_prepared(scenario, prepare(scenario, fold), sink);
}

}  // namespace flopcast
