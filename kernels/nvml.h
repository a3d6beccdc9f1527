#pragma once

// The driver's management library, opened when the program runs: it comes with the driver, not with
// the toolkit. Only for sources of this folder.

#include <optional>
#include <string>

#include "kernels/gpu_state.h"

namespace flopcast {

class Nvml {
 public:
  /// Of the GPU at this PCI address, "0000:3b:00.0". Silent where the library is not there or does
  /// not know the GPU.
  explicit Nvml(const std::string& pci_address);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// Takes up to some milliseconds. Nothing where NVML cannot tell all of it.
  std::optional<GpuState> state() const;

  bool found() const { return device_ != nullptr; }

 private:
  void* library_ = nullptr;  // what dlopen gives
  void* device_ = nullptr;   // nvmlDevice_t
};

}  // namespace flopcast
