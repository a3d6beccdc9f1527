#include "kernels/plan.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

namespace flopcast {
namespace {

const Machine kNode{
    .compute_major = 9, .gpus_per_node = 8, .nodes = 2, .attention = true, .collectives = true};

std::vector<std::string> keys(const std::vector<MeasurementCase>& plan) {
  std::vector<std::string> all;
  all.reserve(plan.size());
  for (const MeasurementCase& one : plan) all.push_back(key(one));
  return all;
}

TEST_CASE("a plan names each case once, and more effort means more of them") {
  std::size_t before = 0;
  for (const Effort effort : {Effort::quick, Effort::standard, Effort::full}) {
    const auto all = keys(measurement_plan(effort, kNode));
    CHECK(std::set<std::string>(all.begin(), all.end()).size() == all.size());
    CHECK(all == keys(measurement_plan(effort, kNode)));
    CHECK(all.size() > before);
    before = all.size();
  }
}

TEST_CASE("every effort has each kind of case, and any beginning of it several") {
  const auto effort = GENERATE(Effort::quick, Effort::standard, Effort::full);
  const auto plan = measurement_plan(effort, kNode);
  std::set<std::size_t> kinds;
  std::set<std::size_t> early;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    kinds.insert(plan[i].index());
    if (i < plan.size() / 4) early.insert(plan[i].index());
  }
  CHECK(kinds.size() == std::variant_size_v<MeasurementCase>);
  CHECK(early.size() >= kinds.size() - 2);  // the longest lists have their turn
}

TEST_CASE("a machine is not asked for what it lacks") {
  const auto op_of = [](const MeasurementCase& one) {
    return std::get<std::string>(fields(one).front().value);
  };
  const Machine volta{.compute_major = 7, .gpus_per_node = 1};
  for (const MeasurementCase& one : measurement_plan(Effort::full, volta)) {
    CAPTURE(key(one));
    CHECK(op_of(one) != "attention");
    CHECK(op_of(one) != "all_reduce");
    if (const auto* gemm = std::get_if<GemmCase>(&one)) CHECK(gemm->type == DataType::fp16);
  }
  const Machine ampere{.compute_major = 8, .gpus_per_node = 1};
  for (const MeasurementCase& one : measurement_plan(Effort::full, ampere)) {
    if (const auto* gemm = std::get_if<GemmCase>(&one)) CHECK(gemm->type != DataType::fp8);
  }
}

// Llama 3 8B at 4096 tokens: Y[4096, 28672] = X[4096, 4096] W^T, and its two gradients.
TEST_CASE("real layers come in three passes") {
  const auto gemms = layer_gemms(Effort::standard);
  const auto has = [&](GemmPass pass, std::int64_t m, std::int64_t n, std::int64_t k) {
    return std::any_of(gemms.begin(), gemms.end(), [&](const GemmCase& g) {
      return g.pass == pass && g.m == m && g.n == n && g.k == k;
    });
  };
  CHECK(has(GemmPass::forward, 4096, 28672, 4096));
  CHECK(has(GemmPass::dgrad, 4096, 4096, 28672));
  CHECK(has(GemmPass::wgrad, 28672, 4096, 4096));
}

// Halton's sequence has no two points close: every eighth of each axis is visited about equally.
TEST_CASE("filling shapes are even on a log scale, multiples of 8, in range") {
  const auto gemms = filling_gemms(160);
  std::array<int, 8> eighths{};
  for (const GemmCase& gemm : gemms) {
    for (const std::int64_t size : {gemm.m, gemm.n, gemm.k}) {
      CHECK(size % 8 == 0);
      CHECK(size >= 64);
    }
    CHECK(gemm.m <= 32768);
    CHECK(std::max(gemm.n, gemm.k) <= 16384);
    const double part = std::log(double(gemm.k) / 64) / std::log(16384.0 / 64);
    ++eighths.at(std::min<std::size_t>(7, static_cast<std::size_t>(part * 8)));
  }
  for (const int count : eighths) CHECK(std::abs(count - 20) <= 3);
  // By hand, i = 1: 1/2, 1/3, 1/5 of the way from 64.
  CHECK(gemms.front().m == 1448);  // 64 * 512^(1/2) = 1448.2
  CHECK(gemms.front().n == 408);   // 64 * 256^(1/3) = 406.4
  CHECK(gemms.front().k == 192);   // 64 * 256^(1/5) = 194.0
}

TEST_CASE("groups are those that layouts form") {
  using Shapes = std::vector<GroupShape>;
  CHECK(group_shapes(1, 1).empty());
  CHECK(group_shapes(8, 1) == Shapes{{2, 1}, {4, 1}, {8, 1}});
  CHECK(group_shapes(6, 1) == Shapes{{2, 1}, {6, 1}});
  CHECK(group_shapes(1, 4) == Shapes{{1, 2}, {1, 4}});
  CHECK(group_shapes(4, 4) ==
        Shapes{{2, 1}, {4, 1}, {1, 2}, {2, 2}, {4, 2}, {1, 4}, {2, 4}, {4, 4}});
}

}  // namespace
}  // namespace flopcast
