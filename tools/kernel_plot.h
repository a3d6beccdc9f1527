#pragma once

// Measured against fitted times of kernels, one panel each, as one SVG picture.

#include <span>
#include <string>

#include "calibration/kernel_fit.h"

namespace flopcast {

/// One panel for each row that has points (scatter_plot.h).
std::string kernel_plots_svg(std::span<const KernelFitRow> rows);

}  // namespace flopcast
