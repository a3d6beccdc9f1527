// Every kind of case on a real GPU: the result is right, and the time is a possible one.

#include <catch2/catch.hpp>

#include "kernels/attention_bench.h"
#include "kernels/collective_bench.h"
#include "kernels/device.h"
#include "kernels/gpu_measurer.h"
#include "kernels/plan.h"

namespace flopcast {
namespace {

const StopRule kShort{.relative_error = 0.05, .budget = seconds(1)};

std::unique_ptr<Ranks> all_gpus() {
  const int gpus = static_cast<int>(devices().size());
  return has_nccl() && gpus > 1 ? std::make_unique<Ranks>(std::nullopt, gpus) : nullptr;
}

Machine this_machine() {
  const GpuDevice gpu = devices().front();
  return {.compute_major = gpu.compute_major,
          .compute_minor = gpu.compute_minor,
          .gpus_per_node = static_cast<int>(devices().size()),
          .attention = has_cudnn(),
          .collectives = has_nccl()};
}

// The error over the tolerance is checked by every bench: a wrong result is a failure here.
TEST_CASE("every case of a quick run is measured, and its result is right") {
  const auto ranks = all_gpus();
  GpuMeasurer measurer(0, ranks.get(), true);
  for (const MeasurementCase& one : measurement_plan(Effort::quick, this_machine())) {
    CAPTURE(key(one));
    const auto result = measurer.measure(one, kShort);
    const auto* failure = std::get_if<CaseFailure>(&result);
    INFO((failure != nullptr ? failure->reason : std::string()));
    REQUIRE(failure == nullptr);
    CHECK(median(counted(std::get<Measurement>(result).samples)) > microseconds(0.1));
  }
}

TEST_CASE("memory bandwidth lies between half of the peak and the peak") {
  const auto op = GENERATE(MemoryOp::copy, MemoryOp::triad);
  const GpuDevice gpu = devices().front();
  if (!gpu.peak_memory_bandwidth) return;
  GpuMeasurer measurer(0, nullptr, true);
  const MeasurementCase large = MemoryCase{op, 32768, 8192};  // 1 GiB an array
  const auto result = std::get<Measurement>(measurer.measure(large, {}));
  const BytesPerSecond reached = work(large).moved / median(counted(result.samples));
  CAPTURE(to_text(reached));
  CHECK(reached / *gpu.peak_memory_bandwidth > 0.5);
  CHECK(reached / *gpu.peak_memory_bandwidth <= 1.0);
}

}  // namespace
}  // namespace flopcast
