#include "topology/cluster.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "sim/check.h"
#include "topology/ecmp.h"

namespace flopcast {

Cluster::Cluster(ClusterSpec spec)
    : spec_(std::move(spec)),
      plan_(plan_fabric(spec_.system, spec_.nodes, spec_.fabric)),
      domain_switches_(joins_by_switch(spec_.system)),
      hosts_(joins_by_host(spec_.system)),
      graph_routes_(spec_.fabric.graph) {
  FLOPCAST_CHECK(!problem_of(spec_), "the reader checks a description before it is built");
  places_.reserve(static_cast<std::size_t>(gpu_count()));
  for (int gpu = 0; gpu < gpu_count(); ++gpu) places_.push_back(find_place(gpu));
  add_devices();
  add_node_links();
  add_fabric_links();
  if (spec_.host_copies) add_copy_links();
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
  const int nics = plan_.nics_per_node;
  place.rail = card_of(spec_.system, gpu % gpus, nics);
  const auto is_missing = [&](int rail) {
    return std::ranges::any_of(spec_.missing_nics, [&](int other) {
      return other / gpus == place.node && card_of(spec_.system, other % gpus, nics) == rail;
    });
  };
  // The next card of the node that is there.
  if (!spec_.missing_nics.empty() && is_missing(place.rail)) {
    place.borrows = true;
    while (is_missing(place.rail)) place.rail = (place.rail + 1) % nics;
  }
  place.nic = place.node * nics + place.rail;
  place.leaf = leaf_of_nic(place.nic);
  if (plan_.spine_groups > 0) place.spine_group = plan_.group_of_leaf(place.leaf);
  return place;
}

int Cluster::leaf_of_nic(int nic) const {
  switch (spec_.fabric.kind) {
    case FabricKind::single_switch:
    case FabricKind::fat_tree:
    case FabricKind::rail_optimized:
    case FabricKind::rail_only:
    case FabricKind::dragonfly:
    case FabricKind::torus:
      return plan_.leaf_of(nic / plan_.nics_per_node, nic % plan_.nics_per_node);
    case FabricKind::graph: return spec_.fabric.graph.attached[static_cast<std::size_t>(nic)];
  }
  return 0;
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
  first_.core = add_block(DeviceKind::core, plan_.core ? plan_.zones : 0);
  first_.backbone = add_block(DeviceKind::backbone, plan_.zones > 1 ? 1 : 0);
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
  if (plan_.nics_per_node == 0) return;  // a lone node, whatever its fabric lists
  const auto next = [this] { return static_cast<std::uint32_t>(links_.size()); };
  const BytesPerSecond card = card_bandwidth(spec_.system, spec_.transport);
  first_.nic_links = next();
  for (int nic = 0; nic < spec_.nodes * plan_.nics_per_node; ++nic) {
    add_pair(LinkKind::nic, first_.nic + static_cast<std::uint32_t>(nic),
             first_.leaf + static_cast<std::uint32_t>(leaf_of_nic(nic)),
             card * plan_.cards_per_nic);
  }
  first_.leaf_links = next();
  if (plan_.spine_groups > 0) add_trunks();
  first_.switch_links = next();
  switch (spec_.fabric.kind) {
    case FabricKind::single_switch:
    case FabricKind::fat_tree:
    case FabricKind::rail_optimized:
    case FabricKind::rail_only: break;
    case FabricKind::dragonfly: add_global_links(); break;
    case FabricKind::torus: add_torus_links(); break;
    case FabricKind::graph:
      for (const FabricGraph::Cable& cable : spec_.fabric.graph.cables) {
        add_pair(LinkKind::switch_link, first_.leaf + static_cast<std::uint32_t>(cable.from),
                 first_.leaf + static_cast<std::uint32_t>(cable.to), cable.bandwidth);
      }
      break;
  }
}

// After all others, whose numbers stay.
void Cluster::add_copy_links() {
  const System& system = spec_.system;
  const auto next = [this] { return static_cast<std::uint32_t>(links_.size()); };
  const auto nodes = static_cast<std::uint32_t>(spec_.nodes);
  const std::uint32_t host = hosts_ ? first_.host : add_block(DeviceKind::host, spec_.nodes);
  const std::uint32_t memory = add_block(DeviceKind::memory, spec_.nodes);
  const bool drives = system.storage > BytesPerSecond{};
  const std::uint32_t storage = add_block(DeviceKind::storage, drives ? spec_.nodes : 0);
  const auto per_node = static_cast<std::uint32_t>(system.gpus_per_node);
  const auto behind = static_cast<std::uint32_t>(system.gpus_per_host_link);
  const BytesPerSecond width =
      system.host_link > BytesPerSecond{} ? system.host_link : system.gpu.pcie;
  first_.copy_links = next();
  for (std::uint32_t node = 0; !hosts_ && node < nodes; ++node) {
    for (std::uint32_t local = 0; local < per_node; local += behind) {
      add_pair(LinkKind::pcie, node * per_node + local, host + node, width);
    }
  }
  first_.memory_links = next();
  for (std::uint32_t node = 0; node < nodes; ++node) {
    add_pair(LinkKind::host_memory, host + node, memory + node, system.host_memory);
  }
  first_.storage_links = next();
  for (std::uint32_t node = 0; drives && node < nodes; ++node) {
    add_pair(LinkKind::storage, host + node, storage + node, system.storage);
  }
}

// What `cables` carry of the flows of `cards`.
BytesPerSecond Cluster::trunk(double cards, int cables, std::uint64_t number) const {
  const Fabric& fabric = spec_.fabric;
  const BytesPerSecond card = spec_.system.nic_bandwidth;
  if (fabric.routing == Routing::adaptive) return card * cables;
  const int flows = std::max(1, static_cast<int>(std::lround(cards * fabric.flows_per_card)));
  const double fullest =
      fabric.ecmp_seed == 0
          ? expected_max_load(flows, cables)
          : max_load(flows, cables, static_cast<std::uint64_t>(fabric.ecmp_seed), number);
  return card * std::min<double>(cables, flows / fullest);
}

void Cluster::add_trunks() {
  const auto next = [this] { return static_cast<std::uint32_t>(links_.size()); };
  const BytesPerSecond card = spec_.system.nic_bandwidth;
  std::vector<double> cards(static_cast<std::size_t>(plan_.spine_groups));  // under each group
  std::map<std::pair<double, int>, BytesPerSecond> known;  // of trunks that are alike
  for (int leaf = 0; leaf < plan_.leaves(); ++leaf) {
    const double below = cards_of_leaf(plan_, spec_.nodes, leaf);
    const int cables = leaf_uplinks(plan_, spec_.nodes, spec_.fabric, leaf);
    const auto number = static_cast<std::uint64_t>(leaf);
    const auto found = known.try_emplace({below, cables}, trunk(below, cables, number)).first;
    if (spec_.fabric.ecmp_seed != 0) found->second = trunk(below, cables, number);
    cards[static_cast<std::size_t>(plan_.group_of_leaf(leaf))] += below;
    add_pair(LinkKind::leaf_uplink, first_.leaf + static_cast<std::uint32_t>(leaf),
             first_.spine + static_cast<std::uint32_t>(plan_.group_of_leaf(leaf)), found->second);
  }
  first_.spine_links = next();
  for (int group = 0; plan_.core && group < plan_.spine_groups; ++group) {
    add_pair(LinkKind::spine_uplink, first_.spine + static_cast<std::uint32_t>(group),
             first_.core + static_cast<std::uint32_t>(plan_.zone_of_group(group)),
             card * spine_group_uplinks(plan_, spec_.nodes, spec_.fabric, group));
  }
  first_.zone_links = next();
  for (int zone = 0; plan_.zones > 1 && zone < plan_.zones; ++zone) {
    add_pair(LinkKind::zone_uplink, first_.core + static_cast<std::uint32_t>(zone), first_.backbone,
             spec_.fabric.zone_bandwidth);
  }
}

void Cluster::add_global_links() {
  const BytesPerSecond cables = spec_.system.nic_bandwidth * global_cables(plan_, spec_.fabric);
  for (int low = 0; low < plan_.spine_groups; ++low) {
    for (int high = low + 1; high < plan_.spine_groups; ++high) {
      add_pair(LinkKind::switch_link, first_.spine + static_cast<std::uint32_t>(low),
               first_.spine + static_cast<std::uint32_t>(high), cables);
    }
  }
}

void Cluster::add_torus_links() {
  const std::vector<int>& sizes = spec_.fabric.dimensions;
  const System& system = spec_.system;
  const BytesPerSecond cable =
      spec_.fabric.link_bandwidth > BytesPerSecond{}
          ? spec_.fabric.link_bandwidth
          : system.nics * system.nic_bandwidth / (2.0 * static_cast<double>(sizes.size()));
  torus_links_.resize(static_cast<std::size_t>(plan_.leaves()) * sizes.size());
  for (int router = 0; router < plan_.leaves(); ++router) {
    int stride = 1;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      const int size = sizes[d];
      const int place = router / stride % size;
      const int next = router + stride * ((place + 1) % size - place);
      torus_links_[static_cast<std::size_t>(router) * sizes.size() + d] =
          static_cast<std::uint32_t>(links_.size());
      stride *= size;
      // A lone router has no neighbour, and two share one cable.
      if (size == 1 || (size == 2 && place == 1)) continue;
      add_pair(LinkKind::switch_link, first_.leaf + static_cast<std::uint32_t>(router),
               first_.leaf + static_cast<std::uint32_t>(next), cable);
    }
  }
}

