#include "kernels/memory_reference.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "kernels/random_value.h"
#include "kernels/small_float.h"

namespace flopcast {
namespace {

constexpr std::int64_t kRows = 3;
constexpr std::int64_t kColumns = 16;

MemoryCase of(MemoryOp op) { return {op, kRows, kColumns}; }

double sum(const std::vector<double>& values) {
  double all = 0;
  for (const double value : values) all += value;
  return all;
}

TEST_CASE("random values fill their range from -1 to 1 evenly and differ by seed") {
  double total = 0;
  double squares = 0;
  for (std::uint64_t i = 0; i < 100000; ++i) {
    const double value = static_cast<double>(random_value(3, i));
    REQUIRE(value >= -1);
    REQUIRE(value < 1);
    total += value;
    squares += value * value;
  }
  // Mean 0 and variance 1/3, within four standard errors: 1/sqrt(3e5) and sqrt(4/45e5).
  CHECK(std::abs(total / 100000) < 4 / std::sqrt(3e5));
  CHECK(std::abs(squares / 100000 - 1.0 / 3) < 4 * std::sqrt(4.0 / 45e5));
  CHECK(random_value(3, 0) != random_value(4, 0));
}

TEST_CASE("dropout keeps nine of ten, a permutation takes every row once") {
  int kept = 0;
  for (std::uint64_t i = 0; i < 100000; ++i) kept += keeps(i) ? 1 : 0;
  CHECK(std::abs(kept - 90000) < 4 * std::sqrt(100000 * 0.9 * 0.1));
  std::set<std::int64_t> rows;
  for (std::int64_t row = 0; row < 8192; ++row) rows.insert(permuted_row(row, 8192));
  CHECK(rows.size() == 8192);
  CHECK(*rows.rbegin() == 8191);
}

// IEEE-like formats by hand: bf16 has 8 bits of significand; e4m3 has 4, ends at 448, and steps by
// 2^-9 below 2^-6 (Micikevicius et al., FP8 Formats for Deep Learning, 2022).
TEST_CASE("short formats round to nearest even") {
  CHECK(round_to_bf16(1.0) == 1.0);
  CHECK(round_to_bf16(1 + 0x1p-8) == 1.0);             // a tie goes to even
  CHECK(round_to_bf16(1 + 3 * 0x1p-8) == 1 + 0x1p-6);  // and here upwards
  CHECK(round_to_bf16(-3.14159) == -3.140625);
  CHECK(round_to_e4m3(448) == 448);
  CHECK(round_to_e4m3(1000) == 448);
  CHECK(round_to_e4m3(17) == 16);
  CHECK(round_to_e4m3(19) == 20);
  CHECK(round_to_e4m3(0x1p-9) == 0x1p-9);
  CHECK(round_to_e4m3(0x1p-11) == 0);
}

// xhat has mean 0 and mean square 1, whatever x was; RMS norm only the latter. gamma and beta are
// divided out.
TEST_CASE("norms normalise") {
  const auto [op, centred] = GENERATE(table<MemoryOp, bool>(
      {{MemoryOp::rms_norm_forward, false}, {MemoryOp::layer_norm_forward, true}}));
  const MemoryCase memory = of(op);
  const auto y = expected_row(memory, centred ? 3 : 2, 1);
  double mean = 0;
  double square = 0;
  for (std::int64_t c = 0; c < kColumns; ++c) {
    const double beta = centred ? initial_value(memory, 2, c) : 0;
    const double xhat = (y.at(static_cast<std::size_t>(c)) - beta) / initial_value(memory, 1, c);
    mean += xhat / kColumns;
    square += xhat * xhat / kColumns;
  }
  if (centred) CHECK(std::abs(mean) < 1e-12);
  CHECK(square == Approx(1).epsilon(1e-3));  // epsilon of the norm
}

// The gradient of a function that scaling x does not change is orthogonal to x; of one that adding
// a constant does not change, its sum is 0. With mean and rstd not those of x this holds for
// xhat: sum dx = 0 in exact terms only if mean(xhat) = 0, so the sum is compared with the formula.
TEST_CASE("gradients of norms are sums over rows, and follow the formula") {
  const MemoryCase memory = of(MemoryOp::layer_norm_backward);
  const auto dbeta = expected_row(memory, 7, 0);
  for (std::int64_t c = 0; c < kColumns; ++c) {
    double by_hand = 0;
    for (std::int64_t r = 0; r < kRows; ++r) by_hand += initial_value(memory, 0, r * kColumns + c);
    CHECK(dbeta.at(static_cast<std::size_t>(c)) == Approx(by_hand));
  }
  const MemoryCase rms = of(MemoryOp::rms_norm_backward);
  const auto dgamma = expected_row(rms, 5, 0);
  double by_hand = 0;
  for (std::int64_t r = 0; r < kRows; ++r) {
    by_hand += initial_value(rms, 0, r * kColumns) * initial_value(rms, 1, r * kColumns) *
               initial_value(rms, 3, r);
  }
  CHECK(dgamma.front() == Approx(by_hand));
}

TEST_CASE("softmax sums to one, the gradient of cross-entropy to nothing") {
  CHECK(sum(expected_row(of(MemoryOp::softmax), 1, 2)) == Approx(1));
  const MemoryCase memory = of(MemoryOp::cross_entropy_forward);
  const double loss = expected_row(memory, 2, 1).front();
  const double lse = expected_row(memory, 3, 1).front();
  const auto target = static_cast<std::int64_t>(initial_value(memory, 1, 1));
  CHECK(loss == Approx(lse - initial_value(memory, 0, kColumns + target)));
  CHECK(loss > 0);
}

// Central differences of the forward kernel's own formula.
TEST_CASE("the gradient of SwiGLU is its slope") {
  const MemoryCase memory = of(MemoryOp::swiglu_backward);
  const auto gradient = expected_row(memory, 2, 0);
  REQUIRE(gradient.size() == 2 * kColumns);
  const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
  for (std::int64_t c = 0; c < kColumns; ++c) {
    const double gate = initial_value(memory, 0, c);
    const double up = initial_value(memory, 0, kColumns + c);
    const double dy = initial_value(memory, 1, c);
    const double slope = (silu(gate + 1e-5) - silu(gate - 1e-5)) / 2e-5;
    CHECK(gradient.at(static_cast<std::size_t>(c)) == Approx(dy * up * slope).margin(1e-8));
    CHECK(gradient.at(static_cast<std::size_t>(kColumns + c)) ==
          Approx(dy * silu(gate)).margin(1e-12));
  }
}

TEST_CASE("rotation by random sine and cosine keeps pairs together") {
  const MemoryCase memory = of(MemoryOp::rope);
  const auto y = expected_row(memory, 3, 0);
  const double low = initial_value(memory, 0, 0);
  const double high = initial_value(memory, 0, kColumns / 2);
  CHECK(y.front() ==
        Approx(low * initial_value(memory, 1, 0) - high * initial_value(memory, 2, 0)));
}

// AdamW by hand for one element (Loshchilov and Hutter, 2019, algorithm 2, at t = 1).
TEST_CASE("Adam steps against the gradient and decays") {
  const MemoryCase memory = of(MemoryOp::adam);
  const double g = initial_value(memory, 0, 5);
  const double p = initial_value(memory, 1, 5);
  const double m = 0.9 * initial_value(memory, 2, 5) + 0.1 * g;
  const double v = 0.95 * initial_value(memory, 3, 5) + 0.05 * g * g;
  CHECK(expected_row(memory, 2, 0).at(5) == Approx(m).epsilon(1e-6));
  CHECK(expected_row(memory, 3, 0).at(5) == Approx(v).epsilon(1e-6));
  const double step = 1e-3 * (m / 0.1 / (std::sqrt(v / 0.05) + 1e-8) + 0.1 * p);
  CHECK(expected_row(memory, 1, 0).at(5) == Approx(p - step).epsilon(1e-6));
}

TEST_CASE("every written array has an expectation of its shape") {
  for (int op = 0; op < kMemoryOps; ++op) {
    const MemoryCase memory = of(static_cast<MemoryOp>(op));
    const auto& all = arrays(memory.op);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!all[i].written) continue;
      CAPTURE(to_text(memory.op), i);
      const auto values = expected_row(memory, static_cast<int>(i), 0).size();
      const bool whole = all[i].shape == ArrayShape::column || all[i].shape == ArrayShape::scalar;
      const std::int64_t per_row = elements(all[i], memory) / (whole ? 1 : kRows);
      CHECK(values == static_cast<std::size_t>(per_row));
    }
  }
}

}  // namespace
}  // namespace flopcast
