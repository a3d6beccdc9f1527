#pragma once

// The part of `flopcast calibrate` that finds a site's level.

#include <optional>
#include <string>
#include <vector>

#include "tools/verbs.h"

namespace flopcast {

struct AnchorCalibration {
  std::vector<std::string> scenarios;
  std::vector<std::string> gemms;  // MxNxK[:TYPE]=TIME
  std::optional<std::string> data;
  std::optional<std::string> base;  // a name or a file; else the scenario's own
  std::optional<std::string> output;

  bool wanted() const { return !scenarios.empty() || !gemms.empty(); }
};

/// --anchor and --anchor-gemm.
void add_anchor_options(CLI::App& verb, AnchorCalibration& options);

/// Throws InputError where an anchor cannot be met or read, or where they are of several profiles.
ExitCode calibrate_anchor(const AnchorCalibration& options);

}  // namespace flopcast