// The first of its two links.
std::uint32_t Cluster::link_at(LinkKind kind, std::uint32_t place) const {
  switch (kind) {
    case LinkKind::nvlink: return index_of(to_domain(GpuId{place}));
    case LinkKind::nic:
      return first_.nic_links + 2 * static_cast<std::uint32_t>(nic_of(GpuId{place}));
    case LinkKind::leaf_uplink: return first_.leaf_links + 2 * place;
    case LinkKind::spine_uplink: return first_.spine_links + 2 * place;
    case LinkKind::switch_link: return first_.switch_links + 2 * place;
    case LinkKind::zone_uplink: return first_.zone_links + 2 * place;
    case LinkKind::pcie:
    case LinkKind::host_memory:
    case LinkKind::storage: break;  // not counted by count_of_places
  }
  FLOPCAST_CHECK(false, "problem_of lets only places pass that count_of_places counts");
  return 0;
}

void Cluster::degrade(const DegradedLinks& links) {
  for (int place = links.first; place <= links.last; ++place) {
    const std::uint32_t first = link_at(links.kind, static_cast<std::uint32_t>(place));
    for (const std::uint32_t link : {first, first + 1}) {
      double& condition = conditions_.try_emplace(LinkId{link}, 1).first->second;
      condition = std::min(condition, links.factor);
    }
  }
}

