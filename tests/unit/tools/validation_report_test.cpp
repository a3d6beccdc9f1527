// The error table of measured runs in its four formats.

#include "tools/validation_report.h"
#include "tools/validation_plot.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

using Catch::Matchers::Contains;

namespace flopcast {
namespace {

Trial run_of(const std::string& name, double predicted) {
  Trial trial;
  trial.name = name;
  trial.file = "published/one.json";
  trial.scenario.job.model.name = "gpt-7b";
  trial.scenario.cluster.system.gpu.name = "a100-sxm";
  trial.scenario.mark = Mark::test;
  trial.report.gpus = 16;
  trial.report.fits = true;
  trial.report.step = seconds(predicted);
  trial.report.breakdown = {{"bubble", seconds(predicted / 4)},
                            {"attention", seconds(predicted / 2)}};
  ExpectationResult& result = trial.expectations.emplace_back();
  result.metric = *find_metric("step_time");
  result.found = predicted;
  result.expected = 2;
  return trial;
}

std::vector<Trial> trials() {
  std::vector<Trial> trials{run_of("near", 2.1), run_of("far, too", 3), run_of("low", 1.9)};
  for (const char* name : {"a", "b"}) {
    Trial& unanswered = trials.emplace_back();
    unanswered.name = name;
    unanswered.file = "published/one.json";
    unanswered.outcome = Outcome::unsupported;
    unanswered.problem = "published/one.json:3:1: /profile: no profile for x; shipped: a, b";
  }
  return trials;
}

std::string report_of(const std::vector<Trial>& of, const ValidationQuestion& question) {
  const std::vector<ErrorBand> bands{{.style = "dense", .runs = 20, .low = 0.9, .high = 1.2}};
  return validation_report(validation_of(of, bands), of, question);
}

std::string report(const ValidationQuestion& question) { return report_of(trials(), question); }

}  // namespace

TEST_CASE("the table has errors in percent by group, and what has no forecast") {
  const std::string text = report({});
  CHECK_THAT(text, Contains("gpu a100-sxm, test     3     5.0  20.0  50.0  +5.0"));
  CHECK_THAT(text, Contains("one        2  no profile for x\n"));
  CHECK_THAT(text, !Contains("largest errors"));
}

TEST_CASE("bands say how many runs lie in them") {
  CHECK_THAT(report({}), Contains("dense       20  0.90  1.20          3  66.7 %"));
}

TEST_CASE("the picture has a dot for each step time, by style") {
  const std::vector<Trial> of = trials();
  const std::string drawn = validation_plot_svg(validation_of(of));
  CHECK_THAT(drawn, Contains(">dense</text>") && Contains(">3 runs: 5.0 / 50.0 %</text>"));
  std::size_t dots = 0;
  for (std::size_t at = drawn.find("h0"); at != std::string::npos; at = drawn.find("h0", at + 1)) {
    ++dots;
  }
  CHECK(dots == 3);
}

TEST_CASE("the largest errors come first and say where their steps go") {
  CHECK_THAT(report({.worst = 1}), Contains("far, too    16   2.000 s    3.000 s    +50.0  "
                                            "attention 50 %, bubble 25 %"));
}

TEST_CASE("runs without a forecast are listed one by one on demand") {
  const std::string text = report({.left_out = true});
  CHECK_THAT(text, Contains("a       1  no profile for x\n") && Contains("b       1  no profile"));
}

TEST_CASE("runs that ran and are forecast not to fit are told") {
  CHECK_THAT(report({}), !Contains("out of memory"));
  std::vector<Trial> full = trials();
  full[0].report.fits = false;
  full[0].report.device_memory = gigabytes(80);
  full[0].report.memory.resize(1);
  full[0].report.memory[0].parameters = gigabytes(100);
  CHECK_THAT(report_of(full, {}), Contains("called out of memory") && Contains(" 125.0\n"));
}

TEST_CASE("Markdown, JSON and CSV have the same runs") {
  CHECK_THAT(report({.format = ReportFormat::markdown}), Contains("| all ") && Contains("---:"));
  const auto json = nlohmann::json::parse(report({.format = ReportFormat::json}));
  CHECK(json.at("runs").size() == 3);
  CHECK(json.at("runs")[1].at("error") == Approx(0.5));
  CHECK(json.at("runs")[1].at("mark") == "test");
  CHECK(json.at("groups")[0].at("median_error") == Approx(0.05));
  CHECK(json.at("without_forecast").size() == 2);
  const std::string csv = report({.format = ReportFormat::csv});
  CHECK(std::ranges::count(csv, '\n') == 4);
  CHECK_THAT(csv, Contains("\n\"far, too\",one,test,dense,gpt,a100-sxm,"));
}

}  // namespace flopcast
