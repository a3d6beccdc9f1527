#pragma once

// A scenario with its answer: what every renderer is given.

#include <optional>
#include <vector>

#include "models/step_report.h"
#include "scenarios/error_band.h"
#include "scenarios/expectation.h"
#include "scenarios/scenario.h"

namespace flopcast {

struct Answer {
  Scenario scenario;
  StepReport report;
  std::vector<ExpectationResult> expectations;
  std::optional<ErrorBand> band{};  // of runs like it, where there are some

  bool passed() const;
};

/// Counts model FLOPs by `convention` where one is given, then looks at the expectations.
Answer answer(Scenario scenario, StepReport report, std::optional<FlopConvention> convention);

}  // namespace flopcast
