#include "kernels/cuda_call.h"

#include <fmt/core.h>

#include "sim/errors.h"

namespace flopcast {

void check_cuda(cudaError_t result, const char* call) {
  if (result != cudaSuccess) {
    throw DeviceError(fmt::format("{}: {}", call, cudaGetErrorString(result)));
  }
}

DeviceMemory::DeviceMemory(std::size_t size) : size_(size) {
  check_cuda(cudaMalloc(&address_, size), fmt::format("cudaMalloc({} bytes)", size).c_str());
}

// A failure to give back has nowhere to go; the next checked call reports it.
DeviceMemory::~DeviceMemory() { cudaFree(address_); }

DeviceTimer::DeviceTimer() {
  check_cuda(cudaEventCreate(&begin_), "cudaEventCreate");
  if (const cudaError_t result = cudaEventCreate(&end_); result != cudaSuccess) {
    cudaEventDestroy(begin_);
    check_cuda(result, "cudaEventCreate");
  }
}

DeviceTimer::~DeviceTimer() {
  cudaEventDestroy(begin_);
  cudaEventDestroy(end_);
}

void DeviceTimer::start() { check_cuda(cudaEventRecord(begin_), "cudaEventRecord"); }

float DeviceTimer::stop() {
  check_cuda(cudaEventRecord(end_), "cudaEventRecord");
  check_cuda(cudaEventSynchronize(end_), "cudaEventSynchronize");
  float elapsed = 0;
  check_cuda(cudaEventElapsedTime(&elapsed, begin_, end_), "cudaEventElapsedTime");
  return elapsed;
}

}  // namespace flopcast
