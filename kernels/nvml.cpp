#include "kernels/nvml.h"

#include <dlfcn.h>

namespace flopcast {
namespace {

// Of nvml.h (CUDA 13): the few declarations in use. Results are nvmlReturn_t, 0 is success.
using Device = void*;
constexpr unsigned kClockSm = 1;
constexpr unsigned kClockMemory = 2;
constexpr unsigned kTemperatureGpu = 0;

// Calls a function of the library by name; false where it is not there or fails.
template <class... A>
bool call(void* library, const char* name, A... arguments) {
  void* symbol = library != nullptr ? dlsym(library, name) : nullptr;
  if (symbol == nullptr) return false;
  return reinterpret_cast<int (*)(A...)>(symbol)(arguments...) == 0;
}

}  // namespace

Nvml::Nvml(const std::string& pci_address) : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW)) {
  if (!call(library_, "nvmlInit_v2")) return;
  if (!call(library_, "nvmlDeviceGetHandleByPciBusId_v2", pci_address.c_str(), &device_)) {
    device_ = nullptr;
  }
}

Nvml::~Nvml() {
  call(library_, "nvmlShutdown");
  if (library_ != nullptr) dlclose(library_);
}

std::optional<GpuState> Nvml::state() const {
  if (!found()) return std::nullopt;
  unsigned sm = 0;
  unsigned memory = 0;
  unsigned temperature = 0;
  unsigned milliwatts = 0;
  unsigned long long reasons = 0;
  // Named nvmlDeviceGetCurrentClocksEventReasons since 12.2; the old name stays.
  const bool all =
      call(library_, "nvmlDeviceGetClockInfo", Device{device_}, kClockSm, &sm) &&
      call(library_, "nvmlDeviceGetClockInfo", Device{device_}, kClockMemory, &memory) &&
      call(library_, "nvmlDeviceGetTemperature", Device{device_}, kTemperatureGpu, &temperature) &&
      call(library_, "nvmlDeviceGetPowerUsage", Device{device_}, &milliwatts) &&
      call(library_, "nvmlDeviceGetCurrentClocksThrottleReasons", Device{device_}, &reasons);
  if (!all) return std::nullopt;
  return GpuState{.sm_clock_mhz = static_cast<int>(sm),
                  .memory_clock_mhz = static_cast<int>(memory),
                  .temperature_c = static_cast<int>(temperature),
                  .power_w = milliwatts / 1000.0,
                  .slowdown = reasons};
}

}  // namespace flopcast
