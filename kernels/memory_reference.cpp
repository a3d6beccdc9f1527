#include "kernels/memory_reference.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/random_value.h"
#include "kernels/small_float.h"
#include "sim/check.h"

namespace flopcast {
namespace {

// One row of the case by name: in(a) is the row's value in array a, in(a, c) its column c.
struct Row {
  const MemoryCase& memory;
  std::int64_t row = 0;

  double in(int array) const { return initial_value(memory, array, row); }
  double in(int array, std::int64_t column) const {
    return initial_value(memory, array, row * memory.columns + column);
  }
  // Of an array with two columns for each.
  double in_double(int array, std::int64_t column) const {
    return initial_value(memory, array, row * 2 * memory.columns + column);
  }
  double per_column(int array, std::int64_t column) const {
    return initial_value(memory, array, column);
  }
  template <class F>
  double mean(F value) const {
    double sum = 0;
    for (std::int64_t c = 0; c < memory.columns; ++c) sum += value(c);
    return sum / static_cast<double>(memory.columns);
  }
  template <class F>
  std::vector<double> each(F value) const {
    std::vector<double> all(static_cast<std::size_t>(memory.columns));
    for (std::int64_t c = 0; c < memory.columns; ++c) {
      all[static_cast<std::size_t>(c)] = value(c);
    }
    return all;
  }
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// arrays: x, gamma, (beta,) y, (mean,) rstd
std::vector<double> norm_forward(const Row& r, int array, bool centred) {
  const double mean = centred ? r.mean([&](auto c) { return r.in(0, c); }) : 0;
  const double variance = r.mean([&](auto c) { return std::pow(r.in(0, c) - mean, 2); });
  const double rstd = 1 / std::sqrt(variance + static_cast<double>(kNormEpsilon));
  if (centred && array == 4) return {mean};
  if (array == (centred ? 5 : 3)) return {rstd};
  return r.each([&](auto c) {
    const double y = (r.in(0, c) - mean) * rstd * r.per_column(1, c);
    return centred ? y + r.per_column(2, c) : y;
  });
}

// Gradient of y = xhat * gamma (+ beta), xhat = (x - mean) * rstd, with mean and rstd as given:
//   g = dy * gamma; dx = rstd * (g - xhat * mean(g * xhat) - mean(g) if centred)
//   dgamma = sum over rows of dy * xhat; dbeta = sum of dy
// arrays: dy, x, gamma, (mean,) rstd, dx, dgamma, (dbeta)
struct NormBackward {
  Row r;
  bool centred;

  double xhat(std::int64_t c) const {
    const double mean = centred ? r.in(3) : 0;
    return (r.in(1, c) - mean) * r.in(centred ? 4 : 3);
  }
  double g(std::int64_t c) const { return r.in(0, c) * r.per_column(2, c); }

