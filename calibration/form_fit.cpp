#include "calibration/form_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace flopcast {
namespace {

// Errors above it count by their modulus: the fits' own median errors are of this size.
constexpr double kScale = 0.03;
constexpr double kLowPercentile = 0.05;

RobustFit descend(const FittedForm& form, const std::vector<std::size_t>& rows,
                  std::span<const BoxedParameter> start) {
  const ResidualFunction residuals = [&](std::span<const double> parameters,
                                         std::span<double> out) {
    const TimeOfSample time = form.with(parameters);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      out[i] = std::log(time(rows[i]) / form.measured[rows[i]]);
    }
  };
  return robust_least_squares(residuals, rows.size(), start, kScale);
}

/// Parameters of fits to samples drawn with replacement, each from where the fit ended.
std::vector<std::vector<double>> bootstrap(const FittedForm& form,
                                           const std::vector<std::size_t>& rows,
                                           const std::vector<double>& fitted, int times) {
  std::mt19937_64 random(1);  // a fixed seed: the same samples give the same bands
  std::vector<BoxedParameter> start = form.starts.front();
  for (std::size_t p = 0; p < start.size(); ++p) start[p].start = fitted[p];
  std::vector<std::vector<double>> all;
  all.reserve(static_cast<std::size_t>(times));
  std::vector<std::size_t> drawn(rows.size());
  for (int i = 0; i < times; ++i) {
    // The remainder's bias, below 1e-15 here, is no matter; std distributions vary by library.
    for (std::size_t& row : drawn) row = rows[random() % rows.size()];
    all.push_back(descend(form, drawn, start).parameters);
  }
  return all;
}

void add_bands(KernelFitRow& row, const std::vector<std::vector<double>>& drawn) {
  for (std::size_t p = 0; p < row.parameters.size(); ++p) {
    std::vector<double> values;
    values.reserve(drawn.size());
    for (const std::vector<double>& one : drawn) values.push_back(one[p]);
    std::sort(values.begin(), values.end());
    const auto cut =
        static_cast<std::size_t>(std::lround(kLowPercentile * static_cast<double>(values.size())));
    row.parameters[p].low = values[std::min(cut, values.size() - 1)];
    row.parameters[p].high = values[values.size() - 1 - std::min(cut, values.size() - 1)];
  }
}

}  // namespace

ErrorSummary errors_of(const FittedForm& form, const TimeOfSample& time, bool held_back) {
  std::vector<double> errors;
  errors.reserve(form.measured.size());
  for (std::size_t i = 0; i < form.measured.size(); ++i) {
    if (form.held_back[i] == held_back) {
      errors.push_back(std::abs(time(i) / form.measured[i] - 1));
    }
  }
  return summary_of(std::move(errors));
}

KernelFitRow fit_form(const FittedForm& form, int bootstraps) {
  std::vector<std::size_t> rows;
  rows.reserve(form.measured.size());
  for (std::size_t i = 0; i < form.measured.size(); ++i) {
    if (!form.held_back[i]) rows.push_back(i);
  }
  RobustFit best{.parameters = {}, .loss = std::numeric_limits<double>::infinity()};
  for (const std::vector<BoxedParameter>& start : form.starts) {
    RobustFit fit = descend(form, rows, start);
    if (fit.loss < best.loss) best = std::move(fit);
  }
  KernelFitRow row{.op = form.op,
                   .fitted = errors_of(form, form.with(best.parameters), false),
                   .held_back = errors_of(form, form.with(best.parameters), true),
                   .before = {},
                   .parameters = {},
                   .points = {}};
  row.parameters.reserve(form.names.size());
  for (std::size_t p = 0; p < form.names.size(); ++p) {
    row.parameters.push_back({form.names[p], best.parameters[p], 0, 0});
  }
  const TimeOfSample time = form.with(best.parameters);
  row.points.reserve(form.measured.size());
  for (std::size_t i = 0; i < form.measured.size(); ++i) {
    row.points.push_back({form.measured[i], time(i), form.held_back[i]});
  }
  if (bootstraps > 0) add_bands(row, bootstrap(form, rows, best.parameters, bootstraps));
  return row;
}

}  // namespace flopcast
