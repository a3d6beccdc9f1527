#pragma once

// A timeline as a Chrome trace, which ui.perfetto.dev and chrome://tracing open: ranks are
// processes, streams are threads, memory and link use are counters.
// Format: "Trace Event Format", Google, 2016.

#include <filesystem>

#include "sim/timeline.h"
#include "sim/workload.h"

namespace flopcast {

/// Writes event by event, compressed where the name ends in ".gz". Throws IoError with the file and
/// the reason where it cannot be written.
///
/// The time in which an op waits for other ranks is a slice "wait: <op>" of its own before the
/// op's. Times are whole nanoseconds, rounded down, so that slices of one thread never overlap in a
/// viewer.
void write_chrome_trace(const std::filesystem::path& file, const Workload& workload,
                        const TimelineBuffer& timeline);

}  // namespace flopcast
