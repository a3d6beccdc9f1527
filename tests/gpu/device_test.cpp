#include "kernels/device.h"

#include <catch2/catch.hpp>

#include "kernels/nccl_version.h"

namespace flopcast {
namespace {

// GPUs since Volta have 7.0 or more, and no data centre GPU has under 8 GB.
TEST_CASE("a GPU is described in full") {
  for (const GpuDevice& device : devices()) {
    CAPTURE(device.name);
    CHECK_FALSE(device.name.empty());
    CHECK(device.compute_major >= 7);
    CHECK(device.sms > 0);
    CHECK(device.memory > gigabytes(8));
    CHECK(device.l2_cache > mebibytes(1));
    CHECK(device.runtime_version.find('.') != std::string::npos);
    CHECK(device.driver_version.find('.') != std::string::npos);
  }
}

// Data sheets, SXM parts: GB/s, rounded by the maker.
TEST_CASE("peak memory bandwidth agrees with the data sheet") {
  struct Row {
    const char* name;
    BytesPerSecond peak;
  };
  const auto row = GENERATE(values<Row>({
      {"A100-SXM4-80GB", gigabytes_per_second(2039)},
      {"H100 80GB HBM3", gigabytes_per_second(3350)},
      {"H200", gigabytes_per_second(4800)},
  }));
  for (const GpuDevice& device : devices()) {
    if (device.name.find(row.name) == std::string::npos || !device.peak_memory_bandwidth) continue;
    CAPTURE(device.name);
    CHECK(*device.peak_memory_bandwidth / row.peak == Approx(1).epsilon(0.03));
  }
}

TEST_CASE("NCCL says its version") { CHECK(nccl_version().substr(0, 2) == "2."); }

}  // namespace
}  // namespace flopcast
