#include "kernels/memory_check.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace flopcast {
namespace {

template <class T>
T at(std::span<const std::byte> memory, std::size_t index) {
  T value;
  std::memcpy(&value, memory.data() + index * sizeof(T), sizeof(T));
  return value;
}

// Sign, 4 bits of exponent with bias 7, 3 of fraction; no infinity, all ones is NaN.
double from_e4m3(std::uint8_t bits) {
  const int exponent = bits >> 3 & 15;
  const int fraction = bits & 7;
  const double sign = (bits & 0x80) != 0 ? -1 : 1;
  if (exponent == 15 && fraction == 7) return std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(fraction, -9);
  return sign * std::ldexp(8 + fraction, exponent - 10);
}

// Sign, 5 bits of exponent with bias 15, 10 of fraction. e5m2 is its upper half.
double from_fp16(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return std::numeric_limits<double>::quiet_NaN();  // or infinite: both wrong
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

double element(ArrayType type, std::span<const std::byte> memory, std::size_t i) {
  switch (type) {
    case ArrayType::bf16: {
      const auto bits = std::uint32_t{at<std::uint16_t>(memory, i)} << 16;
      return static_cast<double>(std::bit_cast<float>(bits));
    }
    case ArrayType::fp32: return static_cast<double>(at<float>(memory, i));
    case ArrayType::fp8_e4m3: return from_e4m3(at<std::uint8_t>(memory, i));
    case ArrayType::int32: return at<std::int32_t>(memory, i);
    case ArrayType::fp16: return from_fp16(at<std::uint16_t>(memory, i));
    case ArrayType::fp8_e5m2:
      return from_fp16(static_cast<std::uint16_t>(at<std::uint8_t>(memory, i) << 8));
  }
  return 0;
}

}  // namespace

std::vector<double> decode(ArrayType type, std::span<const std::byte> memory) {
  const auto size = static_cast<std::size_t>(element_size(type).value);
  std::vector<double> values(memory.size() / size);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = element(type, memory, i);
  return values;
}

bool follows_rows(const ArraySpec& array) {
  return array.shape != ArrayShape::column && array.shape != ArrayShape::scalar;
}

std::int64_t elements_per_row(const ArraySpec& array, const MemoryCase& memory) {
  return elements(array, memory) / (follows_rows(array) ? memory.rows : 1);
}

double error_over_tolerance(const MemoryCase& memory, int array, std::int64_t first_row,
                            std::span<const double> values) {
  const ArraySpec spec = arrays(memory.op).at(static_cast<std::size_t>(array));
  const auto width = static_cast<std::size_t>(elements_per_row(spec, memory));
  double worst = 0;
  for (std::size_t begin = 0; begin < values.size(); begin += width) {
    const std::vector<double> expected =
        expected_row(memory, array, first_row + static_cast<std::int64_t>(begin / width));
    for (std::size_t i = 0; i < width; ++i) {
      const double allowed = tolerance(spec) * std::max(1.0, std::abs(expected[i]));
      const double error = std::abs(values[begin + i] - expected[i]) / allowed;
      worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
    }
  }
  return worst;
}

}  // namespace flopcast
