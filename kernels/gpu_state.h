#pragma once

// Clock, heat and power of a GPU beside a sample, as NVML tells them.

#include <cstdint>

namespace flopcast {

/// Recorded, never computed with: hence numbers with their unit in the name.
struct GpuState {
  int sm_clock_mhz = 0;
  int memory_clock_mhz = 0;
  int temperature_c = 0;
  double power_w = 0;
  std::uint64_t slowdown = 0;  // bits of nvmlClocksEventReasons
};

// Of nvml.h (CUDA 13), nvmlClocksEventReason*.
inline constexpr std::uint64_t kSoftwarePowerCap = 0x04;
inline constexpr std::uint64_t kHardwareSlowdown = 0x08;
inline constexpr std::uint64_t kSoftwareThermal = 0x20;
inline constexpr std::uint64_t kHardwareThermal = 0x40;
inline constexpr std::uint64_t kPowerBrake = 0x80;

/// Slowed by heat or by the power supply: a fault of the place, not a property of the GPU. The
/// power cap is one: a long run of large GEMMs lives under it, and its samples count.
constexpr bool throttled(const GpuState& state) {
  return (state.slowdown &
          (kHardwareSlowdown | kSoftwareThermal | kHardwareThermal | kPowerBrake)) != 0;
}

}  // namespace flopcast
