#pragma once

// Achieved bandwidth of a GPU's memory, measured by a kernel that does little else.

#include <cstdint>
#include <vector>

#include "sim/units.h"

namespace flopcast {

enum class MemoryPattern : std::uint8_t {
  copy,   // a = b:         reads one array, writes one; no FLOPs
  triad,  // a = b + s * c: reads two, writes one; 2 FLOPs per element (McCalpin's STREAM)
};

struct MemoryBandwidthOptions {
  int device = 0;
  MemoryPattern pattern = MemoryPattern::copy;
  Bytes array = gibibytes(1);    // size of each array; lowered to fit the free memory
  double relative_error = 0.01;  // of the mean time at 95 %; stops when below
  Seconds budget = seconds(5);   // ... or when this much time has passed
};

/// One launch: warmed up, every cache cold.
struct MemoryBandwidthSample {
  MemoryPattern pattern{};
  Bytes moved;  // read and written
  Flops work;   // of 32-bit floats
  Seconds time;
};

struct MemoryBandwidth {
  std::vector<MemoryBandwidthSample> samples;  // all of them, in order
  BytesPerSecond median;
  double relative_error = 0;
  bool converged = false;  // false: the budget ended it
};

/// Throws DeviceError naming the failed call, or where the arrays do not hold what they should.
MemoryBandwidth measure_memory_bandwidth(const MemoryBandwidthOptions& options);

}  // namespace flopcast
