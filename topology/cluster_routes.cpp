#include <algorithm>

#include "sim/check.h"
#include "topology/cluster.h"

namespace flopcast {

namespace {

int to_int(GpuId gpu) { return static_cast<int>(index_of(gpu)); }

}  // namespace

LinkId Cluster::to_domain(GpuId gpu) const {
  return LinkId{(domain_switches_ ? first_.domain_links : first_.host_links) + 2 * index_of(gpu)};
}

LinkId Cluster::from_domain(GpuId gpu) const { return LinkId{index_of(to_domain(gpu)) + 1}; }

bool Cluster::uses_pxn() const {
  const bool rails =
      spec_.fabric.kind == FabricKind::rail_optimized || spec_.fabric.kind == FabricKind::rail_only;
  return rails && plan_.nics_per_node > 1 && domain_switches_ &&
         spec_.system.nvlink_domain >= spec_.system.gpus_per_node;
}

// First GPU of the node whose card is on the rail.
GpuId Cluster::own_gpu_on_rail(const Place& here, int rail) const {
  const int gpus = spec_.system.gpus_per_node;
  int local = 0;
  while (card_of(spec_.system, local, plan_.nics_per_node) != rail) ++local;
  return GpuId{static_cast<std::uint32_t>(here.node * gpus + local)};
}

GpuId Cluster::exit_gpu(GpuId from, GpuId to) const {
  const Place& here = place_of(from);
  const Place& there = place_of(to);
  if (here.rail == there.rail || !uses_pxn()) return from;
  // The same place in the own node; of the card that is used where the GPU's own is missing.
  if (there.borrows) return own_gpu_on_rail(here, there.rail);
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

void Cluster::append_host_route(GpuId gpu, HostPath path, std::vector<LinkId>& route) const {
  FLOPCAST_CHECK(spec_.host_copies, "the links to the host were asked for");
  const auto per_node = static_cast<std::uint32_t>(spec_.system.gpus_per_node);
  const auto behind = static_cast<std::uint32_t>(spec_.system.gpus_per_host_link);
  const auto node = static_cast<std::uint32_t>(node_of(gpu));
  const std::uint32_t local = index_of(gpu) - node * per_node;
  const std::uint32_t slot = node * ((per_node + behind - 1) / behind) + local / behind;
  const std::uint32_t up =
      hosts_ ? first_.host_links + 2 * index_of(gpu) : first_.copy_links + 2 * slot;
  switch (path) {
    case HostPath::to_host: route.push_back(LinkId{up}); break;
    case HostPath::from_host: route.push_back(LinkId{up + 1}); break;
    case HostPath::memory: break;
    case HostPath::storage: route.push_back(LinkId{first_.storage_links + 2 * node}); break;
  }
  route.push_back(LinkId{first_.memory_links + 2 * node});
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
  append_between(place_of(exit), place_of(to), route);
  append_entry(to, route);
}

// From one leaf to another.
void Cluster::append_between(const Place& here, const Place& there,
                             std::vector<LinkId>& route) const {
  if (here.leaf == there.leaf) return;
  if (spec_.fabric.kind == FabricKind::torus) {
    append_torus(here.leaf, there.leaf, route);
  } else if (spec_.fabric.kind == FabricKind::graph) {
    const auto flow = static_cast<std::uint64_t>(here.nic) + static_cast<std::uint64_t>(there.nic);
    graph_routes_.follow(here.leaf, there.leaf, flow, [&](const CableStep& step) {
      const auto pair = first_.switch_links + 2 * static_cast<std::uint32_t>(step.cable);
      route.push_back(LinkId{step.forward ? pair : pair + 1});
    });
  } else {
    const auto leaf_link = [&](int leaf) {
      return first_.leaf_links + 2 * static_cast<std::uint32_t>(leaf);
    };
    route.push_back(LinkId{leaf_link(here.leaf)});
    if (here.spine_group != there.spine_group) append_over_core(here, there, route);
    route.push_back(LinkId{leaf_link(there.leaf) + 1});
  }
}

// From one group of spines to another.
void Cluster::append_over_core(const Place& here, const Place& there,
                               std::vector<LinkId>& route) const {
  if (spec_.fabric.kind == FabricKind::dragonfly) {
    route.push_back(global_link(here.spine_group, there.spine_group));
    return;
  }
  const auto spine_link = [&](int group) {
    return first_.spine_links + 2 * static_cast<std::uint32_t>(group);
  };
  const auto zone_link = [&](int zone) {
    return first_.zone_links + 2 * static_cast<std::uint32_t>(zone);
  };
  const int zone = plan_.zone_of_group(here.spine_group);
  const int other_zone = plan_.zone_of_group(there.spine_group);
  route.push_back(LinkId{spine_link(here.spine_group)});
  if (zone != other_zone) {
    route.push_back(LinkId{zone_link(zone)});
    route.push_back(LinkId{zone_link(other_zone) + 1});
  }
  route.push_back(LinkId{spine_link(there.spine_group) + 1});
}

// Pairs of groups in order: (0, 1), (0, 2), ..., (1, 2), ...
LinkId Cluster::global_link(int from, int to) const {
  const int low = std::min(from, to);
  const int high = std::max(from, to);
  const int pair = low * plan_.spine_groups - low * (low + 1) / 2 + (high - low - 1);
  const auto first = first_.switch_links + 2 * static_cast<std::uint32_t>(pair);
  return LinkId{from < to ? first : first + 1};
}

// Dimension by dimension, the shorter way round. Half of the way round, routers of even place go up
// and those of odd place down, so that both ways carry alike.
void Cluster::append_torus(int from, int to, std::vector<LinkId>& route) const {
  const std::vector<int>& sizes = spec_.fabric.dimensions;
  int router = from;
  int stride = 1;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const int size = sizes[d];
    const int start = router / stride % size;
    const int ahead = (to / stride % size - start + size) % size;
    const bool up = 2 * ahead < size || (2 * ahead == size && start % 2 == 0);
    for (int step = up ? ahead : size - ahead; ahead != 0 && step > 0; --step) {
      const int place = router / stride % size;
      const int next = router + stride * ((place + (up ? 1 : size - 1)) % size - place);
      // Of two routers one cable leads both ways.
      const bool forward = size == 2 ? place == 0 : up;
      const auto owner = static_cast<std::size_t>(forward ? router : next) * sizes.size() + d;
      route.push_back(LinkId{torus_links_[owner] + (forward ? 0U : 1U)});
      router = next;
    }
    stride *= size;
  }
}

}  // namespace flopcast
