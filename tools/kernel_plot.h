#pragma once

// Measured against fitted times of kernels, one panel each, as one SVG picture.

#include <span>
#include <string>

#include "calibration/kernel_fit.h"

namespace flopcast {

/// Across the measured time, up the ratio of fitted to measured, both logarithmic; samples that the
/// fit saw and those held back in two colours. Rows without points have no panel.
std::string kernel_plots_svg(std::span<const KernelFitRow> rows);

}  // namespace flopcast
