#pragma once

// The discrete-event engine: replays the programs of a workload and reports where time went.

#include "sim/result.h"
#include "sim/timeline.h"
#include "sim/workload.h"

namespace flopcast {

/// Runs every rank's program to its end. Deterministic: the same workload gives the same bytes.
/// `sink` may be null. Aborts (FLOPCAST_CHECK) on tables that do not fit together and on a
/// deadlock, naming the ranks and ops that wait: both are mistakes of the builder of the workload.
Result run(const Workload& workload, TimelineSink* sink = nullptr);

}  // namespace flopcast
