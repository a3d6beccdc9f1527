#pragma once

// The clock of the engine: whole picoseconds, so that times compare exactly.

#include <compare>
#include <cstdint>
#include <limits>

#include "sim/check.h"
#include "sim/units.h"

namespace flopcast {

/// A point of simulated time, or a span of it, in picoseconds. The range is 106 days.
struct SimTime {
  std::int64_t picoseconds = 0;

  friend constexpr auto operator<=>(const SimTime&, const SimTime&) = default;
  friend constexpr SimTime operator+(SimTime a, SimTime b) {
    return {a.picoseconds + b.picoseconds};
  }
  friend constexpr SimTime operator-(SimTime a, SimTime b) {
    return {a.picoseconds - b.picoseconds};
  }
  constexpr SimTime& operator+=(SimTime other) {
    picoseconds += other.picoseconds;
    return *this;
  }
};

inline constexpr SimTime kNever{std::numeric_limits<std::int64_t>::max()};

/// The moment `delay` after `now`, rounded up to the next picosecond unless the excess is less than
/// 2^-38 of the delay (to the nearest picosecond from 0.14 s on). Aborts on a negative or NaN
/// delay and where the sum leaves the range of the clock. Inline: part of every event.
inline SimTime after(SimTime now, Seconds delay) {
  constexpr double kPicoseconds = 1e12;
  // 2^63 picoseconds; every double below it fits into the clock.
  constexpr double kRange = 9223372036854775808.0;
  // Decimal delays such as 3 us have no exact double, and rates are held to 40 bits (rates.cpp): a
  // product that exceeds a whole number by no more than that is that number, not the next one.
  constexpr double kRounding = 0x1p-38;

  FLOPCAST_CHECK(delay.value >= 0, "a delay is neither negative nor NaN");
  const double exact = delay.value * kPicoseconds;
  FLOPCAST_CHECK(exact < kRange, "a delay fits the range of the clock, 106 days");
  auto span = static_cast<std::int64_t>(exact);  // rounded down
  const double rest = exact - static_cast<double>(span);
  if (rest > exact * kRounding || rest > 0.5) ++span;
  FLOPCAST_CHECK(span < kNever.picoseconds - now.picoseconds, "the clock stays in its range");
  return now + SimTime{span};
}

constexpr Seconds to_seconds(SimTime span) {
  return nanoseconds(static_cast<double>(span.picoseconds) * 1e-3);
}

}  // namespace flopcast
