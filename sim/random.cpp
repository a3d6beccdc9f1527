#include "sim/random.h"

#include <cmath>
#include <numbers>

namespace flopcast {

double random_normal(std::uint64_t bits) {
  const double radius = 1 - random_unit(mixed(bits));  // in (0, 1]
  const double turn = random_unit(mixed(bits + kGoldenGamma));
  return std::sqrt(-2 * std::log(radius)) * std::cos(2 * std::numbers::pi * turn);
}

double random_factor(double sigma, std::uint64_t bits) {
  return std::exp(sigma * random_normal(bits) - sigma * sigma / 2);
}

}  // namespace flopcast
