// Copy and triad (McCalpin's STREAM), casts to bf16, and rows in another order.

#include "kernels/device_code.h"
#include "kernels/memory_launch.h"
#include "kernels/memory_reference.h"

namespace flopcast {
namespace {

// Loads in flight per thread, 32 bytes each. By Little's law an H100 needs about 3.35 TB/s * 700 ns
// = 2.3 MB in flight, 18 kB per SM; 2048 threads with two loads of 32 bytes offer 128 kB.
constexpr int kLoads = 2;
constexpr std::int64_t kStreamBlock = std::int64_t{kThreads} * kLoads * kVector;

// Start of this thread's load number i.
__device__ std::int64_t stream_index(int i) {
  return (std::int64_t{blockIdx.x} * kLoads + i) * kThreads * kVector +
         std::int64_t{threadIdx.x} * kVector;
}

// a = b, also from fp32 to bf16. All loads are issued before the first store.
template <class To>
__global__ void copy_kernel(const float* b, To* a, std::int64_t size) {
  float value[kLoads][kVector];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    if (stream_index(i) < size) load(b + stream_index(i), value[i]);
  }
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    if (stream_index(i) < size) store(a + stream_index(i), value[i]);
  }
}

// a = b + scale * c
__global__ void triad_kernel(const float* b, const float* c, float* a, float scale,
                             std::int64_t size) {
  float left[kLoads][kVector];
  float right[kLoads][kVector];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    if (stream_index(i) >= size) continue;
    load(b + stream_index(i), left[i]);
    load(c + stream_index(i), right[i]);
  }
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    if (stream_index(i) >= size) continue;
    for (int j = 0; j < kVector; ++j) left[i][j] += scale * right[i][j];
    store(a + stream_index(i), left[i]);
  }
}

// One block per row: y[row] = x[source[row]].
__global__ void permute_kernel(const __nv_bfloat16* x, const std::int32_t* source, __nv_bfloat16* y,
                               std::int64_t columns) {
  const __nv_bfloat16* from = x + source[blockIdx.x] * columns;
  __nv_bfloat16* to = y + std::int64_t{blockIdx.x} * columns;
  for (std::int64_t c = threadIdx.x * kVector; c < columns; c += kThreads * kVector) {
    *reinterpret_cast<Bf16Vector*>(to + c) = *reinterpret_cast<const Bf16Vector*>(from + c);
  }
}

}  // namespace

void launch_stream_op(const MemoryCase& memory, std::span<void* const> arrays,
                      cudaStream_t stream) {
  const std::int64_t size = memory.rows * memory.columns;
  const std::int64_t blocks = blocks_for(size, kStreamBlock);
  const auto* first = static_cast<const float*>(arrays[0]);
  if (memory.op == MemoryOp::copy) {
    launch(stream, copy_kernel<float>, blocks, first, static_cast<float*>(arrays[1]), size);
  } else if (memory.op == MemoryOp::cast) {
    launch(stream, copy_kernel<__nv_bfloat16>, blocks, first,
           static_cast<__nv_bfloat16*>(arrays[1]), size);
  } else if (memory.op == MemoryOp::triad) {
    launch(stream, triad_kernel, blocks, first, static_cast<const float*>(arrays[1]),
           static_cast<float*>(arrays[2]), kTriadScale, size);
  } else {
    launch(stream, permute_kernel, memory.rows, static_cast<const __nv_bfloat16*>(arrays[0]),
           static_cast<const std::int32_t*>(arrays[1]), static_cast<__nv_bfloat16*>(arrays[2]),
           memory.columns);
  }
}

}  // namespace flopcast
