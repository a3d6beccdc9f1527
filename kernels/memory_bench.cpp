#include "kernels/memory_bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "kernels/fill.h"
#include "kernels/memory_check.h"
#include "kernels/memory_launch.h"
#include "sim/errors.h"

namespace flopcast {
namespace {

// Rows that the host checks in its slow way.
constexpr std::int64_t kCheckedRows = 8;

}  // namespace

MemoryWork::MemoryWork(const MemoryCase& memory, cudaStream_t stream)
    : memory_(memory), stream_(stream), scratch_(memory_scratch(memory)) {
  const auto& specs = arrays(memory.op);
  arrays_.reserve(specs.size());
  addresses_.reserve(specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const double size =
        element_size(specs[i].type).value * static_cast<double>(elements(specs[i], memory));
    arrays_.push_back(std::make_unique<DeviceMemory>(static_cast<std::size_t>(size)));
    addresses_.push_back(arrays_.back()->as<void>());
    fill_array(memory, static_cast<int>(i), addresses_.back(), stream);
  }
}

void MemoryWork::launch() const {
  launch_memory_op(memory_, addresses_, scratch_.as<void>(), stream_);
}

std::vector<double> MemoryWork::read(std::size_t array, std::int64_t first,
                                     std::int64_t count) const {
  const ArrayType type = arrays(memory_.op)[array].type;
  const auto size = static_cast<std::size_t>(element_size(type).value);
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size);
  check_cuda(
      cudaMemcpyAsync(bytes.data(),
                      arrays_[array]->as<std::byte>() + static_cast<std::size_t>(first) * size,
                      bytes.size(), cudaMemcpyDeviceToHost, stream_),
      "cudaMemcpyAsync");
  check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  return decode(type, bytes);
}

double MemoryWork::error_over_tolerance() const {
  const auto& specs = arrays(memory_.op);
  double worst = 0;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (!specs[i].written) continue;
    const bool by_row = follows_rows(specs[i]);
    if (!by_row && memory_.rows > kCheckedRows) continue;
    const std::int64_t rows = by_row ? std::min(kCheckedRows, memory_.rows) : 1;
    const std::int64_t first = by_row ? memory_.rows - rows : 0;
    const std::int64_t width = elements_per_row(specs[i], memory_);
    worst = std::max(worst, flopcast::error_over_tolerance(memory_, static_cast<int>(i), first,
                                                           read(i, first * width, rows * width)));
  }
  return worst;
}

void require_right(double error, const char* what) {
  if (error <= 1) return;
  throw DeviceError(
      fmt::format("{}: wrong result, off by {:.3g} times the tolerance", what, error));
}

// Sums over rows are checked on a few rows of the same width, the rest on the last rows of all.
Measurement measure_memory(Bench& bench, const MemoryCase& memory, const StopRule& rule) {
  MemoryCase few = memory;
  few.rows = std::min(memory.rows, kCheckedRows);
  const MemoryWork few_rows(few, bench.stream());
  const MemoryWork all_rows(memory, bench.stream());
  few_rows.launch();
  all_rows.launch();
  const double error = std::max(few_rows.error_over_tolerance(), all_rows.error_over_tolerance());
  require_right(error, std::string(to_text(memory.op)).c_str());
  Measurement result = bench.time([&all_rows] { all_rows.launch(); }, rule);
  result.error_over_tolerance = error;
  return result;
}

}  // namespace flopcast
