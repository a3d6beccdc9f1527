#pragma once

// The door to the CUDA runtime: every call's result is checked, and what CUDA hands out has an
// owner. Only for sources of this folder.

#include <cuda_runtime_api.h>

#include <cstddef>

#include "sim/units.h"

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

class DeviceStream {
 public:
  DeviceStream();
  ~DeviceStream();
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  cudaStream_t get() const { return stream_; }
  void wait() const;

 private:
  cudaStream_t stream_ = nullptr;
};

/// A mark on a stream: when the work put there before was done.
class DeviceEvent {
 public:
  DeviceEvent();
  ~DeviceEvent();
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;

  void record(cudaStream_t stream) const;
  void wait() const;
  /// What is put on the stream later starts after the mark.
  void hold(cudaStream_t stream) const;
  /// In steps of about 0.5 us.
  Seconds since(const DeviceEvent& begin) const;

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace flopcast
