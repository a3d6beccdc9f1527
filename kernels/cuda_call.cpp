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

DeviceStream::DeviceStream() {
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
}
DeviceStream::~DeviceStream() { cudaStreamDestroy(stream_); }
void DeviceStream::wait() const {
  check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

DeviceEvent::DeviceEvent() { check_cuda(cudaEventCreate(&event_), "cudaEventCreate"); }
DeviceEvent::~DeviceEvent() { cudaEventDestroy(event_); }
void DeviceEvent::record(cudaStream_t stream) const {
  check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord");
}
void DeviceEvent::wait() const { check_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize"); }
void DeviceEvent::hold(cudaStream_t stream) const {
  check_cuda(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
}
Seconds DeviceEvent::since(const DeviceEvent& begin) const {
  float elapsed = 0;
  check_cuda(cudaEventElapsedTime(&elapsed, begin.event_, event_), "cudaEventElapsedTime");
  return milliseconds(static_cast<double>(elapsed));
}

}  // namespace flopcast
