#include "kernels/small_float.h"

#include <algorithm>
#include <cmath>

namespace flopcast {
namespace {

// `bits` of significand; exponents below `least` share its step.
double round_to(double value, int bits, int least) {
  if (value == 0) return 0;
  const int exponent = std::max(std::ilogb(value), least);
  const double step = std::ldexp(1.0, exponent - bits + 1);
  return std::nearbyint(value / step) * step;
}

}  // namespace

double round_to_bf16(double value) { return round_to(value, 8, -126); }

double round_to_fp16(double value) { return round_to(value, 11, -14); }

double round_to_e5m2(double value) { return round_to(value, 3, -14); }

double round_to_e4m3(double value) { return std::clamp(round_to(value, 4, -6), -448.0, 448.0); }

}  // namespace flopcast
