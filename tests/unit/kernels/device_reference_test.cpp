// The references of GEMM, attention and collectives, against other ways to the same numbers.

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "kernels/attention_reference.h"
#include "kernels/collective_reference.h"
#include "kernels/gemm_reference.h"
#include "kernels/nccl_id.h"
#include "kernels/random_value.h"
#include "kernels/small_float.h"
#include "sim/errors.h"

namespace flopcast {
namespace {

double value(std::uint64_t seed, std::int64_t index) {
  return static_cast<double>(random_value(seed, static_cast<std::uint64_t>(index)));
}

// m, n, k = 8, 8, 8 of the second group: A holds 64 elements a group, and so on.
TEST_CASE("elements of a product follow the layout of the pass") {
  struct Row {
    GemmPass pass;
    std::int64_t a_row, a_k, b_k, b_column;  // strides
    bool adds;
  };
  const auto row = GENERATE(values<Row>({
      {GemmPass::forward, 8, 1, 1, 8, false},  // X by rows, W as outputs x inputs
      {GemmPass::dgrad, 8, 1, 8, 1, false},    // dY by rows, the same W
      {GemmPass::wgrad, 1, 8, 8, 1, true},     // dY as tokens x outputs, X as tokens x inputs
  }));
  const GemmCase gemm{
      .type = DataType::tf32, .pass = row.pass, .m = 8, .n = 8, .k = 8, .groups = 2};
  double expected = row.adds ? value(kSeedC, 64 + 3 * 8 + 5) : 0;
  for (std::int64_t k = 0; k < 8; ++k) {
    expected += value(kSeedA, 64 + 3 * row.a_row + k * row.a_k) *
                value(kSeedB, 64 + k * row.b_k + 5 * row.b_column);
  }
  CHECK(expected_element(gemm, 1, 3, 5) == Approx(expected));
}

TEST_CASE("fp8 takes both operands along k, and gradients in e5m2") {
  const GemmCase gemm{.type = DataType::fp8, .pass = GemmPass::wgrad, .m = 8, .n = 8, .k = 8};
  double expected = value(kSeedC, 8 + 2);
  for (std::int64_t k = 0; k < 8; ++k) {
    expected += round_to_e5m2(value(kSeedA, 8 + k)) * round_to_e4m3(value(kSeedB, 2 * 8 + k));
  }
  CHECK(expected_element(gemm, 0, 1, 2) == Approx(expected));
}

TEST_CASE("a wrong product is beyond the tolerance") {
  for (const DataType type : {DataType::bf16, DataType::fp16, DataType::tf32, DataType::fp8}) {
    const GemmCase gemm{.type = type, .m = 512, .n = 512, .k = 4096};
    // Neighbours stand for what a shifted or transposed operand gives.
    const double here = expected_element(gemm, 0, 3, 5);
    const double other = expected_element(gemm, 0, 5, 3);
    CHECK(std::abs(here - other) > 2 * gemm_tolerance(gemm, here));
  }
}

// 1 + 2^-10 is the neighbour of 1 in fp16, 1.25 that in e5m2 (IEEE 754; OCP FP8, 2023).
TEST_CASE("fp16 and e5m2 round to nearest even") {
  CHECK(round_to_fp16(1 + 0x1p-11) == 1);
  CHECK(round_to_fp16(1 + 3 * 0x1p-12) == 1 + 0x1p-10);
  CHECK(round_to_e5m2(1.125) == 1);
  CHECK(round_to_e5m2(1.2) == 1.25);
  CHECK(round_to_e5m2(0x1p-16) == 0x1p-16);
}

const AttentionCase kSmall{
    .batch = 2, .heads = 4, .kv_heads = 2, .sequence = 6, .head_dim = 8, .causal = true};

TEST_CASE("the first query of a causal mask sees the first key alone") {
  const AttentionReference reference(kSmall);
  const auto o = reference.output(1, 3, 0);
  for (std::size_t d = 0; d < o.size(); ++d) {
    CHECK(o[d] ==
          Approx(reference.element(AttentionArray::v, 1, 1, 0, static_cast<std::int64_t>(d))));
  }
  // Its scores do not depend on the query: no gradient.
  for (const double dq : reference.query_gradient(1, 3, 0)) CHECK(std::abs(dq) < 1e-12);
}

// A straight line of code for one query, with the query moved a little: the slope of dO . O.
TEST_CASE("the gradient of a query is the slope of its output") {
  AttentionCase attention = kSmall;
  attention.causal = GENERATE(true, false);
  const AttentionReference reference(attention);
  const std::int64_t query = 4;
  const std::int64_t keys = attention.causal ? query + 1 : attention.sequence;
  const auto along = [&](std::int64_t moved, double step) {
    double sum = 0;
    double weighted = 0;
    for (std::int64_t key = 0; key < keys; ++key) {
      double score = 0;
      double dot = 0;
      for (std::int64_t d = 0; d < 8; ++d) {
        const double q =
            reference.element(AttentionArray::q, 0, 2, query, d) + (d == moved ? step : 0);
        score += q * reference.element(AttentionArray::k, 0, 1, key, d);
        dot += reference.element(AttentionArray::gradient, 0, 2, query, d) *
               reference.element(AttentionArray::v, 0, 1, key, d);
      }
      sum += std::exp(score / std::sqrt(8.0));
      weighted += std::exp(score / std::sqrt(8.0)) * dot;
    }
    return weighted / sum;
  };
  const auto dq = reference.query_gradient(0, 2, query);
  for (std::int64_t d = 0; d < 8; ++d) {
    const double slope = (along(d, 1e-5) - along(d, -1e-5)) / 2e-5;
    CHECK(dq[static_cast<std::size_t>(d)] == Approx(slope).margin(1e-8));
  }
}

// nccl-tests: the size is that of the larger buffer.
TEST_CASE("buffers of collectives are shared evenly") {
  const auto buffers = [](CollectiveKind kind) {
    return collective_buffers({kind, bytes(4096), {4, 2}});
  };
  CHECK(buffers(CollectiveKind::all_reduce).send == 1024);
  CHECK(buffers(CollectiveKind::all_gather).send == 128);
  CHECK(buffers(CollectiveKind::all_gather).receive == 1024);
  CHECK(buffers(CollectiveKind::reduce_scatter).receive == 128);
  CHECK(buffers(CollectiveKind::all_to_all).receive == 1024);
}

// Two ranks with 8 elements each, by hand from what each sends.
TEST_CASE("collectives leave what their names say") {
  const auto received = [](CollectiveKind kind, int rank, std::int64_t index) {
    return expected_received({kind, bytes(32), {2, 1}}, rank, index);
  };
  const auto sent = [](std::uint64_t rank, std::int64_t index) {
    return value(kSeedCollective + rank, index);
  };
  CHECK(received(CollectiveKind::all_reduce, 0, 5) == Approx(sent(0, 5) + sent(1, 5)));
  CHECK(received(CollectiveKind::all_gather, 0, 5) == sent(1, 1));
  CHECK(received(CollectiveKind::reduce_scatter, 1, 2) == Approx(sent(0, 6) + sent(1, 6)));
  CHECK(received(CollectiveKind::all_to_all, 1, 6) == sent(1, 6));
  CHECK(received(CollectiveKind::all_to_all, 1, 2) == sent(0, 6));
  CHECK(received(CollectiveKind::broadcast, 1, 3) == sent(0, 3));
  CHECK(received(CollectiveKind::send_recv, 1, 3) == sent(0, 3));
}

TEST_CASE("ranks find this job's id and no other's") {
  const auto file = std::filesystem::temp_directory_path() / "flopcast_nccl_id_test";
  std::filesystem::remove(file);
  IdBytes id{};
  for (std::size_t i = 0; i < id.size(); ++i) id[i] = static_cast<char>(i);
  leave_id(file, "job one", id);
  CHECK(find_id(file, "job one", seconds(0)) == id);
  CHECK_THROWS_WITH(find_id(file, "job two", seconds(0)),
                    Catch::Contains("the first rank left no id here"));
  std::filesystem::remove(file);
  CHECK_THROWS_AS(find_id(file, "job one", seconds(0)), IoError);
  CHECK_THROWS_AS(leave_id("/no/such/folder/id", "job", id), IoError);
}

}  // namespace
}  // namespace flopcast
