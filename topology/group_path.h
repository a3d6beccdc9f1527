#pragma once

// The wires that a group has for itself, inside a node and between nodes: how wide, and how far.

#include <span>

#include "sim/units.h"
#include "topology/cluster.h"

namespace flopcast {

/// Of one rank into its NVLink domain: of its PCIe, of all its NVLinks, or of those to others of
/// the group in a mesh.
BytesPerSecond domain_bandwidth(const Cluster& cluster, std::span<const GpuId> gpus);

/// Of one node, or of one NVLink domain of several (a rack), by all cards that the members in it
/// use, at most one card per member. Where cards are missing, all nodes use as many as the node
/// with fewest: NCCL takes as many channels as the least node has, ncclTopoPostset in
/// graph/connect.cc of NCCL 2.30.7.
BytesPerSecond node_bandwidth(const Cluster& cluster, std::span<const GpuId> gpus);

/// One way between the first member and the one farthest from it: switches, long cables, staging in
/// host memory; not what the kind of card adds (message_latency). The first is as far from some
/// member as any, but on a torus or graph of which the members take an odd part.
Seconds network_latency(const Cluster& cluster, std::span<const GpuId> gpus);

}  // namespace flopcast
