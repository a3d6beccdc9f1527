#include "scenarios/forecast.h"

#include <utility>

#include "models/lower.h"
#include "sim/engine.h"
#include "sim/errors.h"

namespace flopcast {

Forecast forecast(const Scenario& scenario, TimelineSink* sink) {
  if (const auto gap = lowering_gap(scenario.job)) {
    throw InputError(scenario.file + ": " + *gap);
  }
  const Cluster cluster(scenario.cluster);
  Plan plan = lower(scenario.job, cluster, scenario.profile);
  const Result result = run(plan.workload, sink);
  StepReport report = step_report(scenario.job, cluster, plan, result);
  return {.report = std::move(report), .workload = std::move(plan.workload)};
}

}  // namespace flopcast
