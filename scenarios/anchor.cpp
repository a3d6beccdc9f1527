#include "scenarios/anchor.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/tools/toms748_solve.hpp>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "scenarios/forecast.h"
#include "scenarios/profile_json.h"
#include "sim/errors.h"

namespace flopcast {
namespace {

constexpr int kDigits = 4;  // of a level that is written

struct Target {
  Metric metric{};
  double value = 0;
};

std::optional<Target> target_of(const Scenario& scenario) {
  for (const Expectation& expectation : scenario.expect) {
    const auto metric = find_metric(expectation.metric);
    if (!metric || !expectation.value || metric->unit == MetricUnit::bytes) continue;
    return Target{*metric, *expectation.value};
  }
  return std::nullopt;
}

/// The level in the range of anchors at which `at` is what was measured. Alefeld, Potra and Shi,
/// ACM TOMS 748.
double level_meeting(const Anchor& anchor, const std::function<double(double)>& at) {
  const double measured = anchor.measured;
  const double low = at(kLowestAnchor);
  const double high = at(kHighestAnchor);
  if ((low - measured) * (high - measured) > 0) {
    throw InputError(fmt::format(
        "{}: no level meets a {} of {:.6g} {}: it is {:.6g} at {} and {:.6g} at {}; what does not "
        "scale with clocks is far off, or the setup is not the one that was measured",
        anchor.name, anchor.metric, measured, to_text(anchor.unit), low, kLowestAnchor, high,
        kHighestAnchor));
  }
  constexpr int kBits = 14;  // of a level: 6e-5
  std::uintmax_t steps = 50;
  const auto bracket = boost::math::tools::toms748_solve(
      [&](double level) { return at(level) / measured - 1; }, kLowestAnchor, kHighestAnchor,
      low / measured - 1, high / measured - 1, boost::math::tools::eps_tolerance<double>(kBits),
      steps);
  return std::midpoint(bracket.first, bracket.second);
}

}  // namespace

Anchor step_anchor(const Scenario& scenario) {
  const auto target = target_of(scenario);
  if (!target) {
    throw InputError(fmt::format(
        "{}: nothing to meet; give what was measured, such as \"expect\": {{\"step_time\": "
        "{{\"value\": \"5.9 s\", \"tolerance\": \"1%\"}}}}",
        scenario.name));
  }
  Scenario tried = scenario;
  const auto at = [&](double level) {
    tried.profile.level = level;
    return target->metric.of(forecast(tried).report);
  };
  Anchor anchor{.name = scenario.name,
                .metric = std::string(target->metric.name),
                .unit = target->metric.unit,
                .measured = target->value,
                .at_profile = at(scenario.profile.level)};
  anchor.level = level_meeting(anchor, at);
  return anchor;
}

Anchor gemm_anchor(const Profile& profile, DataType type, const GemmShape& shape,
                   Seconds measured) {
  Anchor anchor{.name = fmt::format("gemm {}x{}x{} {}", shape.m, shape.n, shape.k, to_text(type)),
                .metric = "time",
                .unit = MetricUnit::seconds,
                .measured = measured.value};
  if (!has_gemm(profile, type)) {
    throw InputError(fmt::format("{}: profile {} has no products in {}", anchor.name, profile.name,
                                 to_text(type)));
  }
  Profile tried = profile;
  const auto at = [&](double level) {
    tried.level = level;
    return gemm_time(tried, type, shape).time.value;
  };
  anchor.at_profile = at(profile.level);
  anchor.level = level_meeting(anchor, at);
  return anchor;
}

std::string profile_with_level(std::string_view base, const std::string& name, double level,
                               const std::string& source) {
  auto json = nlohmann::ordered_json::parse(base, nullptr, true, true);
  json["name"] = name;
  json["level"] = {
      {"value", with_digits(level, kDigits)}, {"evidence", "fitted"}, {"source", source}};
  return json.dump(2) + "\n";
}

}  // namespace flopcast
