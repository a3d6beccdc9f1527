#include "tools/answer.h"

#include <algorithm>
#include <utility>

namespace flopcast {

bool Answer::passed() const {
  return std::ranges::all_of(expectations, &ExpectationResult::accepted);
}

Answer answer(Scenario scenario, StepReport report, std::optional<FlopConvention> convention) {
  if (convention) report = in_convention(std::move(report), scenario.job, *convention);
  auto expectations = evaluate(scenario.expect, report);
  return {.scenario = std::move(scenario),
          .report = std::move(report),
          .expectations = std::move(expectations)};
}

}  // namespace flopcast
