#pragma once

// One scenario answered: build the cluster, lower the job, run the engine, report. With jitter the
// step is run several times, and the report and the timeline are of the median one.

#include <cstdint>

#include "models/step_report.h"
#include "scenarios/scenario.h"
#include "sim/timeline.h"
#include "sim/workload.h"

namespace flopcast {

struct Forecast {
  StepReport report;
  Workload workload;  // names of ranks, streams and labels for a timeline
};

/// Which ranks the engine runs.
enum class FoldMode : std::uint8_t {
  automatic,  // one of each that do the same: by stage, or where stages are not alike by sim/fold.h
  off,        // every rank
};

/// `sink` may be null. Throws Unsupported where the scenario asks for what is not simulated yet.
Forecast forecast(const Scenario& scenario, TimelineSink* sink = nullptr,
                  FoldMode fold = FoldMode::automatic);

}  // namespace flopcast
