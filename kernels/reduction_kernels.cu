// Kernels that end in one number: the gradients' norm, and the quantising cast to fp8 with the
// largest magnitude for the next step's scale (delayed scaling).

#include "kernels/device_code.h"
#include "kernels/memory_launch.h"
#include "kernels/memory_reference.h"

namespace flopcast {
namespace {

struct alignas(8) Fp8Vector {
  __nv_fp8_e4m3 value[kVector];
};

// Each block leaves its part behind; the last kernel combines them. No atomics: the sum is the same
// in every run.
__global__ void squares_kernel(const float* x, float* part, std::int64_t size) {
  float sum = 0;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads * kVector;
  for (std::int64_t at = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kVector; at < size;
       at += step) {
    float value[kVector];
    load(x + at, value);
    for (int i = 0; i < kVector; ++i) sum += value[i] * value[i];
  }
  sum = over_block(sum, Add{});
  if (threadIdx.x == 0) part[blockIdx.x] = sum;
}

__global__ void quantise_kernel(const __nv_bfloat16* x, Fp8Vector* q, float* part, float scale,
                                std::int64_t size) {
  float largest = 0;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads * kVector;
  for (std::int64_t at = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kVector; at < size;
       at += step) {
    float value[kVector];
    load(x + at, value);
    Fp8Vector out;
    for (int i = 0; i < kVector; ++i) {
      largest = Largest{}(largest, fabsf(value[i]));
      out.value[i] = __nv_fp8_e4m3(value[i] * scale);  // saturates
    }
    q[at / kVector] = out;
  }
  largest = over_block(largest, Largest{});
  if (threadIdx.x == 0) part[blockIdx.x] = largest;
}

template <class Combine>
__global__ void combine_kernel(const float* part, float* result, int parts, Combine combine) {
  float value = 0;
  for (int i = static_cast<int>(threadIdx.x); i < parts; i += kThreads) {
    value = combine(value, part[i]);
  }
  value = over_block(value, combine);
  if (threadIdx.x == 0) *result = value;
}

}  // namespace

void launch_reduction_op(const MemoryCase& memory, std::span<void* const> arrays, void* scratch,
                         cudaStream_t stream) {
  const std::int64_t size = memory.rows * memory.columns;
  // Four blocks of 256 threads on each of about 132 SMs hide the latency of their loads.
  constexpr std::int64_t kMost = 2 * kReductionBlocks;
  const std::int64_t wanted = blocks_for(size, kThreads * kVector);
  const std::int64_t blocks = wanted < kMost ? wanted : kMost;
  auto* part = static_cast<float*>(scratch);
  const int parts = static_cast<int>(blocks);
  if (memory.op == MemoryOp::gradient_norm) {
    launch(stream, squares_kernel, blocks, static_cast<const float*>(arrays[0]), part, size);
    launch(stream, combine_kernel<Add>, 1, part, static_cast<float*>(arrays[1]), parts, Add{});
  } else {
    launch(stream, quantise_kernel, blocks, static_cast<const __nv_bfloat16*>(arrays[0]),
           static_cast<Fp8Vector*>(arrays[1]), part, kQuantiseScale, size);
    launch(stream, combine_kernel<Largest>, 1, part, static_cast<float*>(arrays[2]), parts,
           Largest{});
  }
}

}  // namespace flopcast
