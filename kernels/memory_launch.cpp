#include "kernels/memory_launch.h"

#include <cstddef>

namespace flopcast {

void launch_memory_op(const MemoryCase& memory, std::span<void* const> arrays, void* scratch,
                      cudaStream_t stream) {
  switch (memory.op) {
    case MemoryOp::copy:
    case MemoryOp::triad:
    case MemoryOp::cast:
    case MemoryOp::permute: return launch_stream_op(memory, arrays, stream);
    case MemoryOp::rms_norm_forward:
    case MemoryOp::rms_norm_backward:
    case MemoryOp::layer_norm_forward:
    case MemoryOp::layer_norm_backward: return launch_norm_op(memory, arrays, scratch, stream);
    case MemoryOp::swiglu_forward:
    case MemoryOp::swiglu_backward:
    case MemoryOp::rope:
    case MemoryOp::residual_dropout:
    case MemoryOp::adam: return launch_elementwise_op(memory, arrays, stream);
    case MemoryOp::softmax:
    case MemoryOp::cross_entropy_forward:
    case MemoryOp::cross_entropy_backward: return launch_softmax_op(memory, arrays, stream);
    case MemoryOp::quantise_fp8:
    case MemoryOp::gradient_norm: return launch_reduction_op(memory, arrays, scratch, stream);
  }
}

// Backward norms keep two rows of sums per block; reductions one number.
std::size_t memory_scratch(const MemoryCase& memory) {
  const auto columns = static_cast<std::size_t>(memory.columns);
  return 2 * kReductionBlocks * (columns + 1) * sizeof(float);
}

}  // namespace flopcast
