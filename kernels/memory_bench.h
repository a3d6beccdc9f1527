#pragma once

// Measures a memory-bound kernel, after its result was checked. Only for sources of this folder.

#include <functional>
#include <memory>
#include <vector>

#include "kernels/bench.h"
#include "kernels/measurement_case.h"

namespace flopcast {

/// A case's arrays on the device, filled, and its kernel ready to start.
class MemoryWork {
 public:
  MemoryWork(const MemoryCase& memory, cudaStream_t stream);

  void launch() const;
  /// After the first launch: largest error over the tolerance of the last rows of what follows
  /// rows, and of all of what sums over them where that is little.
  double error_over_tolerance() const;

 private:
  std::vector<double> read(std::size_t array, std::int64_t first, std::int64_t count) const;

  MemoryCase memory_;
  cudaStream_t stream_;
  std::vector<std::unique_ptr<DeviceMemory>> arrays_;
  std::vector<void*> addresses_;
  DeviceMemory scratch_;
};

/// Throws DeviceError where the kernel computes the wrong thing.
Measurement measure_memory(Bench& bench, const MemoryCase& memory, const StopRule& rule);

/// Throws DeviceError unless `error` is at most 1.
void require_right(double error, const char* what);

}  // namespace flopcast
