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

template <class Q>
double in_base_units(const Node& number, const Node& unit) {
  const auto parsed = parse_quantity<Q>(fmt::format("{} {}", number.number(), unit.text()));
  if (!parsed) unit.expected(fmt::format("the unit of {}", quantity_example<Q>()));
  return parsed->value;
}

double read_in_unit(const Node& number, const Node& unit, MetricUnit kind) {
  if (kind == MetricUnit::seconds) return in_base_units<Seconds>(number, unit);
  if (kind == MetricUnit::bytes) return in_base_units<Bytes>(number, unit);
  const std::string_view name = to_text(kind);
  if (unit.text() != name) unit.expected(fmt::format("\"{}\"", name));
  return number.number();
}

/// A reference as ReFrame writes it: value, lower and upper threshold relative to it, unit.
/// Source: ReFrame 4, regression test API, "reference"; null is no threshold.
Expectation read_tuple(const Node& node, const Metric& metric) {
  const auto parts = node.items();
  if (parts.size() != 4) {
    node.expected("[value, lower threshold, upper threshold, unit], as [5.9, -0.05, 0.1, \"s\"]");
  }
  Expectation expectation;
  expectation.metric = metric.name;
  const double value = read_in_unit(parts[0], parts[3], metric.unit);
  expectation.reference = value;
  if (!parts[1].is_null()) expectation.min = value * (1 + parts[1].number(-1, 0));
  if (!parts[2].is_null()) expectation.max = value * (1 + parts[2].number(0));
  return expectation;
}

Expectation read_expectation(const Node& node, const Metric& metric) {
  if (node.is_array()) return read_tuple(node, metric);
  Expectation expectation;
  expectation.metric = metric.name;
  if (const auto allowed = node.find("allow_failure")) {
    expectation.allow_failure = allowed->boolean();
  }
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
