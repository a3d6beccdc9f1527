#pragma once

// Logs of collectives held against a cluster: what was reached of what its links carry and of what
// the network model expects, and what usually is the cause where that is little.

#include <span>
#include <string>

#include "calibration/collective_check.h"

namespace flopcast {

struct CheckedLog {
  PlacedTable placed;
  CheckedTable checked;
};

/// Row by row, and the likely causes with what speaks for them.
std::string topology_check_text(std::span<const CheckedLog> logs, bool colour);
/// The same for programs, in base units.
std::string topology_check_json(std::span<const CheckedLog> logs);

}  // namespace flopcast
