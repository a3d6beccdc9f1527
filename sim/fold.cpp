#include "sim/fold.h"

#include <algorithm>
#include <bit>
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "sim/check.h"
#include "sim/fold_programs.h"
#include "sim/partition.h"

namespace flopcast {
namespace {

constexpr std::uint64_t kLoad = std::uint64_t{1} << 63U;  // in LabelKey::first, of group to link

/// What tells an edge from another. Rank to group: `first` is made of the slots, `second` of the
/// ends of a pair that the rank is and how often it arrives. Group to link: pattern and weight.
struct LabelKey {
  std::uint64_t first;
  std::uint64_t second;
  friend bool operator==(const LabelKey&, const LabelKey&) = default;
};
struct LabelHash {
  std::size_t operator()(const LabelKey& key) const {
    const std::uint64_t mixed = (key.first ^ std::rotl(key.second, 29)) * 0x9e3779b97f4a7c15U;
    return mixed ^ (mixed >> 32U);
  }
};
struct Label {
  std::uint32_t arrivals = 0;  // rank to group
  std::size_t pattern = 0;     // group to link
  double weight = 0;
};

/// The graph of a workload: nodes are ranks, then groups, then links.
class FoldGraph {
 public:
  FoldGraph(const Workload& workload, const FoldedPrograms& programs)
      : workload_(workload), programs_(programs), facts_(workload.groups.size()) {
    FLOPCAST_CHECK(workload.ranks.size() + workload.groups.size() + workload.links.size() <
                       std::size_t{0xffffffffU},
                   "ranks, groups and links are fewer than 2^32 - 1");
    note_uses();
    for (std::uint32_t g = 0; g < workload.groups.size(); ++g) {
      if (!facts_[g].used) continue;
      join_members(g);
      join_links(g);
    }
  }

  std::uint32_t rank_node(RankId id) const { return index_of(id); }
  std::uint32_t group_node(std::uint32_t g) const { return ranks() + g; }
  std::uint32_t link_node(std::uint32_t l) const { return ranks() + groups() + l; }
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(workload_.ranks.size()); }
  std::uint32_t groups() const { return static_cast<std::uint32_t>(workload_.groups.size()); }
  std::size_t nodes() const { return link_node(0) + workload_.links.size(); }

  bool used(std::uint32_t group) const { return facts_[group].used; }
  bool message(std::uint32_t group) const { return facts_[group].message; }
  const Label& label(std::uint32_t id) const { return labels_[id]; }
  /// Once; the list of edges is gone afterwards.
  Adjacency take_adjacency() { return Adjacency(nodes(), std::exchange(edges_, {})); }
  std::vector<std::uint32_t> colours() const;

 private:
  struct GroupFacts {
    bool used = false;
    bool message = false;
    std::uint64_t patterns = 0;
  };

  void note_uses();
  void join_members(std::uint32_t g);
  void join_links(std::uint32_t g);
  std::uint64_t slots_of(std::uint32_t g, RankId member) const;
  std::uint32_t label_of(const LabelKey& key, const Label& label);

  const Workload& workload_;
  const FoldedPrograms& programs_;
  std::vector<GroupFacts> facts_;
  std::vector<LabelledEdge> edges_;
  std::vector<Label> labels_;
  std::unordered_map<LabelKey, std::uint32_t, LabelHash> label_ids_;  // never iterated
  std::vector<RankId> members_;                                       // of the group in work
  std::vector<LinkLoad> loads_;
};

void FoldGraph::note_uses() {
  for (const Rank& rank : workload_.ranks) {
    FLOPCAST_CHECK(index_of(rank.program) < workload_.programs.size(), "a rank has a program");
    const auto& slots = programs_.slot_uses[index_of(rank.program)];
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
      if (!slots[slot].used) continue;
      FLOPCAST_CHECK(slot < rank.groups.size() && index_of(rank.groups[slot]) < groups(),
                     "a slot in use holds a group of the table");
      GroupFacts& facts = facts_[index_of(rank.groups[slot])];
      facts.used = true;
      facts.message = facts.message || slots[slot].message;
      facts.patterns |= slots[slot].patterns;
    }
  }
}

std::uint32_t FoldGraph::label_of(const LabelKey& key, const Label& label) {
  const auto [entry, is_new] =
      label_ids_.try_emplace(key, static_cast<std::uint32_t>(labels_.size()));
  if (is_new) labels_.push_back(label);
  return entry->second;
}

/// Hash of the slots through which the member uses the group. They tell the ends of a pair apart
/// too: a slot either sends or receives.
std::uint64_t FoldGraph::slots_of(std::uint32_t g, RankId member) const {
  const Rank& rank = workload_.ranks[index_of(member)];
  std::uint64_t hash = 0;
  for (std::size_t slot = 0; slot < rank.groups.size(); ++slot) {
    if (index_of(rank.groups[slot]) != g || !programs_.uses(rank, slot)) continue;
    hash = (hash ^ (slot + 1)) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 32U;
  }
  return hash & ~kLoad;
}

