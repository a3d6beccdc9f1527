#include "topology/fabric.h"

#include <algorithm>
#include <cmath>

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
  const int leaves_per_group = plan.pods_per_group * plan.leaves_per_pod;
  const int end = std::min(plan.leaves(), (group + 1) * leaves_per_group);
  int sum = 0;
  for (int leaf = group * leaves_per_group; leaf < end; ++leaf) {
    sum += leaf_uplinks(plan, nodes, fabric, leaf);
  }
  return sum;
}

}  // namespace

FabricPlan plan_fabric(const System& system, int nodes, const Fabric& fabric) {
  FabricPlan plan;
  if (nodes <= 1 || system.nics == 0) return plan;
  plan.nics_per_node = std::min(system.nics, system.gpus_per_node);
  plan.cards_per_nic = static_cast<double>(system.nics) / plan.nics_per_node;
  const int down_ports = std::max(1, fabric.switch_ports / 2);
  switch (fabric.kind) {
    case FabricKind::single_switch: plan.nodes_per_pod = nodes; break;
    case FabricKind::fat_tree: plan.nodes_per_pod = std::max(1, down_ports / system.nics); break;
    case FabricKind::rail_optimized:
      plan.leaves_per_pod = plan.nics_per_node;
      plan.nodes_per_pod =
          whole_domains(system, std::max(1, static_cast<int>(down_ports / plan.cards_per_nic)));
      break;
  }
  plan.pods = divide_up(nodes, plan.nodes_per_pod);
  if (plan.leaves() == 1) return plan;
  // A spine reaches as many leaves as it has ports; half as many once it also faces the core.
  const bool fits = plan.leaves() <= fabric.switch_ports;
  plan.pods_per_group = fits ? plan.pods : std::max(1, down_ports / plan.leaves_per_pod);
  if (fabric.spine_group_nodes > 0) {
    plan.pods_per_group = std::max(1, fabric.spine_group_nodes / plan.nodes_per_pod);
  }
  plan.spine_groups = divide_up(plan.pods, plan.pods_per_group);
  plan.core = plan.spine_groups > 1;
  return plan;
}

int leaf_uplinks(const FabricPlan& plan, int nodes, const Fabric& fabric, int leaf) {
  const double nics_of_node = plan.leaves_per_pod > 1 ? 1 : plan.nics_per_node;
  const int attached = nodes_in_pod(plan, nodes, leaf / plan.leaves_per_pod);
  return cables(attached * nics_of_node * plan.cards_per_nic, fabric.oversubscription);
}

int spine_group_uplinks(const FabricPlan& plan, int nodes, const Fabric& fabric, int group) {
  return cables(cables_into_group(plan, nodes, fabric, group), fabric.core_oversubscription);
}

SwitchCounts switch_counts(const FabricPlan& plan, int nodes, const Fabric& fabric) {
  SwitchCounts counts{.leaves = plan.leaves()};
  if (plan.spine_groups == 0) return counts;
  const int ports_down = plan.core ? std::max(1, fabric.switch_ports / 2) : fabric.switch_ports;
  int core_cables = 0;
  for (int group = 0; group < plan.spine_groups; ++group) {
    counts.spines += divide_up(cables_into_group(plan, nodes, fabric, group), ports_down);
    core_cables += spine_group_uplinks(plan, nodes, fabric, group);
  }
  if (plan.core) counts.cores = divide_up(core_cables, fabric.switch_ports);
  return counts;
}

}  // namespace flopcast
