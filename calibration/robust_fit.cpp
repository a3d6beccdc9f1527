#include "calibration/robust_fit.h"

#include <algorithm>
#include <cmath>

#include "sim/check.h"

namespace flopcast {
namespace {

constexpr int kMostIterations = 60;
constexpr double kSmallestGain = 1e-7;   // relative, of one accepted step
constexpr double kLargestDamping = 1e8;  // beyond it no step helps
constexpr double kDifference = 1e-4;     // step of the Jacobian, of the width of the box

using Vector = std::vector<double>;

double mean_loss(std::span<const double> residuals, double scale) {
  double sum = 0;
  for (const double r : residuals) {
    sum += 2 * scale * scale * (std::sqrt(1 + (r / scale) * (r / scale)) - 1);
  }
  return sum / static_cast<double>(residuals.size());
}

/// Solves a x = b in place by Gaussian elimination with pivots; the matrices are damped and small.
Vector solve(std::vector<Vector> a, Vector b) {
  const std::size_t n = b.size();
  for (std::size_t column = 0; column < n; ++column) {
    std::size_t pivot = column;
    for (std::size_t row = column + 1; row < n; ++row) {
      if (std::abs(a[row][column]) > std::abs(a[pivot][column])) pivot = row;
    }
    std::swap(a[column], a[pivot]);
    std::swap(b[column], b[pivot]);
    for (std::size_t row = column + 1; row < n; ++row) {
      const double factor = a[row][column] / a[column][column];
      for (std::size_t k = column; k < n; ++k) a[row][k] -= factor * a[column][k];
      b[row] -= factor * b[column];
    }
  }
  Vector x(n);
  for (std::size_t row = n; row-- > 0;) {
    double rest = b[row];
    for (std::size_t k = row + 1; k < n; ++k) rest -= a[row][k] * x[k];
    x[row] = rest / a[row][row];
  }
  return x;
}

class Descent {
 public:
  Descent(const ResidualFunction& residuals, std::size_t rows,
          std::span<const BoxedParameter> parameters, double scale)
      : residuals_(residuals), parameters_(parameters), scale_(scale), now_(rows), tried_(rows) {
    for (const BoxedParameter& p : parameters_) at_.push_back(std::clamp(p.start, p.low, p.high));
    residuals_(at_, now_);
    loss_ = mean_loss(now_, scale_);
  }

  RobustFit run() {
    for (int i = 0; i < kMostIterations; ++i) {
      const double before = loss_;
      if (!step() || before - loss_ <= kSmallestGain * before) break;
    }
    return {.parameters = at_, .loss = loss_};
  }

 private:
  double width(std::size_t p) const { return parameters_[p].high - parameters_[p].low; }

  /// Column by column, in units of the box's widths.
  std::vector<Vector> jacobian() {
    std::vector<Vector> columns;
    columns.reserve(at_.size());
    for (std::size_t p = 0; p < at_.size(); ++p) {
      Vector shifted = at_;
      const bool down = at_[p] + kDifference * width(p) > parameters_[p].high;
      const double difference = down ? -kDifference : kDifference;
      shifted[p] += difference * width(p);
      residuals_(shifted, tried_);
      Vector& column = columns.emplace_back(now_.size());
      for (std::size_t row = 0; row < column.size(); ++row) {
        column[row] = (tried_[row] - now_[row]) / difference;
      }
    }
    return columns;
  }

  /// Whether a better place was found.
  bool step() {
    const std::vector<Vector> columns = jacobian();
    const std::size_t n = at_.size();
    std::vector<Vector> normal(n, Vector(n));
    Vector gradient(n);
    for (std::size_t row = 0; row < now_.size(); ++row) {
      const double part = now_[row] / scale_;
      const double weight = 1 / std::sqrt(1 + part * part);
      for (std::size_t p = 0; p < n; ++p) {
        gradient[p] += weight * columns[p][row] * now_[row];
        for (std::size_t q = 0; q <= p; ++q) {
          normal[p][q] += weight * columns[p][row] * columns[q][row];
        }
      }
    }
    for (std::size_t p = 0; p < n; ++p) {
      for (std::size_t q = 0; q < p; ++q) normal[q][p] = normal[p][q];
    }
    hold_at_walls(normal, gradient);
    while (damping_ < kLargestDamping) {
      if (try_step(normal, gradient)) {
        damping_ = std::max(damping_ / 5, 1e-9);
        return true;
      }
      damping_ *= 4;
    }
    return false;
  }

  /// A parameter at a wall that the gradient pushes against leaves the equations.
  void hold_at_walls(std::vector<Vector>& normal, Vector& gradient) const {
    for (std::size_t p = 0; p < at_.size(); ++p) {
      const bool held = (at_[p] <= parameters_[p].low && gradient[p] > 0) ||
                        (at_[p] >= parameters_[p].high && gradient[p] < 0);
      if (!held && normal[p][p] > 0) continue;
      for (std::size_t q = 0; q < at_.size(); ++q) normal[p][q] = normal[q][p] = 0;
      normal[p][p] = 1;
      gradient[p] = 0;
    }
  }

  bool try_step(const std::vector<Vector>& normal, const Vector& gradient) {
    std::vector<Vector> damped = normal;
    for (std::size_t p = 0; p < at_.size(); ++p) damped[p][p] *= 1 + damping_;
    const Vector move = solve(damped, gradient);
    Vector next = at_;
    for (std::size_t p = 0; p < at_.size(); ++p) {
      next[p] = std::clamp(at_[p] - move[p] * width(p), parameters_[p].low, parameters_[p].high);
    }
    residuals_(next, tried_);
    const double loss = mean_loss(tried_, scale_);
    if (!(loss < loss_)) return false;
    at_ = next;
    loss_ = loss;
    std::swap(now_, tried_);
    return true;
  }

  const ResidualFunction& residuals_;
  std::span<const BoxedParameter> parameters_;
  double scale_;
  double damping_ = 1e-3;
  Vector at_;
  Vector now_;    // residuals at `at_`
  Vector tried_;  // residuals elsewhere
  double loss_ = 0;
};

}  // namespace

RobustFit robust_least_squares(const ResidualFunction& residuals, std::size_t rows,
                               std::span<const BoxedParameter> parameters, double scale) {
  FLOPCAST_CHECK(rows > 0, "a fit needs rows");
  return Descent(residuals, rows, parameters, scale).run();
}

}  // namespace flopcast
