#pragma once

// Clusters small enough to count by hand. Per direction: NVLink 400 GB/s, PCIe 50 GB/s, NIC 40
// GB/s.

#include <string>
#include <vector>

#include "topology/cluster.h"

namespace flopcast {

System small_system(int gpus_per_node, int nics);

/// 4 nodes x 2 GPUs; 2 nodes on a leaf.
ClusterSpec small_fat_tree();
/// 4 nodes x 2 GPUs; pods of 2 nodes with 2 leaves, one group of spines.
ClusterSpec small_rails();
/// 8 nodes x 2 GPUs; pods of 2 nodes, each its own group of spines, and a core.
ClusterSpec small_rails_with_core();
/// 4 nodes x 2 GPUs on one switch.
ClusterSpec small_switch();
/// 8 GPUs alone.
ClusterSpec lone_node();
/// 2 nodes x 4 GPUs, PCIe inside, one NIC each.
ClusterSpec pcie_nodes();
/// 1 node x 4 GPUs, bridges join pairs.
ClusterSpec bridged_pairs();
/// 8 nodes x 2 GPUs, NVLink domains of 4 nodes.
ClusterSpec small_racks();

/// The same rails, never joined.
ClusterSpec small_rail_only();
/// 12 nodes x 2 GPUs: groups of 4 routers with one node each.
ClusterSpec small_dragonfly();
/// 2 x 3 x 4 nodes x 2 GPUs.
ClusterSpec small_torus();
/// Rails with core, in two zones of 4 nodes.
ClusterSpec small_zones();
/// 4 nodes x 2 GPUs on a square of switches.
ClusterSpec small_graph();

struct NamedSpec {
  std::string name;
  ClusterSpec spec;
};
std::vector<NamedSpec> all_small_clusters();

std::vector<GpuId> gpus(std::vector<std::uint32_t> numbers);
std::vector<GpuId> all_gpus(const Cluster& cluster);

}  // namespace flopcast
