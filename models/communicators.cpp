#include "models/communicators.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "sim/check.h"

namespace flopcast {
namespace {

/// One kind of communicator of one stage: all its copies act together.
struct Activity {
  GroupId group{};
  StepGroup slot{};
  std::vector<std::vector<int>> copies;  // ranks of each
  LoadPattern pattern = LoadPattern::ring;
};

std::string_view name_of(StepGroup slot) {
  switch (slot) {
    case StepGroup::tensor: return "tensor";
    case StepGroup::data: return "data";
    case StepGroup::world: return "world";
    case StepGroup::embedding: return "embedding";
    case StepGroup::forward_next: return "forward";
    case StepGroup::forward_previous: return "forward";
    case StepGroup::backward_previous: return "backward";
    case StepGroup::backward_next: return "backward";
    case StepGroup::context: return "context";
    case StepGroup::expert: return "expert";
    case StepGroup::expert_tensor: return "expert tensor";
    case StepGroup::expert_data: return "expert data";
  }
  return {};
}

std::vector<GpuId> gpus_of(const std::vector<int>& ranks) {
  std::vector<GpuId> gpus;
  gpus.reserve(ranks.size());
  for (const int rank : ranks) gpus.push_back(static_cast<GpuId>(rank));
  return gpus;
}

/// Distinct network cards that a group uses in one node, at most one per member.
int cards_per_node(const System& system, const std::vector<int>& ranks) {
  if (system.nics == 0) return 0;
  const int per_node = system.gpus_per_node;
  const int node = ranks.front() / per_node;
  std::vector<int> cards;
  for (const int rank : ranks) {
    if (rank / per_node == node) cards.push_back(rank % per_node * system.nics / per_node);
  }
  std::sort(cards.begin(), cards.end());
  return static_cast<int>(std::unique(cards.begin(), cards.end()) - cards.begin());
}

/// Switches on the way between the farthest members, one way.
double switch_hops(LinkKind slowest) {
  switch (slowest) {
    case LinkKind::nvlink: return 0;
    case LinkKind::pcie: return 0;
    case LinkKind::nic: return 1;
    case LinkKind::leaf_uplink: return 3;
    case LinkKind::spine_uplink: return 5;
  }
  return 0;
}

GroupFacts facts_of(const Cluster& cluster, const std::vector<int>& ranks) {
  const System& system = cluster.spec().system;
  const std::vector<GpuId> gpus = gpus_of(ranks);
  GroupFacts facts;
  facts.shape = group_shape(cluster, gpus);
  facts.ranks = static_cast<int>(ranks.size());
  facts.slowest = slowest_tier(cluster, gpus);
  facts.path.domain = system.node_link == NodeLink::pcie ? system.gpu.pcie : system.gpu.nvlink;
  facts.path.network = static_cast<double>(cards_per_node(system, ranks)) * system.nic_bandwidth;
  facts.path.network_hop = switch_hops(facts.slowest) * cluster.spec().fabric.hop_latency;
  return facts;
}

/// Collects groups and their copies, then folds links.
class Builder {
 public:
  Builder(const Cluster& cluster, const ParallelGrid& grid)
      : cluster_(cluster), grid_(grid), pipelines_(process_groups(grid, GroupKind::pp)) {
    stage_of_.resize(static_cast<std::size_t>(grid.world()));
    for (const std::vector<int>& pipeline : pipelines_) {
      for (std::size_t stage = 0; stage < pipeline.size(); ++stage) {
        stage_of_[static_cast<std::size_t>(pipeline[stage])] = static_cast<int>(stage);
      }
    }
    out_.by_stage.resize(static_cast<std::size_t>(grid.pp));
    for (auto& slots : out_.by_stage) slots.fill(kNoGroup);
  }

  Communicators build(ContextKind context) && {
    if (grid_.tp > 1) add_stage_groups(StepGroup::tensor, GroupKind::tp);
    if (grid_.dp * grid_.cp > 1) add_stage_groups(StepGroup::data, GroupKind::dp_cp);
    add_context(context);
    add_experts();
    if (grid_.world() > 1) add_world();
    if (grid_.pp > 1) {
      add_embedding();
      add_hops();
    }
    fold_links();
    return std::move(out_);
  }

 private:
  void add_context(ContextKind context) {
    if (grid_.cp == 1) return;
    switch (context) {
      case ContextKind::ring:
        add_stage_groups(StepGroup::context, GroupKind::cp, Hops::pairs);
        return;
      case ContextKind::all_gather: add_stage_groups(StepGroup::context, GroupKind::cp); return;
      case ContextKind::all_to_all:
        add_stage_groups(StepGroup::context, GroupKind::cp, Hops::direct);
        return;
    }
  }

