#include <catch2/catch.hpp>

#include "sim/engine.h"
#include "small_workload.h"

using namespace flopcast;
using namespace flopcast::test;

namespace {
constexpr LabelId kLabel{0};
constexpr CategoryId kWeights{0};
constexpr CategoryId kActivations{1};
}  // namespace

TEST_CASE("the memory peak is broken down by pool at its moment") {
  // weights 100 from 0 us, 40 less after 1 us; activations 50 from 0 us, 70 more at 1 us, freed at
  // 2 us. Totals: 150, 180, 60.
  SmallWorkload small;
  const KernelId kernel = small.kernel(microseconds(1));
  ProgramBuilder program(1);
  program.allocate(kMain, kWeights, 100);
  program.allocate(kMain, kActivations, 50);
  program.compute(kMain, kernel, kCompute, kLabel);
  program.allocate(kMain, kActivations, 70);
  program.release(kMain, kWeights, 40);
  program.compute(kMain, kernel, kCompute, kLabel);
  program.release(kMain, kActivations, 120);
  program.compute(kMain, kernel, kCompute, kLabel);
  small.rank(std::move(program));
  TimelineBuffer timeline;
  const Result result = run(small.workload, &timeline);
  const MemoryPeak& peak = result.ranks[0].memory;
  CHECK(peak.total == 180);
  CHECK(peak.at == us(1));
  CHECK(peak.by_pool == std::vector<std::int64_t>{60, 120});
  CHECK(peak.pool_peak == std::vector<std::int64_t>{100, 120});
  REQUIRE(timeline.memory.size() == 3);
  CHECK(timeline.memory[0].bytes == 150);
  CHECK(timeline.memory[1].bytes == 180);
  CHECK(timeline.memory[2].bytes == 60);
  CHECK(timeline.memory[2].at == us(2));
}

TEST_CASE("what is freed within its instant leaves no trace") {
  SmallWorkload small;
  ProgramBuilder program(1);
  program.allocate(kMain, kWeights, 100);
  program.allocate(kMain, kActivations, 1000);
  program.release(kMain, kActivations, 1000);
  program.compute(kMain, small.kernel(microseconds(1)), kCompute, kLabel);
  small.rank(std::move(program));
  CHECK(run(small.workload).ranks[0].memory.total == 100);
}

TEST_CASE("streams of a rank allocate from the same memory") {
  SmallWorkload small;
  ProgramBuilder program(2);
  program.allocate(kMain, kWeights, 10);
  program.compute(kMain, small.kernel(microseconds(4)), kCompute, kLabel);
  program.release(kMain, kWeights, 10);
  program.compute(kSide, small.kernel(microseconds(3)), kCompute, kLabel);
  program.allocate(kSide, kWeights, 5);
  small.rank(std::move(program));
  const Result result = run(small.workload);
  CHECK(result.ranks[0].memory.total == 15);
  CHECK(result.ranks[0].memory.at == us(3));
}
