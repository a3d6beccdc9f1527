#include "sim/fold.h"

#include <algorithm>
#include <span>
#include <utility>

#include "sim/check.h"
#include "sim/fold_graph.h"
#include "sim/fold_programs.h"
#include "sim/partition.h"

namespace flopcast {
namespace {

/// Rows of a workload.
class WorkloadRows : public FoldSource {
 public:
  explicit WorkloadRows(Workload& source)
      : ranks_(std::exchange(source.ranks, {})),
        groups_(std::exchange(source.groups, {})),
        links_(std::exchange(source.links, {})) {}

  std::uint32_t ranks() const override { return static_cast<std::uint32_t>(ranks_.size()); }
  std::uint32_t groups() const override { return static_cast<std::uint32_t>(groups_.size()); }
  std::uint32_t links() const override { return static_cast<std::uint32_t>(links_.size()); }
  RankFacts rank(std::uint32_t row) const override {
    const Rank& rank = ranks_[row];
    return {.program = rank.program,
            .variant = rank.variant,
            .speed = rank.speed,
            .draws = rank.draws,
            .count = rank.count,
            .groups = rank.groups};
  }
  GroupFacts group(std::uint32_t row) const override {
    const Group& group = groups_[row];
    std::size_t loads = 0;
    for (const auto& list : group.loads) loads += list.size();
    return {.members = group.members,
            .patterns = group.loads.size(),
            .loads = loads,
            .arrivals = group.arrivals,
            .count = group.count};
  }
  void append_loads(std::uint32_t group, std::size_t pattern,
                    std::vector<LinkLoad>& loads) const override {
    const std::vector<LinkLoad>& own = groups_[group].loads[pattern];
    loads.insert(loads.end(), own.begin(), own.end());
  }
  LinkFacts link(std::uint32_t row) const override {
    return {.capacity = links_[row].capacity, .count = links_[row].count};
  }
  std::string rank_name(std::uint32_t row) const override { return ranks_[row].name; }
  std::string group_name(std::uint32_t row) const override { return groups_[row].name; }
  std::string link_name(std::uint32_t row) const override { return links_[row].name; }

