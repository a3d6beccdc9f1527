#include "models/placement.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

namespace flopcast {
namespace {

struct Kind {
  std::string_view name;
  StepGroup slot;
  LinkKind home;
};

constexpr std::array<Kind, 6> kKinds{{
    {"tp", StepGroup::tensor, LinkKind::nvlink},
    {"cp", StepGroup::context, LinkKind::nvlink},
    {"ep", StepGroup::expert, LinkKind::nvlink},
    {"dp", StepGroup::data, LinkKind::nic},
    {"edp", StepGroup::expert_data, LinkKind::nic},
    {"pp", StepGroup::forward_next, LinkKind::nic},
}};

std::string_view spanned(LinkKind slowest) {
  switch (slowest) {
    case LinkKind::nvlink: return "nothing";
    case LinkKind::pcie: return "NVLink domains of a node";
    case LinkKind::nic: return "nodes";
    case LinkKind::leaf_uplink: return "leaf switches";
    case LinkKind::spine_uplink: return "groups of spines";
    case LinkKind::switch_link: return "switches";
    case LinkKind::zone_uplink: return "zones";
    case LinkKind::host_memory:
    case LinkKind::storage: return "hosts";
  }
  return {};
}

/// Collects the groups of one kind.
class GroupsOfKind {
 public:
  GroupsOfKind(const Cluster& cluster, const Kind& kind)
      : cluster_(cluster), kind_(kind), together_(cluster.links().size(), 0.0) {}

  void add(const GroupFamily& family) {
    for (std::size_t copy = 0; copy < family.copies(); ++copy) {
      const std::vector<LinkLoad> loads = family_loads(cluster_, family, copy);
      slowest_ = std::max(slowest_, slowest_tier(cluster_, family.copy(copy)));
      double heaviest = 0;  // s per byte
      for (const LinkLoad& load : loads) {
        const ClusterLink& link = cluster_.links()[index_of(load.link)];
        const double time = load.weight / link.capacity.value;
        heaviest = std::max(heaviest, time);
        together_[index_of(load.link)] += time;
        if (link.kind <= kind_.home) home_ = std::max(home_, time);
      }
      alone_ = std::max(alone_, heaviest);
    }
  }

  GroupPlacement placement() const {
    const auto rate = [](double time) { return bytes_per_second(time > 0 ? 1 / time : 0); };
    GroupPlacement result{.kind = std::string(kind_.name),
                          .slot = kind_.slot,
                          .slowest = slowest_,
                          .alone = rate(alone_),
                          .together = rate(std::ranges::max(together_))};
    const System& system = cluster_.spec().system;
    const bool on_pcie = system.node_link == NodeLink::pcie;
    const LinkKind home = kind_.home == LinkKind::nvlink && on_pcie ? LinkKind::pcie : kind_.home;
    if (slowest_ <= home) return result;
    // Inside a domain a rank sends over its own link alone.
    result.inside = kind_.home == LinkKind::nic ? rate(home_)
                    : on_pcie                   ? system.gpu.pcie
                                                : system.gpu.nvlink;
    if (result.together < result.inside) {
      std::string upper(kind_.name);
      std::ranges::transform(upper, upper.begin(),
                             [](char c) { return static_cast<char>(c - 'a' + 'A'); });
      result.warning = fmt::format("{} group spans {}", upper, spanned(slowest_));
    }
    return result;
  }

  bool empty() const { return alone_ == 0; }

 private:
  const Cluster& cluster_;
  const Kind& kind_;
  std::vector<double> together_;  // s per byte of every group of the kind, by link
  LinkKind slowest_ = LinkKind::nvlink;
  double alone_ = 0;
  double home_ = 0;  // of the links of its home
};

/// Experts and their tensor parallelism want the same NVLinks: what one takes the other leaves.
void explain_experts(GroupPlacement& placement, const Job& job, const Cluster& cluster) {
  const ParallelGrid& grid = job.layout.grid;
  const int domain = cluster.spec().system.nvlink_domain;
  if (placement.warning.empty() || grid.etp == 1 || grid.ep > domain) return;
  placement.warning += fmt::format(", as etp {} leaves it {} of the {} GPUs of an NVLink domain",
                                   grid.etp, std::max(1, domain / grid.etp), domain);
}

}  // namespace

std::vector<GroupPlacement> group_placements(const Job& job, const Cluster& cluster) {
  const std::vector<GroupFamily> families = group_families(job);
  std::vector<GroupPlacement> placements;
  for (const Kind& kind : kKinds) {
    GroupsOfKind groups(cluster, kind);
    for (const GroupFamily& family : families) {
      if (family.slot == kind.slot) groups.add(family);
    }
    if (groups.empty()) continue;
    placements.push_back(groups.placement());
    if (kind.slot == StepGroup::expert) explain_experts(placements.back(), job, cluster);
  }
  return placements;
}

}  // namespace flopcast