void FoldGraph::join_members(std::uint32_t g) {
  const Group& group = workload_.groups[g];
  FLOPCAST_CHECK(!message(g) || group.members.size() == 2,
                 "messages go from one of a pair to the other");
  members_ = group.members;
  if (!std::is_sorted(members_.begin(), members_.end())) {
    std::sort(members_.begin(), members_.end());
  }
  for (auto member = members_.begin(); member != members_.end();) {
    FLOPCAST_CHECK(index_of(*member) < ranks(), "a group's members are ranks");
    const auto next = std::find_if(member, members_.end(), [&](RankId m) { return m != *member; });
    const auto listed = static_cast<std::uint32_t>(next - member);
    const Label label{.arrivals = group.arrivals == 0 ? 1 : listed};
    const LabelKey key{slots_of(g, *member), label.arrivals};
    edges_.push_back({rank_node(*member), group_node(g), label_of(key, label)});
    member = next;
  }
}

void FoldGraph::join_links(std::uint32_t g) {
  const Group& group = workload_.groups[g];
  for (std::size_t pattern = 0; pattern < group.loads.size(); ++pattern) {
    if ((facts_[g].patterns & pattern_bit(pattern)) == 0) continue;
    loads_ = group.loads[pattern];
    const auto by_link = [](const LinkLoad& a, const LinkLoad& b) {
      return a.link != b.link ? a.link < b.link : a.weight < b.weight;
    };
    if (!std::is_sorted(loads_.begin(), loads_.end(), by_link)) {
      std::sort(loads_.begin(), loads_.end(), by_link);
    }
    for (auto load = loads_.begin(); load != loads_.end();) {
      FLOPCAST_CHECK(index_of(load->link) < workload_.links.size(), "a group loads a link");
      const LinkId link = load->link;
      double weight = 0;
      for (; load != loads_.end() && load->link == link; ++load) weight += load->weight;
      if (weight == 0) continue;
      const LabelKey key{kLoad | pattern, std::bit_cast<std::uint64_t>(weight)};
      const std::uint32_t label = label_of(key, {.pattern = pattern, .weight = weight});
      edges_.push_back({group_node(g), link_node(index_of(link)), label});
    }
  }
}

/// What nodes are by themselves.
std::vector<std::uint32_t> FoldGraph::colours() const {
  enum Kind : std::uint32_t { rank_kind, group_kind, link_kind };
  using Key = std::tuple<std::uint32_t, std::uint64_t, double, std::uint64_t>;
  std::map<Key, std::uint32_t> numbers;
  std::vector<std::uint32_t> colours;
  colours.reserve(nodes());
  const auto add = [&](const Key& key) {
    colours.push_back(
        numbers.try_emplace(key, static_cast<std::uint32_t>(numbers.size())).first->second);
  };
  const bool varies = workload_.jitter.sigma > 0;
  for (const Rank& rank : workload_.ranks) {
    const std::uint64_t variant =
        rank.variant == kNoVariant ? 0 : 1 + programs_.variant_class[index_of(rank.variant)];
    add({rank_kind, (variant << 32U) | programs_.class_of[index_of(rank.program)], rank.speed,
         varies ? rank.draws : 0});
  }
  for (std::uint32_t g = 0; g < groups(); ++g) {
    const bool counts = workload_.groups[g].arrivals != 0;
    add({group_kind, (used(g) ? 1U : 0U) | (message(g) ? 2U : 0U) | (counts ? 4U : 0U), 0, 0});
  }
  for (const Link& link : workload_.links) add({link_kind, 0, link.capacity.value, 0});
  return colours;
}

/// Rows of one kind: the class of each, and the first row of each class.
struct Classes {
  /// `wanted(row)`: rows without it have no class.
  template <class Wanted>
  Classes(std::span<const std::uint32_t> partition, Wanted wanted)
      : row_of(partition.size(), kNone) {
    std::unordered_map<std::uint32_t, std::uint32_t> numbers;  // never iterated
    for (std::uint32_t row = 0; row < partition.size(); ++row) {
      if (!wanted(row)) continue;
      const auto next = static_cast<std::uint32_t>(first.size());
      const auto [entry, is_new] = numbers.try_emplace(partition[row], next);
      if (is_new) first.push_back(row);
      row_of[row] = entry->second;
    }
  }

  static constexpr std::uint32_t kNone = index_of(kNoGroup);
  std::vector<std::uint32_t> row_of;
  std::vector<std::uint32_t> first;
};

template <class Id>
std::vector<Id> as_ids(const std::vector<std::uint32_t>& rows) {
  std::vector<Id> ids;
  ids.reserve(rows.size());
  for (const std::uint32_t row : rows) ids.push_back(Id{row});
  return ids;
}

/// Writes one row per class.
class FoldedTables {
 public:
  FoldedTables(Workload& source, const FoldedPrograms& programs, FoldGraph& graph)
      : source_(source),
        programs_(programs),
        graph_(graph),
        adjacency_(graph.take_adjacency()),
        partition_(equitable_partition(graph.colours(), adjacency_)),
        ranks_(part(0, graph.ranks()), [](std::uint32_t) { return true; }),
        groups_(part(graph.ranks(), graph.groups()),
                [&](std::uint32_t g) { return graph.used(g); }),
        links_(part(graph.link_node(0), source.links.size()), [](std::uint32_t) { return true; }) {}

