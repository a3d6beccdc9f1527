#pragma once

// One form, its parameters and its samples: fits it, bootstraps it, and judges it on the samples
// held back. Internal to kernel_fit.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "calibration/kernel_fit.h"
#include "calibration/robust_fit.h"

namespace flopcast {

using TimeOfSample = std::function<Seconds(std::size_t)>;

struct FittedForm {
  std::string op;
  std::vector<std::string> names;                   // of the parameters
  std::vector<std::vector<BoxedParameter>> starts;  // the best end wins
  std::function<TimeOfSample(std::span<const double>)> with;
  std::vector<Seconds> measured;
  std::vector<bool> held_back;
};

/// Relative errors of a form on its samples, held back or not.
ErrorSummary errors_of(const FittedForm& form, const TimeOfSample& time, bool held_back);

/// Without `before`. Needs a sample on each side.
KernelFitRow fit_form(const FittedForm& form, int bootstraps);

}  // namespace flopcast
