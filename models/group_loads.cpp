#include <algorithm>
#include <array>
#include <map>

#include "models/group_families.h"
#include "topology/group_path.h"

// What the groups of a family put on the links of the cluster, and how they lie there.

namespace flopcast {
namespace {

/// `loads` is what the group puts on the links of the cluster.
GroupFacts group_facts(const Cluster& cluster, std::span<const GpuId> gpus,
                       std::span<const LinkLoad> loads) {
  const System& system = cluster.spec().system;
  GroupFacts facts;
  facts.shape = group_shape(cluster, gpus);
  facts.ranks = static_cast<int>(gpus.size());
  facts.slowest = slowest_tier(cluster, gpus);
  facts.path.domain = domain_bandwidth(cluster, gpus);
  facts.path.network = node_bandwidth(cluster, gpus);
  facts.path.network_hop = network_latency(cluster, gpus);
  if (facts.shape.nodes > 1) facts.path.card_latency = message_latency(system.network);
  double nvlink = 1;
  double nic = 1;
  for (const LinkLoad& load : loads) {
    const ClusterLink& link = cluster.links()[index_of(load.link)];
    facts.heaviest_alone = std::max(facts.heaviest_alone, load.weight / link.capacity.value);
    if (cluster.spec().degraded.empty()) continue;
    const double condition = cluster.condition_of(load.link);
    if (link.kind == LinkKind::nvlink) nvlink = std::min(nvlink, condition);
    if (link.kind == LinkKind::nic) nic = std::min(nic, condition);
  }
  facts.path.domain = nvlink * facts.path.domain;
  facts.path.network = nic * facts.path.network;
  return facts;
}

/// Sends of each member of a ring to the next.
std::vector<LinkLoad> ring_of_pairs(const Cluster& cluster, std::span<const GpuId> gpus) {
  std::map<LinkId, double> sums;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const std::array pair{gpus[i], gpus[(i + 1) % gpus.size()]};
    for (const LinkLoad& load : group_load(cluster, pair, LoadPattern::pair)) {
      sums[load.link] += load.weight;
    }
  }
  std::vector<LinkLoad> loads;
  loads.reserve(sums.size());
  for (const auto& [link, weight] : sums) loads.push_back({link, weight});
  return loads;
}

/// The first of those that cross most.
std::array<GpuId, 2> slowest_pair(const Cluster& cluster, std::span<const GpuId> gpus) {
  std::array slowest{gpus[0], gpus[1]};
  for (std::size_t i = 1; i < gpus.size(); ++i) {
    const std::array pair{gpus[i], gpus[(i + 1) % gpus.size()]};
    if (slowest_tier(cluster, pair) > slowest_tier(cluster, slowest)) slowest = pair;
  }
  return slowest;
}

/// Parts of the nominal rate that are reached. Copies over PCIe: assumed, as NCCL counts 12 of
/// 15.75 GB/s of Gen3 x16 (2.30.7, graph/topo.h). Adam on processors: 28 bytes per parameter at
/// 0.22 s per 1e9 and 2.57 s per 1e10 on a DGX-2, whose 12 channels of DDR4-2666 make 256 GB/s, is
/// 0.50 and 0.43 (ZeRO-Offload, arXiv 2101.06840, table 4; from memory). Drives: assumed.
constexpr double kCopyEfficiency = 0.77;
constexpr double kHostAdamEfficiency = 0.45;
constexpr double kDriveEfficiency = 0.8;

/// What a byte of a group that is a rank and its host weighs on its links.
std::vector<LinkLoad> host_loads(const Cluster& cluster, GpuId gpu, StepGroup slot) {
  HostPath path = HostPath::memory;
  double efficiency = kHostAdamEfficiency;
  if (slot == StepGroup::to_host || slot == StepGroup::from_host) {
    path = slot == StepGroup::to_host ? HostPath::to_host : HostPath::from_host;
    efficiency = kCopyEfficiency;
  } else if (slot == StepGroup::storage) {
    path = HostPath::storage;
    efficiency = kDriveEfficiency;
  }
  std::vector<LinkId> route;
  cluster.append_host_route(gpu, path, route);
  std::vector<LinkLoad> loads;
  loads.reserve(route.size());
  for (const LinkId link : route) loads.push_back({link, 1 / efficiency});
  return loads;
}

}  // namespace

