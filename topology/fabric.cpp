#include "topology/fabric.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "topology/graph_routes.h"

namespace flopcast {

namespace {

int divide_up(int a, int b) { return (a + b - 1) / b; }

// A rack of several nodes is cabled as a whole: pods hold full NVLink domains where one fits.
int whole_domains(const System& system, int nodes) {
  const int nodes_per_domain = std::max(1, system.nvlink_domain / system.gpus_per_node);
  return nodes < nodes_per_domain ? nodes : nodes / nodes_per_domain * nodes_per_domain;
}

int nodes_in_pod(const FabricPlan& plan, int nodes, int pod) {
  return std::min(plan.nodes_per_pod, nodes - pod * plan.nodes_per_pod);
}

// Cables for `cards` below at a ratio; the small allowance absorbs rounding of ratios such as 1.1.
int cables(double cards, double oversubscription) {
  return std::max(1, static_cast<int>(std::ceil(cards / oversubscription - 1e-9)));
}

// Leaf uplinks that end in the spines of a group.
int cables_into_group(const FabricPlan& plan, int nodes, const Fabric& fabric, int group) {
  int sum = 0;
  for (int leaf = 0; leaf < plan.leaves(); ++leaf) {
    if (plan.group_of_leaf(leaf) == group) sum += leaf_uplinks(plan, nodes, fabric, leaf);
  }
  return sum;
}

// A router's ports for nodes: p of 4p - 1.
int dragonfly_node_ports(const Fabric& fabric) {
  return std::max(1, (fabric.switch_ports + 1) / 4);
}

int largest_divisor_up_to(int number, int limit) {
  int divisor = std::clamp(limit, 1, number);
  while (number % divisor != 0) --divisor;
  return divisor;
}

int nodes_per_pod(const System& system, const FabricPlan& plan, int nodes, const Fabric& fabric) {
  const int down_ports = std::max(1, fabric.switch_ports / 2);
  switch (fabric.kind) {
    case FabricKind::single_switch: return fabric.zone_nodes > 0 ? fabric.zone_nodes : nodes;
    case FabricKind::fat_tree: return std::max(1, down_ports / system.nics);
    case FabricKind::rail_optimized:
    case FabricKind::rail_only:
      return whole_domains(system, std::max(1, static_cast<int>(down_ports / plan.cards_per_nic)));
    case FabricKind::dragonfly: return std::max(1, dragonfly_node_ports(fabric) / system.nics);
    case FabricKind::torus:
    case FabricKind::graph: return 1;
  }
  return 1;
}

// Pods under one set of spines.
int pods_per_group(const FabricPlan& plan, const Fabric& fabric, int pods) {
  if (fabric.kind == FabricKind::dragonfly) {
    return fabric.group_nodes > 0 ? std::max(1, fabric.group_nodes / plan.nodes_per_pod)
                                  : 2 * dragonfly_node_ports(fabric);
  }
  if (fabric.spine_group_nodes > 0) {
    return std::max(1, fabric.spine_group_nodes / plan.nodes_per_pod);
  }
  // A spine reaches as many leaves as it has ports; half as many once it also faces the core.
  const bool two_levels =
      fabric.levels == 0 ? pods * plan.leaves_per_pod <= fabric.switch_ports : fabric.levels < 3;
  return two_levels ? pods : std::max(1, fabric.switch_ports / 2 / plan.leaves_per_pod);
}

void plan_spines(FabricPlan& plan, int nodes, const Fabric& fabric) {
  if (fabric.kind == FabricKind::rail_only) {
    plan.rails_apart = true;
    plan.pods_per_group = plan.pods;
    plan.spine_groups = plan.pods > 1 ? plan.leaves_per_pod : 0;
    return;
  }
  const int zone_nodes = fabric.zone_nodes > 0 ? fabric.zone_nodes : nodes;
  plan.zones = divide_up(nodes, zone_nodes);
  const bool dragonfly = fabric.kind == FabricKind::dragonfly;
  if (plan.zones == 1 && plan.leaves() == 1 && fabric.levels < 2 && !dragonfly) return;
  const int pods = plan.zones > 1 ? divide_up(zone_nodes, plan.nodes_per_pod) : plan.pods;
  plan.pods_per_group = pods_per_group(plan, fabric, pods);
  // No group of spines lies in two zones.
  if (plan.zones > 1) plan.pods_per_group = largest_divisor_up_to(pods, plan.pods_per_group);
  plan.spine_groups = divide_up(plan.pods, plan.pods_per_group);
  plan.groups_per_zone = plan.zones > 1 ? pods / plan.pods_per_group : plan.spine_groups;
  plan.core = !dragonfly && (plan.spine_groups > 1 || plan.zones > 1 || fabric.levels == 3);
}

std::optional<std::string> problem_of_tree(const System& system, int nodes, const Fabric& fabric) {
  if (fabric.levels < 0 || fabric.levels > 3) {
    return fmt::format("levels {} is not 1, 2 or 3 (0: as many as the ports need)", fabric.levels);
  }
  if (fabric.zone_nodes < 0) return fmt::format("zone_nodes {} is less than 0", fabric.zone_nodes);
  const FabricPlan plan = plan_fabric(system, nodes, fabric);
  if (plan.nics_per_node == 0) return std::nullopt;
  const bool zones = fabric.zone_nodes > 0 && fabric.zone_nodes < nodes;
  if (zones && fabric.zone_nodes % plan.nodes_per_pod != 0) {
    return fmt::format("zone_nodes {} is no multiple of the {} nodes that share a leaf",
                       fabric.zone_nodes, plan.nodes_per_pod);
  }
  if (zones && fabric.zone_bandwidth <= BytesPerSecond{}) {
    return std::string("zones need zone_bandwidth, of one zone to the others");
  }
  if (fabric.levels == 1 && plan.leaves() > 1) {
    return fmt::format("levels 1: {} nodes need {} switches of {} ports", nodes, plan.leaves(),
                       fabric.switch_ports);
  }
  const int leaves_per_group = plan.pods_per_group * plan.leaves_per_pod;
  if (fabric.levels == 2 && (plan.spine_groups > 1 || leaves_per_group > fabric.switch_ports)) {
    return fmt::format("levels 2: {} leaves are more than the {} ports of a spine", plan.leaves(),
                       fabric.switch_ports);
  }
  return std::nullopt;
}

std::optional<std::string> problem_of_torus(int nodes, const Fabric& fabric) {
  if (fabric.dimensions.empty()) return std::string("a torus needs its dimensions");
  if (std::ranges::any_of(fabric.dimensions, [](int size) { return size < 1; })) {
    return std::string("the dimensions of a torus are 1 or more");
  }
  const auto routers =
      std::accumulate(fabric.dimensions.begin(), fabric.dimensions.end(), 1.0, std::multiplies<>());
  if (routers == nodes) return std::nullopt;
  return fmt::format("dimensions {} have {:.0f} places for {} nodes",
                     fmt::join(fabric.dimensions, " x "), routers, nodes);
}

std::optional<std::string> problem_of_dragonfly(const System& system, int nodes,
                                                const Fabric& fabric) {
  if (fabric.group_nodes < 0) {
    return fmt::format("group_nodes {} is less than 0", fabric.group_nodes);
  }
  const FabricPlan plan = plan_fabric(system, nodes, fabric);
  if (fabric.group_nodes % plan.nodes_per_pod == 0) return std::nullopt;
  return fmt::format("group_nodes {} is no multiple of the {} nodes of a router",
                     fabric.group_nodes, plan.nodes_per_pod);
}

std::optional<std::string> problem_of_graph(const System& system, int nodes,
                                            const FabricGraph& graph) {
  const auto nics = static_cast<std::size_t>(nodes) *
                    static_cast<std::size_t>(std::min(system.nics, system.gpus_per_node));
  if (graph.attached.size() != nics) {
    return fmt::format("the graph attaches {} network cards, {} nodes have {}",
                       graph.attached.size(), nodes, nics);
  }
  const GraphRoutes routes(graph);
  const int first = graph.attached.front();
  for (const int other : graph.attached) {
    if (routes.reaches(first, other)) continue;
    return fmt::format("no cables lead from switch {} to {}",
                       graph.switches[static_cast<std::size_t>(first)],
                       graph.switches[static_cast<std::size_t>(other)]);
  }
  return std::nullopt;
}

}  // namespace

FabricPlan plan_fabric(const System& system, int nodes, const Fabric& fabric) {
  FabricPlan plan;
  if (nodes <= 1 || system.nics == 0) return plan;
  plan.nics_per_node = std::min(system.nics, system.gpus_per_node);
  plan.cards_per_nic = static_cast<double>(system.nics) / plan.nics_per_node;
  const bool rails =
      fabric.kind == FabricKind::rail_optimized || fabric.kind == FabricKind::rail_only;
  if (rails) plan.leaves_per_pod = plan.nics_per_node;
  plan.nodes_per_pod = nodes_per_pod(system, plan, nodes, fabric);
  plan.pods = divide_up(nodes, plan.nodes_per_pod);
  if (fabric.kind == FabricKind::graph) {
    plan.pods = static_cast<int>(fabric.graph.switches.size());
  } else if (fabric.kind != FabricKind::torus) {
    plan_spines(plan, nodes, fabric);
  }
  return plan;
}

std::optional<std::string> problem_of_sharp(const System& system, const Fabric& fabric) {
  if (!fabric.sharp) return std::nullopt;
  if (!is_tree(fabric.kind)) {
    return fmt::format(
        "switches reduce along a tree, which a {} is not; expected kind single_switch, "
        "fat_tree, rail_optimized or rail_only",
        to_text(fabric.kind));
  }
  if (system.network == NetworkKind::infiniband) return std::nullopt;
  return fmt::format("only InfiniBand switches reduce, but the cards of {} speak {}",
                     system.name.empty() ? "the system" : system.name, to_text(system.network));
}

std::optional<std::string> problem_of_fabric(const System& system, int nodes,
                                             const Fabric& fabric) {
  if (const auto problem = problem_of_sharp(system, fabric)) return "sharp: " + *problem;
  if (fabric.switch_ports < 2) {
    return fmt::format("switch_ports {} is less than 2", fabric.switch_ports);
  }
  if (!(fabric.oversubscription > 0) || !(fabric.core_oversubscription > 0)) {
    return std::string("oversubscription must be above 0 (1 is non-blocking)");
  }
  if (nodes <= 1 || system.nics == 0) return std::nullopt;
  switch (fabric.kind) {
    case FabricKind::rail_only:
      if (system.node_link != NodeLink::pcie && system.nvlink_domain >= system.gpus_per_node) break;
      return std::string("rail_only needs NVLink between all GPUs of a node, to change rails");
    case FabricKind::single_switch:
    case FabricKind::fat_tree:
    case FabricKind::rail_optimized: break;
    case FabricKind::dragonfly: return problem_of_dragonfly(system, nodes, fabric);
    case FabricKind::torus: return problem_of_torus(nodes, fabric);
    case FabricKind::graph: return problem_of_graph(system, nodes, fabric.graph);
  }
  return problem_of_tree(system, nodes, fabric);
}

int global_cables(const FabricPlan& plan, const Fabric& fabric) {
  if (fabric.global_links > 0) return fabric.global_links;
  const int others = std::max(1, plan.spine_groups - 1);
  return std::max(1, plan.pods_per_group * dragonfly_node_ports(fabric) / others);
}

double cards_of_leaf(const FabricPlan& plan, int nodes, int leaf) {
  const double nics_of_node = plan.leaves_per_pod > 1 ? 1 : plan.nics_per_node;
  const int attached = nodes_in_pod(plan, nodes, leaf / plan.leaves_per_pod);
  return attached * nics_of_node * plan.cards_per_nic;
}

int leaf_uplinks(const FabricPlan& plan, int nodes, const Fabric& fabric, int leaf) {
  if (fabric.kind == FabricKind::dragonfly) return 2 * dragonfly_node_ports(fabric) - 1;
  return cables(cards_of_leaf(plan, nodes, leaf), fabric.oversubscription);
}

int spine_group_uplinks(const FabricPlan& plan, int nodes, const Fabric& fabric, int group) {
  return cables(cables_into_group(plan, nodes, fabric, group), fabric.core_oversubscription);
}

SwitchCounts switch_counts(const FabricPlan& plan, int nodes, const Fabric& fabric) {
  SwitchCounts counts{.leaves = plan.leaves()};
  if (plan.spine_groups == 0 || !is_tree(fabric.kind)) return counts;
  const int ports_down = plan.core ? std::max(1, fabric.switch_ports / 2) : fabric.switch_ports;
  std::vector<int> core_cables(static_cast<std::size_t>(plan.zones));
  for (int group = 0; group < plan.spine_groups; ++group) {
    counts.spines += divide_up(cables_into_group(plan, nodes, fabric, group), ports_down);
    core_cables[static_cast<std::size_t>(plan.zone_of_group(group))] +=
        spine_group_uplinks(plan, nodes, fabric, group);
  }
  for (const int cables : core_cables) {
    if (plan.core) counts.cores += divide_up(cables, fabric.switch_ports);
  }
  return counts;
}

}  // namespace flopcast
