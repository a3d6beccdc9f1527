#include "kernels/memory_kernels.h"

#include "kernels/cuda_call.h"

namespace flopcast {
namespace {

constexpr int kThreads = 256;
// Loads in flight per thread, 16 bytes each. By Little's law an H100 needs about 3.35 TB/s * 700 ns
// = 2.3 MB in flight, 18 kB per SM; 2048 threads with 4 loads of 16 bytes offer 128 kB.
constexpr int kLoads = 4;
static_assert(kThreads * kLoads * sizeof(float4) == kBlockBytes);
__global__ void fill_kernel(float4* array, float value) {
  const std::size_t first = std::size_t{blockIdx.x} * (kThreads * kLoads) + threadIdx.x;
  for (int i = 0; i < kLoads; ++i) {
    array[first + i * kThreads] = make_float4(value, value, value, value);
  }
}

// All loads are issued before the first store.
__global__ void copy_kernel(float4* __restrict__ a, const float4* __restrict__ b) {
  const std::size_t first = std::size_t{blockIdx.x} * (kThreads * kLoads) + threadIdx.x;
  float4 value[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) value[i] = b[first + i * kThreads];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) a[first + i * kThreads] = value[i];
}

__global__ void triad_kernel(float4* __restrict__ a, const float4* __restrict__ b,
                             const float4* __restrict__ c, float scale) {
  const std::size_t first = std::size_t{blockIdx.x} * (kThreads * kLoads) + threadIdx.x;
  float4 left[kLoads];
  float4 right[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    left[i] = b[first + i * kThreads];
    right[i] = c[first + i * kThreads];
  }
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    a[first + i * kThreads] =
        make_float4(left[i].x + scale * right[i].x, left[i].y + scale * right[i].y,
                    left[i].z + scale * right[i].z, left[i].w + scale * right[i].w);
  }
}

__global__ void count_wrong_kernel(const float4* array, float expected, unsigned long long* wrong) {
  const std::size_t first = std::size_t{blockIdx.x} * (kThreads * kLoads) + threadIdx.x;
  for (int i = 0; i < kLoads; ++i) {
    const float4 value = array[first + i * kThreads];
    if (value.x != expected || value.y != expected || value.z != expected || value.w != expected) {
      atomicAdd(wrong, 1ULL);
    }
  }
}

unsigned blocks(std::size_t size) { return static_cast<unsigned>(size / kBlockBytes); }

}  // namespace

void fill(float4* array, std::size_t size, float value) {
  fill_kernel<<<blocks(size), kThreads>>>(array, value);
  check_cuda(cudaGetLastError(), "launch of fill");
}

void copy(float4* a, const float4* b, std::size_t size) {
  copy_kernel<<<blocks(size), kThreads>>>(a, b);
  check_cuda(cudaGetLastError(), "launch of copy");
}

void triad(float4* a, const float4* b, const float4* c, float scale, std::size_t size) {
  triad_kernel<<<blocks(size), kThreads>>>(a, b, c, scale);
  check_cuda(cudaGetLastError(), "launch of triad");
}

void count_wrong(const float4* array, std::size_t size, float expected, unsigned long long* wrong) {
  count_wrong_kernel<<<blocks(size), kThreads>>>(array, expected, wrong);
  check_cuda(cudaGetLastError(), "launch of count_wrong");
}

}  // namespace flopcast
