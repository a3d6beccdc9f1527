#pragma once

// The network between nodes: which leaf a NIC hangs on, how leaves are joined, how many switches
// that takes. Most fabrics are folded Clos networks, seen as a tree with trunks:
//
//   pod          nodes that share a set of leaves
//   spine group  leaves joined by one set of spines; all leaves, where the ports suffice
//   core         joins the spine groups, if there is more than one; one for each zone
//   backbone     joins the zones (buildings, availability zones), if there is more than one
//
// The others join switches directly:
//
//   dragonfly    a leaf is a router, a spine group is a group of routers, each joined to each;
//   every
//                pair of groups has cables of its own. Kim et al., ISCA 2008; minimal routes
//   torus        each node has one router with a cable to both neighbours in each dimension; routes
//                go dimension by dimension, the shorter way round. Dally and Towles, "Principles
//                and Practices of Interconnection Networks", 2004, chapter 5
//   graph        switches and cables as the user lists them; shortest routes (graph_routes.h)

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/units.h"
#include "topology/system.h"

namespace flopcast {

enum class FabricKind : std::uint8_t {
  single_switch,   // every NIC on one non-blocking switch
  fat_tree,        // all NICs of a node on one leaf; leaf, spine, core
  rail_optimized,  // NIC i of every node of a pod on leaf i
  rail_only,       // the same, but leaves of different rails are never joined: data changes rails
                   // over NVLink alone. Wang et al., arXiv 2307.12169
  dragonfly,
  torus,
  graph,
};

inline constexpr std::array kFabricKinds{FabricKind::single_switch,  FabricKind::fat_tree,
                                         FabricKind::rail_optimized, FabricKind::rail_only,
                                         FabricKind::dragonfly,      FabricKind::torus,
                                         FabricKind::graph};

constexpr std::string_view to_text(FabricKind kind) {
  switch (kind) {
    case FabricKind::single_switch: return "single_switch";
    case FabricKind::fat_tree: return "fat_tree";
    case FabricKind::rail_optimized: return "rail_optimized";
    case FabricKind::rail_only: return "rail_only";
    case FabricKind::dragonfly: return "dragonfly";
    case FabricKind::torus: return "torus";
    case FabricKind::graph: return "graph";
  }
  return {};
}

/// How flows are spread over the cables of a trunk.
enum class Routing : std::uint8_t {
  adaptive,  // evenly: packets are sprayed, or switches move flows off full cables
  ecmp,      // each flow on one cable, by a hash (ecmp.h)
};

inline constexpr std::array kRoutings{Routing::adaptive, Routing::ecmp};

constexpr std::string_view to_text(Routing routing) {
  switch (routing) {
    case Routing::adaptive: return "adaptive";
    case Routing::ecmp: return "ecmp";
  }
  return {};
}

/// Switches and cables of a fabric of kind graph.
struct FabricGraph {
  struct Cable {
    int from = 0;  // switches, by place in the list
    int to = 0;
    BytesPerSecond bandwidth{};  // of one direction
    Seconds latency{};           // one way, with the switch that it ends in
  };
  std::vector<std::string> switches{};  // names
  std::vector<Cable> cables{};
  std::vector<int> attached{};  // switch of NIC i of node n: [n * NICs per node + i]
};

struct Fabric {
  FabricKind kind = FabricKind::rail_optimized;
  int switch_ports = 64;        // radix of leaf and spine switches, at NIC speed; half of a leaf's
                                // ports go down
  double oversubscription = 1;  // leaf downlink bandwidth over its uplink bandwidth
  double core_oversubscription = 1;  // of the tier above the spines, where there is one
  int spine_group_nodes = 0;  // nodes under one group of spines; 0: as many as the ports allow
  Seconds hop_latency = nanoseconds(300);  // one switch with its cable
  int levels = 0;  // of switches in a tree: 0 as many as the ports need, else exactly 1, 2 or 3

  Routing routing = Routing::adaptive;
  int flows_per_card = 1;  // connections that a card has under way: NCCL_IB_QPS_PER_CONNECTION is 1
  int ecmp_seed = 0;       // 0: the expected collisions; else those that this seed throws

