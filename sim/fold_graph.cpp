#include "sim/fold_graph.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

#include "sim/check.h"

namespace flopcast {
namespace {

constexpr std::uint64_t kLoad = std::uint64_t{1} << 63U;  // in LabelKey::first, of group to link

/// Numbers keys in the order in which they come.
template <class Key>
class Numbers {
 public:
  std::uint32_t of(const Key& key) {
    if (numbers_.empty() || key != last_) {
      last_ = key;
      number_ =
          numbers_.try_emplace(key, static_cast<std::uint32_t>(numbers_.size())).first->second;
    }
    return number_;
  }
  std::uint32_t count() const { return static_cast<std::uint32_t>(numbers_.size()); }

 private:
  std::map<Key, std::uint32_t> numbers_;
  Key last_{};
  std::uint32_t number_ = 0;
};

}  // namespace

std::size_t FoldGraph::LabelHash::operator()(const LabelKey& key) const {
  const std::uint64_t mixed = (key.first ^ std::rotl(key.second, 29)) * 0x9e3779b97f4a7c15U;
  return mixed ^ (mixed >> 32U);
}

FoldGraph::FoldGraph(const FoldSource& rows, const FoldedPrograms& programs)
    : rows_(rows), programs_(programs), uses_(rows.groups()) {
  FLOPCAST_CHECK(nodes() < std::size_t{0xffffffffU},
                 "ranks, groups and links are fewer than 2^32 - 1");
  note_uses();
  std::size_t edges = 0;
  for (std::uint32_t g = 0; g < rows.groups(); ++g) {
    const FoldSource::GroupFacts group = rows.group(g);
    if (used(g)) edges += group.members.size() + group.loads;
  }
  edges_.reserve(edges);
  for (std::uint32_t g = 0; g < rows.groups(); ++g) {
    if (!used(g)) continue;
    join_members(g);
    join_links(g);
  }
}

void FoldGraph::note_uses() {
  for (std::uint32_t row = 0; row < rows_.ranks(); ++row) {
    const FoldSource::RankFacts rank = rows_.rank(row);
    FLOPCAST_CHECK(index_of(rank.program) < programs_.slot_uses.size(), "a rank has a program");
    const auto& slots = programs_.slot_uses[index_of(rank.program)];
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
      if (!slots[slot].used) continue;
      FLOPCAST_CHECK(slot < rank.groups.size() && index_of(rank.groups[slot]) < rows_.groups(),
                     "a slot in use holds a group of the table");
      SlotUse& use = uses_[index_of(rank.groups[slot])];
      use.used = true;
      use.message = use.message || slots[slot].message;
      use.patterns |= slots[slot].patterns;
    }
  }
}

std::uint32_t FoldGraph::label_of(const LabelKey& key, const Label& label) {
  RecentLabel& recent = recent_[LabelHash{}(key) % recent_.size()];
  if (recent.id != kNoLabel && recent.key == key) return recent.id;
  const auto [entry, is_new] =
      label_ids_.try_emplace(key, static_cast<std::uint32_t>(labels_.size()));
  if (is_new) labels_.push_back(label);
  recent = {key, entry->second};
  return entry->second;
}

/// Hash of the slots through which the member uses the group. They tell the ends of a pair apart
/// too: a slot either sends or receives.
std::uint64_t FoldGraph::slots_of(std::uint32_t g, RankId member) const {
  const FoldSource::RankFacts rank = rows_.rank(index_of(member));
  std::uint64_t hash = 0;
  for (std::size_t slot = 0; slot < rank.groups.size(); ++slot) {
    if (index_of(rank.groups[slot]) != g || !programs_.uses(rank.program, slot)) continue;
    hash = (hash ^ (slot + 1)) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 32U;
  }
  return hash & ~kLoad;
}

void FoldGraph::join_members(std::uint32_t g) {
  const FoldSource::GroupFacts group = rows_.group(g);
  FLOPCAST_CHECK(!message(g) || group.members.size() == 2,
                 "messages go from one of a pair to the other");
  members_.assign(group.members.begin(), group.members.end());
  if (!std::is_sorted(members_.begin(), members_.end())) {
    std::sort(members_.begin(), members_.end());
  }
  for (auto member = members_.begin(); member != members_.end();) {
    FLOPCAST_CHECK(index_of(*member) < rows_.ranks(), "a group's members are ranks");
    const auto next = std::find_if(member, members_.end(), [&](RankId m) { return m != *member; });
    const auto listed = static_cast<std::uint32_t>(next - member);
    const Label label{.arrivals = group.arrivals == 0 ? 1 : listed};
    const LabelKey key{slots_of(g, *member), label.arrivals};
    edges_.push_back({rank_node(*member), group_node(g), label_of(key, label)});
    member = next;
  }
}

void FoldGraph::join_links(std::uint32_t g) {
  const std::size_t patterns = rows_.group(g).patterns;
  for (std::size_t pattern = 0; pattern < patterns; ++pattern) {
    if ((uses_[g].patterns & pattern_bit(pattern)) == 0) continue;
    loads_.clear();
    rows_.append_loads(g, pattern, loads_);
    const auto by_link = [](const LinkLoad& a, const LinkLoad& b) {
      return a.link != b.link ? a.link < b.link : a.weight < b.weight;
    };
    if (!std::is_sorted(loads_.begin(), loads_.end(), by_link)) {
      std::sort(loads_.begin(), loads_.end(), by_link);
    }
    for (auto load = loads_.begin(); load != loads_.end();) {
      FLOPCAST_CHECK(index_of(load->link) < rows_.links(), "a group loads a link");
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

std::vector<std::uint32_t> FoldGraph::colours(bool varies) const {
  std::vector<std::uint32_t> colours;
  colours.reserve(nodes());
  Numbers<std::tuple<std::uint64_t, double, std::uint64_t>> of_ranks;
  for (std::uint32_t row = 0; row < rows_.ranks(); ++row) {
    const FoldSource::RankFacts rank = rows_.rank(row);
    const std::uint64_t variant =
        rank.variant == kNoVariant ? 0 : 1 + programs_.variant_class[index_of(rank.variant)];
    const std::uint64_t work = (variant << 32U) | programs_.class_of[index_of(rank.program)];
    colours.push_back(of_ranks.of({work, rank.speed, varies ? rank.draws : 0}));
  }
  Numbers<std::uint32_t> of_groups;
  for (std::uint32_t g = 0; g < rows_.groups(); ++g) {
    const bool counts = rows_.group(g).arrivals != 0;
    const std::uint32_t kind = (used(g) ? 1U : 0U) | (message(g) ? 2U : 0U) | (counts ? 4U : 0U);
    colours.push_back(of_ranks.count() + of_groups.of(kind));
  }
  Numbers<double> of_links;
  for (std::uint32_t l = 0; l < rows_.links(); ++l) {
    colours.push_back(of_ranks.count() + of_groups.count() +
                      of_links.of(rows_.link(l).capacity.value));
  }
  return colours;
}

}  // namespace flopcast
