#pragma once

// Which ranks communicate with which: Megatron's two grids over the same ranks.
//   dense:  world = tp * cp * dp * pp        expert: world = etp * ep * edp * pp
// In one order of dimensions the dense grid has ep = 1, the expert grid cp = 1 with etp in tp's and
// edp in dp's place. The pipeline groups of both agree if pp is outermost or dp = edp.
// Source: Megatron-LM d98e8a64, megatron/core/parallel_state.py (RankGenerator).

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flopcast {

enum class Dimension : std::uint8_t { tp, cp, ep, dp, pp };

/// Innermost (fastest varying rank) first.
using RankOrder = std::array<Dimension, 5>;
/// Megatron's default.
inline constexpr RankOrder kDefaultOrder{Dimension::tp, Dimension::cp, Dimension::ep, Dimension::dp,
                                         Dimension::pp};

/// Reads "tp-cp-ep-dp-pp". Dimensions left out follow in the default order, as in Megatron, where
/// they must have size 1. Nothing on an unknown or repeated name.
std::optional<RankOrder> parse_rank_order(std::string_view text);
std::string to_text(const RankOrder& order);

struct ParallelGrid {
  int tp = 1;
  int cp = 1;
  int ep = 1;
  int dp = 1;  // dense data parallel, without cp
  int pp = 1;
  int etp = 1;  // expert tensor parallel
  RankOrder order = kDefaultOrder;

  int world() const { return tp * cp * dp * pp; }
  int edp() const { return world() / (etp * ep * pp); }  // expert data parallel
};

/// Whether the expert grid covers the same ranks with the same pipeline groups; Megatron also wants
/// dp = edp unless pp is outermost.
bool grids_agree(const ParallelGrid& grid);

enum class GroupKind : std::uint8_t {
  tp,
  cp,
  dp,
  pp,
  ep,
  etp,
  edp,
  dp_cp,     // data and context: gradients of dense parameters
  tp_pp,     // "model parallel": gradient norm without distributed optimizer
  tp_dp_cp,  // all ranks of a pipeline stage
  tp_cp,
  etp_ep,
  etp_ep_pp,
};

/// All groups of a kind, each with its ranks in group order, groups in order of first rank. The
/// grids must agree. Linear in the number of ranks.
std::vector<std::vector<int>> process_groups(const ParallelGrid& grid, GroupKind kind);

}  // namespace flopcast
