#pragma once

// Summaries of the same run found in two ways.

#include <catch2/catch.hpp>
#include <cstdlib>

#include "sim/result.h"

namespace flopcast::test {

// Relative. Sums over links are taken in another order, so an end may round to the next picosecond;
// the margin is a few of them, for the random cases that last microseconds only.
inline constexpr double kTolerance = 1e-9;
inline constexpr double kPicoseconds = 5;

inline void require_close(SimTime a, SimTime b, SimTime makespan) {
  const double scale = static_cast<double>(makespan.picoseconds);
  REQUIRE(static_cast<double>(std::abs((a - b).picoseconds)) <= kTolerance * scale + kPicoseconds);
}

inline void require_equal(const RankSummary& one, const RankSummary& row, SimTime makespan) {
  require_close(one.end, row.end, makespan);
  require_close(one.compute_busy, row.compute_busy, makespan);
  require_close(one.idle, row.idle, makespan);
  require_close(one.slowdown, row.slowdown, makespan);
  for (std::size_t c = 0; c < one.by_category.size(); ++c) {
    require_close(one.by_category[c].busy, row.by_category[c].busy, makespan);
    require_close(one.by_category[c].exposed, row.by_category[c].exposed, makespan);
    require_close(one.by_category[c].waiting, row.by_category[c].waiting, makespan);
  }
  REQUIRE(one.bytes_by_category == row.bytes_by_category);
  REQUIRE(one.ops_by_category == row.ops_by_category);
  REQUIRE(one.memory.total == row.memory.total);
  REQUIRE(one.memory.pool_peak == row.memory.pool_peak);
}

}  // namespace flopcast::test
