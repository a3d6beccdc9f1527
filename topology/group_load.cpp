#include "topology/group_load.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "sim/check.h"
#include "sim/double_binary_tree.h"

namespace flopcast {

namespace {

// Whole numbers of unit flows by link, so that the order of adding cannot matter. An open-addressed
// table: most groups touch a handful of links, all-to-all of a large one ten thousands of times.
class LinkCounts {
 public:
  void add(LinkId link, std::uint64_t count) {
    if (count == 0) return;
    if (2 * (used_ + 1) > slots_.size()) grow();
    Slot& slot = find(link);
    if (slot.count == 0) {
      slot.link = link;
      ++used_;
    }
    slot.count += count;
  }

  /// By LinkId, each count divided by `unit`.
  std::vector<LinkLoad> loads(std::uint64_t unit) const {
    std::vector<LinkLoad> result;
    result.reserve(used_);
    for (const Slot& slot : slots_) {
      if (slot.count == 0) continue;
      result.push_back({slot.link, static_cast<double>(slot.count) / static_cast<double>(unit)});
    }
    std::ranges::sort(result, {}, [](const LinkLoad& load) { return index_of(load.link); });
    return result;
  }

 private:
  struct Slot {
    std::uint64_t count = 0;  // 0: free
    LinkId link{};
  };

  Slot& find(LinkId link) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t i = (std::size_t{index_of(link)} * 0x9e3779b1u) & mask;  // Fibonacci hashing
    while (slots_[i].count != 0 && slots_[i].link != link) i = (i + 1) & mask;
    return slots_[i];
  }

  void grow() {
    std::vector<Slot> old(std::max<std::size_t>(32, 2 * slots_.size()));
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.count != 0) find(slot.link) = slot;
    }
  }

  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

void add_route(const Cluster& cluster, GpuId from, GpuId to, LinkCounts& counts,
               std::vector<LinkId>& route) {
  route.clear();
  cluster.append_route(from, to, route);
  for (const LinkId link : route) counts.add(link, 1);
}

// Members of each domain by which channels leave and enter it: those in places where every domain
// has its card, since a channel keeps to its rail (NCCL_CROSS_NIC); all, where that leaves none.
std::vector<std::vector<GpuId>> exits_of(const Cluster& cluster,
                                         const std::vector<std::vector<GpuId>>& domains) {
  std::vector<std::vector<GpuId>> exits = domains;
  if (cluster.spec().missing_nics.empty()) return exits;
  const System& system = cluster.spec().system;
  const auto size =
      static_cast<std::uint32_t>(std::max(system.nvlink_domain, system.gpus_per_node));
  const auto place = [&](GpuId gpu) { return index_of(gpu) % size; };
  std::set<std::uint32_t> lacking;  // places
  for (const std::vector<GpuId>& members : domains) {
    for (const GpuId gpu : members) {
      if (cluster.borrows_nic(gpu)) lacking.insert(place(gpu));
    }
  }
  for (std::vector<GpuId>& members : exits) {
    std::erase_if(members, [&](GpuId gpu) { return lacking.contains(place(gpu)); });
  }
  const bool cut_off = std::ranges::any_of(exits, [](const auto& left) { return left.empty(); });
  return cut_off ? domains : exits;
}

// One channel per member of the fullest domain; channel k leaves and enters a domain at member
// k mod g. In a real chain entry and exit are neighbours, swapped from node to node so that each
// crossing stays on its rail; summed over the channels the loads are the same.
std::vector<LinkLoad> ring_load(const Cluster& cluster, std::span<const GpuId> gpus) {
  const std::vector<std::vector<GpuId>> domains = members_by_domain(cluster, gpus);
  const std::vector<std::vector<GpuId>> all_exits = exits_of(cluster, domains);
  const auto fullest =
      std::ranges::max(all_exits, {}, [](const auto& members) { return members.size(); }).size();
  const std::size_t channels = domains.size() == 1 ? 1 : fullest;
  LinkCounts counts;
  std::vector<LinkId> route;
  for (std::size_t d = 0; d < domains.size(); ++d) {
    const std::vector<GpuId>& members = domains[d];
    const std::vector<GpuId>& exits = all_exits[d];
    for (std::size_t m = 0; members.size() > 1 && m < members.size(); ++m) {
      const auto place =
          static_cast<std::size_t>(std::ranges::find(exits, members[m]) - exits.begin());
      const bool leaves = domains.size() > 1 && place < std::min(exits.size(), channels);
      const std::size_t left =
          leaves ? (channels - place + exits.size() - 1) / exits.size() : std::size_t{0};
      counts.add(cluster.to_domain(members[m]), channels - left);
      counts.add(cluster.from_domain(members[m]), channels - left);
    }
    if (domains.size() == 1) break;
    const std::vector<GpuId>& next = all_exits[(d + 1) % domains.size()];
    for (std::size_t k = 0; k < channels; ++k) {
      add_route(cluster, exits[k % exits.size()], next[k % next.size()], counts, route);
    }
  }
  return counts.loads(channels);
}

