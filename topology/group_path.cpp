#include "topology/group_path.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "topology/group_load.h"

namespace flopcast {

namespace {

// What a socket or a detour over host memory adds to each message. Assumed: 1 KB all-reduces over
// two nodes of 4 A100 take 54 us by sockets, 37 us by Slingshot (argonne-lcf/alcf-nccl-tests), in
// two hops. Of host_memory no table is known: the same copies, without the kernel.
Seconds staging_latency(Transport transport) {
  switch (transport) {
    case Transport::gpudirect: return {};
    case Transport::host_memory:
    case Transport::socket: return microseconds(8);
  }
  return {};
}

// Of the GPU's own card within its node, be it there or missing.
int own_rail(const Cluster& cluster, GpuId gpu) {
  const System& system = cluster.spec().system;
  return card_of(system, static_cast<int>(index_of(gpu)) % system.gpus_per_node,
                 cluster.fabric_plan().nics_per_node);
}

// Least part of its cards that a node has left.
double cards_left(const Cluster& cluster, std::span<const GpuId> gpus) {
  std::map<int, std::set<int>> own;   // cards by node
  std::map<int, std::set<int>> used;  // the same, as they are
  for (const GpuId gpu : gpus) {
    own[cluster.node_of(gpu)].insert(own_rail(cluster, gpu));
    used[cluster.node_of(gpu)].insert(cluster.nic_of(gpu));
  }
  double least = 1;
  for (const auto& [node, cards] : own) {
    least =
        std::min(least, static_cast<double>(used[node].size()) / static_cast<double>(cards.size()));
  }
  return least;
}

}  // namespace

BytesPerSecond domain_bandwidth(const Cluster& cluster, std::span<const GpuId> gpus) {
  const System& system = cluster.spec().system;
  if (system.node_link != NodeLink::nvlink_mesh) return domain_bandwidth(system, {});
  BytesPerSecond least = system.gpu.nvlink;
  for (const std::vector<GpuId>& domain : members_by_domain(cluster, gpus)) {
    std::vector<int> members;
    members.reserve(domain.size());
    for (const GpuId gpu : domain) {
      members.push_back(static_cast<int>(index_of(gpu)) % system.nvlink_domain);
    }
    least = std::min(least, domain_bandwidth(system, members));
  }
  return least;
}

BytesPerSecond node_bandwidth(const Cluster& cluster, std::span<const GpuId> gpus) {
  const System& system = cluster.spec().system;
  if (system.nics == 0) return {};
  const auto together =
      static_cast<std::uint32_t>(std::max(system.gpus_per_node, system.nvlink_domain));
  const std::uint32_t first = index_of(gpus.front()) / together;
  std::set<std::pair<int, int>> cards;  // by node
  for (const GpuId gpu : gpus) {
    if (index_of(gpu) / together != first) continue;
    const int local = static_cast<int>(index_of(gpu)) % system.gpus_per_node;
    cards.emplace(cluster.node_of(gpu), card_of(system, local, system.nics));
  }
  const BytesPerSecond all =
      static_cast<double>(cards.size()) * card_bandwidth(system, cluster.spec().transport);
  return cluster.spec().missing_nics.empty() ? all : cards_left(cluster, gpus) * all;
}

Seconds network_latency(const Cluster& cluster, std::span<const GpuId> gpus) {
  const Seconds hop = cluster.spec().fabric.hop_latency;
  Seconds farthest;
  std::vector<LinkId> route;
  for (const GpuId gpu : gpus) {
    if (cluster.node_of(gpu) == cluster.node_of(gpus.front())) continue;
    route.clear();
    cluster.append_route(gpus.front(), gpu, route);
    int hops = 0;  // whole hops are counted, so that the sum does not depend on their order
    Seconds longer;
    for (const LinkId link : route) {
      const Seconds latency = cluster.latency_of(link);
      if (latency == hop) {
        ++hops;
      } else {
        longer += latency;
      }
    }
    if (hops > 0 || longer > Seconds{}) {
      farthest =
          std::max(farthest, hops * hop + longer + staging_latency(cluster.spec().transport));
    }
  }
  return farthest;
}

}  // namespace flopcast
