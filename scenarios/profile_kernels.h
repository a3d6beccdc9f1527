#pragma once

// Writes fitted kernel curves into the text of a profile.

#include <string>
#include <string_view>

#include "calibration/kernel_fit.h"

namespace flopcast {

/// The text of profile `base` under a new name, with the curves of a fit in the place of its own;
/// what was not fitted stays. Its level becomes 1, assumed, where GEMMs were fitted: it belonged to
/// other curves. `base` must be a valid profile.
std::string profile_with_kernels(std::string_view base, const std::string& name,
                                 const KernelFits& fits);

}  // namespace flopcast
