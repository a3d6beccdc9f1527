#pragma once

// What each memory-bound kernel computes, slowly and in double precision: the arrays that it reads
// and writes, and the values it must have written. The kernels (*.cu) are checked against this
// before they are timed. Only for sources of this folder.

#include <cstdint>
#include <vector>

#include "kernels/measurement_case.h"

namespace flopcast {

enum class ArrayType : std::uint8_t { bf16, fp16, fp32, fp8_e4m3, fp8_e5m2, int32 };

/// How an array follows rows and columns of the case.
enum class ArrayShape : std::uint8_t {
  element,         // rows x columns
  double_element,  // rows x 2 columns
  row,             // rows
  column,          // columns
  scalar,          // 1
};

/// Contents before the kernel runs.
enum class ArrayFill : std::uint8_t {
  random,    // random_value
  positive,  // random_value / 2 + 1, in [0.5, 1.5)
  position,  // int32: a permutation of the rows; every row occurs once
  target,    // int32: a column, random
  zero,
};

struct ArraySpec {
  ArrayType type{};
  ArrayShape shape{};
  ArrayFill fill = ArrayFill::random;
  bool read = false;
  bool written = false;
};

/// In the order in which the kernel takes them. An array that is read and written is updated in
/// place.
const std::vector<ArraySpec>& arrays(MemoryOp op);

std::int64_t elements(const ArraySpec& array, const MemoryCase& memory);
Bytes element_size(ArrayType type);

/// Read and written, by the arrays' sizes.
Bytes moved(const MemoryCase& memory);

/// Element `index` of array number `array` before the kernel, rounded to its type.
double initial_value(const MemoryCase& memory, int array, std::int64_t index);

/// What row `row` of the written array must hold: `columns` values, 2 `columns` or 1. For arrays
/// that follow columns or are scalars `row` is ignored, and every row of the case is visited.
std::vector<double> expected_row(const MemoryCase& memory, int array, std::int64_t row);

/// Largest |got - expected| that rounding explains, as a part of max(1, |expected|): a half of the
/// last place of the type, four times over since inputs of the last operation are rounded too.
/// Sums over many elements in fp32 may be off by 1e-4.
double tolerance(const ArraySpec& array);

/// Part of the elements that dropout drops.
inline constexpr double kDropout = 0.1;
/// Of Adam: beta1 0.9, beta2 0.95, epsilon 1e-8, weight decay 0.1, learning rate 1e-3, first step.
struct AdamConstants {
  float learning_rate = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;
  float weight_decay = 0.1F;
};
inline constexpr float kNormEpsilon = 1e-5F;
inline constexpr float kTriadScale = 2;
inline constexpr float kQuantiseScale = 448;  // largest e4m3

}  // namespace flopcast