  /// Where the expert grid is the dense one its data group has nothing of its own to reduce.
  void add_experts() {
    if (grid_.ep > 1) add_stage_groups(StepGroup::expert, GroupKind::ep, Hops::direct);
    if (grid_.etp > 1) add_stage_groups(StepGroup::expert_tensor, GroupKind::etp);
    const bool apart = grid_.ep > 1 || grid_.etp != grid_.tp;
    if (apart && grid_.edp() > 1) add_stage_groups(StepGroup::expert_data, GroupKind::edp);
  }

  enum class Hops : std::uint8_t {
    ring,    // of channels, as NCCL's collectives send
    direct,  // all-to-all
    pairs,   // each to its successor by a send of its own
  };

  void add_stage_groups(StepGroup slot, GroupKind kind, Hops hops = Hops::ring) {
    std::vector<Activity> by_stage(static_cast<std::size_t>(grid_.pp));
    for (std::vector<int>& ranks : process_groups(grid_, kind)) {
      const int stage = stage_of_[static_cast<std::size_t>(ranks.front())];
      add_copies(by_stage[static_cast<std::size_t>(stage)].copies, std::move(ranks), hops);
    }
    for (int stage = 0; stage < grid_.pp; ++stage) {
      Activity& activity = by_stage[static_cast<std::size_t>(stage)];
      activity.slot = slot;
      if (hops == Hops::direct) activity.pattern = LoadPattern::direct;
      if (hops == Hops::pairs) activity.pattern = LoadPattern::pair;
      const std::string name = std::string(name_of(slot)) + " stage " + std::to_string(stage);
      const GroupId group = add(std::move(activity), name, {RankId{static_cast<unsigned>(stage)}});
      place(stage, slot, group);
    }
  }

  /// The pair that crosses most comes first: it stands for the others, which wait for it.
  void add_copies(std::vector<std::vector<int>>& copies, std::vector<int> ranks, Hops hops) const {
    if (hops != Hops::pairs) {
      copies.push_back(std::move(ranks));
      return;
    }
    const auto crosses = [this](const std::vector<int>& pair) {
      return slowest_tier(cluster_, gpus_of(pair));
    };
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      std::vector<int> pair{ranks[i], ranks[(i + 1) % ranks.size()]};
      const bool slower = !copies.empty() && crosses(pair) > crosses(copies.front());
      copies.insert(slower ? copies.begin() : copies.end(), std::move(pair));
    }
  }

  /// Latency alone: nothing of size travels in it.
  void add_world() {
    std::vector<int> everyone(static_cast<std::size_t>(grid_.world()));
    for (std::size_t i = 0; i < everyone.size(); ++i) everyone[i] = static_cast<int>(i);
    Group group{.name = "world", .members = {}, .loads = {{}, {}}, .count = 1};
    for (int stage = 0; stage < grid_.pp; ++stage) {
      group.members.push_back(RankId{static_cast<unsigned>(stage)});
      place(stage, StepGroup::world, GroupId{static_cast<unsigned>(out_.groups.size())});
    }
    out_.groups.push_back(std::move(group));
    out_.facts.push_back(facts_of(cluster_, everyone));
  }

  void add_embedding() {
    Activity activity{.group = {}, .slot = StepGroup::embedding, .copies = {}};
    for (const std::vector<int>& pipeline : pipelines_) {
      activity.copies.push_back({pipeline.front(), pipeline.back()});
    }
    const int last = grid_.pp - 1;
    const GroupId group =
        add(std::move(activity), "embedding", {RankId{0}, RankId{static_cast<unsigned>(last)}});
    place(0, StepGroup::embedding, group);
    place(last, StepGroup::embedding, group);
  }

  /// Between neighbouring stages both ways; the last stage sends to the first under interleaving.
  void add_hops() {
    for (int stage = 0; stage < grid_.pp; ++stage) {
      const int next = (stage + 1) % grid_.pp;
      add_hop(stage, next, StepGroup::forward_next, StepGroup::forward_previous);
      add_hop(next, stage, StepGroup::backward_previous, StepGroup::backward_next);
    }
  }

