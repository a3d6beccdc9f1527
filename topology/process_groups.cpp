#include "topology/process_groups.h"

#include <algorithm>
#include <span>

#include "sim/check.h"

namespace flopcast {

namespace {

constexpr std::array kDimensions{Dimension::tp, Dimension::cp, Dimension::ep, Dimension::dp,
                                 Dimension::pp};

constexpr std::string_view name_of(Dimension dimension) {
  switch (dimension) {
    case Dimension::tp: return "tp";
    case Dimension::cp: return "cp";
    case Dimension::ep: return "ep";
    case Dimension::dp: return "dp";
    case Dimension::pp: return "pp";
  }
  return {};
}

// One axis of a grid: how many steps, and how far apart the ranks of neighbouring steps are.
struct Axis {
  int size;
  int stride;
};

// Which grid a kind belongs to and which of its dimensions its members run along.
struct Selection {
  bool expert;
  std::vector<Dimension> along;
};

Selection selection_of(GroupKind kind) {
  using enum Dimension;
  switch (kind) {
    case GroupKind::tp: return {false, {tp}};
    case GroupKind::cp: return {false, {cp}};
    case GroupKind::dp: return {false, {dp}};
    case GroupKind::pp: return {false, {pp}};
    case GroupKind::ep: return {true, {ep}};
    case GroupKind::etp: return {true, {tp}};
    case GroupKind::edp: return {true, {dp}};
    case GroupKind::dp_cp: return {false, {dp, cp}};
    case GroupKind::tp_pp: return {false, {tp, pp}};
    case GroupKind::tp_dp_cp: return {false, {tp, dp, cp}};
    case GroupKind::tp_cp: return {false, {tp, cp}};
    case GroupKind::etp_ep: return {true, {tp, ep}};
    case GroupKind::etp_ep_pp: return {true, {tp, ep, pp}};
  }
  return {};
}

int size_of(const ParallelGrid& grid, Dimension dimension, bool expert) {
  switch (dimension) {
    case Dimension::tp: return expert ? grid.etp : grid.tp;
    case Dimension::cp: return expert ? 1 : grid.cp;
    case Dimension::ep: return expert ? grid.ep : 1;
    case Dimension::dp: return expert ? grid.edp() : grid.dp;
    case Dimension::pp: return grid.pp;
  }
  return 1;
}

// Ranks at every combination of steps along the axes, first axis fastest.
std::vector<int> ranks_along(std::span<const Axis> axes) {
  std::vector<int> ranks{0};
  for (const Axis& axis : axes) {
    const std::size_t inner = ranks.size();
    for (int step = 1; step < axis.size; ++step) {
      for (std::size_t i = 0; i < inner; ++i) ranks.push_back(ranks[i] + step * axis.stride);
    }
  }
  return ranks;
}

}  // namespace

std::optional<RankOrder> parse_rank_order(std::string_view text) {
  std::vector<Dimension> order;
  const auto named = [&](Dimension d) { return std::ranges::count(order, d) > 0; };
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find('-'));
    const auto found = std::ranges::find(kDimensions, word, name_of);
    if (found == kDimensions.end() || named(*found)) return std::nullopt;
    order.push_back(*found);
    text.remove_prefix(std::min(text.size(), word.size() + 1));
  }
  for (const Dimension dimension : kDimensions) {
    if (!named(dimension)) order.push_back(dimension);
  }
  RankOrder result{};
  std::ranges::copy(order, result.begin());
  return result;
}

std::string to_text(const RankOrder& order) {
  std::string text;
  for (const Dimension dimension : order) {
    if (!text.empty()) text += '-';
    text += name_of(dimension);
  }
  return text;
}

bool grids_agree(const ParallelGrid& grid) {
  const int experts = grid.etp * grid.ep * grid.pp;
  if (experts < 1 || grid.world() % experts != 0) return false;
  if (grid.pp == 1) return true;
  int stride = 1;
  int expert_stride = 1;
  for (const Dimension dimension : grid.order) {
    if (dimension == Dimension::pp) break;
    stride *= size_of(grid, dimension, false);
    expert_stride *= size_of(grid, dimension, true);
  }
  return stride == expert_stride && (grid.order.back() == Dimension::pp || grid.dp == grid.edp());
}

// In a grid whose ranks are numbered with the innermost dimension fastest, a group fixes the steps
// along some axes and runs along the others: its ranks are a sum of two offsets. Both lists of
// offsets are ascending, as an outer axis strides over all that lies within it.
std::vector<std::vector<int>> process_groups(const ParallelGrid& grid, GroupKind kind) {
  const Selection selection = selection_of(kind);
  FLOPCAST_CHECK(grids_agree(grid), "checked where the layout is read");
  std::vector<Axis> along;
  std::vector<Axis> across;
  int stride = 1;
  for (const Dimension dimension : grid.order) {
    const Axis axis{size_of(grid, dimension, selection.expert), stride};
    const bool runs = std::ranges::count(selection.along, dimension) > 0;
    (runs ? along : across).push_back(axis);
    stride *= axis.size;
  }
  const std::vector<int> members = ranks_along(along);
  const std::vector<int> first_ranks = ranks_along(across);
  std::vector<std::vector<int>> groups;
  groups.reserve(first_ranks.size());
  for (const int first : first_ranks) {
    std::vector<int>& group = groups.emplace_back(members);
    for (int& rank : group) rank += first;
  }
  return groups;
}

}  // namespace flopcast
