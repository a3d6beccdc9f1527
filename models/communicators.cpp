#include "models/communicators.h"

#include <algorithm>
#include <bit>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "models/routing_loads.h"
#include "sim/check.h"
#include "sim/random.h"

namespace flopcast {
namespace {

std::size_t place_of(StepGroup slot) { return static_cast<std::size_t>(slot); }

void load_group(Group& group, const GroupFacts& facts, LoadKind kind, LinkLoad load) {
  for (std::size_t pattern = 0; pattern < kLoadPatterns; ++pattern) {
    const PatternSource& source = kPatternSources[pattern];
    if (source.list != kind) continue;
    group.loads[pattern].push_back({load.link, load.weight * source.per_sent(facts)});
  }
}

/// Sum of hashes, whatever their order: what a link or a group is joined to. Unlike ones are taken
/// for equal with a probability of their number squared / 2^128.
struct Signature {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend auto operator<=>(const Signature&, const Signature&) = default;

  void add(std::uint32_t neighbour, double weight) {
    const auto bits = std::bit_cast<std::uint64_t>(weight);
    low += mixed(mixed(bits + kGoldenGamma) ^ neighbour);
    high += mixed(mixed(bits ^ 0x8ebc6af09c88c6e3U) + neighbour);
  }
};

/// One row per stage, family and class of links.
class StageView {
 public:
  StageView(const Cluster& cluster, const Job& job, bool only_alike)
      : cluster_(cluster),
        grid_(job.layout.grid),
        only_alike_(only_alike),
        families_(group_families(job)) {
    if (routing_differs(job) || context_differs(job.layout)) out_.alike = false;
    for (std::uint32_t f = 0; f < families_.size(); ++f) {
      for (const LoadKind kind : load_kinds(cluster)) lists_.push_back({f, kind});
    }
  }

  Communicators build() && {
    if (gives_up()) return std::move(out_);
    add_stages();
    if (gives_up()) return std::move(out_);
    for (const GroupFamily& family : families_) add(family);
    classify_links();
    std::vector<std::vector<Entry>> entries = compare_copies();
    if (!gives_up()) write_links(entries);
    return std::move(out_);
  }

 private:
  static constexpr std::uint32_t kUnused = 0xffffffffU;

  /// One way of a family to load links.
  struct List {
    std::uint32_t family;
    LoadKind kind;
  };

  /// What all copies by one list put on one link of the cluster.
  struct Entry {
    std::uint32_t list;
    double weight;
    auto operator<=>(const Entry&) const = default;
  };

  bool gives_up() const { return only_alike_ && !out_.alike; }

  /// Calls `visit(list, copy, loads)` for all, in the same order each time. What the first call
  /// finds is kept for the second as far as it is small.
  template <class Visit>
  void for_each_copy(Visit visit) {
    constexpr std::size_t kMostKept = std::size_t{1} << 20U;  // 16 MB
    std::size_t place = 0;
    for (std::uint32_t number = 0; number < lists_.size(); ++number) {
      const auto [f, kind] = lists_[number];
      for (std::size_t copy = 0; copy < families_[f].copies(); ++copy, ++place) {
        if (gives_up()) return;
        if (place + 1 < first_kept_.size()) {
          const std::span<const LinkLoad> kept(kept_);
          visit(number, copy,
                kept.subspan(first_kept_[place], first_kept_[place + 1] - first_kept_[place]));
          continue;
        }
        const std::vector<LinkLoad> loads = family_loads(cluster_, families_[f], copy, kind);
        if (place + 1 == first_kept_.size() && kept_.size() + loads.size() <= kMostKept) {
          kept_.insert(kept_.end(), loads.begin(), loads.end());
          first_kept_.push_back(kept_.size());
        }
        visit(number, copy, std::span<const LinkLoad>(loads));
      }
    }
  }

  void add_stages() {
    const auto stages = static_cast<std::size_t>(grid_.pp);
    for (std::size_t stage = 0; stage < stages; ++stage) {
      out_.roles.push_back({.stage = static_cast<int>(stage), .groups = no_groups()});
      out_.ranks.push_back(
          {.role = static_cast<std::uint32_t>(stage), .groups = no_groups(), .count = 0});
    }
    const std::vector<int> stage_of = stage_of_ranks(grid_);
    for (std::size_t rank = 0; rank < stage_of.size(); ++rank) {
      RankRow& row = out_.ranks[static_cast<std::size_t>(stage_of[rank])];
      const double speed = cluster_.speed_of(static_cast<GpuId>(rank));
      RankRole& role = out_.roles[row.role];
      const int kind = cluster_.kind_of(static_cast<GpuId>(rank));
      if (row.count > 0 && (row.speed != speed || role.kind != kind)) out_.alike = false;
      if (row.count == 0) role.kind = kind;
      row.speed = row.count > 0 ? std::min(row.speed, speed) : speed;
      ++row.count;
    }
  }

