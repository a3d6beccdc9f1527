#include "calibration/kernel_disturbance.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace flopcast {
namespace {

/// Of at least one value; the mean of the middle two of an even number.
double middle(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// A collective that slows nothing takes nothing; noise may make it seem less.
std::optional<double> share(const std::vector<BesideSample>& samples, bool across_domains) {
  std::vector<double> shares;
  for (const BesideSample& sample : samples) {
    if (sample.across_domains == across_domains) {
      shares.push_back(std::max(0.0, 1 - sample.alone / sample.beside));
    }
  }
  if (shares.empty()) return std::nullopt;
  return middle(std::move(shares));
}

}  // namespace

std::optional<JitterFit> fit_jitter(const KernelSamples& samples) {
  JitterFit fit{.spread = {}, .least = std::numeric_limits<double>::infinity()};
  double squares = 0;
  for (const RepeatedSample& kernel : samples.repeated) {
    if (kernel.times.size() < 2) continue;
    const auto count = static_cast<double>(kernel.times.size());
    double mean = 0;
    for (const Seconds time : kernel.times) mean += std::log(time.value) / count;
    double own = 0;
    for (const Seconds time : kernel.times) own += std::pow(std::log(time.value) - mean, 2);
    squares += own;
    fit.least = std::min(fit.least, std::sqrt(own / (count - 1)));
    fit.most = std::max(fit.most, std::sqrt(own / (count - 1)));
    ++fit.kernels;
    fit.runs += kernel.times.size();
  }
  if (fit.kernels == 0) return std::nullopt;
  fit.spread = {
      .sigma = std::sqrt(squares / static_cast<double>(fit.runs - fit.kernels)),
      .provenance = {.evidence = Evidence::measured,
                     .source = samples.source + "; " + std::to_string(fit.runs) + " runs of " +
                               std::to_string(fit.kernels) + " repeated kernels"}};
  return fit;
}

std::optional<ShareFit> fit_shares(const KernelSamples& samples) {
  if (samples.beside.empty()) return std::nullopt;
  return ShareFit{.domain = share(samples.beside, false),
                  .network = share(samples.beside, true),
                  .kernels = samples.beside.size(),
                  .source = samples.source + "; " + std::to_string(samples.beside.size()) +
                            " kernels timed alone and beside a collective"};
}

}  // namespace flopcast
