#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "models/pipeline_schedule_orders.h"

// 1F1B-V: two chunks placed as a V, whole backwards, about two thirds of 1F1B's activations.
//
// As V-Min (pipeline_schedule_v_pattern.cpp) a block of six slots is repeated, here with backwards
// of two slots each. Then every pass moves to the earliest free place that its inputs and the peak
// of activations allow.
//
// Source: Qi et al., arXiv 2405.15362, appendix on building blocks without splitting the backward;
// offsets and order of the moves from sail-sg/zero-bubble-pipeline-parallelism 39f2c186,
// megatron/core/pipeline_parallel/zerobubble/scheduler/v1f1b.py. A backward is taken to last as
// long as two forwards, and hops to be free.

namespace flopcast {

namespace {

constexpr std::size_t kPeriod = 6;

enum class Cell : std::uint8_t {
  forward0,
  forward1,
  backward1,  // first slot
  backward0,
  backward1_end,  // second slot
  backward0_end,
  free,
};
constexpr std::size_t kKinds = 6;

constexpr std::size_t index(Cell cell) { return static_cast<std::size_t>(cell); }

// Slot within the period, by rank and kind: one slot per hop for forwards, two for backwards. Where
// three backwards in a row would take all six slots of a period, three slots are left out.
std::vector<std::array<std::size_t, kKinds>> building_block(std::size_t ranks) {
  std::vector<std::array<std::size_t, kKinds>> block(ranks);
  std::size_t slot = 0;
  for (std::size_t r = 0; r < ranks; ++r) block[r][index(Cell::forward0)] = ++slot;
  for (std::size_t r = ranks; r-- > 0;) block[r][index(Cell::forward1)] = ++slot;
  ++slot;
  if (ranks % 3 == 0) slot += 3;
  std::size_t in_a_row = (3 - (ranks + 2) % 3) % 3;
  const auto place = [&](std::size_t r, Cell first, Cell second) {
    block[r][index(first)] = slot;
    block[r][index(second)] = slot + 1;
    slot += 2;
    if (++in_a_row == 3) {
      in_a_row = 0;
      slot += 3;
    }
  };
  for (std::size_t r = 0; r < ranks; ++r) place(r, Cell::backward1, Cell::backward1_end);
  for (std::size_t r = ranks; r-- > 0;) place(r, Cell::backward0, Cell::backward0_end);
  for (auto& rank : block) {
    for (std::size_t& offset : rank) offset %= kPeriod;
  }
  return block;
}

class BlockRepeater {
 public:
  BlockRepeater(std::size_t ranks, std::size_t micro_batches);

  void move_forward();
  ScheduleOps ops() const;

 private:
  using Row = std::vector<Cell>;

  std::size_t inputs_end(std::size_t r, Cell cell) const;
  void move(std::size_t r, std::size_t from);
  bool fits(std::size_t r, Cell cell, std::size_t slot) const;
  std::size_t last_of(std::size_t r, Cell cell, std::size_t micro_batch) const {
    return moved_[r][index(cell)][micro_batch];
  }

