#pragma once

// A cluster as it is built: what it is made of, how wide and how far.

#include <string>

#include "topology/cluster.h"

namespace flopcast {

/// Facts, tree, link classes and tiers, for a terminal.
std::string topology_text(const Cluster& cluster, bool colour);
/// The same for programs, in base units.
std::string topology_json(const Cluster& cluster);

}  // namespace flopcast
