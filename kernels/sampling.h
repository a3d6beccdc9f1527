#pragma once

// Samples of one case, which of them count, and when enough were taken.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/gpu_state.h"
#include "sim/units.h"

namespace flopcast {

/// One timed run of the kernel, and the GPU's state right after it where NVML tells.
struct Sample {
  Seconds time;
  std::optional<GpuState> state{};
};

/// Half width of the 95 % confidence interval of the mean over the mean; infinite below two
/// samples.
double relative_error(std::span<const Seconds> samples);

/// Of at least one sample.
Seconds median(std::span<const Seconds> samples);

/// The times that count: those of samples that were not throttled, or all where none was spared.
std::vector<Seconds> counted(std::span<const Sample> samples);

struct StopRule {
  double relative_error = 0.01;  // of the mean of the counted times, at 95 %
  Seconds budget = seconds(5);   // wall time of the case, checks of its result left out
  std::size_t least = 10;        // samples that count before the error is believed
  std::size_t most = 200;
};

enum class StopReason : std::uint8_t { converged, budget, most_samples };
std::string_view to_text(StopReason reason);

/// Why to stop now; nothing while another sample is to be taken. One sample is always taken.
std::optional<StopReason> stop_reason(std::span<const Sample> samples, Seconds elapsed,
                                      const StopRule& rule);

}  // namespace flopcast
