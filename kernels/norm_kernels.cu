// RMSNorm and LayerNorm, forward and backward. A block holds its row in registers: each element is
// read once.

#include "kernels/device_code.h"
#include "kernels/memory_launch.h"
#include "kernels/memory_reference.h"

namespace flopcast {
namespace {

using Bf16 = __nv_bfloat16;

// Column of this thread's vector number v.
__device__ std::int64_t column_of(int v) {
  return (std::int64_t{v} * kThreads + threadIdx.x) * kVector;
}

struct NormForward {
  const Bf16* x;
  const Bf16* gamma;
  const Bf16* beta;  // of LayerNorm
  Bf16* y;
  float* mean;  // of LayerNorm
  float* rstd;
  std::int64_t columns;
};

// One block per row of at most kVectors * kThreads * kVector columns.
template <int kVectors, bool kCentred>
__global__ void norm_forward_kernel(NormForward a) {
  float x[kVectors][kVector];
  float sum = 0;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if (column_of(v) >= a.columns) continue;
    load(a.x + std::int64_t{blockIdx.x} * a.columns + column_of(v), x[v]);
    for (int i = 0; i < kVector; ++i) sum += x[v][i];
  }
  const float mean = kCentred ? over_block(sum, Add{}) / a.columns : 0.0F;
  float squares = 0;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if (column_of(v) >= a.columns) continue;
    for (int i = 0; i < kVector; ++i) squares += (x[v][i] - mean) * (x[v][i] - mean);
  }
  const float rstd = rsqrtf(over_block(squares, Add{}) / a.columns + kNormEpsilon);
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if (column_of(v) >= a.columns) continue;
    float gamma[kVector];
    float beta[kVector] = {};
    load(a.gamma + column_of(v), gamma);
    if (kCentred) load(a.beta + column_of(v), beta);
    for (int i = 0; i < kVector; ++i) x[v][i] = (x[v][i] - mean) * rstd * gamma[i] + beta[i];
    store(a.y + std::int64_t{blockIdx.x} * a.columns + column_of(v), x[v]);
  }
  if (threadIdx.x == 0) {
    a.rstd[blockIdx.x] = rstd;
    if (kCentred) a.mean[blockIdx.x] = mean;
  }
}

struct NormBackward {
  const Bf16* dy;
  const Bf16* x;
  const Bf16* gamma;
  const float* mean;  // of LayerNorm
  const float* rstd;
  Bf16* dx;
  float* partial;  // per block: sums of dy * xhat and, of LayerNorm, of dy
  std::int64_t rows;
  std::int64_t columns;
};

// A block takes every gridDim-th row and keeps its share of the sums over rows in registers.
template <int kVectors, bool kCentred>
__global__ void norm_backward_kernel(NormBackward a) {
  float dgamma[kVectors][kVector] = {};
  float dbeta[kCentred ? kVectors : 1][kVector] = {};
  for (std::int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const float mean = kCentred ? a.mean[row] : 0.0F;
    const float rstd = a.rstd[row];
    float g[kVectors][kVector];
    float xhat[kVectors][kVector];
    float along = 0;  // sum of g * xhat
    float shift = 0;  // sum of g
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (column_of(v) >= a.columns) continue;
      float gamma[kVector];
      load(a.dy + row * a.columns + column_of(v), g[v]);
      load(a.x + row * a.columns + column_of(v), xhat[v]);
      load(a.gamma + column_of(v), gamma);
      for (int i = 0; i < kVector; ++i) {
        xhat[v][i] = (xhat[v][i] - mean) * rstd;
        dgamma[v][i] += g[v][i] * xhat[v][i];
        if (kCentred) dbeta[v][i] += g[v][i];
        g[v][i] *= gamma[i];
        along += g[v][i] * xhat[v][i];
        shift += g[v][i];
      }
    }
    along = over_block(along, Add{}) / a.columns;
    shift = kCentred ? over_block(shift, Add{}) / a.columns : 0.0F;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (column_of(v) >= a.columns) continue;
      for (int i = 0; i < kVector; ++i) g[v][i] = rstd * (g[v][i] - xhat[v][i] * along - shift);
      store(a.dx + row * a.columns + column_of(v), g[v]);
    }
  }
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if (column_of(v) >= a.columns) continue;
    float* to = a.partial + std::int64_t{blockIdx.x} * (kCentred ? 2 : 1) * a.columns;
    store(to + column_of(v), dgamma[v]);
    if (kCentred) store(to + a.columns + column_of(v), dbeta[v]);
  }
}

