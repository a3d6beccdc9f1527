// Kernels that vary, and what a barrier makes of it.

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "sim/fold.h"
#include "sim/random.h"
#include "small_workload.h"

using namespace flopcast;
using namespace flopcast::test;

namespace {

struct Moments {
  double mean = 0;
  double deviation = 0;
};
Moments moments_of(const std::vector<double>& values) {
  Moments out;
  for (const double value : values) out.mean += value / static_cast<double>(values.size());
  double sum = 0;
  for (const double value : values) sum += (value - out.mean) * (value - out.mean);
  out.deviation = std::sqrt(sum / static_cast<double>(values.size()));
  return out;
}

/// `ranks` of one program: `kernels` of 1 ms, then a barrier.
Workload barrier(std::size_t ranks, int kernels) {
  SmallWorkload small;
  const KernelId kernel = small.kernel(milliseconds(1));
  const TransferId nothing = small.transfer({});
  ProgramBuilder program(1);
  for (int i = 0; i < kernels; ++i) program.compute(kMain, kernel, kCompute, {});
  program.collective(kMain, 0, nothing, kCommunication, {});
  std::vector<RankId> members;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) members.push_back(RankId{rank});
  const GroupId all = small.group(members);
  small.workload.programs.push_back(std::move(program).finish());
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    small.workload.ranks.push_back({.name = "rank", .groups = {all}, .draws = rank});
  }
  return small.workload;
}

/// Time of the barrier over what it is without jitter, in sigmas above 1, by seed.
Moments excess(std::size_t ranks, int kernels, double sigma) {
  Workload workload = barrier(ranks, kernels);
  const Seconds calm = to_seconds(run(workload).makespan);
  std::vector<double> values;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    workload.jitter = {.sigma = sigma, .seed = seed};
    values.push_back((to_seconds(run(workload).makespan) / calm - 1) / sigma);
  }
  return moments_of(values);
}

}  // namespace

TEST_CASE("normal draws have the moments of the normal distribution") {
  std::vector<double> values;
  double cubes = 0;
  double fourths = 0;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    const double z = random_normal(random_bits(7, i));
    values.push_back(z);
    cubes += z * z * z / 1e5;
    fourths += z * z * z * z / 1e5;
  }
  const Moments found = moments_of(values);  // within four standard errors
  CHECK(found.mean == Approx(0).margin(4 / std::sqrt(1e5)));
  CHECK(found.deviation == Approx(1).margin(4 * std::sqrt(0.5 / 1e5)));
  CHECK(cubes == Approx(0).margin(4 * std::sqrt(15 / 1e5)));
  CHECK(fourths == Approx(3).margin(4 * std::sqrt(96 / 1e5)));
}

TEST_CASE("factors are log-normal with the mean 1") {
  std::vector<double> factors;
  std::vector<double> logarithms;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    factors.push_back(random_factor(0.3, random_bits(1, i)));
    logarithms.push_back(std::log(factors.back()));
  }
  CHECK(moments_of(factors).mean == Approx(1).margin(0.004));
  CHECK(moments_of(logarithms).deviation == Approx(0.3).margin(0.003));
  CHECK(random_factor(0, random_bits(1, 1)) == 1);
}

// Expected maximum of n standard normal draws: Harter, Biometrika 48, 1961, table 1; of two it is
// 1 / sqrt(pi).
TEST_CASE("a barrier takes the expected maximum of its ranks' draws") {
  struct Row {
    std::size_t ranks;
    double maximum;
  };
  const auto row = GENERATE(values<Row>(
      {{1, 0}, {2, 0.56419}, {4, 1.02938}, {10, 1.53875}, {20, 1.86748}, {100, 2.50759}}));
  CAPTURE(row.ranks);
  const Moments found = excess(row.ranks, 1, 0.001);  // so small that the logarithm is linear
  CHECK(found.mean == Approx(row.maximum).margin(4 * found.deviation / std::sqrt(1000)));
}

TEST_CASE("kernels that vary by themselves average out between barriers") {
  const Moments one = excess(10, 1, 0.01);
  const Moments sixteen = excess(10, 16, 0.01);
  CHECK(sixteen.mean / one.mean == Approx(0.25).epsilon(0.05));
}

TEST_CASE("ranks with the same draws vary alike and are one class") {
  Workload workload = barrier(6, 3);
  for (std::size_t rank = 0; rank < 6; ++rank) workload.ranks[rank].draws = rank % 2;
  CHECK(fold(workload).workload.ranks.size() == 1);
  workload.jitter = {.sigma = 0.1, .seed = 5};
  const Folding folding = fold(workload);
  REQUIRE(folding.workload.ranks.size() == 2);
  const Result all = run(workload);
  const Result rows = run(folding.workload);
  CHECK(all.makespan == rows.makespan);
  for (std::size_t rank = 0; rank < 6; ++rank) {
    CHECK(all.ranks[rank].compute_busy ==
          rows.ranks[index_of(folding.rank_class[rank])].compute_busy);
  }
  CHECK(all.ranks[0].compute_busy != all.ranks[1].compute_busy);
}

TEST_CASE("the seed decides, and nothing else") {
  Workload workload = barrier(4, 2);
  workload.jitter = {.sigma = 0.1, .seed = 5};
  const SimTime first = run(workload).makespan;
  CHECK(run(workload).makespan == first);
  workload.jitter.seed = 6;
  CHECK(run(workload).makespan != first);
}