std::vector<LinkLoad> direct_load(const Cluster& cluster, std::span<const GpuId> gpus) {
  LinkCounts counts;
  std::vector<LinkId> route;
  for (const GpuId from : gpus) {
    for (const GpuId to : gpus) add_route(cluster, from, to, counts, route);
  }
  return counts.loads(gpus.size() - 1);
}

// There may be millions of pairs, each with a handful of links.
std::vector<LinkLoad> pair_load(const Cluster& cluster, GpuId from, GpuId to) {
  std::vector<LinkId> route;
  route.reserve(16);
  cluster.append_route(from, to, route);
  std::ranges::sort(route);
  std::vector<LinkLoad> loads;
  loads.reserve(route.size());
  for (const LinkId link : route) {
    if (loads.empty() || loads.back().link != link) loads.push_back({link, 0});
    loads.back().weight += 1;
  }
  return loads;
}

// One channel per member of the fullest domain; member k mod g is a domain's node of both trees,
// the others hang from it in a chain. An edge is a unit flow each way.
std::vector<LinkLoad> tree_load(const Cluster& cluster, std::span<const GpuId> gpus) {
  const std::vector<std::vector<GpuId>> domains = members_by_domain(cluster, gpus);
  const auto channels =
      std::ranges::max(domains, {}, [](const auto& members) { return members.size(); }).size();
  LinkCounts counts;
  std::vector<LinkId> route;
  const auto join = [&](GpuId a, GpuId b) {
    add_route(cluster, a, b, counts, route);
    add_route(cluster, b, a, counts, route);
  };
  for (std::size_t k = 0; k < channels; ++k) {
    const auto member = [&](std::size_t domain, std::size_t place) {
      return domains[domain][(k + place) % domains[domain].size()];
    };
    for (std::size_t d = 0; d < domains.size(); ++d) {
      const DoubleBinaryTree trees =
          double_binary_tree(static_cast<int>(domains.size()), static_cast<int>(d));
      for (const std::optional<int>& up : {trees.first.up, trees.second.up}) {
        if (up) join(member(d, 0), member(static_cast<std::size_t>(*up), 0));
        for (std::size_t i = 1; i < domains[d].size(); ++i) join(member(d, i - 1), member(d, i));
      }
    }
  }
  return counts.loads(2 * channels);
}

// The other direction of the same pair of devices.
LinkId reversed(LinkId link) { return LinkId{index_of(link) ^ 1U}; }

// Inside one domain: all hand their data to the head of the channel and get the result from it.
// `up` and `down` are counts of each of these.
struct ShareCounts {
  std::uint64_t up;
  std::uint64_t down;
};
void add_shares(const Cluster& cluster, std::span<const GpuId> members, GpuId head,
                ShareCounts share, LinkCounts& counts) {
  for (const GpuId member : members) {
    if (member == head) continue;
    counts.add(cluster.to_domain(member), share.up);
    counts.add(cluster.from_domain(head), share.up);
    counts.add(cluster.to_domain(head), share.down);
    counts.add(cluster.from_domain(member), share.down);
  }
}

// One channel per member of the fullest domain. Routes from the head of the first domain to those
// of the others make up its tree.
std::vector<LinkLoad> in_network_load(const Cluster& cluster, std::span<const GpuId> gpus,
                                      LoadPattern pattern) {
  const std::vector<std::vector<GpuId>> domains = members_by_domain(cluster, gpus);
  if (domains.size() == 1) return {};
  const std::vector<std::vector<GpuId>> exits = exits_of(cluster, domains);
  const std::size_t channels =
      std::ranges::max(exits, {}, [](const auto& members) { return members.size(); }).size();
  const std::uint64_t n = gpus.size();
  const bool reduces_all = pattern == LoadPattern::in_network_reduce;
  const bool mirrored = pattern == LoadPattern::in_network_scatter;
  const ShareCounts shares = reduces_all ? ShareCounts{n, n} : ShareCounts{1, n - 1};
  LinkCounts counts;
  std::vector<LinkId> route;
  for (std::size_t k = 0; k < channels; ++k) {
    const auto head = [&](std::size_t d) { return exits[d][k % exits[d].size()]; };
    std::map<LinkId, std::uint64_t> ranks;  // on the far side
    for (std::size_t d = 0; d < domains.size(); ++d) {
      add_shares(cluster, domains[d], head(d), shares, counts);
      route.clear();
      if (d > 0) cluster.append_route(head(0), head(d), route);
      for (const LinkId link : route) ranks[link] += domains[d].size();
    }
    for (const auto& [link, beyond] : ranks) {
      counts.add(link, reduces_all ? n : n - beyond);
      counts.add(reversed(link), reduces_all ? n : beyond);
    }
  }
  std::vector<LinkLoad> loads = counts.loads(channels * n);
  if (!mirrored) return loads;
  for (LinkLoad& load : loads) load.link = reversed(load.link);
  std::ranges::sort(loads, {}, [](const LinkLoad& load) { return index_of(load.link); });
  return loads;
}

