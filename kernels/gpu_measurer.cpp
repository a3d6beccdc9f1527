#include "kernels/gpu_measurer.h"

#include <array>
#include <chrono>
#include <ctime>

#include "kernels/attention_bench.h"
#include "kernels/gemm_bench.h"
#include "kernels/host_bench.h"
#include "kernels/memory_bench.h"
#include "kernels/side_by_side_bench.h"
#include "sim/errors.h"

namespace flopcast {
namespace {

Ranks& required(Ranks* ranks) {
  if (ranks == nullptr) throw DeviceError("collectives need a second GPU");
  return *ranks;
}

struct MeasureCase {
  Bench& bench;
  Ranks* ranks;
  const StopRule& rule;

  Measurement operator()(const GemmCase& gemm) const { return measure_gemm(bench, gemm, rule); }
  Measurement operator()(const AttentionCase& attention) const {
    return measure_attention(bench, attention, rule);
  }
  Measurement operator()(const MemoryCase& memory) const {
    return measure_memory(bench, memory, rule);
  }
  Measurement operator()(const HostCopyCase& copy) const {
    return measure_host_copy(bench, copy, rule);
  }
  Measurement operator()(const LaunchCase& launch) const {
    return measure_launch(bench, launch, rule);
  }
  Measurement operator()(const CollectiveCase& collective) const {
    return measure_collective(bench, required(ranks), collective, rule);
  }
  Measurement operator()(const InterferenceCase& both) const {
    return measure_interference(bench, required(ranks), both, rule);
  }
  Measurement operator()(const JitterCase& jitter) const {
    return measure_jitter(bench, ranks, jitter, rule);
  }
};

bool takes_all_ranks(const MeasurementCase& wanted) {
  if (const auto* jitter = std::get_if<JitterCase>(&wanted)) {
    return std::holds_alternative<CollectiveCase>(jitter->repeated);
  }
  return std::holds_alternative<CollectiveCase>(wanted) ||
         std::holds_alternative<InterferenceCase>(wanted);
}

}  // namespace

// A kernel that failed leaves the device usable, or not: then no later case can be trusted. A rank
// that fails in the midst of others cannot go on either: they wait for it.
std::variant<Measurement, CaseFailure> GpuMeasurer::measure(const MeasurementCase& wanted,
                                                            const StopRule& rule) {
  const bool together = ranks_ != nullptr && takes_all_ranks(wanted);
  if (!first_ && !together) return Measurement{};
  bench_.agree_by({});
  if (together) bench_.agree_by([this](bool says) { return ranks_->agree(says); });
  try {
    return std::visit(MeasureCase{bench_, ranks_, rule}, wanted);
  } catch (const DeviceError& error) {
    cudaGetLastError();  // clears what is not lasting, such as too little memory
    if (cudaDeviceSynchronize() != cudaSuccess) throw;
    if (together && ranks_->several_processes()) throw;
    return CaseFailure{error.what()};
  }
}

bool GpuMeasurer::agree(bool first_rank_says) {
  return ranks_ != nullptr ? ranks_->agree(first_rank_says) : first_rank_says;
}

Seconds GpuMeasurer::now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return seconds(std::chrono::duration<double>(since).count());
}

std::string GpuMeasurer::time_of_day() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

}  // namespace flopcast