  void add_hop(int from, int to, StepGroup sender_slot, StepGroup receiver_slot) {
    Activity activity{.group = {}, .slot = sender_slot, .copies = {}, .pattern = LoadPattern::pair};
    for (const std::vector<int>& pipeline : pipelines_) {
      activity.copies.push_back(
          {pipeline[static_cast<std::size_t>(from)], pipeline[static_cast<std::size_t>(to)]});
    }
    const std::string name = std::string(name_of(sender_slot)) + " " + std::to_string(from) +
                             " to " + std::to_string(to);
    const GroupId group =
        add(std::move(activity), name,
            {RankId{static_cast<unsigned>(from)}, RankId{static_cast<unsigned>(to)}});
    place(from, sender_slot, group);
    place(to, receiver_slot, group);
  }

  GroupId add(Activity activity, std::string name, std::vector<RankId> members) {
    FLOPCAST_CHECK(!activity.copies.empty(), "a stage has at least one group of each kind");
    const GroupId id{static_cast<unsigned>(out_.groups.size())};
    activity.group = id;
    out_.groups.push_back({.name = std::move(name),
                           .members = std::move(members),
                           .loads = {{}, {}},
                           .count = activity.copies.size()});
    out_.facts.push_back(facts_of(cluster_, activity.copies.front()));
    for (const LinkLoad& load :
         group_load(cluster_, gpus_of(activity.copies.front()), activity.pattern)) {
      const double relative = load.weight / cluster_.links()[index_of(load.link)].capacity.value;
      out_.facts.back().heaviest_alone = std::max(out_.facts.back().heaviest_alone, relative);
    }
    activities_.push_back(std::move(activity));
    return id;
  }

  void place(int stage, StepGroup slot, GroupId group) {
    out_.by_stage[static_cast<std::size_t>(stage)][static_cast<std::size_t>(slot)] = group;
  }

  /// Load of one activity on one link of the cluster.
  struct Entry {
    std::uint32_t activity;
    double weight;
    auto operator<=>(const Entry&) const = default;
  };

  std::vector<std::vector<Entry>> loads_by_link() const {
    std::vector<std::vector<Entry>> by_link(cluster_.links().size());
    for (std::uint32_t a = 0; a < activities_.size(); ++a) {
      for (const std::vector<int>& copy : activities_[a].copies) {
        for (const LinkLoad& load : group_load(cluster_, gpus_of(copy), activities_[a].pattern)) {
          std::vector<Entry>& entries = by_link[index_of(load.link)];
          if (!entries.empty() && entries.back().activity == a) {
            entries.back().weight += load.weight;
          } else {
            entries.push_back({a, load.weight});
          }
        }
      }
    }
    return by_link;
  }

  void fold_links() {
    using Signature = std::tuple<LinkKind, double, std::vector<Entry>>;
    std::map<Signature, std::uint64_t> classes;
    std::map<Signature, std::uint32_t> first_link;
    std::vector<std::vector<Entry>> by_link = loads_by_link();
    for (std::uint32_t i = 0; i < by_link.size(); ++i) {
      if (by_link[i].empty()) continue;
      const ClusterLink& link = cluster_.links()[i];
      Signature signature{link.kind, link.capacity.value, std::move(by_link[i])};
      first_link.emplace(signature, i);
      ++classes[std::move(signature)];
    }
    for (const auto& [signature, count] : classes) {
      const LinkId row{static_cast<unsigned>(out_.links.size())};
      const LinkId shown{first_link.at(signature)};
      const BytesPerSecond capacity = cluster_.links()[index_of(shown)].capacity;
      out_.links.push_back({.name = cluster_.name_of(shown), .capacity = capacity, .count = count});
      for (const Entry& entry : std::get<2>(signature)) {
        load_group(activities_[entry.activity].group, row, entry.weight);
      }
    }
  }

  void load_group(GroupId id, LinkId link, double weight) {
    Group& group = out_.groups[index_of(id)];
    const int ranks = out_.facts[index_of(id)].ranks;
    const double in_switch = ranks > 1 ? 1 / bus_factor(CollectiveKind::all_reduce, ranks) : 1;
    group.loads[kRingPattern].push_back({link, weight});
    group.loads[kInSwitchPattern].push_back({link, weight * in_switch});
  }

  const Cluster& cluster_;
  const ParallelGrid& grid_;
  std::vector<std::vector<int>> pipelines_;
  std::vector<int> stage_of_;  // by rank
  std::vector<Activity> activities_;
  Communicators out_;
};

}  // namespace

Communicators build_communicators(const Cluster& cluster, const ParallelGrid& grid,
                                  ContextKind context) {
  return Builder(cluster, grid).build(context);
}

}  // namespace flopcast
