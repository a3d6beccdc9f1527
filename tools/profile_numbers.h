#pragma once

// The numbers of a profile as lines to read and to compare.

#include <string>
#include <vector>

#include "calibration/profile.h"

namespace flopcast {

struct ProfileNumber {
  std::string part;                        // "gemm bf16"; of one provenance
  std::string name;                        // "eff_inf"
  std::string value;                       // with its unit
  double size = 0;                         // in base units, for ratios
  const Provenance* provenance = nullptr;  // of the profile; null for a reference (peaks, SMs)
};

/// In the order of the file. The profile must outlive them.
std::vector<ProfileNumber> profile_numbers(const Profile& profile);

}  // namespace flopcast
