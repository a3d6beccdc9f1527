#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "models/pipeline_schedule_orders.h"
#include "sim/check.h"

// V-Half and V-Min: the memory of a schedule is the life time of its activations over the time
// between micro-batches, so a building block with short lives, repeated every six passes, has low
// peaks: half and a third of 1F1B.
//
// 1. Every rank repeats the block: forward of chunk 0 and 1, input gradient of chunk 1 and 0, each
//    at its offset. Weight gradients take the slots between.
// 2. Before and after the steady state passes move to earlier free slots, where dependencies and
//    the peak that was there allow it. Done twice: with the weight gradients as passes of their
//    own, then without them, adding them again afterwards.
// 3. The order that results is what a rank runs.
//
// Source: Qi et al., arXiv 2405.15362, sections 3 and 4, appendix on building blocks; offsets, the
// order of the moves and of the weight gradients from sail-sg/zero-bubble-pipeline-parallelism
// 39f2c186, megatron/core/pipeline_parallel/zerobubble/scheduler/zbv_greedy.py. All passes are
// taken to last equally long, and hops to be free.

namespace flopcast {

namespace {

// Rows of the slots of a rank. Rows 0 and 2 wait for the rank before, 1 and 3 for the one after;
// each waits for the row above it on its own rank.
constexpr std::size_t kForward0 = 0;
constexpr std::size_t kForward1 = 1;
constexpr std::size_t kGradient1 = 2;
constexpr std::size_t kGradient0 = 3;
constexpr std::size_t kWeight = 4;  // of chunk 1, or of both; a row 5 of chunk 0 may follow
constexpr std::size_t kPasses = 4;  // rows without weight gradients
constexpr int kPatternPeriod = 6;

constexpr Pass kPassOfRow[] = {Pass::forward,        Pass::forward,         Pass::input_gradient,
                               Pass::input_gradient, Pass::weight_gradient, Pass::weight_gradient};
constexpr std::int32_t kChunkOfRow[] = {0, 1, 1, 0, 1, 0};

using Slots = std::vector<int>;                       // of one row, by micro-batch, ascending
using RankSlots = std::vector<Slots>;                 // by row
using Grid = std::vector<RankSlots>;                  // by rank
using Block = std::vector<std::array<int, kPasses>>;  // offsets, by rank

enum class Weights { together, by_chunk };

int last_slot(const RankSlots& rank) {
  int last = 0;
  for (const Slots& row : rank) last = std::max(last, row.back());
  return last;
}

/// Which row runs in which slot; kFree where none.
constexpr std::size_t kFree = ~std::size_t{0};
std::vector<std::size_t> occupation(const RankSlots& rank) {
  std::vector<std::size_t> rows(static_cast<std::size_t>(last_slot(rank)) + 1, kFree);
  for (std::size_t row = 0; row < rank.size(); ++row) {
    for (const int slot : rank[row]) rows[static_cast<std::size_t>(slot)] = row;
  }
  return rows;
}

/// Weight gradients take free slots as soon as they can, those of chunk 1 first.
void add_weight_gradients(RankSlots& rank, Weights weights) {
  const std::vector<std::size_t> rows = occupation(rank);
  const std::size_t kinds = weights == Weights::by_chunk ? 2 : 1;
  std::array<int, 2> waiting{};
  rank.resize(kPasses + kinds);
  int slot = 0;
  const auto place_one = [&] {
    for (std::size_t kind = 0; kind < kinds; ++kind) {
      if (waiting[kind] == 0) continue;
      rank[kWeight + kind].push_back(slot);
      --waiting[kind];
      return;
    }
  };
  for (const std::size_t row : rows) {
    if (row == kGradient1 || row == kGradient0) {
      ++waiting[kinds == 2 ? row - kGradient1 : 0];
    } else if (row == kFree) {
      place_one();
    }
    ++slot;
  }
  while (waiting[0] + waiting[1] > 0) {
    place_one();
    ++slot;
  }
}

/// Peak of activations. Where the weight gradients have no slots yet, they take the free ones.
int peak_of(const RankSlots& rank) {
  const bool with_weights = rank.size() > kPasses;
  int waiting = 0;
  int alive = 0;
  int peak = 0;
  for (const std::size_t row : occupation(rank)) {
    if (row == kForward0 || row == kForward1) ++alive;
    if (row == kGradient1 || row == kGradient0) ++waiting;
    if (row == kWeight) --alive;
    if (row == kFree && !with_weights && waiting > 0) {
      --alive;
      --waiting;
    }
    peak = std::max(peak, alive);
  }
  return peak;
}

struct Visit {
  int slot;
  std::size_t rank;
  std::size_t row;
  std::size_t micro_batch;
  friend auto operator<=>(const Visit&, const Visit&) = default;
};

std::vector<Visit> by_time(const Grid& grid) {
  std::vector<Visit> visits;
  for (std::size_t r = 0; r < grid.size(); ++r) {
    for (std::size_t row = 0; row < grid[r].size(); ++row) {
      for (std::size_t m = 0; m < grid[r][row].size(); ++m) {
        visits.push_back({grid[r][row][m], r, row, m});
      }
    }
  }
  std::ranges::sort(visits);
  return visits;
}

/// The last slot of what a pass waits for; -1 if it waits for nothing.
int dependency(const Grid& grid, const Visit& at) {
  const RankSlots& rank = grid[at.rank];
  int last = -1;
  const auto follow = [&](int slot) { last = std::max(last, slot); };
  if ((at.row == kForward0 || at.row == kGradient1) && at.rank > 0) {
    follow(grid[at.rank - 1][at.row][at.micro_batch]);
  }
  if ((at.row == kForward1 || at.row == kGradient0) && at.rank + 1 < grid.size()) {
    follow(grid[at.rank + 1][at.row][at.micro_batch]);
  }
  if (at.row > kForward0 && at.row < kPasses) follow(rank[at.row - 1][at.micro_batch]);
  if (at.row == kWeight) {
    Slots gradients = rank[kGradient1];
    gradients.insert(gradients.end(), rank[kGradient0].begin(), rank[kGradient0].end());
    const auto nth = gradients.begin() + static_cast<std::ptrdiff_t>(at.micro_batch);
    std::ranges::nth_element(gradients, nth);
    follow(*nth);
  }
  if (at.micro_batch > 0) follow(rank[at.row][at.micro_batch - 1]);
  return last;
}

/// Moves passes to earlier free slots, in the order of their slots, outside the steady state: from
/// the first gradient of chunk 0 on rank 0 to the last forward of chunk 0. With weight gradients in
/// the grid also before, without them only after.
void move_forward(Grid& grid) {
  enum class Phase { before, steady, after };
  const bool with_weights = grid.front().size() > kPasses;
  int limit = 0;
  for (const RankSlots& rank : grid) limit = std::max(limit, peak_of(rank));
  std::vector<std::vector<bool>> taken;
  for (const RankSlots& rank : grid) {
    taken.emplace_back(static_cast<std::size_t>(last_slot(rank)) + 1, false);
  }
  const std::size_t last_micro_batch = grid.front()[kForward0].size() - 1;
  Phase phase = Phase::before;
  for (const Visit& at : by_time(grid)) {
    int& slot = grid[at.rank][at.row][at.micro_batch];
    std::vector<bool>& busy = taken[at.rank];
    if (phase == Phase::before && at.row == kGradient0 && at.rank == 0) phase = Phase::steady;
    const bool stays = phase == Phase::steady || (phase == Phase::before && !with_weights);
    if (phase == Phase::steady && at.row == kForward0 && at.micro_batch == last_micro_batch) {
      phase = Phase::after;
    }
    if (!stays) {
      for (slot = dependency(grid, at) + 1; slot < at.slot; ++slot) {
        if (!busy[static_cast<std::size_t>(slot)] && peak_of(grid[at.rank]) <= limit) break;
      }
    }
    busy[static_cast<std::size_t>(slot)] = true;
  }
}

/// Starts every pass as early as its order on the rank and its inputs allow.
Grid squeezed(const Grid& grid) {
  Grid starts = grid;
  std::vector<int> end(grid.size(), 0);
  for (const Visit& at : by_time(grid)) {
    int start = end[at.rank];
    if (at.row < kPasses) start = std::max(start, dependency(starts, at) + 1);
    starts[at.rank][at.row][at.micro_batch] = start;
    end[at.rank] = start + 1;
  }
  return starts;
}

void drop_weight_gradients(Grid& grid) {
  for (RankSlots& rank : grid) rank.resize(kPasses);
}

void add_weight_gradients(Grid& grid, Weights weights) {
  for (RankSlots& rank : grid) add_weight_gradients(rank, weights);
}

RankOps ops_of(const RankSlots& rank) {
  std::vector<std::tuple<int, std::size_t, int>> order;
  for (std::size_t row = 0; row < rank.size(); ++row) {
    for (std::size_t m = 0; m < rank[row].size(); ++m) {
      order.emplace_back(rank[row][m], row, static_cast<int>(m));
    }
  }
  std::ranges::sort(order);
  RankOps ops;
  for (const auto& [slot, row, m] : order) {
    ops.push_back({.pass = kPassOfRow[row], .micro_batch = m, .chunk = kChunkOfRow[row]});
  }
  return ops;
}

ScheduleOps repeated(const Block& block, int micro_batches) {
  Grid grid;
  for (const auto& offsets : block) {
    RankSlots& rank = grid.emplace_back(kPasses);
    for (std::size_t row = 0; row < kPasses; ++row) {
      for (int m = 0; m < micro_batches; ++m)
        rank[row].push_back(offsets[row] + kPatternPeriod * m);
    }
  }
  add_weight_gradients(grid, Weights::together);
  move_forward(grid);
  grid = squeezed(grid);
  drop_weight_gradients(grid);
  move_forward(grid);
  add_weight_gradients(grid, Weights::together);
  grid = squeezed(grid);
  drop_weight_gradients(grid);
  add_weight_gradients(grid, Weights::by_chunk);
  ScheduleOps ops;
  for (const RankSlots& rank : grid) ops.push_back(ops_of(rank));
  return ops;
}

}  // namespace

// Twice as fast up as down, so that lives are about equal on all ranks: the sum of both chunks is
// half of 1F1B. An even number of ranks needs an extra gap, or slots of a period would collide.
ScheduleOps v_half_order(const ScheduleShape& shape) {
  const int p = shape.ranks;
  const int gap = p % 2 == 0 ? 3 : 0;
  Block block;
  for (int r = 0; r < p; ++r) {
    block.push_back({2 * r, 3 * p - r - 2, 3 * p + gap + 2 * r - 1, 6 * p + gap - r - 2});
  }
  return repeated(block, shape.micro_batches);
}

// One slot per hop in all four passes. A multiple of three ranks needs an extra gap.
ScheduleOps v_min_order(const ScheduleShape& shape) {
  const int p = shape.ranks;
  const int gap = p % 3 == 0 ? 2 : 0;
  Block block;
  for (int r = 0; r < p; ++r) {
    block.push_back({r, 2 * p - r - 1, 2 * p + gap + r, 4 * p + gap - r - 1});
  }
  return repeated(block, shape.micro_batches);
}

}  // namespace flopcast
