#pragma once

// The wires that a group of ranks has for itself.

#include "sim/units.h"

namespace flopcast {

/// Links of a GPU that are no faster are PCIe: 16 lanes of its sixth generation.
inline constexpr BytesPerSecond kFastestPcie = gigabytes_per_second(128);

/// Bandwidths of one direction.
struct NetworkPath {
  BytesPerSecond domain;   // of one rank into its NVLink domain
  BytesPerSecond network;  // of one node for this group: of all NICs that its members use
  Seconds network_hop;     // switches and cables, one way, between the farthest members
  /// What the kind of card adds to InfiniBand's, one way. For the tiers of a profile alone: regimes
  /// are of a transport and hold its latency themselves.
  Seconds card_latency{};
  bool sharp = false;  // switches between the nodes reduce

  Seconds hop_between_nodes() const { return network_hop + card_latency; }

  friend constexpr auto operator<=>(const NetworkPath&, const NetworkPath&) = default;
};

}  // namespace flopcast