 private:
  std::vector<Rank> ranks_;
  std::vector<Group> groups_;
  std::vector<Link> links_;
};

/// Rows of one kind: the class of each, and the first row of each class.
struct Classes {
  /// `wanted(row)`: rows without it have no class.
  template <class Wanted>
  Classes(std::span<const std::uint32_t> partition, Wanted wanted)
      : row_of(partition.size(), kNone) {
    std::vector<std::uint32_t> numbers;  // by class of the partition
    for (std::uint32_t row = 0; row < partition.size(); ++row) {
      if (!wanted(row)) continue;
      if (partition[row] >= numbers.size()) numbers.resize(partition[row] + std::size_t{1}, kNone);
      std::uint32_t& number = numbers[partition[row]];
      if (number == kNone) {
        number = static_cast<std::uint32_t>(first.size());
        first.push_back(row);
      }
      row_of[row] = number;
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
  FoldedTables(const FoldSource& source, const FoldedPrograms& programs, FoldGraph& graph,
               bool varies)
      : source_(source),
        programs_(programs),
        graph_(graph),
        adjacency_(graph.take_adjacency()),
        partition_(equitable_partition(graph.colours(varies), adjacency_)),
        ranks_(part(0, source.ranks()), [](std::uint32_t) { return true; }),
        groups_(part(graph.group_node(0), source.groups()),
                [&](std::uint32_t g) { return graph.used(g); }),
        links_(part(graph.link_node(0), source.links()), [](std::uint32_t) { return true; }) {}

  /// `rest`: all but ranks, groups and links.
  Folding build(Workload rest) && {
    Folding out{.workload = std::move(rest),
                .rank_class = as_ids<RankId>(ranks_.row_of),
                .group_class = as_ids<GroupId>(groups_.row_of),
                .link_class = as_ids<LinkId>(links_.row_of)};
    write_ranks(out.workload);
    write_groups(out.workload);
    write_links(out.workload);
    for (Program& program : out.workload.programs) programs_.rename_rows(program);
    return out;
  }

 private:
  std::span<const std::uint32_t> part(std::size_t begin, std::size_t size) const {
    return {partition_.data() + begin, size};
  }

  void write_ranks(Workload& folded) {
    for (const std::uint32_t first : ranks_.first) {
      const FoldSource::RankFacts facts = source_.rank(first);
      Rank rank{.name = source_.rank_name(first),
                .program = ProgramId{programs_.class_of[index_of(facts.program)]},
                .speed = facts.speed,
                .groups = {facts.groups.begin(), facts.groups.end()},
                .count = 0,
                .variant = facts.variant,
                .draws = facts.draws};
      for (std::size_t slot = 0; slot < rank.groups.size(); ++slot) {
        GroupId& group = rank.groups[slot];
        const bool used = programs_.uses(facts.program, slot);
        group = used ? GroupId{groups_.row_of[index_of(group)]} : kNoGroup;
      }
      folded.ranks.push_back(std::move(rank));
    }
    for (std::uint32_t r = 0; r < source_.ranks(); ++r) {
      folded.ranks[ranks_.row_of[r]].count += source_.rank(r).count;
    }
  }

  void write_groups(Workload& folded) {
    for (const std::uint32_t first : groups_.first) {
      Group group{.name = source_.group_name(first), .count = 0};
      group.loads.resize(source_.group(first).patterns);
      gather_members(first, group);
      folded.groups.push_back(std::move(group));
    }
    for (std::uint32_t g = 0; g < source_.groups(); ++g) {
      if (groups_.row_of[g] == Classes::kNone) continue;
      folded.groups[groups_.row_of[g]].count += source_.group(g).count;
    }
  }

  /// One member for each class of ranks and way to use the group.
  void gather_members(std::uint32_t first, Group& group) const {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> entries;  // class, label
    for (const HalfEdge& edge : adjacency_.of(graph_.group_node(first))) {
      if (edge.to < source_.ranks()) entries.emplace_back(ranks_.row_of[edge.to], edge.label);
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
    for (const RankId end : source_.group(first).members) {
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
      folded.links.push_back(
          {.name = source_.link_name(first), .capacity = source_.link(first).capacity, .count = 0});
      loads.clear();
      for (const HalfEdge& edge : adjacency_.of(graph_.link_node(first))) {
        const FoldGraph::Label& label = graph_.label(edge.label);
        loads.push_back({groups_.row_of[edge.to - source_.ranks()], label.pattern, label.weight});
      }
      std::sort(loads.begin(), loads.end());
      for (const Load& load : loads) {
        auto& list = folded.groups[load.group].loads[load.pattern];
        if (list.empty() || list.back().link != LinkId{row}) list.push_back({LinkId{row}, 0});
        list.back().weight += load.weight;
      }
    }
    for (std::uint32_t l = 0; l < source_.links(); ++l) {
      folded.links[links_.row_of[l]].count += source_.link(l).count;
    }
  }

  const FoldSource& source_;
  const FoldedPrograms& programs_;
  const FoldGraph& graph_;
  const Adjacency adjacency_;
  const std::vector<std::uint32_t> partition_;
  const Classes ranks_;
  const Classes groups_;
  const Classes links_;
};

}  // namespace

Folding fold(Workload workload, const FoldSource& rows) {
  const FoldedPrograms programs(workload);
  const bool varies = workload.jitter.sigma > 0;
  FoldGraph graph(rows, programs);
  return FoldedTables(rows, programs, graph, varies).build(std::move(workload));
}

Folding fold(Workload workload) {
  const WorkloadRows rows(workload);
  return fold(std::move(workload), rows);
}

}  // namespace flopcast
