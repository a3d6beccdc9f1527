#pragma once

// Robust non-linear least squares for few parameters in a box.

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace flopcast {

struct BoxedParameter {
  double start = 0;
  double low = 0;
  double high = 0;
};

/// Fills one residual per row for the given parameters.
using ResidualFunction = std::function<void(std::span<const double>, std::span<double>)>;

struct RobustFit {
  std::vector<double> parameters;
  double loss = 0;  // mean over the rows
};

/// Minimises the mean of 2 s^2 (sqrt(1 + (r/s)^2) - 1) over the residuals r: squares below `scale`
/// s, moduli above, so that outliers count by their distance and not by its square (soft L1).
/// Levenberg (1944) and Marquardt (1963): damped normal equations with Marquardt's scaling, by
/// iteratively reweighted residuals; Jacobian by forward differences; steps are cut at the box, and
/// a parameter at its wall stays out of a step that would leave it. Cost per iteration: one call of
/// `residuals` for each parameter and each step tried.
RobustFit robust_least_squares(const ResidualFunction& residuals, std::size_t rows,
                               std::span<const BoxedParameter> parameters, double scale);

}  // namespace flopcast
