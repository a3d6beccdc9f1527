// Bands that hold four of five further runs, and the file that ships them.

#include "scenarios/error_band.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "scenarios/validation.h"
#include "sim/errors.h"

namespace flopcast {
namespace {

/// 1, 2, ... n, not in order.
std::vector<double> count_down(int n) {
  std::vector<double> values;
  for (int i = n; i > 0; --i) values.push_back(i);
  return values;
}

Trial run_of(Mark mark, double measured) {
  Trial trial;
  trial.scenario.mark = mark;
  ExpectationResult& result = trial.expectations.emplace_back();
  result.metric = *find_metric("step_time");
  result.found = 1;
  result.expected = measured;
  return trial;
}

std::filesystem::path written(const std::string& text) {
  const auto file = std::filesystem::temp_directory_path() / "flopcast_error_bands_test.json";
  std::ofstream(file) << text;
  return file;
}

}  // namespace

// A further run lies between the i-th and the j-th of n with probability (j - i) / (n + 1).
TEST_CASE("the ends of a band leave a tenth of further runs on each side") {
  CHECK_FALSE(error_band("dense", count_down(8)).has_value());
  for (const int n : {9, 19, 99}) {
    const auto band = error_band("dense", count_down(n));
    REQUIRE(band.has_value());
    CHECK(band->runs == n);
    CHECK((band->high - band->low) / (n + 1) == Approx(0.8));
    CHECK(band->low / (n + 1) == Approx(0.1));
  }
  const auto between = error_band("dense", count_down(41));  // wider, never narrower
  REQUIRE(between.has_value());
  CHECK(between->low == 4);
  CHECK(between->high == 38);
}

TEST_CASE("bands are made of fit runs and judged on test runs") {
  std::vector<Trial> trials;
  for (const double measured : count_down(9)) trials.push_back(run_of(Mark::fit, measured));
  for (const double measured : {0.5, 1.0, 5.0, 9.0, 9.5}) {
    trials.push_back(run_of(Mark::test, measured));
  }
  const auto bands = error_bands(validation_of(trials).runs);
  REQUIRE(bands.size() == 1);
  CHECK(bands[0].style == "dense");
  CHECK(bands[0].low == 1);
  CHECK(bands[0].high == 9);
  const Validation judged = validation_of(trials, bands);
  REQUIRE(judged.bands.size() == 1);
  CHECK(judged.bands[0].runs == 5);
  CHECK(judged.bands[0].inside == 3);
}

TEST_CASE("what is written is read again, and a wrong style is told") {
  const std::vector<ErrorBand> bands{
      {.style = "experts", .runs = 41, .low = 0.9512, .high = 1.853}};
  const std::string text = error_bands_text(bands);
  const auto again = read_error_bands(written(text));
  REQUIRE(again.size() == 1);
  CHECK(again[0].style == "experts");
  CHECK(again[0].runs == 41);
  CHECK(again[0].low == 0.9512);
  CHECK(again[0].high == 1.853);
  Job job;
  CHECK_FALSE(band_of(again, job).has_value());
  job.model.moe.emplace();
  CHECK(band_of(again, job)->runs == 41);

  std::string wrong = text;
  wrong.replace(wrong.find("experts"), 7, "exports");
  CHECK_THROWS_WITH(read_error_bands(written(wrong)),
                    Catch::Contains("/bands/0/style") && Catch::Contains("experts"));
}

}  // namespace flopcast
