#pragma once

// The network between nodes: which leaf a NIC hangs on, how leaves are joined, how many switches
// that takes. Every fabric is a folded Clos network, seen as a tree with trunks:
//
//   pod          nodes that share a set of leaves
//   spine group  leaves joined by one set of spines; all leaves, where the ports suffice
//   core         joins the spine groups, if there is more than one

#include <array>
#include <cstdint>
#include <string_view>

#include "sim/units.h"
#include "topology/system.h"

namespace flopcast {

enum class FabricKind : std::uint8_t {
  single_switch,   // every NIC on one non-blocking switch
  fat_tree,        // all NICs of a node on one leaf; leaf, spine, core
  rail_optimized,  // NIC i of every node of a pod on leaf i
};

inline constexpr std::array kFabricKinds{FabricKind::single_switch, FabricKind::fat_tree,
                                         FabricKind::rail_optimized};

constexpr std::string_view to_text(FabricKind kind) {
  switch (kind) {
    case FabricKind::single_switch: return "single_switch";
    case FabricKind::fat_tree: return "fat_tree";
    case FabricKind::rail_optimized: return "rail_optimized";
  }
  return {};
}

struct Fabric {
  FabricKind kind = FabricKind::rail_optimized;
  int switch_ports = 64;        // radix of leaf and spine switches, at NIC speed; half of a leaf's
                                // ports go down
  double oversubscription = 1;  // leaf downlink bandwidth over its uplink bandwidth
  double core_oversubscription = 1;  // of the tier above the spines, where there is one
  int spine_group_nodes = 0;  // nodes under one group of spines; 0: as many as the ports allow
  Seconds hop_latency = nanoseconds(300);  // one switch with its cable
};

/// Where things hang; all counts.
struct FabricPlan {
  int nics_per_node = 0;     // as the graph has them: at most one per GPU; 0: no network
  double cards_per_nic = 1;  // cards that act as one NIC
  int nodes_per_pod = 1;
  int leaves_per_pod = 1;
  int pods = 0;
  int pods_per_group = 1;
  int spine_groups = 0;  // 0: a single leaf needs no spine
  bool core = false;

  int leaves() const { return pods * leaves_per_pod; }
  int pod_of_node(int node) const { return node / nodes_per_pod; }
  int leaf_of(int node, int nic) const {
    return pod_of_node(node) * leaves_per_pod + (leaves_per_pod > 1 ? nic : 0);
  }
  int group_of_leaf(int leaf) const { return leaf / leaves_per_pod / pods_per_group; }
};

/// The plan for `nodes` of a system. A lone node has no network.
FabricPlan plan_fabric(const System& system, int nodes, const Fabric& fabric);

/// Cables from one leaf to its spines, and from one group of spines to the core: whole numbers, at
/// NIC speed. Oversubscription counts against the cards that are really there.
int leaf_uplinks(const FabricPlan& plan, int nodes, const Fabric& fabric, int leaf);
int spine_group_uplinks(const FabricPlan& plan, int nodes, const Fabric& fabric, int group);

/// Switches to buy. A two-tier spine uses all its ports downwards, a three-tier one half of them.
struct SwitchCounts {
  int leaves = 0;
  int spines = 0;
  int cores = 0;
  friend constexpr auto operator<=>(const SwitchCounts&, const SwitchCounts&) = default;
};
SwitchCounts switch_counts(const FabricPlan& plan, int nodes, const Fabric& fabric);

}  // namespace flopcast