  int zone_nodes = 0;               // nodes of one zone of a tree; 0: a single zone
  BytesPerSecond zone_bandwidth{};  // between one zone and the others, one direction
  Seconds zone_latency{};           // one way between two zones, beyond their switches

  int group_nodes = 0;   // of a dragonfly: nodes of a group; 0: a full group, twice as many routers
                         // as a router has nodes' ports
  int global_links = 0;  // of a dragonfly: cables between two groups; 0: all global ports

  std::vector<int> dimensions{};    // of a torus: routers along each; their product is the nodes
  BytesPerSecond link_bandwidth{};  // of a torus, one cable, one direction; 0: the node's cards
                                    // shared out over its 2 * dimensions cables

  bool sharp = false;  // switches add up what passes them: InfiniBand's SHARP. Graham et al.,
                       // COM-HPC 2016

  FabricGraph graph{};
};

/// Whether all switches form a tree with trunks.
constexpr bool is_tree(FabricKind kind) {
  switch (kind) {
    case FabricKind::single_switch: return true;
    case FabricKind::fat_tree: return true;
    case FabricKind::rail_optimized: return true;
    case FabricKind::rail_only: return true;
    case FabricKind::dragonfly: return false;
    case FabricKind::torus: return false;
    case FabricKind::graph: return false;
  }
  return false;
}

/// Where things hang; all counts.
struct FabricPlan {
  int nics_per_node = 0;     // as the graph has them: at most one per GPU; 0: no network
  double cards_per_nic = 1;  // cards that act as one NIC
  int nodes_per_pod = 1;
  int leaves_per_pod = 1;
  int pods = 0;
  int pods_per_group = 1;
  int spine_groups = 0;  // 0: a single leaf needs no spine
  bool rails_apart =
      false;  // spine group i joins leaf i of every pod, and nothing joins the groups
  bool core = false;
  int zones = 1;
  int groups_per_zone = 0;  // of spines

  int leaves() const { return pods * leaves_per_pod; }
  int pod_of_node(int node) const { return node / nodes_per_pod; }
  /// Of a tree or dragonfly.
  int leaf_of(int node, int nic) const {
    return pod_of_node(node) * leaves_per_pod + (leaves_per_pod > 1 ? nic : 0);
  }
  int group_of_leaf(int leaf) const {
    return rails_apart ? leaf % leaves_per_pod : leaf / leaves_per_pod / pods_per_group;
  }
  int zone_of_group(int group) const { return zones > 1 ? group / groups_per_zone : 0; }
};

/// The plan for `nodes` of a system. A lone node has no network.
FabricPlan plan_fabric(const System& system, int nodes, const Fabric& fabric);

/// What keeps a fabric from being built, in the words of the user. Nothing if it is sound.
std::optional<std::string> problem_of_fabric(const System& system, int nodes, const Fabric& fabric);

/// The same of its switches that reduce.
std::optional<std::string> problem_of_sharp(const System& system, const Fabric& fabric);

/// Cables between two groups of a dragonfly. A balanced router of k ports has p = (k+1)/4 of them
/// for nodes, 2p-1 for its group of 2p routers and p for other groups: a group has 2p*p global
/// cables for all others. Kim et al., ISCA 2008, section 3.1.
int global_cables(const FabricPlan& plan, const Fabric& fabric);

/// Cables from one leaf to its spines, and from one group of spines to the core: whole numbers, at
/// NIC speed. Oversubscription counts against the cards that are really there. Of a dragonfly the
/// first is a router's cables inside its group.
int leaf_uplinks(const FabricPlan& plan, int nodes, const Fabric& fabric, int leaf);
int spine_group_uplinks(const FabricPlan& plan, int nodes, const Fabric& fabric, int group);
/// Cards under one leaf.
double cards_of_leaf(const FabricPlan& plan, int nodes, int leaf);

/// Switches to buy for a tree. A two-tier spine uses all its ports downwards, a three-tier one half
/// of them.
struct SwitchCounts {
  int leaves = 0;
  int spines = 0;
  int cores = 0;
  friend constexpr auto operator<=>(const SwitchCounts&, const SwitchCounts&) = default;
};
SwitchCounts switch_counts(const FabricPlan& plan, int nodes, const Fabric& fabric);

}  // namespace flopcast