// Sums the partial sums of all blocks; `width` columns in a row of them, cut at `columns` into the
// results.
__global__ void sum_partial_kernel(const float* partial, float* dgamma, float* dbeta, int blocks,
                                   std::int64_t columns, std::int64_t width) {
  const std::int64_t c = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (c >= width) return;
  float sum = 0;
  for (int block = 0; block < blocks; ++block) sum += partial[block * width + c];
  (c < columns ? dgamma[c] : dbeta[c - columns]) = sum;
}

template <bool kCentred>
void launch_forward(const NormForward& a, std::int64_t rows, cudaStream_t stream) {
  switch (blocks_for(a.columns, std::int64_t{kThreads} * kVector)) {
    case 1: return launch(stream, norm_forward_kernel<1, kCentred>, rows, a);
    case 2: return launch(stream, norm_forward_kernel<2, kCentred>, rows, a);
    case 3:
    case 4: return launch(stream, norm_forward_kernel<4, kCentred>, rows, a);
    default: return launch(stream, norm_forward_kernel<8, kCentred>, rows, a);
  }
}

template <bool kCentred>
void launch_backward(const NormBackward& a, std::int64_t blocks, cudaStream_t stream) {
  switch (blocks_for(a.columns, std::int64_t{kThreads} * kVector)) {
    case 1: return launch(stream, norm_backward_kernel<1, kCentred>, blocks, a);
    case 2: return launch(stream, norm_backward_kernel<2, kCentred>, blocks, a);
    case 3:
    case 4: return launch(stream, norm_backward_kernel<4, kCentred>, blocks, a);
    default: return launch(stream, norm_backward_kernel<8, kCentred>, blocks, a);
  }
}

template <class T>
T* as(void* address) {
  return static_cast<T*>(address);
}

}  // namespace

void launch_norm_op(const MemoryCase& memory, std::span<void* const> arrays, void* scratch,
                    cudaStream_t stream) {
  const bool centred =
      memory.op == MemoryOp::layer_norm_forward || memory.op == MemoryOp::layer_norm_backward;
  if (memory.op == MemoryOp::rms_norm_forward || memory.op == MemoryOp::layer_norm_forward) {
    const int y = centred ? 3 : 2;
    const NormForward a{as<Bf16>(arrays[0]),
                        as<Bf16>(arrays[1]),
                        centred ? as<Bf16>(arrays[2]) : nullptr,
                        as<Bf16>(arrays[y]),
                        centred ? as<float>(arrays[y + 1]) : nullptr,
                        as<float>(arrays[centred ? y + 2 : y + 1]),
                        memory.columns};
    return centred ? launch_forward<true>(a, memory.rows, stream)
                   : launch_forward<false>(a, memory.rows, stream);
  }
  const int dx = centred ? 5 : 4;
  const NormBackward a{as<Bf16>(arrays[0]),
                       as<Bf16>(arrays[1]),
                       as<Bf16>(arrays[2]),
                       centred ? as<float>(arrays[3]) : nullptr,
                       as<float>(arrays[dx - 1]),
                       as<Bf16>(arrays[dx]),
                       as<float>(scratch),
                       memory.rows,
                       memory.columns};
  const std::int64_t blocks = memory.rows < kReductionBlocks ? memory.rows : kReductionBlocks;
  centred ? launch_backward<true>(a, blocks, stream) : launch_backward<false>(a, blocks, stream);
  const std::int64_t width = memory.columns * (centred ? 2 : 1);
  launch(stream, sum_partial_kernel, blocks_for(width, kThreads), a.partial,
         as<float>(arrays[dx + 1]), centred ? as<float>(arrays[dx + 2]) : nullptr,
         static_cast<int>(blocks), memory.columns, width);
}

}  // namespace flopcast
