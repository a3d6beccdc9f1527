#pragma once

// Gives arrays on the device their contents. Only for sources of this folder.

#include <driver_types.h>

#include <cstdint>

#include "kernels/memory_reference.h"

namespace flopcast {

/// The initial_value of every element of array number `array` of the case.
void fill_array(const MemoryCase& memory, int array, void* address, cudaStream_t stream);

/// `count` times random_value(seed, index), rounded to the type. Not for int32.
void fill_random(ArrayType type, std::uint64_t seed, std::int64_t count, void* address,
                 cudaStream_t stream);

}  // namespace flopcast
