#pragma once

// The level of a profile from what a site measured: one step, or one matrix product. The profile's
// curves stay; one factor on all compute says what clocks and power of this site leave of them.

#include <functional>
#include <string>
#include <string_view>

#include "calibration/profile.h"
#include "scenarios/expectation.h"
#include "scenarios/scenario.h"

namespace flopcast {

/// Levels that a machine in order can have; beyond them something else is wrong.
inline constexpr double kLowestAnchor = 0.3;
inline constexpr double kHighestAnchor = 1.5;

struct Anchor {
  std::string name;    // of the scenario, or the product
  std::string metric;  // what was measured
  MetricUnit unit = MetricUnit::seconds;
  double measured = 0;
  double at_profile = 0;  // forecast at the profile's own level
  double level = 1;       // at which the forecast is what was measured
};

/// By the first expectation that has a value and that the level decides: a time or a rate. Throws
/// InputError where there is none, and where no level meets it.
Anchor step_anchor(const Scenario& scenario);

/// Throws InputError where no level meets the time, and where the profile has no product of this
/// type.
Anchor gemm_anchor(const Profile& profile, DataType type, const GemmShape& shape, Seconds measured);

/// The text of profile `base` under a new name, with this level, tagged fitted. `base` must be a
/// valid profile.
std::string profile_with_level(std::string_view base, const std::string& name, double level,
                               const std::string& source);

}  // namespace flopcast