double Cluster::speed_of(GpuId gpu) const {
  double speed = 1;
  const auto number = static_cast<int>(index_of(gpu));
  for (const SlowGpus& slow : spec_.slow) {
    if (slow.first <= number && number <= slow.last) speed = std::min(speed, slow.speed);
  }
  return speed;
}

int Cluster::kind_of(GpuId gpu) const {
  const int node = node_of(gpu);
  const auto has_node = [node](const OtherNodes& other) {
    return std::ranges::any_of(other.nodes, [node](const OtherNodes::Range& range) {
      return range.first <= node && node <= range.last;
    });
  };
  const auto found = std::ranges::find_if(spec_.others, has_node);
  return found == spec_.others.end() ? 0 : static_cast<int>(found - spec_.others.begin()) + 1;
}

const System& Cluster::system_of_kind(int kind) const {
  return kind == 0 ? spec_.system : spec_.others[static_cast<std::size_t>(kind - 1)].system;
}

double Cluster::condition_of(LinkId link) const {
  const auto found = conditions_.find(link);
  return found == conditions_.end() ? 1 : found->second;
}

Seconds Cluster::latency_of(LinkId id) const {
  const ClusterLink& link = links_[index_of(id)];
  switch (link.kind) {
    case LinkKind::nvlink:
    case LinkKind::host_memory:
    case LinkKind::storage:
    case LinkKind::pcie: return {};
    case LinkKind::nic:
      return devices_[index_of(link.to)].kind == DeviceKind::nic ? Seconds{}
                                                                 : spec_.fabric.hop_latency;
    case LinkKind::leaf_uplink:
    case LinkKind::spine_uplink: return spec_.fabric.hop_latency;
    case LinkKind::switch_link:
      if (spec_.fabric.kind == FabricKind::graph) {
        return spec_.fabric.graph.cables[(index_of(id) - first_.switch_links) / 2].latency;
      }
      return spec_.fabric.hop_latency;
    case LinkKind::zone_uplink: return spec_.fabric.hop_latency + spec_.fabric.zone_latency / 2;
  }
  return {};
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
    case DeviceKind::memory: return fmt::format("node {} memory", number);
    case DeviceKind::storage: return fmt::format("node {} drives", number);
    case DeviceKind::nic:
      return fmt::format("node {} nic {}", number / plan_.nics_per_node,
                         number % plan_.nics_per_node);
    case DeviceKind::leaf_switch:
      if (spec_.fabric.kind == FabricKind::graph) {
        return spec_.fabric.graph.switches[device.index];
      }
      if (!is_tree(spec_.fabric.kind)) return fmt::format("router {}", number);
      if (plan_.leaves_per_pod == 1) return fmt::format("leaf {}", number);
      return fmt::format("pod {} leaf {}", number / plan_.leaves_per_pod,
                         number % plan_.leaves_per_pod);
    case DeviceKind::spine:
      if (spec_.fabric.kind == FabricKind::dragonfly) return fmt::format("group {}", number);
      if (plan_.rails_apart) return fmt::format("rail {}", number);
      return fmt::format("spine group {}", number);
    case DeviceKind::core: return plan_.zones > 1 ? fmt::format("zone {} core", number) : "core";
    case DeviceKind::backbone: return "backbone";
  }
  return {};
}

std::string Cluster::name_of(LinkId id) const {
  const ClusterLink& link = links_[index_of(id)];
  return name_of(link.from) + " -> " + name_of(link.to);
}

}  // namespace flopcast
