#pragma once

// What every .cu file of this folder begins with: the types that kernels compute in, 16-byte loads
// and stores, sums over a block, and the launch of a kernel. Under FLOPCAST_EMULATE_DEVICE the same
// kernels are plain C++, one fiber per thread (tests/unit/kernels/emulated_device.h): so their
// arithmetic is tested where there is no GPU.

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <cstdint>

#ifdef FLOPCAST_EMULATE_DEVICE
#include "emulated_device.h"
#else
#include "kernels/cuda_call.h"
#endif

namespace flopcast {

inline constexpr int kThreads = 256;  // of every block
inline constexpr int kVector = 8;     // elements that a thread handles together

struct alignas(16) Bf16Vector {
  __nv_bfloat16 value[kVector];
};
struct alignas(16) Fp32Vector {
  float value[kVector];
};

__device__ inline void load(const __nv_bfloat16* from, float (&to)[kVector]) {
  const Bf16Vector vector = *reinterpret_cast<const Bf16Vector*>(from);
  for (int i = 0; i < kVector; ++i) to[i] = __bfloat162float(vector.value[i]);
}
__device__ inline void load(const float* from, float (&to)[kVector]) {
  const Fp32Vector vector = *reinterpret_cast<const Fp32Vector*>(from);
  for (int i = 0; i < kVector; ++i) to[i] = vector.value[i];
}
__device__ inline void store(__nv_bfloat16* to, const float (&from)[kVector]) {
  Bf16Vector vector;
  for (int i = 0; i < kVector; ++i) vector.value[i] = __float2bfloat16(from[i]);
  *reinterpret_cast<Bf16Vector*>(to) = vector;
}
__device__ inline void store(float* to, const float (&from)[kVector]) {
  Fp32Vector vector;
  for (int i = 0; i < kVector; ++i) vector.value[i] = from[i];
  *reinterpret_cast<Fp32Vector*>(to) = vector;
}

struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Largest {
  __device__ float operator()(float a, float b) const { return a > b ? a : b; }
};

/// Of all threads of the block, on every one of them. A tree in shared memory: eight barriers, not
/// the fastest there is, but rows are long.
template <class Combine>
__device__ float over_block(float value, Combine combine) {
  __shared__ float part[kThreads];
  __syncthreads();  // the last call's readers are done
  part[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      part[threadIdx.x] = combine(part[threadIdx.x], part[threadIdx.x + half]);
    }
    __syncthreads();
  }
  return part[0];
}

#ifndef FLOPCAST_EMULATE_DEVICE
template <class... P, class... A>
void launch(cudaStream_t stream, void (*kernel)(P...), std::int64_t blocks, A... arguments) {
  kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(arguments...);
  check_cuda(cudaGetLastError(), "launch of a kernel");
}
#endif

inline std::int64_t blocks_for(std::int64_t elements, std::int64_t per_block) {
  return (elements + per_block - 1) / per_block;
}

}  // namespace flopcast
