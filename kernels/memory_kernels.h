#pragma once

// Launches the kernels of memory_bandwidth.cpp on the default stream. Only for sources of this
// folder. Sizes are in bytes, multiples of kBlockBytes.

#include <vector_types.h>

#include <cstddef>

namespace flopcast {

/// What one thread block handles of each array.
inline constexpr std::size_t kBlockBytes = 16384;

void fill(float4* array, std::size_t size, float value);
/// a = b
void copy(float4* a, const float4* b, std::size_t size);
/// a = b + scale * c
void triad(float4* a, const float4* b, const float4* c, float scale, std::size_t size);
/// Adds to `wrong` (on the device) the float4s that are not four times `expected`.
void count_wrong(const float4* array, std::size_t size, float expected, unsigned long long* wrong);

}  // namespace flopcast
