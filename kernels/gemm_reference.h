#pragma once

// How the operands of a GEMM lie in memory, and single elements of its result worked out on the
// host. Only for sources of this folder.

#include <cstdint>

#include "kernels/measurement_case.h"
#include "kernels/memory_reference.h"

namespace flopcast {

/// C[m,n] = A[m,k] B[k,n] row by row is, column by column as cuBLAS sees it,
/// C'[n,m] = B'[n,k] A'[k,m]. An operand that is stored the other way round is transposed there.
struct GemmLayout {
  ArrayType a_type{};
  ArrayType b_type{};
  ArrayType c_type{};
  bool a_transposed = false;  // stored k x m by rows
  bool b_transposed = false;  // stored n x k by rows
  bool accumulate = false;    // C += A B
};

/// Forward has its weight as out x in (B transposed); wgrad has dY as tokens x out (A transposed)
/// and adds to fp32 (cuBLAS's grouped call to its own type alone). In fp8 the tensor cores take
/// both operands along k only: frameworks keep transposed copies, and gradients are e5m2
/// (Micikevicius et al., FP8 Formats for Deep Learning, 2022).
GemmLayout gemm_layout(const GemmCase& gemm);

/// Element (row, column) of C of one group, from the operands' random values.
double expected_element(const GemmCase& gemm, std::int64_t group, std::int64_t row,
                        std::int64_t column);

/// Allowed error: half a last place of the result, twice over, and what rounding of a sum of k
/// products in fp32 explains; fp8 sums in about 14 bits on Hopper. Products have a mean square of
/// 1/9: a wrong operand is off by about sqrt(k) / 2.
double gemm_tolerance(const GemmCase& gemm, double expected);

/// Seeds of random_value by operand.
inline constexpr std::uint64_t kSeedA = 1;
inline constexpr std::uint64_t kSeedB = 2;
inline constexpr std::uint64_t kSeedC = 3;

}  // namespace flopcast
