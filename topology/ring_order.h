#pragma once

// A group in the order in which NCCL's rings and trees go through it: NVLink domain by NVLink
// domain.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/workload.h"
#include "topology/cluster.h"

namespace flopcast {

/// Number of a member within its group, domain by domain.
using Place = std::uint32_t;

class GroupPlaces {
 public:
  GroupPlaces(const Cluster& cluster, std::span<const GpuId> gpus);

  Place members() const { return static_cast<Place>(gpus_.size()); }
  GpuId gpu(Place place) const { return gpus_[place]; }
  std::span<const GpuId> gpus() const { return gpus_; }
  /// Domain d holds places first(d) to first(d + 1).
  Place domains() const { return static_cast<Place>(first_.size() - 1); }
  Place first(Place domain) const { return first_[domain]; }
  Place domain_size(Place domain) const { return first_[domain + 1] - first_[domain]; }

 private:
  std::vector<GpuId> gpus_;  // by Place
  std::vector<Place> first_{0};
};

/// Whom each member sends to in channel `channel`. It enters one domain at that member and leaves
/// it at the one before; the next domain runs the other way round, so that each crossing stays on
/// its rail (but the last of an odd number).
std::vector<Place> ring_successors(const GroupPlaces& places, Place channel);

/// Whom each member hangs from in one of the two trees of channel `channel`; nobody at the root. A
/// domain's node of the tree is its member `channel`, from which the others hang in a chain.
/// Source: NCCL 2.30.7, src/graph/trees.cc.
enum class TreeHalf : std::uint8_t { first, second };
std::vector<std::optional<Place>> tree_parents(const GroupPlaces& places, Place channel,
                                               TreeHalf half);

/// What one byte from one GPU to another puts on the links of its route.
std::vector<LinkLoad> route_loads(const Cluster& cluster, GpuId from, GpuId to);

}  // namespace flopcast