  std::vector<double> dx() const {
    const double along = r.mean([&](auto c) { return g(c) * xhat(c); });
    const double shift = centred ? r.mean([&](auto c) { return g(c); }) : 0;
    const double rstd = r.in(centred ? 4 : 3);
    return r.each([&](auto c) { return rstd * (g(c) - xhat(c) * along - shift); });
  }
};

std::vector<double> norm_backward(const MemoryCase& memory, int array, std::int64_t row,
                                  bool centred) {
  const int dx = centred ? 5 : 4;
  if (array == dx) return NormBackward{{memory, row}, centred}.dx();
  std::vector<double> sum(static_cast<std::size_t>(memory.columns));
  for (std::int64_t at = 0; at < memory.rows; ++at) {
    const NormBackward one{{memory, at}, centred};
    for (std::int64_t c = 0; c < memory.columns; ++c) {
      const double x = array == dx + 1 ? one.xhat(c) : 1;
      sum[static_cast<std::size_t>(c)] += one.r.in(0, c) * x;
    }
  }
  return sum;
}

// arrays: gate and up in one row, (dy,) result
std::vector<double> swiglu(const Row& r, bool backward) {
  const std::int64_t n = r.memory.columns;
  const auto gate = [&](auto c) { return r.in_double(0, c); };
  const auto up = [&](auto c) { return r.in_double(0, n + c); };
  if (!backward) return r.each([&](auto c) { return gate(c) * sigmoid(gate(c)) * up(c); });
  std::vector<double> both = r.each([&](auto c) {
    const double s = sigmoid(gate(c));
    return r.in(1, c) * up(c) * s * (1 + gate(c) * (1 - s));
  });
  const auto of_up = r.each([&](auto c) { return r.in(1, c) * gate(c) * sigmoid(gate(c)); });
  both.insert(both.end(), of_up.begin(), of_up.end());
  return both;
}

// Rotates pairs (c, c + half): RoPE in the "rotate half" form. arrays: x, cosine, sine, y. The
// angles of a position are those of its row, random here.
std::vector<double> rope(const Row& r) {
  const std::int64_t half = r.memory.columns / 2;
  return r.each([&](auto c) {
    const bool low = c < half;
    const double other = low ? -r.in(0, c + half) : r.in(0, c - half);
    return r.in(0, c) * r.per_column(1, c) + other * r.per_column(2, c);
  });
}

double log_sum_exp(const Row& r) {
  const double mean = r.mean([&](auto c) { return std::exp(r.in(0, c)); });
  return std::log(mean * static_cast<double>(r.memory.columns));
}

// arrays: logits, target, loss, lse; backward: logits, target, lse, gradient
std::vector<double> cross_entropy(const Row& r, int array, bool backward) {
  const auto target = static_cast<std::int64_t>(r.in(1));
  if (backward) {
    return r.each([&](auto c) { return std::exp(r.in(0, c) - r.in(2)) - (c == target ? 1 : 0); });
  }
  const double lse = log_sum_exp(r);
  return {array == 3 ? lse : lse - r.in(0, target)};
}

// arrays: x, residual, y. Which elements are dropped follows from their index.
std::vector<double> residual_dropout(const Row& r) {
  return r.each([&](auto c) {
    const auto index = static_cast<std::uint64_t>(r.row * r.memory.columns + c);
    const bool kept = keeps(index);
    return r.in(1, c) + (kept ? r.in(0, c) / (1 - kDropout) : 0);
  });
}

// arrays: gradient, parameter, first moment, second moment, bf16 copy. AdamW, first step: the bias
// corrections divide by 1 - beta.
std::vector<double> adam(const Row& r, int array) {
  const AdamConstants k;
  const double beta1 = static_cast<double>(k.beta1);
  const double beta2 = static_cast<double>(k.beta2);
  const double rate = static_cast<double>(k.learning_rate);
  return r.each([&](auto c) {
    const double g = r.in(0, c);
    const double p = r.in(1, c);
    const double m = beta1 * r.in(2, c) + (1 - beta1) * g;
    const double v = beta2 * r.in(3, c) + (1 - beta2) * g * g;
    if (array == 2) return m;
    if (array == 3) return v;
    const double direction =
        m / (1 - beta1) / (std::sqrt(v / (1 - beta2)) + static_cast<double>(k.epsilon));
    return p - rate * (direction + static_cast<double>(k.weight_decay) * p);
  });
}

// arrays: x (bf16), q (fp8), amax. Scaled by a constant, as delayed scaling does.
std::vector<double> quantise(const MemoryCase& memory, int array, std::int64_t row) {
  const double scale = static_cast<double>(kQuantiseScale);
  if (array == 1) {
    const Row r{memory, row};
    return r.each([&](auto c) { return round_to_e4m3(r.in(0, c) * scale); });
  }
  double largest = 0;
  for (std::int64_t i = 0; i < memory.rows * memory.columns; ++i) {
    largest = std::max(largest, std::abs(initial_value(memory, 0, i)));
  }
  return {largest};
}

std::vector<double> sum_of_squares(const MemoryCase& memory) {
  double sum = 0;
  for (std::int64_t i = 0; i < memory.rows * memory.columns; ++i) {
    sum += std::pow(initial_value(memory, 0, i), 2);
  }
  return {sum};
}

std::vector<ArraySpec> list_arrays(MemoryOp op) {
  using enum ArrayType;
  using enum ArrayShape;
  using enum ArrayFill;
  const auto in = [](ArrayType type, ArrayShape shape, ArrayFill fill = random) {
    return ArraySpec{type, shape, fill, true, false};
  };
  const auto out = [](ArrayType type, ArrayShape shape) {
    return ArraySpec{type, shape, zero, false, true};
  };
  const auto updated = [](ArrayFill fill) { return ArraySpec{fp32, element, fill, true, true}; };
  const ArraySpec x = in(bf16, element);
  const ArraySpec y = out(bf16, element);
  switch (op) {
    case MemoryOp::copy: return {in(fp32, element), out(fp32, element)};
    case MemoryOp::triad: return {in(fp32, element), in(fp32, element), out(fp32, element)};
    case MemoryOp::rms_norm_forward: return {x, in(bf16, column), y, out(fp32, ArrayShape::row)};
    case MemoryOp::rms_norm_backward:
      return {x, x, in(bf16, column), in(fp32, row, positive), y, out(fp32, column)};
    case MemoryOp::layer_norm_forward:
      return {x, in(bf16, column), in(bf16, column), y, out(fp32, row), out(fp32, row)};
    case MemoryOp::layer_norm_backward:
      return {x,
              x,
              in(bf16, column),
              in(fp32, row),
              in(fp32, row, positive),
              y,
              out(fp32, column),
              out(fp32, column)};
    case MemoryOp::swiglu_forward: return {in(bf16, double_element), y};
    case MemoryOp::swiglu_backward: return {in(bf16, double_element), x, out(bf16, double_element)};
    case MemoryOp::rope: return {x, in(fp32, column), in(fp32, column), y};
    case MemoryOp::softmax: return {x, y};
    case MemoryOp::cross_entropy_forward:
      return {x, in(int32, row, target), out(fp32, row), out(fp32, row)};
    case MemoryOp::cross_entropy_backward:
      return {x, in(int32, row, target), in(fp32, row, positive), y};
    case MemoryOp::residual_dropout: return {x, x, y};
    case MemoryOp::cast: return {in(fp32, element), y};
    case MemoryOp::quantise_fp8: return {x, out(fp8_e4m3, element), out(fp32, scalar)};
    case MemoryOp::permute: return {x, in(int32, row, position), y};
    case MemoryOp::adam:
      return {in(fp32, element), updated(random), updated(random), updated(positive), y};
    case MemoryOp::gradient_norm: return {in(fp32, element), out(fp32, scalar)};
  }
  return {};
}

}  // namespace

// Made once: every element of a reference asks.
const std::vector<ArraySpec>& arrays(MemoryOp op) {
  static const std::vector<std::vector<ArraySpec>> table = [] {
    std::vector<std::vector<ArraySpec>> all;
    all.reserve(kMemoryOps);
    for (int i = 0; i < kMemoryOps; ++i) all.push_back(list_arrays(static_cast<MemoryOp>(i)));
    return all;
  }();
  return table[static_cast<std::size_t>(op)];
}

Bytes element_size(ArrayType type) {
  using enum ArrayType;
  switch (type) {
    case bf16: return bytes(2);
    case fp16: return bytes(2);
    case fp32: return bytes(4);
    case fp8_e4m3: return bytes(1);
    case fp8_e5m2: return bytes(1);
    case int32: return bytes(4);
  }
  return {};
}

std::int64_t elements(const ArraySpec& array, const MemoryCase& memory) {
  using enum ArrayShape;
  switch (array.shape) {
    case element: return memory.rows * memory.columns;
    case double_element: return memory.rows * memory.columns * 2;
    case row: return memory.rows;
    case column: return memory.columns;
    case scalar: return 1;
  }
  return 0;
}

Bytes moved(const MemoryCase& memory) {
  Bytes sum;
  for (const ArraySpec& array : arrays(memory.op)) {
    const int times = (array.read ? 1 : 0) + (array.written ? 1 : 0);
    sum += element_size(array.type) * static_cast<double>(elements(array, memory) * times);
  }
  return sum;
}

double initial_value(const MemoryCase& memory, int array, std::int64_t index) {
  using enum ArrayFill;
  const ArraySpec& spec = arrays(memory.op)[static_cast<std::size_t>(array)];
  const auto at = static_cast<std::uint64_t>(index);
  const auto seed = static_cast<std::uint64_t>(array);
  const float value = random_value(seed, at);
  const auto exact = static_cast<double>(value);
  switch (spec.fill) {
    case random: return spec.type == ArrayType::bf16 ? round_to_bf16(exact) : exact;
    case positive: return static_cast<double>(value / 2 + 1);  // rounded to fp32
    case position: return static_cast<double>(permuted_row(index, memory.rows));
    case target:
      return static_cast<double>(random_bits(seed, at) %
                                 static_cast<std::uint64_t>(memory.columns));
    case zero: return 0;
  }
  return 0;
}

std::vector<double> expected_row(const MemoryCase& memory, int array, std::int64_t row) {
  const Row r{memory, row};
  switch (memory.op) {
    case MemoryOp::copy: return r.each([&](auto c) { return r.in(0, c); });
    case MemoryOp::triad:
      return r.each(
          [&](auto c) { return r.in(0, c) + static_cast<double>(kTriadScale) * r.in(1, c); });
    case MemoryOp::rms_norm_forward: return norm_forward(r, array, false);
    case MemoryOp::rms_norm_backward: return norm_backward(memory, array, row, false);
    case MemoryOp::layer_norm_forward: return norm_forward(r, array, true);
    case MemoryOp::layer_norm_backward: return norm_backward(memory, array, row, true);
    case MemoryOp::swiglu_forward: return swiglu(r, false);
    case MemoryOp::swiglu_backward: return swiglu(r, true);
    case MemoryOp::rope: return rope(r);
    case MemoryOp::softmax: {
      const double lse = log_sum_exp(r);
      return r.each([&](auto c) { return std::exp(r.in(0, c) - lse); });
    }
    case MemoryOp::cross_entropy_forward: return cross_entropy(r, array, false);
    case MemoryOp::cross_entropy_backward: return cross_entropy(r, array, true);
    case MemoryOp::residual_dropout: return residual_dropout(r);
    case MemoryOp::cast: return r.each([&](auto c) { return r.in(0, c); });
    case MemoryOp::quantise_fp8: return quantise(memory, array, row);
    case MemoryOp::permute: {
      const Row source{memory, permuted_row(row, memory.rows)};
      return source.each([&](auto c) { return source.in(0, c); });
    }
    case MemoryOp::adam: return adam(r, array);
    case MemoryOp::gradient_norm: return sum_of_squares(memory);
  }
  return {};
}

double tolerance(const ArraySpec& array) {
  using enum ArrayType;
  switch (array.type) {
    case bf16: return 4 * 0x1p-9;
    case fp16: return 4 * 0x1p-12;
    case fp8_e4m3: return 2 * 0x1p-4;  // the product may round to the neighbour
    case fp8_e5m2: return 2 * 0x1p-3;
    case fp32: return 1e-4;
    case int32: return 0;
  }
  return 0;
}

}  // namespace flopcast
