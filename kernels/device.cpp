#include "kernels/device.h"

#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include "kernels/cuda_call.h"
#include "sim/errors.h"

namespace flopcast {
namespace {

// 13000 means 13.0 (cudaDriverGetVersion).
std::string version_text(int code) { return fmt::format("{}.{}", code / 1000, code % 1000 / 10); }

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

// DDR and HBM move data on both edges of the clock: 2 transfers a cycle, each as wide as the bus.
std::optional<BytesPerSecond> peak_memory_bandwidth(int device) {
  int kilohertz = 0;
  int bits = 0;
  if (cudaDeviceGetAttribute(&kilohertz, cudaDevAttrMemoryClockRate, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, device) != cudaSuccess ||
      kilohertz <= 0 || bits <= 0) {
    cudaGetLastError();  // forget the refusal
    return std::nullopt;
  }
  const Bytes bus = bytes(bits / 8.0);
  return 2 * bus / milliseconds(1.0 / kilohertz);
}

GpuDevice describe(int device) {
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  int driver = 0;
  int runtime = 0;
  check_cuda(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check_cuda(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  return {
      .name = properties.name,
      .compute_major = properties.major,
      .compute_minor = properties.minor,
      .sms = properties.multiProcessorCount,
      .memory = bytes(static_cast<double>(properties.totalGlobalMem)),
      .l2_cache = bytes(attribute(cudaDevAttrL2CacheSize, device)),
      .peak_memory_bandwidth = peak_memory_bandwidth(device),
      .driver_version = version_text(driver),
      .runtime_version = version_text(runtime),
  };
}

}  // namespace

std::vector<GpuDevice> devices() {
  int count = 0;
  check_cuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (count == 0) throw DeviceError("cudaGetDeviceCount: found no GPU");
  std::vector<GpuDevice> found;
  found.reserve(static_cast<std::size_t>(count));
  for (int device = 0; device < count; ++device) found.push_back(describe(device));
  return found;
}

}  // namespace flopcast
