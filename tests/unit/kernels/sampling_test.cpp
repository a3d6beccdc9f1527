#include "kernels/sampling.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

namespace flopcast {
namespace {

// By hand: mean 10 us, deviations -1, 0, +1 us, so s = 1 us and s / sqrt(3) / mean = 0.057735.
TEST_CASE("the relative error is that of the mean at 95 %") {
  const std::vector<Seconds> times{microseconds(9), microseconds(10), microseconds(11)};
  CHECK(relative_error(times) == Approx(1.96 * 0.0577350269));
}

TEST_CASE("one sample says nothing of its error") {
  CHECK(std::isinf(relative_error(std::vector<Seconds>{microseconds(9)})));
}

TEST_CASE("equal samples have no error") {
  CHECK(relative_error(std::vector<Seconds>(5, microseconds(2))) == 0);
}

TEST_CASE("the median is the middle, or between the two in the middle") {
  const std::vector<Seconds> odd{microseconds(7), microseconds(1), microseconds(3)};
  const std::vector<Seconds> even{microseconds(7), microseconds(1), microseconds(3),
                                  microseconds(4)};
  CHECK(median(odd) / microseconds(3) == Approx(1));
  CHECK(median(even) / microseconds(3.5) == Approx(1));
}

Sample sample(double microseconds_taken, std::uint64_t slowdown) {
  return {microseconds(microseconds_taken), GpuState{.slowdown = slowdown}};
}

// nvml.h: power cap 0x4, hardware slowdown 0x8, sync boost 0x10, thermal 0x20 and 0x40, power brake
// 0x80; idle 0x1 and locked clocks 0x2 slow nothing down.
TEST_CASE("heat and the power supply throttle, the power cap does not") {
  const auto [bits, expected] = GENERATE(table<std::uint64_t, bool>({
      {0x0, false},
      {0x1, false},
      {0x2, false},
      {0x4, false},
      {0x10, false},
      {0x8, true},
      {0x20, true},
      {0x40, true},
      {0x80, true},
      {0x44, true},
  }));
  CAPTURE(bits);
  CHECK(throttled({.slowdown = bits}) == expected);
}

TEST_CASE("throttled samples do not count, unless there are no others") {
  const std::vector<Sample> some{sample(5, 0), sample(9, 0x40), sample(6, 0x4)};
  CHECK(counted(some) == std::vector{microseconds(5), microseconds(6)});
  const std::vector<Sample> none_spared{sample(9, 0x40), sample(8, 0x8)};
  CHECK(counted(none_spared) == std::vector{microseconds(9), microseconds(8)});
  const std::vector<Sample> silent{{microseconds(7), std::nullopt}};
  CHECK(counted(silent) == std::vector{microseconds(7)});
}

TEST_CASE("sampling stops at the error, the time or the number, whichever comes first") {
  const StopRule rule{.relative_error = 0.01, .budget = seconds(1), .least = 3, .most = 6};
  const std::vector<Sample> equal(3, sample(5, 0));
  const std::vector<Sample> two(2, sample(5, 0));
  const std::vector<Sample> apart{sample(5, 0), sample(9, 0), sample(2, 0)};
  const std::vector<Sample> many{sample(5, 0), sample(9, 0), sample(2, 0),
                                 sample(5, 0), sample(9, 0), sample(2, 0)};
  const std::vector<Sample> hot{sample(5, 0x40), sample(5, 0), sample(5, 0x40), sample(5, 0)};
  CHECK(stop_reason({}, seconds(5), rule) == std::nullopt);  // one is always taken
  CHECK(stop_reason(two, seconds(0), rule) == std::nullopt);
  CHECK(stop_reason(equal, seconds(0), rule) == StopReason::converged);
  CHECK(stop_reason(equal, seconds(2), rule) == StopReason::converged);
  CHECK(stop_reason(apart, seconds(0.5), rule) == std::nullopt);
  CHECK(stop_reason(apart, seconds(1), rule) == StopReason::budget);
  CHECK(stop_reason(many, seconds(0), rule) == StopReason::most_samples);
  CHECK(stop_reason(hot, seconds(0), rule) == std::nullopt);  // only two of them count
}

}  // namespace
}  // namespace flopcast
