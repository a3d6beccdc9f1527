#include "scenarios/expectation.h"

#include <catch2/catch.hpp>
#include <limits>

#include "sample_answer.h"

using namespace flopcast;

namespace {

Expectation expect_value(std::string metric, double value, double tolerance) {
  Expectation expectation;
  expectation.metric = std::move(metric);
  expectation.value = value;
  expectation.tolerance = tolerance;
  return expectation;
}

bool passes(const Expectation& expectation, const StepReport& report) {
  return evaluate(std::vector{expectation}, report).at(0).passed;
}

}  // namespace

TEST_CASE("every metric is read from the report in its base unit") {
  const StepReport report = sample_answer().report;
  const auto value = [&](std::string_view name) { return find_metric(name)->of(report); };
  CHECK(value("step_time") == 10);
  CHECK(value("tokens_per_second") == 13107.2);
  CHECK(value("tokens_per_second_per_gpu") == 819.2);
  CHECK(value("model_tflops_per_gpu") == Approx(400));
  CHECK(value("mfu") == 0.4);
  CHECK(value("hfu") == 0.45);
  CHECK(value("memory_peak") == Approx(60e9));
  CHECK(metrics().size() == 7);
  CHECK_FALSE(find_metric("speed").has_value());
}

TEST_CASE("a value holds within its tolerance, both ways") {
  const StepReport report = sample_answer().report;  // a step of 10 s
  CHECK(passes(expect_value("step_time", 10, 0), report));
  CHECK(passes(expect_value("step_time", 9.2, 0.1), report));
  CHECK_FALSE(passes(expect_value("step_time", 9, 0.1), report));
  CHECK(passes(expect_value("step_time", 11, 0.1), report));
  CHECK_FALSE(passes(expect_value("step_time", 11.2, 0.1), report));
}

TEST_CASE("bounds are inclusive and join with a value") {
  const StepReport report = sample_answer().report;
  Expectation expectation;
  expectation.metric = "mfu";
  CHECK(passes(expectation, report));
  expectation.min = 0.4;
  CHECK(passes(expectation, report));
  expectation.max = 0.39;
  CHECK_FALSE(passes(expectation, report));

  Expectation tight = expect_value("mfu", 0.5, 0.5);
  tight.min = 0.45;
  const auto result = evaluate(std::vector{tight}, report).at(0);
  CHECK(result.lowest == 0.45);
  CHECK(result.highest == 0.75);
  CHECK_FALSE(result.passed);
}

TEST_CASE("what is not a number passes nothing") {
  StepReport report = sample_answer().report;
  report.mfu = std::numeric_limits<double>::quiet_NaN();
  Expectation expectation;
  expectation.metric = "mfu";
  CHECK_FALSE(passes(expectation, report));
}
