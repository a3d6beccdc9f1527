#pragma once

// Inside fold(): the graph of ranks, groups and links, with a label for each way in which two of
// them are joined.

#include <array>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/fold.h"
#include "sim/fold_programs.h"
#include "sim/partition.h"

namespace flopcast {

/// Nodes are ranks, then groups, then links.
class FoldGraph {
 public:
  /// What an edge says.
  struct Label {
    std::uint32_t arrivals = 0;  // rank to group
    std::size_t pattern = 0;     // group to link
    double weight = 0;
  };

  FoldGraph(const FoldSource& rows, const FoldedPrograms& programs);

  std::uint32_t rank_node(RankId id) const { return index_of(id); }
  std::uint32_t group_node(std::uint32_t g) const { return rows_.ranks() + g; }
  std::uint32_t link_node(std::uint32_t l) const { return rows_.ranks() + rows_.groups() + l; }
  std::size_t nodes() const { return std::size_t{link_node(0)} + rows_.links(); }

  bool used(std::uint32_t group) const { return uses_[group].used; }
  bool message(std::uint32_t group) const { return uses_[group].message; }
  const Label& label(std::uint32_t id) const { return labels_[id]; }
  /// Once; the list of edges is gone afterwards.
  Adjacency take_adjacency() { return Adjacency(nodes(), std::exchange(edges_, {})); }
  /// What nodes are by themselves, `varies`: their draws among it.
  std::vector<std::uint32_t> colours(bool varies) const;

 private:
  /// What tells an edge from another. Rank to group: `first` is made of the slots, `second` is how
  /// often it arrives. Group to link: pattern and weight.
  struct LabelKey {
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    friend bool operator==(const LabelKey&, const LabelKey&) = default;
  };
  struct LabelHash {
    std::size_t operator()(const LabelKey& key) const;
  };
  struct RecentLabel {
    LabelKey key{};
    std::uint32_t id = kNoLabel;
  };
  static constexpr std::uint32_t kNoLabel = 0xffffffffU;

  void note_uses();
  void join_members(std::uint32_t g);
  void join_links(std::uint32_t g);
  std::uint64_t slots_of(std::uint32_t g, RankId member) const;
  std::uint32_t label_of(const LabelKey& key, const Label& label);

  const FoldSource& rows_;
  const FoldedPrograms& programs_;
  std::vector<SlotUse> uses_;  // by group
  std::vector<LabelledEdge> edges_;
  std::vector<Label> labels_;
  std::unordered_map<LabelKey, std::uint32_t, LabelHash> label_ids_;  // never iterated
  std::array<RecentLabel, 64> recent_{};                              // by hash
  std::vector<RankId> members_;                                       // of the group in work
  std::vector<LinkLoad> loads_;
};

}  // namespace flopcast
