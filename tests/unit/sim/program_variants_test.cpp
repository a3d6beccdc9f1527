// Programs that differ in amounts alone, as one with variants: nothing else changes.

#include "sim/program_variants.h"

#include <catch2/catch.hpp>
#include <vector>

#include "sim/fold.h"
#include "small_workload.h"

using namespace flopcast;
using namespace flopcast::test;

namespace {

/// Each rank holds `bytes`, computes `kernels` and meets the others.
Program program_of(const std::vector<KernelId>& kernels, std::int64_t bytes) {
  ProgramBuilder program(1);
  program.allocate(kMain, CategoryId{0}, 7);
  program.allocate(kMain, CategoryId{1}, bytes);
  for (const KernelId kernel : kernels) program.compute(kMain, kernel, kCompute, {});
  program.release(kMain, CategoryId{1}, bytes);
  program.collective(kMain, 0, TransferId{0}, kCommunication, {});
  return std::move(program).finish();
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
  both.apart.programs = {program_of({one, two}, 10), program_of({one, one}, 20),
                         program_of({one, again}, 10), program_of({one}, 10)};
  SharedPrograms shared = share_programs(both.apart.programs);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    both.apart.ranks.push_back({.name = "rank", .program = ProgramId{rank}, .groups = {all}});
    const auto [program, variant] = shared.places[rank];
    both.shared.ranks.push_back({.name = "rank",
                                 .program = ProgramId{program},
                                 .groups = {all},
                                 .variant = variant ? VariantId{*variant} : kNoVariant});
  }
  both.shared.programs = std::move(shared.programs);
  both.shared.variants = std::move(shared.variants);
  return both;
}

}  // namespace

TEST_CASE("amounts alone make a variant, of what varies") {
  const Both both = four_ranks();
  REQUIRE(both.shared.programs.size() == 2);  // the last one has an op less
  REQUIRE(both.shared.variants.size() == 3);
  CHECK(both.shared.variants[0].rows == std::vector<std::uint32_t>{1});
  CHECK(both.shared.variants[1].rows == std::vector<std::uint32_t>{0});
  CHECK(both.shared.variants[2].rows == std::vector<std::uint32_t>{2});
  CHECK(both.shared.variants[0].sizes == std::vector<std::int64_t>{10, 10});
  CHECK(both.shared.variants[1].sizes == std::vector<std::int64_t>{20, 20});
  CHECK(both.shared.ranks[3].variant == kNoVariant);
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
