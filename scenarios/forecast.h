#pragma once

// One scenario answered: build the cluster, lower the job, run the engine, report. With jitter the
// step is run several times, and the report and the timeline are of the median one.

#include <cstdint>
#include <optional>

#include "models/lower.h"
#include "models/step_report.h"
#include "scenarios/scenario.h"
#include "sim/result.h"
#include "sim/timeline.h"
#include "topology/cluster.h"

namespace flopcast {

/// Which ranks the engine runs.
enum class FoldMode : std::uint8_t {
  automatic,  // one of each that do the same: by stage, or where stages are not alike by sim/fold.h
  off,        // every rank
};

/// A scenario ready to run: what the engine is given, and what was found on the way.
struct Prepared {
  Cluster cluster;
  Plan plan;  // under jitter: of the median step
  std::optional<JitterReport> jitter;
};

struct Forecast {
  StepReport report;
  Result result;  // by row of the plan's workload
};

/// Throws Unsupported where the scenario asks for what is not simulated yet.
Prepared prepare(const Scenario& scenario, FoldMode fold = FoldMode::automatic);

/// `sink` may be null.
Forecast run_prepared(const Scenario& scenario, const Prepared& prepared,
                      TimelineSink* sink = nullptr);

/// Both, where nothing is wanted but the answer.
Forecast forecast(const Scenario& scenario, TimelineSink* sink = nullptr,
                  FoldMode fold = FoldMode::automatic);

}  // namespace flopcast
