#include <fmt/format.h>

#include "scenarios/expectation.h"
#include "scenarios/scenario_parts.h"

namespace flopcast {
namespace {

/// A bound as the metric is written; for memory and time with its unit.
double read_bound(const Node& node, MetricUnit unit) {
  switch (unit) {
    case MetricUnit::seconds: return node.quantity<Seconds>().value;
    case MetricUnit::bytes: return node.quantity<Bytes>().value;
    case MetricUnit::tokens_per_second: return node.number();
    case MetricUnit::teraflops: return node.number();
    case MetricUnit::fraction: return node.fraction();
  }
  return 0;
}

Expectation read_expectation(const Node& node, const Metric& metric) {
  Expectation expectation;
  expectation.metric = metric.name;
  const auto value = node.find("value");
  const auto tolerance = node.find("tolerance");
  const auto min = node.find("min");
  const auto max = node.find("max");
  if (value) expectation.value = read_bound(*value, metric.unit);
  if (tolerance) expectation.tolerance = tolerance->fraction();
  if (min) expectation.min = read_bound(*min, metric.unit);
  if (max) expectation.max = read_bound(*max, metric.unit);
  // A misspelt bound is told first.
  node.finish();
  if (!value && !min && !max) node.fail("expected \"value\" and \"tolerance\", \"min\" or \"max\"");
  if (value && !tolerance) value->fail("a value needs a \"tolerance\" such as \"10%\"");
  if (tolerance && !value) tolerance->fail("a tolerance needs a \"value\"");
  if (min && max && *expectation.min > *expectation.max) min->fail("min is above max");
  return expectation;
}

}  // namespace

std::vector<Expectation> read_expectations(const std::optional<Node>& node) {
  std::vector<Expectation> expectations;
  if (!node) return expectations;
  for (const Metric& metric : metrics()) {
    if (const auto bounds = node->find(metric.name)) {
      expectations.push_back(read_expectation(*bounds, metric));
    }
  }
  return expectations;
}

}  // namespace flopcast
