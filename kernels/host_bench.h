#pragma once

// Measures what passes between host and device: copies, and the launch of kernels. Only for sources
// of this folder.

#include "kernels/bench.h"
#include "kernels/measurement_case.h"

namespace flopcast {

Measurement measure_host_copy(Bench& bench, const HostCopyCase& copy, const StopRule& rule);

/// Host clock over a whole queue, its end awaited, divided by its kernels.
Measurement measure_launch(Bench& bench, const LaunchCase& launch, const StopRule& rule);

}  // namespace flopcast