  std::vector<Row> cells_;               // by rank, slot
  std::vector<std::vector<int>> alive_;  // after a slot
  int peak_ = 0;
  std::vector<std::array<std::vector<std::size_t>, kKinds>> moved_;  // slots by rank, kind
};

// Passes of a kind begin where the first micro-batch can be, rank after rank.
BlockRepeater::BlockRepeater(std::size_t ranks, std::size_t micro_batches) : moved_(ranks) {
  const auto block = building_block(ranks);
  const std::size_t slots = (4 * ranks + micro_batches + 1) * kPeriod;
  cells_.assign(ranks, Row(slots, Cell::free));
  std::size_t slot = kPeriod;
  const auto put = [&](std::size_t r, Cell cell, std::size_t first) {
    for (std::size_t m = 0; m < micro_batches; ++m) cells_[r][first + kPeriod * m] = cell;
  };
  const auto start = [&](std::size_t r, Cell cell) {
    while (slot % kPeriod != block[r][index(cell)]) ++slot;
    put(r, cell, slot++);
    if (cell == Cell::backward1) put(r, Cell::backward1_end, slot);
    if (cell == Cell::backward0) put(r, Cell::backward0_end, slot);
  };
  for (std::size_t r = 0; r < ranks; ++r) start(r, Cell::forward0);
  for (std::size_t r = ranks; r-- > 0;) start(r, Cell::forward1);
  for (std::size_t r = 0; r < ranks; ++r) start(r, Cell::backward1);
  for (std::size_t r = ranks; r-- > 0;) start(r, Cell::backward0);
  for (const Row& row : cells_) {
    int alive = 0;
    auto& counts = alive_.emplace_back();
    for (const Cell cell : row) {
      if (cell == Cell::forward0 || cell == Cell::forward1) ++alive;
      if (cell == Cell::backward1_end || cell == Cell::backward0_end) --alive;
      counts.push_back(alive);
      peak_ = std::max(peak_, alive);
    }
  }
}

/// The first slot in which the next pass of a kind has its inputs.
std::size_t BlockRepeater::inputs_end(std::size_t r, Cell cell) const {
  const std::size_t m = moved_[r][index(cell)].size();
  const bool first = r == 0;
  const bool last = r + 1 == cells_.size();
  std::size_t end = m > 0 ? last_of(r, cell, m - 1) + 1 : 0;
  const auto follow = [&](std::size_t rank, Cell input) {
    end = std::max(end, last_of(rank, input, m) + 1);
  };
  switch (cell) {
    case Cell::forward0:
      if (!first) follow(r - 1, Cell::forward0);
      break;
    case Cell::forward1: last ? follow(r, Cell::forward0) : follow(r + 1, Cell::forward1); break;
    case Cell::backward1:
      first ? follow(r, Cell::forward1) : follow(r - 1, Cell::backward1_end);
      break;
    case Cell::backward0:
      last ? follow(r, Cell::backward1_end) : follow(r + 1, Cell::backward0_end);
      break;
    case Cell::backward1_end: follow(r, Cell::backward1); break;
    case Cell::backward0_end: follow(r, Cell::backward0); break;
    case Cell::free: break;
  }
  return end;
}

bool BlockRepeater::fits(std::size_t r, Cell cell, std::size_t slot) const {
  const bool two = cell == Cell::backward1 || cell == Cell::backward0;
  return cells_[r][slot] == Cell::free && (!two || cells_[r][slot + 1] == Cell::free);
}

void BlockRepeater::move(std::size_t r, std::size_t from) {
  const Cell cell = cells_[r][from];
  const bool is_forward = cell == Cell::forward0 || cell == Cell::forward1;
  const bool frees = cell == Cell::backward1_end || cell == Cell::backward0_end;
  std::size_t to = inputs_end(r, cell);
  const auto skip_taken = [&] {
    while (to < from && !fits(r, cell, to)) ++to;
  };
  skip_taken();
  if (is_forward && to < from) {  // not before the peak allows one more
    std::size_t place = from;
    while (place > to && alive_[r][place - 1] < peak_) --place;
    to = place;
    skip_taken();
  }
  moved_[r][index(cell)].push_back(to);
  if (to == from) return;
  cells_[r][to] = cell;
  cells_[r][from] = Cell::free;
  for (std::size_t slot = to; slot < from; ++slot) {
    if (is_forward) ++alive_[r][slot];
    if (frees) --alive_[r][slot];
  }
}

void BlockRepeater::move_forward() {
  for (std::size_t slot = 0; slot < cells_.front().size(); ++slot) {
    for (std::size_t r = 0; r < cells_.size(); ++r) {
      if (cells_[r][slot] != Cell::free) move(r, slot);
    }
  }
}

ScheduleOps BlockRepeater::ops() const {
  ScheduleOps ranks;
  for (const Row& row : cells_) {
    RankOps& ops = ranks.emplace_back();
    std::array<int, kKinds> next{};
    for (const Cell cell : row) {
      switch (cell) {
        case Cell::forward0: ops.push_back(forward_op(next[index(cell)]++, 0)); break;
        case Cell::forward1: ops.push_back(forward_op(next[index(cell)]++, 1)); break;
        case Cell::backward1: ops.push_back(backward_op(next[index(cell)]++, 1)); break;
        case Cell::backward0: ops.push_back(backward_op(next[index(cell)]++, 0)); break;
        case Cell::backward1_end:
        case Cell::backward0_end:
        case Cell::free: break;
      }
    }
  }
  return ranks;
}

}  // namespace

ScheduleOps one_f_one_b_v_order(const ScheduleShape& shape) {
  BlockRepeater repeater(static_cast<std::size_t>(shape.ranks),
                         static_cast<std::size_t>(shape.micro_batches));
  repeater.move_forward();
  return repeater.ops();
}

}  // namespace flopcast
