#pragma once

// Measured against forecast times, one panel for each kind, as one SVG picture.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/units.h"

namespace flopcast {

struct ScatterPoint {
  Seconds measured;
  Seconds forecast;
  bool held_back = false;  // nothing was fitted to it
};

struct ScatterPanel {
  std::string name;
  std::string note;  // a line under the name
  std::vector<ScatterPoint> points;
};

/// Across the measured time, up the ratio of forecast to measured, both logarithmic; points that a
/// fit saw and those held back in two colours. `legend` is the line above. Panels without points
/// are left out.
std::string scatter_svg(std::string_view legend, std::span<const ScatterPanel> panels);

}  // namespace flopcast
