#include "topology/cluster.h"

#include "sim/check.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace flopcast {

namespace {

int to_int(GpuId gpu) { return static_cast<int>(index_of(gpu)); }

bool has_hosts(const System& system) {
  return system.gpus_per_node > 1 &&
         (system.node_link == NodeLink::pcie || system.nvlink_domain < system.gpus_per_node);
}

bool has_domain_switches(const System& system) {
  return system.node_link != NodeLink::pcie && system.nvlink_domain > 1;
}

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
  if (has_domain_switches(system) && system.gpu.nvlink <= BytesPerSecond{}) {
    return fmt::format("node_link \"{}\" needs a GPU with NVLink, {} has none",
                       to_text(system.node_link), system.gpu.name);
  }
  if ((has_hosts(system) || system.nics > 0) && system.gpu.pcie <= BytesPerSecond{}) {
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
  if (system.nics == 0 && spec.nodes > 1 &&
      spec.nodes * system.gpus_per_node > system.nvlink_domain) {
    return fmt::format("{} nodes without network cards cannot reach each other", spec.nodes);
  }
  if (spec.fabric.switch_ports < 2) {
    return fmt::format("switch_ports {} is less than 2", spec.fabric.switch_ports);
  }
  if (!(spec.fabric.oversubscription > 0) || !(spec.fabric.core_oversubscription > 0)) {
    return std::string("oversubscription must be above 0 (1 is non-blocking)");
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

}  // namespace

int count_of_places(const ClusterSpec& spec, LinkKind kind) {
  const int gpus = spec.nodes * spec.system.gpus_per_node;
  const FabricPlan plan = plan_fabric(spec.system, spec.nodes, spec.fabric);
  switch (kind) {
    case LinkKind::nvlink: return has_domain_switches(spec.system) ? gpus : 0;
    case LinkKind::pcie: return 0;
    case LinkKind::nic: return plan.nics_per_node > 0 ? gpus : 0;
    case LinkKind::leaf_uplink: return plan.spine_groups > 0 ? plan.leaves() : 0;
    case LinkKind::spine_uplink: return 0;
  }
  return 0;
}

std::optional<std::string> problem_of(const ClusterSpec& spec) {
  if (spec.nodes < 1) return fmt::format("nodes {} is less than 1", spec.nodes);
  if (auto problem = problem_of_node(spec.system)) return problem;
  if (auto problem = problem_of_network(spec)) return problem;
  return problem_of_places(spec);
}

Cluster::Cluster(ClusterSpec spec)
    : spec_(std::move(spec)),
      plan_(plan_fabric(spec_.system, spec_.nodes, spec_.fabric)),
      domain_switches_(has_domain_switches(spec_.system)),
      hosts_(has_hosts(spec_.system)) {
  FLOPCAST_CHECK(!problem_of(spec_), "the reader checks a description before it is built");
  places_.reserve(static_cast<std::size_t>(gpu_count()));
  for (int gpu = 0; gpu < gpu_count(); ++gpu) places_.push_back(find_place(gpu));
  add_devices();
  add_node_links();
  add_fabric_links();
  for (const DegradedLinks& links : spec_.degraded) degrade(links);
  for (const auto& [link, condition] : conditions_) {
    ClusterLink& row = links_[index_of(link)];
    row.capacity = condition * row.capacity;
  }
}

Cluster::Place Cluster::find_place(int gpu) const {
  const int gpus = spec_.system.gpus_per_node;
  Place place{.node = gpu / gpus, .domain = gpu / domain_size(spec_.system)};
  if (plan_.nics_per_node == 0) return place;
  place.rail = gpu % gpus * plan_.nics_per_node / gpus;
  place.nic = place.node * plan_.nics_per_node + place.rail;
  place.leaf = plan_.leaf_of(place.node, place.rail);
  place.spine_group = plan_.group_of_leaf(place.leaf);
  return place;
}

std::uint32_t Cluster::add_block(DeviceKind kind, int count) {
  const auto first = static_cast<std::uint32_t>(devices_.size());
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(count); ++i) {
    devices_.push_back({kind, i});
  }
  return first;
}

void Cluster::add_pair(LinkKind kind, std::uint32_t lower, std::uint32_t upper,
                       BytesPerSecond capacity) {
  links_.push_back({kind, DeviceId{lower}, DeviceId{upper}, capacity});
  links_.push_back({kind, DeviceId{upper}, DeviceId{lower}, capacity});
}

void Cluster::add_devices() {
  const int domain = spec_.system.nvlink_domain;
  add_block(DeviceKind::gpu, gpu_count());
  first_.node_switch = add_block(DeviceKind::node_switch,
                                 domain_switches_ ? (gpu_count() + domain - 1) / domain : 0);
  first_.host = add_block(DeviceKind::host, hosts_ ? spec_.nodes : 0);
  first_.nic = add_block(DeviceKind::nic, spec_.nodes * plan_.nics_per_node);
  first_.leaf = add_block(DeviceKind::leaf_switch, plan_.leaves());
  first_.spine = add_block(DeviceKind::spine, plan_.spine_groups);
  first_.core = add_block(DeviceKind::core, plan_.core ? 1 : 0);
}

void Cluster::add_node_links() {
  const Gpu& gpu = spec_.system.gpu;
  const auto gpus = static_cast<std::uint32_t>(gpu_count());
  const auto next = [this] { return static_cast<std::uint32_t>(links_.size()); };
  first_.domain_links = next();
  for (std::uint32_t g = 0; domain_switches_ && g < gpus; ++g) {
    const auto domain = static_cast<std::uint32_t>(nvlink_domain_of(GpuId{g}));
    add_pair(LinkKind::nvlink, g, first_.node_switch + domain, gpu.nvlink);
  }
  first_.host_links = next();
  for (std::uint32_t g = 0; hosts_ && g < gpus; ++g) {
    const auto node = static_cast<std::uint32_t>(node_of(GpuId{g}));
    add_pair(LinkKind::pcie, g, first_.host + node, gpu.pcie);
  }
  first_.slot_links = next();
  if (plan_.nics_per_node == 0) return;
  if (hosts_) {
    // Each card has a slot as wide as a GPU's.
    const auto per_node = static_cast<std::uint32_t>(plan_.nics_per_node);
    const auto nics = static_cast<std::uint32_t>(spec_.nodes) * per_node;
    for (std::uint32_t nic = 0; nic < nics; ++nic) {
      add_pair(LinkKind::pcie, first_.host + nic / per_node, first_.nic + nic,
               gpu.pcie * plan_.cards_per_nic);
    }
  } else {
    for (std::uint32_t g = 0; g < gpus; ++g) {
      const auto nic = static_cast<std::uint32_t>(nic_of(GpuId{g}));
      add_pair(LinkKind::pcie, g, first_.nic + nic, gpu.pcie);
    }
  }
}

void Cluster::add_fabric_links() {
  const auto next = [this] { return static_cast<std::uint32_t>(links_.size()); };
  const BytesPerSecond card = spec_.system.nic_bandwidth;
  first_.nic_links = next();
  for (int nic = 0; nic < spec_.nodes * plan_.nics_per_node; ++nic) {
    const int leaf = plan_.leaf_of(nic / plan_.nics_per_node, nic % plan_.nics_per_node);
    add_pair(LinkKind::nic, first_.nic + static_cast<std::uint32_t>(nic),
             first_.leaf + static_cast<std::uint32_t>(leaf), card * plan_.cards_per_nic);
  }
  first_.leaf_links = next();
  if (plan_.spine_groups == 0) return;
  for (int leaf = 0; leaf < plan_.leaves(); ++leaf) {
    add_pair(LinkKind::leaf_uplink, first_.leaf + static_cast<std::uint32_t>(leaf),
             first_.spine + static_cast<std::uint32_t>(plan_.group_of_leaf(leaf)),
             card * leaf_uplinks(plan_, spec_.nodes, spec_.fabric, leaf));
  }
  first_.spine_links = next();
  for (int group = 0; plan_.core && group < plan_.spine_groups; ++group) {
    add_pair(LinkKind::spine_uplink, first_.spine + static_cast<std::uint32_t>(group), first_.core,
             card * spine_group_uplinks(plan_, spec_.nodes, spec_.fabric, group));
  }
}

void Cluster::degrade(const DegradedLinks& links) {
  for (int place = links.first; place <= links.last; ++place) {
    const GpuId gpu{static_cast<std::uint32_t>(place)};
    std::uint32_t first = 0;
    switch (links.kind) {
      case LinkKind::nvlink: first = index_of(to_domain(gpu)); break;
      case LinkKind::nic:
        first = first_.nic_links + 2 * static_cast<std::uint32_t>(nic_of(gpu));
        break;
      case LinkKind::leaf_uplink:
        first = first_.leaf_links + 2 * static_cast<std::uint32_t>(place);
        break;
      case LinkKind::pcie:
      case LinkKind::spine_uplink: return;  // not counted by count_of_places
    }
    for (const std::uint32_t link : {first, first + 1}) {
      double& condition = conditions_.try_emplace(LinkId{link}, 1).first->second;
      condition = std::min(condition, links.factor);
    }
  }
}

double Cluster::speed_of(GpuId gpu) const {
  double speed = 1;
  for (const SlowGpus& slow : spec_.slow) {
    if (slow.first <= to_int(gpu) && to_int(gpu) <= slow.last) speed = std::min(speed, slow.speed);
  }
  return speed;
}

double Cluster::condition_of(LinkId link) const {
  const auto found = conditions_.find(link);
  return found == conditions_.end() ? 1 : found->second;
}

LinkId Cluster::to_domain(GpuId gpu) const {
  return LinkId{(domain_switches_ ? first_.domain_links : first_.host_links) + 2 * index_of(gpu)};
}

LinkId Cluster::from_domain(GpuId gpu) const { return LinkId{index_of(to_domain(gpu)) + 1}; }

bool Cluster::uses_pxn() const {
  return spec_.fabric.kind == FabricKind::rail_optimized && plan_.nics_per_node > 1 &&
         domain_switches_ && spec_.system.nvlink_domain >= spec_.system.gpus_per_node;
}

GpuId Cluster::exit_gpu(GpuId from, GpuId to) const {
  const Place& here = place_of(from);
  const Place& there = place_of(to);
  if (here.rail == there.rail || !uses_pxn()) return from;
  // The same place in the own node.
  return GpuId{static_cast<std::uint32_t>(to_int(to) +
                                          (here.node - there.node) * spec_.system.gpus_per_node)};
}

// From the GPU's memory to its leaf.
void Cluster::append_exit(GpuId gpu, std::vector<LinkId>& route) const {
  const auto nic = static_cast<std::uint32_t>(nic_of(gpu));
  if (hosts_) route.push_back(LinkId{first_.host_links + 2 * index_of(gpu)});
  route.push_back(LinkId{first_.slot_links + 2 * (hosts_ ? nic : index_of(gpu))});
  route.push_back(LinkId{first_.nic_links + 2 * nic});
}

// The way back: second links of the same pairs.
void Cluster::append_entry(GpuId gpu, std::vector<LinkId>& route) const {
  const auto nic = static_cast<std::uint32_t>(nic_of(gpu));
  route.push_back(LinkId{first_.nic_links + 2 * nic + 1});
  route.push_back(LinkId{first_.slot_links + 2 * (hosts_ ? nic : index_of(gpu)) + 1});
  if (hosts_) route.push_back(LinkId{first_.host_links + 2 * index_of(gpu) + 1});
}

void Cluster::append_route(GpuId from, GpuId to, std::vector<LinkId>& route) const {
  if (from == to) return;
  if (nvlink_domain_of(from) == nvlink_domain_of(to)) {
    route.push_back(to_domain(from));
    route.push_back(from_domain(to));
    return;
  }
  if (node_of(from) == node_of(to)) {
    route.push_back(LinkId{first_.host_links + 2 * index_of(from)});
    route.push_back(LinkId{first_.host_links + 2 * index_of(to) + 1});
    return;
  }
  const GpuId exit = exit_gpu(from, to);
  if (exit != from) {
    route.push_back(to_domain(from));
    route.push_back(from_domain(exit));
  }
  append_exit(exit, route);
  const Place& here = place_of(exit);
  const Place& there = place_of(to);
  const auto leaf_link = [&](int leaf) {
    return first_.leaf_links + 2 * static_cast<std::uint32_t>(leaf);
  };
  const auto spine_link = [&](int group) {
    return first_.spine_links + 2 * static_cast<std::uint32_t>(group);
  };
  if (here.leaf != there.leaf) {
    route.push_back(LinkId{leaf_link(here.leaf)});
    if (here.spine_group != there.spine_group) {
      route.push_back(LinkId{spine_link(here.spine_group)});
      route.push_back(LinkId{spine_link(there.spine_group) + 1});
    }
    route.push_back(LinkId{leaf_link(there.leaf) + 1});
  }
  append_entry(to, route);
}

std::string Cluster::name_of(DeviceId id) const {
  const Device device = devices_[index_of(id)];
  const auto number = static_cast<int>(device.index);
  const int gpus = spec_.system.gpus_per_node;
  switch (device.kind) {
    case DeviceKind::gpu: return fmt::format("node {} gpu {}", number / gpus, number % gpus);
    case DeviceKind::node_switch:
      return fmt::format("{} {} switch", spec_.system.nvlink_domain == gpus ? "node" : "domain",
                         number);
    case DeviceKind::host: return fmt::format("node {} host", number);
    case DeviceKind::nic:
      return fmt::format("node {} nic {}", number / plan_.nics_per_node,
                         number % plan_.nics_per_node);
    case DeviceKind::leaf_switch:
      if (plan_.leaves_per_pod == 1) return fmt::format("leaf {}", number);
      return fmt::format("pod {} leaf {}", number / plan_.leaves_per_pod,
                         number % plan_.leaves_per_pod);
    case DeviceKind::spine: return fmt::format("spine group {}", number);
    case DeviceKind::core: return "core";
  }
  return {};
}

std::string Cluster::name_of(LinkId id) const {
  const ClusterLink& link = links_[index_of(id)];
  return name_of(link.from) + " -> " + name_of(link.to);
}

}  // namespace flopcast
