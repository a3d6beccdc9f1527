#include "scenarios/forecast.h"

#include <utility>

#include "models/lower.h"
#include "sim/engine.h"
#include "sim/errors.h"

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

}  // namespace

Forecast forecast(const Scenario& scenario, TimelineSink* sink, FoldMode fold) {
  if (const auto gap = lowering_gap(scenario.job)) {
    throw Unsupported(scenario.file + ": " + *gap);
  }
  const Cluster cluster(scenario.cluster);
  Plan plan = plan_of(scenario, cluster, fold);
  const Result result = run(plan.workload, sink);
  StepReport report = step_report(scenario.job, cluster, plan, result);
  return {.report = std::move(report), .workload = std::move(plan.workload)};
}

}  // namespace flopcast
