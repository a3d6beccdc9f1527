#pragma once

// The communication calls by their NCCL names, how nccl-tests counts their bandwidth, and the shape
// of a group: the vocabulary that topology, calibration and models share.

#include <array>
#include <cstdint>
#include <string_view>

namespace flopcast {

enum class CollectiveKind : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  send_recv,
};

inline constexpr std::array kCollectiveKinds{
    CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
    CollectiveKind::all_to_all, CollectiveKind::broadcast,  CollectiveKind::send_recv};

constexpr std::string_view to_text(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce: return "all_reduce";
    case CollectiveKind::all_gather: return "all_gather";
    case CollectiveKind::reduce_scatter: return "reduce_scatter";
    case CollectiveKind::all_to_all: return "all_to_all";
    case CollectiveKind::broadcast: return "broadcast";
    case CollectiveKind::send_recv: return "send_recv";
  }
  return {};
}

/// busbw = S / t * factor, with S the larger of the two buffers (all-gather: what a rank receives
/// in all, reduce-scatter: what it sends). factor * S is what a ring sends per rank. Source:
/// nccl-tests a0b82b22, doc/PERFORMANCE.md.
constexpr double bus_factor(CollectiveKind kind, int ranks) {
  const double n = ranks;
  switch (kind) {
    case CollectiveKind::all_reduce: return 2 * (n - 1) / n;
    case CollectiveKind::all_gather: return (n - 1) / n;
    case CollectiveKind::reduce_scatter: return (n - 1) / n;
    case CollectiveKind::all_to_all: return (n - 1) / n;
    case CollectiveKind::broadcast: return 1;
    case CollectiveKind::send_recv: return 1;
  }
  return 1;
}

/// How a group lies on the machine. `ranks_per_node` counts inside one NVLink domain (a node, or a
/// rack of GB200 NVL72).
struct GroupShape {
  int ranks_per_node = 1;
  int nodes = 1;

  constexpr int ranks() const { return ranks_per_node * nodes; }
  friend constexpr auto operator<=>(const GroupShape&, const GroupShape&) = default;
};

}  // namespace flopcast
