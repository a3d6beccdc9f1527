#pragma once

// The metrics that a scenario may expect something of, and whether an answer meets it.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "models/step_report.h"
#include "scenarios/scenario.h"

namespace flopcast {

/// How the bounds of a metric are written and in which base unit Expectation holds them.
enum class MetricUnit : std::uint8_t {
  seconds,            // "10.5 s"
  bytes,              // "80 GB"
  tokens_per_second,  // a plain number
  teraflops,          // a plain number of TFLOP/s
  fraction,           // a plain number, 0..1
};

/// As JSON names it: "s", "bytes", "tokens/s", "TFLOP/s", "1".
std::string_view to_text(MetricUnit unit);

struct Metric {
  std::string_view name;
  MetricUnit unit;
  double (*of)(const StepReport& report);  // in `unit`
};

/// Every metric, in the order in which help lists them.
std::span<const Metric> metrics();
/// Nothing where no metric has this name.
std::optional<Metric> find_metric(std::string_view name);

/// One expectation against the answer: the value found and the bounds that it had to keep.
struct ExpectationResult {
  Metric metric{};
  double found = 0;                // in metric.unit, as are the bounds
  std::optional<double> expected;  // the middle of the bounds, where a value was given
  std::optional<double> lowest;
  std::optional<double> highest;
  bool allow_failure = false;
  bool passed = false;

  /// Passed, or its failure is allowed.
  bool accepted() const { return passed || allow_failure; }
};

/// In the order of `expectations`, whose names must be those of metrics. A value that is not a
/// number passes nothing.
std::vector<ExpectationResult> evaluate(std::span<const Expectation> expectations,
                                        const StepReport& report);

}  // namespace flopcast
