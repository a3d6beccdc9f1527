#include "kernels/sampling.h"

#include <catch2/catch.hpp>
#include <cmath>
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

}  // namespace
}  // namespace flopcast
