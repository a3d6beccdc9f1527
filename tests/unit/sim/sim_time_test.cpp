#include "sim/sim_time.h"

#include <catch2/catch.hpp>

using namespace flopcast;

TEST_CASE("a delay becomes whole picoseconds, rounded up unless it exceeds by a trifle") {
  struct Row {
    Seconds delay;
    std::int64_t picoseconds;
  };
  const auto row = GENERATE(values<Row>({
      {seconds(0), 0},
      {seconds(1e-30), 1},  // less than the clock resolves still takes time
      {seconds(1e-12), 1},
      {seconds(1.25e-12), 2},
      {nanoseconds(1), 1000},
      {microseconds(3), 3000000},
      {seconds(0.1), 100000000000},  // 0.1 has no exact double: no picosecond more for that
      {milliseconds(1.0 / 3), 333333334},
      {seconds(1.0 / 3), 333333333333},  // of a long delay, not even a third of one counts
      {seconds(2.0 / 3), 666666666667},
      {seconds(86400), 86400000000000000},
  }));
  CAPTURE(row.delay.value);
  CHECK(after(SimTime{}, row.delay).picoseconds == row.picoseconds);
  CHECK(after(SimTime{5}, row.delay).picoseconds == 5 + row.picoseconds);
}

TEST_CASE("whole microseconds up to a second stay whole") {
  for (std::int64_t us = 1; us <= 1000000; us += 37) {
    REQUIRE(after(SimTime{}, microseconds(static_cast<double>(us))).picoseconds == us * 1000000);
  }
}

TEST_CASE("spans turn back into seconds") {
  CHECK(to_seconds(SimTime{1500000}).value == Approx(1.5e-6));
  CHECK(to_seconds(SimTime{7} - SimTime{7}) == seconds(0));
  CHECK(SimTime{1} < kNever);
}
