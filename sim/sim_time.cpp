#include "sim/sim_time.h"

#include <cmath>

#include "sim/check.h"

namespace flopcast {

SimTime after(SimTime now, Seconds delay) {
  constexpr double kPicoseconds = 1e12;
  // 2^63 picoseconds; every double below it fits into the clock.
  constexpr double kRange = 9223372036854775808.0;
  // Decimal delays such as 3 us have no exact double: a product that misses a whole number by no
  // more than the rounding of a few operations is that number, not the next one.
  constexpr double kRounding = 0x1p-50;

  FLOPCAST_CHECK(delay.value >= 0, "a delay is neither negative nor NaN");
  const double exact = delay.value * kPicoseconds;
  const double nearest = std::nearbyint(exact);
  const double whole = std::abs(exact - nearest) <= exact * kRounding ? nearest : std::ceil(exact);
  FLOPCAST_CHECK(whole < kRange, "a delay fits the range of the clock, 106 days");
  const auto span = static_cast<std::int64_t>(whole);
  FLOPCAST_CHECK(span < kNever.picoseconds - now.picoseconds, "the clock stays in its range");
  return now + SimTime{span};
}

}  // namespace flopcast