double sent_per_buffer(const GroupFacts& facts, CollectiveKind kind) {
  return facts.ranks > 1 ? 1 / bus_factor(kind, facts.ranks) : 1;
}

std::span<const LoadKind> load_kinds(const Cluster& cluster) {
  constexpr std::size_t kWithoutSharp = 2;
  return std::span(kLoadKinds)
      .first(cluster.spec().fabric.sharp ? kLoadKinds.size() : kWithoutSharp);
}

namespace {

bool forms_trees(const Cluster& cluster, const GroupFamily& family, std::span<const GpuId> gpus) {
  return family.all_reduces && group_shape(cluster, gpus).nodes > 1;
}

/// Zones have no switches in common.
bool reduces_in_switches(const Cluster& cluster, const GroupFamily& family,
                         std::span<const GpuId> gpus) {
  return cluster.spec().fabric.sharp && family.hops == Hops::ring &&
         group_shape(cluster, gpus).nodes > 1 &&
         slowest_tier(cluster, gpus) != LinkKind::zone_uplink;
}

bool has_loads(const Cluster& cluster, const GroupFamily& family, std::span<const GpuId> gpus,
               LoadKind kind) {
  switch (kind) {
    case LoadKind::ring: return true;
    case LoadKind::tree: return forms_trees(cluster, family, gpus);
    case LoadKind::network_reduce:
    case LoadKind::network_gather:
    case LoadKind::network_scatter: return reduces_in_switches(cluster, family, gpus);
  }
  return false;
}

std::vector<LinkLoad> plain_loads(const Cluster& cluster, const GroupFamily& family,
                                  std::span<const GpuId> gpus) {
  switch (family.hops) {
    case Hops::ring: return group_load(cluster, gpus, LoadPattern::ring);
    case Hops::direct: return group_load(cluster, gpus, LoadPattern::direct);
    case Hops::host: return host_loads(cluster, gpus.front(), family.slot);
    case Hops::pairs:
      if (family.stages.size() == 1) return ring_of_pairs(cluster, gpus);
      return group_load(cluster, gpus, LoadPattern::pair);
  }
  return {};
}

}  // namespace

std::vector<LinkLoad> family_loads(const Cluster& cluster, const GroupFamily& family,
                                   std::size_t copy, LoadKind kind) {
  const std::span<const GpuId> gpus = family.copy(copy);
  if (family.latency_only || !has_loads(cluster, family, gpus, kind)) return {};
  switch (kind) {
    case LoadKind::ring: return plain_loads(cluster, family, gpus);
    case LoadKind::tree: return group_load(cluster, gpus, LoadPattern::tree);
    case LoadKind::network_reduce: return group_load(cluster, gpus, LoadPattern::in_network_reduce);
    case LoadKind::network_gather: return group_load(cluster, gpus, LoadPattern::in_network_gather);
    case LoadKind::network_scatter:
      return group_load(cluster, gpus, LoadPattern::in_network_scatter);
  }
  return {};
}

GroupFacts family_facts(const Cluster& cluster, const GroupFamily& family, std::size_t copy,
                        std::span<const LinkLoad> loads) {
  if (family.hops == Hops::pairs && family.stages.size() == 1) {
    const std::array pair = slowest_pair(cluster, family.copy(copy));
    return group_facts(cluster, pair, group_load(cluster, pair, LoadPattern::pair));
  }
  const std::span<const GpuId> gpus = family.copy(copy);
  GroupFacts facts = group_facts(cluster, gpus, loads);
  facts.trees = family.all_reduces && facts.shape.nodes > 1;
  facts.path.sharp = reduces_in_switches(cluster, family, gpus);
  return facts;
}

}  // namespace flopcast
