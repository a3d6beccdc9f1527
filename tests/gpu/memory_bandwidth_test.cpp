#include "kernels/memory_bandwidth.h"

#include <catch2/catch.hpp>

#include "kernels/device.h"

namespace flopcast {
namespace {

TEST_CASE("memory bandwidth lies between half of the peak and the peak") {
  const auto pattern = GENERATE(MemoryPattern::copy, MemoryPattern::triad);
  const MemoryBandwidth measured = measure_memory_bandwidth({.pattern = pattern});
  CAPTURE(to_text(measured.median), measured.samples.size(), measured.relative_error);
  CHECK(measured.converged);
  CHECK(measured.relative_error < 0.01);
  const GpuDevice device = devices().front();
  if (device.peak_memory_bandwidth) {
    CHECK(measured.median / *device.peak_memory_bandwidth > 0.5);
    CHECK(measured.median / *device.peak_memory_bandwidth <= 1.0);
  }
}

TEST_CASE("a sample states the bytes it moves and the FLOPs it does") {
  struct Row {
    MemoryPattern pattern;
    Bytes moved;
    Flops work;
  };
  // 16 MiB are 4 Mi elements: the triad moves three arrays and does 2 FLOPs an element.
  const auto row = GENERATE(values<Row>({
      {MemoryPattern::copy, mebibytes(32), flops(0)},
      {MemoryPattern::triad, mebibytes(48), flops(2 * 4 * 1048576.0)},
  }));
  const MemoryBandwidth measured =
      measure_memory_bandwidth({.pattern = row.pattern, .array = mebibytes(16)});
  for (const MemoryBandwidthSample& sample : measured.samples) {
    CHECK(sample.pattern == row.pattern);
    CHECK(sample.moved == row.moved);
    CHECK(sample.work == row.work);
    CHECK(sample.time > seconds(0));
  }
}

}  // namespace
}  // namespace flopcast
