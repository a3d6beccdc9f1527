#pragma once

// The clock of the engine: whole picoseconds, so that times compare exactly.

#include <compare>
#include <cstdint>
#include <limits>

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

/// The moment `delay` after `now`, rounded up to the next picosecond. Aborts on a negative or NaN
/// delay and where the sum leaves the range of the clock.
SimTime after(SimTime now, Seconds delay);

constexpr Seconds to_seconds(SimTime span) {
  return nanoseconds(static_cast<double>(span.picoseconds) * 1e-3);
}

}  // namespace flopcast