  void add(const GroupFamily& family) {
    FLOPCAST_CHECK(family.copies() > 0, "a stage has at least one group of each kind");
    const GroupId id{static_cast<unsigned>(out_.groups.size())};
    Group group{.name = family.name, .members = {}, .loads = {}, .count = family.copies()};
    group.loads.resize(kLoadPatterns);
    for (std::size_t i = 0; i < family.stages.size(); ++i) {
      const auto stage = static_cast<std::size_t>(family.stages[i]);
      group.members.push_back(RankId{static_cast<unsigned>(stage)});
      const std::size_t place = place_of(family.slot_of(i));
      out_.roles[stage].groups[place] = out_.ranks[stage].groups[place] = id;
    }
    out_.groups.push_back(std::move(group));
    out_.facts.push_back(family_facts(cluster_, family, 0, family_loads(cluster_, family, 0)));
  }

  /// Links with equal loads and capacity get one class.
  void classify_links() {
    std::vector<Signature> signatures(cluster_.links().size());
    for_each_copy([&](std::uint32_t number, std::size_t, std::span<const LinkLoad> loads) {
      for (const LinkLoad& load : loads) signatures[index_of(load.link)].add(number, load.weight);
    });
    std::map<std::tuple<LinkKind, double, Signature>, std::uint32_t> classes;
    class_of_.assign(signatures.size(), kUnused);
    for (std::uint32_t i = 0; i < signatures.size(); ++i) {
      if (signatures[i] == Signature{}) continue;
      const ClusterLink& link = cluster_.links()[i];
      const auto [entry, is_new] =
          classes.try_emplace({link.kind, link.capacity.value, signatures[i]},
                              static_cast<std::uint32_t>(first_links_.size()));
      class_of_[i] = entry->second;
      if (is_new) {
        first_links_.push_back(i);
        counts_.push_back(0);
      }
      ++counts_[entry->second];
    }
  }

  /// Whether all copies lie as the first one does. On the way: the loads of the first link of each
  /// class.
  std::vector<std::vector<Entry>> compare_copies() {
    std::vector<std::vector<Entry>> entries(first_links_.size());
    Signature expected;
    for_each_copy([&](std::uint32_t number, std::size_t copy, std::span<const LinkLoad> loads) {
      Signature found;
      for (const LinkLoad& load : loads) {
        const std::uint32_t row = class_of_[index_of(load.link)];
        found.add(row, load.weight);
        if (first_links_[row] != index_of(load.link)) continue;
        std::vector<Entry>& list = entries[row];
        if (list.empty() || list.back().list != number) list.push_back({number, 0});
        list.back().weight += load.weight;
      }
      if (copy == 0) expected = found;
      if (copy == 0 || !out_.alike) return;
      const auto [f, kind] = lists_[number];
      out_.alike =
          found == expected && (kind != LoadKind::ring ||
                                family_facts(cluster_, families_[f], copy, loads) == out_.facts[f]);
    });
    return entries;
  }

  void write_links(std::vector<std::vector<Entry>>& entries) {
    using Key = std::tuple<LinkKind, double, std::vector<Entry>>;
    struct Row {
      std::uint32_t first_link = kUnused;
      std::uint64_t count = 0;
    };
    std::map<Key, Row> rows;  // classes that differ only in how their sums come about are one
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const ClusterLink& link = cluster_.links()[first_links_[i]];
      Row& row = rows[{link.kind, link.capacity.value, std::move(entries[i])}];
      row.first_link = std::min(row.first_link, first_links_[i]);
      row.count += counts_[i];
    }
    for (const auto& [key, row] : rows) {
      const LinkId id{static_cast<unsigned>(out_.links.size())};
      out_.links.push_back({.name = cluster_.name_of(LinkId{row.first_link}),
                            .capacity = {std::get<1>(key)},
                            .count = row.count});
      for (const Entry& entry : std::get<2>(key)) {
        const auto [family, kind] = lists_[entry.list];
        load_group(out_.groups[family], out_.facts[family], kind, {id, entry.weight});
      }
    }
  }

  const Cluster& cluster_;
  const ParallelGrid& grid_;
  bool only_alike_;                    // nobody wants the view where copies differ
  std::vector<GroupFamily> families_;  // in the order of groups
  std::vector<List> lists_;
  std::vector<std::uint32_t> class_of_;     // by LinkId of the cluster; kUnused without load
  std::vector<std::uint32_t> first_links_;  // by class
  std::vector<std::uint64_t> counts_;       // by class
  std::vector<LinkLoad> kept_;
  std::vector<std::size_t> first_kept_{0};  // by copy of a list, one more at the end
  Communicators out_;
};

}  // namespace

Communicators stage_communicators(const Cluster& cluster, const Job& job, bool only_alike) {
  return StageView(cluster, job, only_alike).build();
}

}  // namespace flopcast