// Whether all members have one value of a property.
template <class Property>
bool share(std::span<const GpuId> gpus, Property property) {
  return std::ranges::all_of(gpus,
                             [&](GpuId gpu) { return property(gpu) == property(gpus.front()); });
}

}  // namespace

std::vector<std::vector<GpuId>> members_by_domain(const Cluster& cluster,
                                                  std::span<const GpuId> gpus) {
  std::vector<std::pair<int, std::size_t>> order;  // domain, place
  order.reserve(gpus.size());
  for (std::size_t place = 0; place < gpus.size(); ++place) {
    order.emplace_back(cluster.nvlink_domain_of(gpus[place]), place);
  }
  std::ranges::sort(order);
  std::vector<std::pair<std::size_t, std::size_t>> runs;  // first place, begin in order
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || order[i].first != order[i - 1].first) runs.emplace_back(order[i].second, i);
  }
  std::ranges::sort(runs);
  std::vector<std::vector<GpuId>> domains;
  domains.reserve(runs.size());
  for (const auto& [place, begin] : runs) {
    std::vector<GpuId>& members = domains.emplace_back();
    for (std::size_t i = begin; i < order.size() && order[i].first == order[begin].first; ++i) {
      members.push_back(gpus[order[i].second]);
    }
  }
  return domains;
}

std::vector<LinkLoad> group_load(const Cluster& cluster, std::span<const GpuId> gpus,
                                 LoadPattern pattern) {
  if (gpus.size() < 2) return {};
  switch (pattern) {
    case LoadPattern::ring: return ring_load(cluster, gpus);
    case LoadPattern::direct: return direct_load(cluster, gpus);
    case LoadPattern::pair: return pair_load(cluster, gpus[0], gpus[1]);
    case LoadPattern::tree: return tree_load(cluster, gpus);
    case LoadPattern::in_network_reduce:
    case LoadPattern::in_network_gather:
    case LoadPattern::in_network_scatter: return in_network_load(cluster, gpus, pattern);
  }
  return {};
}

GroupShape group_shape(const Cluster& cluster, std::span<const GpuId> gpus) {
  std::vector<int> domains;
  domains.reserve(gpus.size());
  for (const GpuId gpu : gpus) domains.push_back(cluster.nvlink_domain_of(gpu));
  std::ranges::sort(domains);
  GroupShape shape{.ranks_per_node = 1, .nodes = gpus.empty() ? 1 : 0};
  int run = 0;
  for (std::size_t i = 0; i < domains.size(); ++i) {
    const bool fresh = i == 0 || domains[i] != domains[i - 1];
    if (fresh) ++shape.nodes;
    run = fresh ? 1 : run + 1;
    shape.ranks_per_node = std::max(shape.ranks_per_node, run);
  }
  return shape;
}

// By sets, not pairs: if members lie in several domains and in several pods, then some pair differs
// in both, and likewise further up. So this is linear in the group.
LinkKind slowest_tier(const Cluster& cluster, std::span<const GpuId> gpus) {
  const FabricPlan& plan = cluster.fabric_plan();
  const bool pcie_nodes = cluster.spec().system.node_link == NodeLink::pcie;
  const auto domain = [&](GpuId gpu) { return cluster.nvlink_domain_of(gpu); };
  const auto node = [&](GpuId gpu) { return cluster.node_of(gpu); };
  if (share(gpus, domain)) return pcie_nodes ? LinkKind::pcie : LinkKind::nvlink;
  if (share(gpus, node)) return LinkKind::pcie;
  const auto leaf = [&](GpuId gpu) {
    return cluster.uses_pxn() ? plan.pod_of_node(cluster.node_of(gpu)) : cluster.leaf_of(gpu);
  };
  const auto spine_group = [&](GpuId gpu) { return cluster.spine_group_of(gpu); };
  const auto zone = [&](GpuId gpu) { return plan.zone_of_group(cluster.spine_group_of(gpu)); };
  if (share(gpus, leaf)) return LinkKind::nic;
  switch (cluster.spec().fabric.kind) {
    case FabricKind::torus:
    case FabricKind::graph: return LinkKind::switch_link;
    case FabricKind::dragonfly:
      return share(gpus, spine_group) ? LinkKind::leaf_uplink : LinkKind::switch_link;
    case FabricKind::rail_only: return LinkKind::leaf_uplink;
    case FabricKind::single_switch:
    case FabricKind::fat_tree:
    case FabricKind::rail_optimized: break;
  }
  if (share(gpus, spine_group)) return LinkKind::leaf_uplink;
  return share(gpus, zone) ? LinkKind::spine_uplink : LinkKind::zone_uplink;
}

}  // namespace flopcast
