#pragma once

// The GPUs of this machine, as the CUDA runtime describes them. No CUDA type appears here.

#include <optional>
#include <string>
#include <vector>

#include "sim/units.h"

namespace flopcast {

struct GpuDevice {
  std::string name;
  int compute_major = 0;
  int compute_minor = 0;
  int sms = 0;
  Bytes memory;
  Bytes l2_cache;
  std::optional<BytesPerSecond> peak_memory_bandwidth;  // nothing where the driver hides its clock
  std::string driver_version;   // newest CUDA that the driver serves, "13.0"
  std::string runtime_version;  // CUDA that this program was built with
};

/// By CUDA device number, at least one. Throws DeviceError naming the failed call where there is no
/// GPU or no driver.
std::vector<GpuDevice> devices();

}  // namespace flopcast
