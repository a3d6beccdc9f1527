#include "sim/run_many.h"

#include <catch2/catch.hpp>
#include <stdexcept>
#include <vector>

#include "small_workload.h"

using namespace flopcast;
using namespace flopcast::test;

TEST_CASE("results come in the order of the workloads, for any number of threads") {
  std::vector<Workload> workloads;
  for (int i = 1; i <= 64; ++i) {
    SmallWorkload small;
    ProgramBuilder program(1);
    program.compute(kMain, small.kernel(microseconds(i)), kCompute, LabelId{0});
    small.rank(std::move(program));
    workloads.push_back(std::move(small.workload));
  }
  for (const std::size_t threads : {0u, 1u, 2u, 7u}) {
    CAPTURE(threads);
    const std::vector<Result> results = run_many(workloads, threads);
    REQUIRE(results.size() == workloads.size());
    for (int i = 1; i <= 64; ++i) {
      REQUIRE(results[static_cast<std::size_t>(i - 1)].makespan == us(i));
    }
  }
}

TEST_CASE("the first of several exceptions is passed on") {
  std::vector<int> done(100, 0);
  const auto work = [&](std::size_t i) {
    done[i] = 1;
    if (i % 10 == 7) throw std::runtime_error(std::to_string(i));
  };
  CHECK_THROWS_WITH(for_each_parallel(done.size(), work, 3), "7");
  CHECK(done == std::vector<int>(100, 1));
}
