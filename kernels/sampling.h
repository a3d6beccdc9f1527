#pragma once

// When enough samples were taken. Only for sources of this folder.

#include <span>

#include "sim/units.h"

namespace flopcast {

/// Half width of the 95 % confidence interval of the mean over the mean; infinite below two
/// samples.
double relative_error(std::span<const Seconds> samples);

/// Of at least one sample.
Seconds median(std::span<const Seconds> samples);

}  // namespace flopcast
