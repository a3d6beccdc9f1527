// Programs that differ in amounts alone, as one with variants: nothing else changes.

#include <catch2/catch.hpp>
#include <vector>

#include "sim/fold.h"
#include "small_workload.h"

using namespace flopcast;
using namespace flopcast::test;

namespace {

struct Work {
  std::vector<KernelId> kernels;
  std::int64_t bytes;
};

/// Each rank holds `bytes`, computes `kernels` and meets the others.
ProgramBuilder build(const Work& work, Amounts amounts) {
  ProgramBuilder program(1, amounts);
  program.allocate(kMain, CategoryId{0}, 7);
  program.allocate_varying(kMain, CategoryId{1}, work.bytes);
  for (const KernelId kernel : work.kernels) program.compute_varying(kMain, kernel, kCompute, {});
  program.release_varying(kMain, CategoryId{1}, work.bytes);
  program.collective(kMain, 0, TransferId{0}, kCommunication, {});
  return program;
}

struct Both {
  Workload apart;
  Workload shared;
};

Both four_ranks() {
  SmallWorkload small;
  const KernelId one = small.kernel(microseconds(1));
  const KernelId two = small.kernel(microseconds(2));
  const KernelId again = small.kernel(microseconds(2));  // another row of the same time
  small.transfer({.latency = microseconds(1)});
  const GroupId all = small.group({RankId{0}, RankId{1}, RankId{2}, RankId{3}});
  Both both{.apart = small.workload, .shared = small.workload};
  // The last one has an op less, and so a program of its own.
  const std::vector<Work> works{
      {{one, two}, 10}, {{one, one}, 20}, {{one, again}, 10}, {{one}, 10}};
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    both.apart.programs.push_back(build(works[rank], Amounts::in_ops).finish());
    both.apart.ranks.push_back({.name = "rank", .program = ProgramId{rank}, .groups = {all}});
    Rank shared{.name = "rank", .program = ProgramId{0}, .groups = {all}};
    if (rank < 3) {
      ProgramBuilder builder = build(works[rank], rank == 0 ? Amounts::in_variant : Amounts::alone);
      shared.variant = VariantId{rank};
      both.shared.variants.push_back(builder.take_variant());
      Program program = std::move(builder).finish();
      if (rank == 0) both.shared.programs.push_back(std::move(program));
      if (rank > 0) CHECK(program.streams[kMain].empty());
    } else {
      shared.program = ProgramId{1};
      both.shared.programs.push_back(build(works[rank], Amounts::in_ops).finish());
    }
    both.shared.ranks.push_back(shared);
  }
  return both;
}

}  // namespace

TEST_CASE("amounts alone make a variant, of what varies") {
  const Both both = four_ranks();
  const std::vector<Variant>& variants = both.shared.variants;
  CHECK(variants[0].rows == std::vector<std::uint32_t>{0, 1});
  CHECK(variants[1].rows == std::vector<std::uint32_t>{0, 0});
  CHECK(variants[2].rows == std::vector<std::uint32_t>{0, 2});
  CHECK(variants[0].sizes == std::vector<std::int64_t>{10, 10});
  CHECK(variants[1].sizes == std::vector<std::int64_t>{20, 20});
}

TEST_CASE("a variant runs as its own program") {
  const Both both = four_ranks();
  const Result apart = run(both.apart);
  const Result shared = run(both.shared);
  CHECK(apart.makespan == us(4));
  CHECK(shared.makespan == apart.makespan);
  CHECK(shared.events == apart.events);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    CHECK(shared.ranks[rank].compute_busy == apart.ranks[rank].compute_busy);
    CHECK(shared.ranks[rank].memory.pool_peak == apart.ranks[rank].memory.pool_peak);
  }
  CHECK(shared.ranks[1].memory.pool_peak[1] == 20);
  CHECK(shared.ranks[0].memory.pool_peak[0] == 7);
}

TEST_CASE("equal variants fold, others do not") {
  const Both both = four_ranks();
  const Folding folding = fold(both.shared);
  CHECK(folding.rank_class == fold(both.apart).rank_class);
  CHECK(folding.rank_class[0] == folding.rank_class[2]);  // by time, not by row
  CHECK(folding.workload.ranks.size() == 3);
  CHECK(run(folding.workload).makespan == us(4));
}