  Folding build() && {
    Folding out{.rank_class = as_ids<RankId>(ranks_.row_of),
                .group_class = as_ids<GroupId>(groups_.row_of),
                .link_class = as_ids<LinkId>(links_.row_of)};
    Workload& folded = out.workload;
    write_ranks(folded);
    write_groups(folded);
    write_links(folded);
    for (Program& program : source_.programs) programs_.rename_rows(program);
    folded.programs = std::move(source_.programs);
    folded.variants = std::move(source_.variants);
    folded.kernels = std::move(source_.kernels);
    folded.transfers = std::move(source_.transfers);
    folded.jitter = source_.jitter;
    folded.stream_names = std::move(source_.stream_names);
    folded.category_names = std::move(source_.category_names);
    folded.pool_names = std::move(source_.pool_names);
    folded.labels = std::move(source_.labels);
    return out;
  }

 private:
  std::span<const std::uint32_t> part(std::size_t begin, std::size_t size) const {
    return {partition_.data() + begin, size};
  }

  void write_ranks(Workload& folded) {
    for (const std::uint32_t first : ranks_.first) {
      Rank rank = source_.ranks[first];
      rank.count = 0;
      for (std::size_t slot = 0; slot < rank.groups.size(); ++slot) {
        GroupId& group = rank.groups[slot];
        group = programs_.uses(rank, slot) ? GroupId{groups_.row_of[index_of(group)]} : kNoGroup;
      }
      rank.program = ProgramId{programs_.class_of[index_of(rank.program)]};
      folded.ranks.push_back(std::move(rank));
    }
    for (std::size_t r = 0; r < source_.ranks.size(); ++r) {
      folded.ranks[ranks_.row_of[r]].count += source_.ranks[r].count;
    }
  }

  void write_groups(Workload& folded) {
    for (const std::uint32_t first : groups_.first) {
      Group group{.name = source_.groups[first].name, .count = 0};
      group.loads.resize(source_.groups[first].loads.size());
      gather_members(first, group);
      folded.groups.push_back(std::move(group));
    }
    for (std::size_t g = 0; g < source_.groups.size(); ++g) {
      if (groups_.row_of[g] == Classes::kNone) continue;
      folded.groups[groups_.row_of[g]].count += source_.groups[g].count;
    }
  }

  /// One member for each class of ranks and way to use the group.
  void gather_members(std::uint32_t first, Group& group) const {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> entries;  // class, label
    for (const HalfEdge& edge : adjacency_.of(graph_.group_node(first))) {
      if (edge.to < graph_.ranks()) entries.emplace_back(ranks_.row_of[edge.to], edge.label);
    }
    std::sort(entries.begin(), entries.end());
    entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
    std::uint32_t arrivals = 0;
    std::uint32_t rows = 0;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const auto [row, label] = entries[i];
      if (i == 0 || entries[i - 1].first != row) ++rows;
      arrivals += graph_.label(label).arrivals;
      group.members.insert(group.members.end(), graph_.label(label).arrivals, RankId{row});
    }
    if (arrivals != rows) group.arrivals = arrivals;
    if (!graph_.message(first)) return;
    group.members.clear();
    for (const RankId end : source_.groups[first].members) {
      group.members.push_back(RankId{ranks_.row_of[index_of(end)]});
    }
  }

  /// What all groups of a class put on one link of a class.
  void write_links(Workload& folded) {
    struct Load {
      std::uint32_t group;  // row
      std::size_t pattern;
      double weight;
      auto operator<=>(const Load&) const = default;
    };
    std::vector<Load> loads;
    for (std::uint32_t row = 0; row < links_.first.size(); ++row) {
      const std::uint32_t first = links_.first[row];
      folded.links.push_back(source_.links[first]);
      folded.links.back().count = 0;
      loads.clear();
      for (const HalfEdge& edge : adjacency_.of(graph_.link_node(first))) {
        const Label& label = graph_.label(edge.label);
        loads.push_back({groups_.row_of[edge.to - graph_.ranks()], label.pattern, label.weight});
      }
      std::sort(loads.begin(), loads.end());
      for (const Load& load : loads) {
        auto& list = folded.groups[load.group].loads[load.pattern];
        if (list.empty() || list.back().link != LinkId{row}) list.push_back({LinkId{row}, 0});
        list.back().weight += load.weight;
      }
    }
    for (std::size_t l = 0; l < source_.links.size(); ++l) {
      folded.links[links_.row_of[l]].count += source_.links[l].count;
    }
  }

  Workload& source_;
  const FoldedPrograms& programs_;
  const FoldGraph& graph_;
  const Adjacency adjacency_;
  const std::vector<std::uint32_t> partition_;
  const Classes ranks_;
  const Classes groups_;
  const Classes links_;
};

}  // namespace

Folding fold(Workload workload) {
  const FoldedPrograms programs(workload);
  FoldGraph graph(workload, programs);
  return FoldedTables(workload, programs, graph).build();
}

}  // namespace flopcast
