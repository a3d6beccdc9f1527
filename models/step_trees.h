#pragma once

// All-reduces by double binary trees as messages of the step-level network: up to the root and back
// down, chunk by chunk, in two trees for each channel. Private to step_network.cpp.

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "models/step_category.h"
#include "sim/program.h"
#include "sim/workload.h"
#include "topology/ring_order.h"

namespace flopcast {

/// Neighbours of a member in one tree. A domain's node of the tree has two children there, and the
/// next of its domain.
inline constexpr std::uint32_t kTreeChildren = 3;
struct TreePlace {
  bool parent = false;
  std::uint32_t children = 0;
  friend auto operator<=>(const TreePlace&, const TreePlace&) = default;
};

/// Slots of a member's lane, from its first one on.
inline constexpr std::uint32_t kUpToParent = 0;
inline constexpr std::uint32_t kDownFromParent = 1;
constexpr std::uint32_t up_from_child(std::uint32_t child) { return 2 + 2 * child; }
constexpr std::uint32_t down_to_child(std::uint32_t child) { return 3 + 2 * child; }
inline constexpr std::uint32_t kTreeSlots = 2 + 2 * kTreeChildren;
/// Streams of a lane: up, down, and one for each child.
inline constexpr std::uint32_t kTreeStreams = 2 + kTreeChildren;

/// The trees of a group, a lane each: of every channel the first and the second.
class GroupTrees {
 public:
  GroupTrees(const Cluster& cluster, std::span<const GpuId> gpus, std::uint32_t lanes);

  std::uint32_t lanes() const { return static_cast<std::uint32_t>(parents_.size()); }
  /// Most that a chunk passes on its way up and down.
  std::uint32_t hops() const { return hops_; }
  TreePlace place_of(GpuId gpu, std::uint32_t lane) const;

  /// Calls `edge(lane, child, parent, number)` for each: which of the parent's children it is.
  template <class Edge>
  void for_each_edge(Edge edge) const {
    for (std::uint32_t lane = 0; lane < lanes(); ++lane) {
      std::vector<std::uint32_t> children(places_.members());
      for (Place child = 0; child < places_.members(); ++child) {
        const std::optional<Place> parent = parents_[lane][child];
        if (parent) edge(lane, places_.gpu(child), places_.gpu(*parent), children[*parent]++);
      }
    }
  }

 private:
  GroupPlaces places_;
  std::vector<std::vector<std::optional<Place>>> parents_;  // by lane, Place
  std::uint32_t hops_ = 0;
};

/// Of a lane; the first chunk carries the latency.
struct TreeMessages {
  std::uint32_t chunks = 1;
  Transfer first{};
  Transfer rest{};
};
/// Alone, all chunks of all lanes together take what the collective takes.
TreeMessages tree_messages(const Transfer& collective, const GroupTrees& trees, int ranks);

/// One member's part in one lane.
struct TreeLane {
  const Op& op;  // the collective
  std::uint32_t chunks = 1;
  TransferId first{};  // and the row after it
  TreePlace place{};
  std::uint32_t first_slot = 0;
  std::uint32_t chunk_events = 0;  // first of those by which chunks go down

  /// 0: up, 1: down, 2 and more: down to each child.
  void add_part(std::uint32_t part, MessageLane lane, std::vector<Op>& ops) const;
};

}  // namespace flopcast
