#include "kernels/gemm_reference.h"

#include <cmath>

#include "kernels/random_value.h"
#include "kernels/small_float.h"

namespace flopcast {
namespace {

ArrayType storage(DataType type) {
  switch (type) {
    case DataType::fp16: return ArrayType::fp16;
    case DataType::bf16: return ArrayType::bf16;
    case DataType::fp8:
    case DataType::fp8_blockwise:
    case DataType::mxfp8:
    case DataType::nvfp4: return ArrayType::fp8_e4m3;
    case DataType::fp32:
    case DataType::tf32: return ArrayType::fp32;
  }
  return ArrayType::fp32;
}

double rounded(ArrayType type, std::uint64_t seed, std::int64_t index) {
  const auto value = static_cast<double>(random_value(seed, static_cast<std::uint64_t>(index)));
  switch (type) {
    case ArrayType::bf16: return round_to_bf16(value);
    case ArrayType::fp16: return round_to_fp16(value);
    case ArrayType::fp8_e4m3: return round_to_e4m3(value);
    case ArrayType::fp8_e5m2: return round_to_e5m2(value);
    case ArrayType::fp32:
    case ArrayType::int32: return value;
  }
  return value;
}

}  // namespace

GemmLayout gemm_layout(const GemmCase& gemm) {
  const bool fp8 = gemm.type == DataType::fp8;
  const bool wgrad = gemm.pass == GemmPass::wgrad;
  const bool fp32_sum = wgrad && gemm.groups == 1;
  const ArrayType type = storage(gemm.type);
  const bool gradient = gemm.pass != GemmPass::forward;  // A is dY or its transpose
  return {.a_type = fp8 && gradient ? ArrayType::fp8_e5m2 : type,
          .b_type = type,
          .c_type = fp32_sum ? ArrayType::fp32
                    : fp8    ? ArrayType::bf16
                             : type,
          .a_transposed = wgrad && !fp8,
          .b_transposed = gemm.pass == GemmPass::forward || fp8,
          .accumulate = wgrad};
}

double expected_element(const GemmCase& gemm, std::int64_t group, std::int64_t row,
                        std::int64_t column) {
  const GemmLayout layout = gemm_layout(gemm);
  const std::int64_t a = group * gemm.m * gemm.k;
  const std::int64_t b = group * gemm.k * gemm.n;
  double sum = 0;
  for (std::int64_t i = 0; i < gemm.k; ++i) {
    const std::int64_t a_at = layout.a_transposed ? i * gemm.m + row : row * gemm.k + i;
    const std::int64_t b_at = layout.b_transposed ? column * gemm.k + i : i * gemm.n + column;
    sum += rounded(layout.a_type, kSeedA, a + a_at) * rounded(layout.b_type, kSeedB, b + b_at);
  }
  if (!layout.accumulate) return sum;
  const std::int64_t c = group * gemm.m * gemm.n + row * gemm.n + column;
  return sum + rounded(layout.c_type, kSeedC, c);
}

double gemm_tolerance(const GemmCase& gemm, double expected) {
  const double of_sum = gemm.type == DataType::fp8 || gemm.type == DataType::tf32 ? 2e-3 : 1e-4;
  const ArrayType result = gemm_layout(gemm).c_type;
  const double place = result == ArrayType::bf16 ? 0x1p-8 : result == ArrayType::fp16 ? 0x1p-11 : 0;
  return place * std::abs(expected) + of_sum * std::sqrt(static_cast<double>(gemm.k)) + 1e-3;
}

}  // namespace flopcast
