#pragma once

// Profile files (calibration/profiles/*.json): what they hold is described in
// calibration/README.md.

#include "calibration/profile.h"
#include "scenarios/document.h"

namespace flopcast {

/// Reads a whole profile file. Throws InputError on anything missing, unknown or out of range.
Profile read_profile(const Document& document);

}  // namespace flopcast
