#include "topology/cluster.h"

#include <map>
#include <optional>
#include <set>
#include <string>

#include <fmt/format.h>

namespace flopcast {

namespace {

std::optional<std::string> problem_of_node(const System& system) {
  if (system.gpus_per_node < 1) {
    return fmt::format("gpus_per_node {} is less than 1", system.gpus_per_node);
  }
  if (system.nvlink_domain < 1) {
    return fmt::format("nvlink_domain {} is less than 1", system.nvlink_domain);
  }
  if (system.nvlink_domain % system.gpus_per_node != 0 &&
      system.gpus_per_node % system.nvlink_domain != 0) {
    return fmt::format("nvlink_domain {} neither divides gpus_per_node {} nor is a multiple of it",
                       system.nvlink_domain, system.gpus_per_node);
  }
  if (joins_by_switch(system) && system.gpu.nvlink <= BytesPerSecond{}) {
    return fmt::format("node_link \"{}\" needs a GPU with NVLink, {} has none",
                       to_text(system.node_link), system.gpu.name);
  }
  if (const auto problem = problem_of_mesh(system)) return "mesh: " + *problem;
  if ((joins_by_host(system) || system.nics > 0) && system.gpu.pcie <= BytesPerSecond{}) {
    return fmt::format("the PCIe bandwidth of GPU {} is not known", system.gpu.name);
  }
  return std::nullopt;
}

std::optional<std::string> problem_of_network(const ClusterSpec& spec) {
  const System& system = spec.system;
  if (system.nics < 0) return fmt::format("nics {} is less than 0", system.nics);
  if (system.nics > 0 && system.nic_bandwidth <= BytesPerSecond{}) {
    return std::string("nic_bandwidth must be above 0");
  }
  if (const auto problem = problem_of_affinity(system)) return "gpu_nic: " + *problem;
  if (system.nics == 0 && spec.nodes > 1 &&
      spec.nodes * system.gpus_per_node > system.nvlink_domain) {
    return fmt::format("{} nodes without network cards cannot reach each other", spec.nodes);
  }
  if (spec.fabric.sharp && spec.transport == Transport::socket) {
    return std::string("sharp: switches reduce what RDMA sends, but transport is socket");
  }
  if (spec.fabric.flows_per_card < 1) {
    return fmt::format("flows_per_card {} is less than 1", spec.fabric.flows_per_card);
  }
  return problem_of_fabric(system, spec.nodes, spec.fabric);
}

std::optional<std::string> problem_of_missing(const ClusterSpec& spec) {
  if (spec.missing_nics.empty()) return std::nullopt;
  if (spec.fabric.kind == FabricKind::rail_only) {
    return std::string("on rail_only a GPU without its card is cut off from its rail");
  }
  const FabricPlan plan = plan_fabric(spec.system, spec.nodes, spec.fabric);
  const int per_node = spec.system.gpus_per_node;
  if (plan.nics_per_node == 0) return std::string("the cluster has no network cards to miss");
  std::map<int, std::set<int>> gone;  // by node
  for (const int gpu : spec.missing_nics) {
    if (gpu < 0 || gpu >= spec.nodes * per_node) {
      return fmt::format("there is no GPU {}: they are 0 to {}", gpu, spec.nodes * per_node - 1);
    }
    gone[gpu / per_node].insert(card_of(spec.system, gpu % per_node, plan.nics_per_node));
  }
  for (const auto& [node, cards] : gone) {
    if (static_cast<int>(cards.size()) < plan.nics_per_node) continue;
    return fmt::format("node {} has no network card left", node);
  }
  return std::nullopt;
}

std::optional<std::string> problem_of_places(const ClusterSpec& spec) {
  const int gpus = spec.nodes * spec.system.gpus_per_node;
  const auto within = [](int first, int last, int count) {
    return 0 <= first && first <= last && last < count;
  };
  const auto is_part = [](double part) { return part > 0 && part <= 1; };
  for (const SlowGpus& slow : spec.slow) {
    if (!within(slow.first, slow.last, gpus)) {
      return fmt::format("there is no slow GPU {}: GPUs are 0 to {}", slow.last, gpus - 1);
    }
    if (!is_part(slow.speed)) return fmt::format("speed {} is not in (0, 1]", slow.speed);
  }
  for (const DegradedLinks& links : spec.degraded) {
    const int places = count_of_places(spec, links.kind);
    if (places == 0) {
      return fmt::format("the cluster has no {} links to degrade", to_text(links.kind));
    }
    if (!within(links.first, links.last, places)) {
      return fmt::format("there is no {} {}: they are 0 to {}", to_text(links.kind), links.last,
                         places - 1);
    }
    if (!is_part(links.factor)) return fmt::format("factor {} is not in (0, 1]", links.factor);
  }
  return std::nullopt;
}

std::optional<std::string> problem_of_other(const System& own, const System& other) {
  if (other.gpus_per_node != own.gpus_per_node) {
    return fmt::format("nodes of {} have {} GPUs, those of {} have {}: they must be as many",
                       other.name, other.gpus_per_node, own.name, own.gpus_per_node);
  }
  if (other.nvlink_domain != own.nvlink_domain || joins_by_switch(other) != joins_by_switch(own)) {
    return fmt::format("GPUs of {} are not joined as those of {} are: nvlink_domain {} and {}",
                       other.name, own.name, other.nvlink_domain, own.nvlink_domain);
  }
  if (own.nics > 0 && other.nics == 0) {
    return fmt::format("nodes of {} have no network cards", other.name);
  }
  return std::nullopt;
}

std::optional<std::string> problem_of_others(const ClusterSpec& spec) {
  std::set<int> named;
  for (const OtherNodes& other : spec.others) {
    if (auto problem = problem_of_other(spec.system, other.system)) return problem;
    for (const OtherNodes::Range& range : other.nodes) {
      if (range.first < 0 || range.first > range.last || range.last >= spec.nodes) {
        return fmt::format("there is no node {}: they are 0 to {}", range.last, spec.nodes - 1);
      }
      for (int node = range.first; node <= range.last; ++node) {
        if (!named.insert(node).second) return fmt::format("node {} is named twice", node);
      }
    }
  }
  return std::nullopt;
}

// Between switches that no tree joins.
int count_of_cables(const ClusterSpec& spec, const FabricPlan& plan) {
  switch (spec.fabric.kind) {
    case FabricKind::single_switch:
    case FabricKind::fat_tree:
    case FabricKind::rail_optimized:
    case FabricKind::rail_only: return 0;
    case FabricKind::dragonfly: return plan.spine_groups * (plan.spine_groups - 1) / 2;
    case FabricKind::torus: {
      int cables = 0;
      for (const int size : spec.fabric.dimensions) {
        // Two routers share one cable, a lone one has none.
        cables += size == 1 ? 0 : size == 2 ? plan.leaves() / 2 : plan.leaves();
      }
      return cables;
    }
    case FabricKind::graph: return static_cast<int>(spec.fabric.graph.cables.size());
  }
  return 0;
}

}  // namespace

int count_of_places(const ClusterSpec& spec, LinkKind kind) {
  const int gpus = spec.nodes * spec.system.gpus_per_node;
  const FabricPlan plan = plan_fabric(spec.system, spec.nodes, spec.fabric);
  switch (kind) {
    case LinkKind::nvlink: return joins_by_switch(spec.system) ? gpus : 0;
    case LinkKind::pcie: return 0;
    case LinkKind::nic: return plan.nics_per_node > 0 ? gpus : 0;
    case LinkKind::leaf_uplink: return plan.spine_groups > 0 ? plan.leaves() : 0;
    case LinkKind::spine_uplink: return plan.core ? plan.spine_groups : 0;
    case LinkKind::switch_link: return plan.nics_per_node > 0 ? count_of_cables(spec, plan) : 0;
    case LinkKind::zone_uplink: return plan.zones > 1 ? plan.zones : 0;
    case LinkKind::host_memory:
    case LinkKind::storage: return 0;
  }
  return 0;
}

std::optional<std::string> problem_of(const ClusterSpec& spec) {
  if (spec.nodes < 1) return fmt::format("nodes {} is less than 1", spec.nodes);
  if (auto problem = problem_of_node(spec.system)) return problem;
  if (auto problem = problem_of_network(spec)) return problem;
  if (auto problem = problem_of_missing(spec)) return problem;
  if (auto problem = problem_of_others(spec)) return problem;
  return problem_of_places(spec);
}

}  // namespace flopcast
