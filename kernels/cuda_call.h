#pragma once

// The door to the CUDA runtime: every call's result is checked, and what CUDA hands out has an
// owner. Only for sources of this folder.

#include <cuda_runtime_api.h>

#include <cstddef>

namespace flopcast {

/// Throws DeviceError("<call>: <CUDA's text>") unless `result` is success.
void check_cuda(cudaError_t result, const char* call);

/// Memory on the current device.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t size);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  template <class T>
  T* as() const {
    return static_cast<T*>(address_);
  }
  std::size_t size() const { return size_; }

 private:
  void* address_ = nullptr;  // what cudaMalloc gives
  std::size_t size_;
};

/// Times what was put on the default stream between start() and stop().
class DeviceTimer {
 public:
  DeviceTimer();
  ~DeviceTimer();
  DeviceTimer(const DeviceTimer&) = delete;
  DeviceTimer& operator=(const DeviceTimer&) = delete;

  void start();
  /// Waits for the work to end. Milliseconds, in steps of about 0.5 us.
  float stop();

 private:
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace flopcast
