#include "kernels/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace flopcast {

// Normal quantile, 1.96: a little narrow below 30 samples, where Student's t is 2.26 at 10. The
// smallest number of samples that a measurement takes keeps it so.
double relative_error(std::span<const Seconds> samples) {
  if (samples.size() < 2) return std::numeric_limits<double>::infinity();
  const double count = static_cast<double>(samples.size());
  Seconds sum;
  for (const Seconds sample : samples) sum += sample;
  const Seconds mean = sum / count;
  double squares = 0;  // of deviations relative to the mean
  for (const Seconds sample : samples) {
    const double deviation = (sample - mean) / mean;
    squares += deviation * deviation;
  }
  return 1.96 * std::sqrt(squares / (count - 1) / count);
}

Seconds median(std::span<const Seconds> samples) {
  std::vector<Seconds> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t middle = sorted.size() / 2;
  if (sorted.size() % 2 == 1) return sorted[middle];
  return (sorted[middle - 1] + sorted[middle]) / 2;
}

std::vector<Seconds> counted(std::span<const Sample> samples) {
  std::vector<Seconds> times;
  times.reserve(samples.size());
  for (const Sample& sample : samples) {
    if (!sample.state || !throttled(*sample.state)) times.push_back(sample.time);
  }
  if (times.empty()) {
    for (const Sample& sample : samples) times.push_back(sample.time);
  }
  return times;
}

std::string_view to_text(StopReason reason) {
  switch (reason) {
    case StopReason::converged: return "converged";
    case StopReason::budget: return "budget";
    case StopReason::most_samples: return "most_samples";
  }
  return {};
}

std::optional<StopReason> stop_reason(std::span<const Sample> samples, Seconds elapsed,
                                      const StopRule& rule) {
  if (samples.empty()) return std::nullopt;
  const std::vector<Seconds> times = counted(samples);
  if (times.size() >= rule.least && relative_error(times) <= rule.relative_error) {
    return StopReason::converged;
  }
  if (samples.size() >= rule.most) return StopReason::most_samples;
  if (elapsed >= rule.budget) return StopReason::budget;
  return std::nullopt;
}

}  // namespace flopcast
