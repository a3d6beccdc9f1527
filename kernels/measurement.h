#pragma once

// What came of one case: every sample, and whether the result was right.

#include <optional>
#include <string>
#include <vector>

#include "kernels/measurement_case.h"
#include "kernels/sampling.h"
#include "sim/units.h"

namespace flopcast {

struct Measurement {
  std::vector<Sample> samples;  // all of them, in order
  StopReason stopped{};
  /// Largest error of the checked results over the allowed one: at most 1, or it would not be here.
  /// Nothing where there is no result to check.
  std::optional<double> error_over_tolerance{};
};

/// Why a case gave no measurement: the device cannot do it, or did it wrong.
struct CaseFailure {
  std::string reason;
};

}  // namespace flopcast
