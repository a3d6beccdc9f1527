#pragma once

// Compares what a memory-bound kernel wrote with what it should have. Only for sources of this
// folder.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/memory_reference.h"

namespace flopcast {

/// The numbers in memory of this type.
std::vector<double> decode(ArrayType type, std::span<const std::byte> memory);

/// Elements of the array that row `row` has: what expected_row gives.
std::int64_t elements_per_row(const ArraySpec& array, const MemoryCase& memory);

/// Whether an array can be checked row by row. Others need all rows.
bool follows_rows(const ArraySpec& array);

/// Largest error over the tolerance, of `values` that stand in the array's rows from `first_row`
/// on. NaN counts as infinite.
double error_over_tolerance(const MemoryCase& memory, int array, std::int64_t first_row,
                            std::span<const double> values);

}  // namespace flopcast
