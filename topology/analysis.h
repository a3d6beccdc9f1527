#pragma once

// Questions to ask of a cluster as a graph: how far, how wide, what is it made of. Slow and exact;
// the simulation itself never searches the graph.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/units.h"
#include "topology/cluster.h"

namespace flopcast {

/// Links on a shortest path from a device to every device, by DeviceId; nothing where none leads.
std::vector<std::optional<int>> hop_counts(const Cluster& cluster, DeviceId from);

/// Links between the two GPUs that are farthest apart; nothing if some pair cannot reach each
/// other. One breadth-first search per GPU.
std::optional<int> diameter(const Cluster& cluster);

/// Most bytes per second that one set of GPUs can send to another at once: maximum flow.
BytesPerSecond max_flow(const Cluster& cluster, std::span<const GpuId> from,
                        std::span<const GpuId> to);

/// Maximum flow from the first half of the nodes to the rest (of the GPUs, in a lone node). The
/// worst of all halvings, which is what bisection means, is this one where pods are filled in order
/// of nodes and the halves cut none.
BytesPerSecond bisection_bandwidth(const Cluster& cluster);

/// Links of one kind and capacity.
struct LinkClass {
  LinkKind kind;
  BytesPerSecond capacity;  // of one link, one direction
  int links = 0;            // directions counted apart
  friend bool operator==(const LinkClass&, const LinkClass&) = default;
};
/// From fast to slow kinds, within a kind from wide to narrow.
std::vector<LinkClass> link_classes(const Cluster& cluster);

/// Graphviz: one edge per pair of devices, labelled with the capacity of one direction.
std::string to_dot(const Cluster& cluster);

}  // namespace flopcast
