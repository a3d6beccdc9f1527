#pragma once

// Measured against forecast step times of published runs as a picture.

#include <string>

#include "scenarios/validation.h"

namespace flopcast {

/// An SVG with one panel for each style of runs (scatter_plot.h); runs marked test in a colour of
/// their own.
std::string validation_plot_svg(const Validation& validation);

}  // namespace flopcast
