#pragma once

// Starts the memory-bound kernels. Only for sources of this folder.

#include <driver_types.h>

#include <span>

#include "kernels/measurement_case.h"

namespace flopcast {

/// Puts the kernel of this case on the stream. `arrays` are device addresses in the order of
/// arrays(op); `scratch` holds memory_scratch() bytes.
void launch_memory_op(const MemoryCase& memory, std::span<void* const> arrays, void* scratch,
                      cudaStream_t stream);

/// Bytes of partial sums.
std::size_t memory_scratch(const MemoryCase& memory);

// One launcher per file of kernels. Each takes its case's arrays.
void launch_stream_op(const MemoryCase& memory, std::span<void* const> arrays, cudaStream_t stream);
void launch_norm_op(const MemoryCase& memory, std::span<void* const> arrays, void* scratch,
                    cudaStream_t stream);
void launch_elementwise_op(const MemoryCase& memory, std::span<void* const> arrays,
                           cudaStream_t stream);
void launch_softmax_op(const MemoryCase& memory, std::span<void* const> arrays,
                       cudaStream_t stream);
void launch_reduction_op(const MemoryCase& memory, std::span<void* const> arrays, void* scratch,
                         cudaStream_t stream);

/// Blocks that share the rows of a kernel with sums over rows: two per SM of the largest GPUs.
inline constexpr int kReductionBlocks = 264;

}  // namespace flopcast
