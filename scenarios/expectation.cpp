#include "scenarios/expectation.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/check.h"

namespace flopcast {
namespace {

double memory_peak(const StepReport& report) {
  const auto fullest = static_cast<std::size_t>(report.fullest_stage);
  return fullest < report.memory.size() ? report.memory[fullest].reserved().value : 0;
}

constexpr std::array kMetrics{
    Metric{"step_time", MetricUnit::seconds, [](const StepReport& r) { return r.step.value; }},
    Metric{"tokens_per_second", MetricUnit::tokens_per_second,
           [](const StepReport& r) { return r.tokens_per_second; }},
    Metric{"tokens_per_second_per_gpu", MetricUnit::tokens_per_second,
           [](const StepReport& r) { return r.tokens_per_second_per_gpu; }},
    Metric{"model_tflops_per_gpu", MetricUnit::teraflops,
           [](const StepReport& r) { return to_teraflops_per_second(r.model_flops_per_gpu); }},
    Metric{"mfu", MetricUnit::fraction, [](const StepReport& r) { return r.mfu; }},
    Metric{"hfu", MetricUnit::fraction, [](const StepReport& r) { return r.hfu; }},
    Metric{"memory_peak", MetricUnit::bytes, memory_peak},
};

void raise(std::optional<double>& lowest, double bound) {
  lowest = lowest ? std::max(*lowest, bound) : bound;
}

void lower(std::optional<double>& highest, double bound) {
  highest = highest ? std::min(*highest, bound) : bound;
}

ExpectationResult evaluate_one(const Expectation& expectation, const StepReport& report) {
  const auto metric = find_metric(expectation.metric);
  FLOPCAST_CHECK(metric.has_value(), "the reader accepts only the names of metrics");
  ExpectationResult result{
      .metric = *metric,
      .found = metric->of(report),
      .expected = expectation.value ? expectation.value : expectation.reference,
      .lowest = expectation.min,
      .highest = expectation.max,
      .allow_failure = expectation.allow_failure};
  if (expectation.value) {
    const double margin = std::abs(*expectation.value) * expectation.tolerance;
    raise(result.lowest, *expectation.value - margin);
    lower(result.highest, *expectation.value + margin);
  }
  result.passed = std::isfinite(result.found) &&
                  (!result.lowest || result.found >= *result.lowest) &&
                  (!result.highest || result.found <= *result.highest);
  return result;
}

}  // namespace

std::string_view to_text(MetricUnit unit) {
  switch (unit) {
    case MetricUnit::seconds: return "s";
    case MetricUnit::bytes: return "bytes";
    case MetricUnit::tokens_per_second: return "tokens/s";
    case MetricUnit::teraflops: return "TFLOP/s";
    case MetricUnit::fraction: return "1";
  }
  return {};
}

std::span<const Metric> metrics() { return kMetrics; }

std::optional<Metric> find_metric(std::string_view name) {
  const auto* const found = std::ranges::find(kMetrics, name, &Metric::name);
  return found != kMetrics.end() ? std::optional(*found) : std::nullopt;
}

std::vector<ExpectationResult> evaluate(std::span<const Expectation> expectations,
                                        const StepReport& report) {
  std::vector<ExpectationResult> results;
  results.reserve(expectations.size());
  for (const Expectation& expectation : expectations) {
    results.push_back(evaluate_one(expectation, report));
  }
  return results;
}

}  // namespace flopcast
