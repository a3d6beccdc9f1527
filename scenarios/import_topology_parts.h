#pragma once

// What both forms of a node's wiring come down to. Internal to the importer.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/import_topology.h"

namespace flopcast {

/// Throws InputError "file:line:column: problem".
[[noreturn]] void fail_at(std::string_view text, std::size_t offset, const std::string& name,
                          const std::string& problem);

struct Wiring {
  std::size_t gpus = 0;
  std::vector<std::string> cards;            // names
  std::vector<std::vector<int>> nvlinks;     // NVLinks between two GPUs, by GPU and GPU
  bool switched = false;                     // NVLinks are known to end in NVSwitches
  std::vector<std::vector<int>> distance;    // by GPU and card: place in path_words()
  std::optional<BytesPerSecond> card_speed;  // of the slowest, where it is told
};

/// From near to far.
const std::vector<std::string_view>& path_words();

/// What the wiring makes of a node. `nic_bandwidth` must be there where cards are.
ImportedSystem system_of(const Wiring& wiring, BytesPerSecond nic_bandwidth);

Wiring wiring_of_matrix(std::string_view text, const std::string& name);
Wiring wiring_of_xml(const std::string& text, const std::string& name);

}  // namespace flopcast
