#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "models/communicators.h"
#include "models/routing_loads.h"

namespace flopcast {
namespace {

class Lister {
 public:
  Lister(const Cluster& cluster, const Job& job)
      : cluster_(cluster),
        job_(job),
        grid_(job.layout.grid),
        routing_differs_(routing_differs(job)),
        context_differs_(context_differs(job.layout)) {}

  Communicators build() && {
    const auto world = static_cast<std::size_t>(grid_.world());
    listed_.kinds = load_kinds(cluster_).size();
    like_.resize(world, no_groups());
    expert_ranks_.resize(world, -1);
    context_ranks_.resize(world, -1);
    out_.ranks.reserve(world);
    for (std::size_t rank = 0; rank < world; ++rank) {
      out_.ranks.push_back(
          {.groups = no_groups(), .speed = cluster_.speed_of(static_cast<GpuId>(rank))});
    }
    for (const GroupFamily& family : group_families(job_)) {
      listed_.names.push_back(family.name);
      for (std::size_t copy = 0; copy < family.copies(); ++copy) add(family, copy);
    }
    find_roles();
    return std::move(out_);
  }

 private:
  void add(const GroupFamily& family, std::size_t copy) {
    const GroupId id{static_cast<unsigned>(listed_.family.size())};
    const std::span<const GpuId> gpus = family.copy(copy);
    const std::vector<LinkLoad> loads = family_loads(cluster_, family, copy);
    const GroupId like = row_of(family_facts(cluster_, family, copy, loads));
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      const std::uint32_t rank = index_of(gpus[i]);
      const auto place = static_cast<std::size_t>(family.slot_of(i));
      listed_.members.push_back(RankId{rank});
      out_.ranks[rank].groups[place] = id;
      like_[rank][place] = like;
      if (family.slot == StepGroup::expert && routing_differs_) {
        expert_ranks_[rank] = static_cast<int>(i);
      }
      if (family.slot == StepGroup::context && context_differs_) {
        context_ranks_[rank] = static_cast<int>(i);
      }
    }
    listed_.first_member.push_back(static_cast<std::uint32_t>(listed_.members.size()));
    listed_.family.push_back(static_cast<std::uint32_t>(listed_.names.size() - 1));
    listed_.facts.push_back(index_of(like));
    add(loads);
    for (const LoadKind kind : load_kinds(cluster_).subspan(1)) {
      add(family_loads(cluster_, family, copy, kind));
    }
  }

  void add(const std::vector<LinkLoad>& loads) {
    for (const LinkLoad& load : loads) {
      if (listed_.weights.empty() || load.weight != listed_.weights[weight_]) {
        const auto next = static_cast<std::uint32_t>(listed_.weights.size());
        const auto [entry, is_new] = weights_.try_emplace(load.weight, next);
        if (is_new) listed_.weights.push_back(load.weight);
        weight_ = entry->second;
      }
      listed_.loads.push_back({load.link, weight_});
    }
    listed_.first_load.push_back(static_cast<std::uint32_t>(listed_.loads.size()));
  }

  GroupId row_of(const GroupFacts& facts) {
    const GroupId next{static_cast<std::uint32_t>(out_.facts.size())};
    const auto [entry, is_new] = facts_.try_emplace(facts, next);
    if (is_new) out_.facts.push_back(facts);
    return entry->second;
  }

  void find_roles() {
    const std::vector<int> stage_of = stage_of_ranks(grid_);
    std::map<std::tuple<int, int, int, int, RankGroups>, std::uint32_t> roles;
    for (std::size_t rank = 0; rank < out_.ranks.size(); ++rank) {
      const auto next = static_cast<std::uint32_t>(out_.roles.size());
      const RankRole role{.stage = stage_of[rank],
                          .groups = like_[rank],
                          .expert_rank = expert_ranks_[rank],
                          .context_rank = context_ranks_[rank],
                          .kind = cluster_.kind_of(static_cast<GpuId>(rank))};
      const auto [entry, is_new] = roles.try_emplace(
          {role.stage, role.expert_rank, role.context_rank, role.kind, role.groups}, next);
      if (is_new) out_.roles.push_back(role);
      out_.ranks[rank].role = entry->second;
    }
  }

  const Cluster& cluster_;
  const Job& job_;
  const ParallelGrid& grid_;
  bool routing_differs_;
  bool context_differs_;
  std::vector<int> expert_ranks_;   // by rank: its place in its group of experts
  std::vector<int> context_ranks_;  // and in its context-parallel ring
  std::map<GroupFacts, GroupId> facts_;
  std::map<double, std::uint32_t> weights_;
  std::uint32_t weight_ = 0;      // row of the last
  std::vector<RankGroups> like_;  // by rank: the facts of its groups
  Communicators out_;
  ListedGroups& listed_ = out_.listed;
};

}  // namespace

Communicators listed_communicators(const Cluster& cluster, const Job& job) {
  return Lister(cluster, job).build();
}

}  // namespace flopcast
