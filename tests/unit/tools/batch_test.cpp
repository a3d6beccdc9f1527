// `flopcast batch`: outcomes, exit codes, JUnit and Markdown; tables of scenarios.

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "scenarios/batch.h"
#include "scenarios/scenario_file.h"
#include "scenarios/scenario_parts.h"
#include "sim/errors.h"
#include "tools/batch_report.h"

using Catch::Matchers::Contains;

namespace flopcast {
namespace {

namespace fs = std::filesystem;
const fs::path kSource = FLOPCAST_SOURCE_DIR;
const DataFolders kData{kSource / "scenarios/catalogue", kSource / "calibration/profiles"};
const fs::path kBatch = fs::path(FLOPCAST_TEST_DATA) / "batch";

std::vector<Trial> answered(const std::string& only = "*", std::vector<Override> overrides = {},
                            std::size_t threads = 0) {
  return run_batch({{kBatch}, only, std::move(overrides), threads}, kData);
}

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("each scenario of a folder has its own outcome, in the order of files and rows") {
  const auto trials = answered();
  std::vector<std::pair<std::string, Outcome>> found;
  for (const Trial& trial : trials) found.emplace_back(trial.name, trial.outcome);
  const std::vector<std::pair<std::string, Outcome>> expected{
      {"broken-json", Outcome::wrong},       {"row-passes", Outcome::passed},
      {"row-fails", Outcome::failed},        {"row-may-fail", Outcome::allowed},
      {"row-is-illegal", Outcome::wrong},    {"row-without-profile", Outcome::unsupported},
      {"row-by-reference", Outcome::failed},
  };
  CHECK(found == expected);
}

TEST_CASE("the number of threads changes no result") {
  const auto one = answered("row-*", {}, 1);
  const auto two = answered("row-*", {}, 2);
  REQUIRE(one.size() == two.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    CHECK(one[i].name == two[i].name);
    CHECK(one[i].report.step == two[i].report.step);
  }
}

TEST_CASE("scenarios are chosen by --only and changed by --set") {
  const auto trials = answered("*-passes", {{"expect.step_time.max", "1 ns"}});
  REQUIRE(trials.size() == 1);
  CHECK(trials[0].outcome == Outcome::failed);
}

TEST_CASE("a failing expectation names metric, value and bound") {
  const auto trials = answered("row-fails");
  REQUIRE(trials.size() == 1);
  CHECK_THAT(problem_text(trials[0]), Contains("step_time ") && Contains(" is above 1.000 us"));
}

TEST_CASE("a reference tuple bounds as ReFrame's does") {
  const auto trials = answered("row-by-reference");
  REQUIRE(trials.at(0).expectations.size() == 1);
  const ExpectationResult& result = trials[0].expectations[0];
  CHECK(result.expected == Approx(2e-6));
  CHECK_FALSE(result.lowest);
  CHECK(*result.highest == Approx(3e-6));  // 2 us and half of it
}

TEST_CASE("a wrong cell of a table is told with its place") {
  const auto trials = answered("row-is-illegal");
  CHECK_THAT(trials.at(0).problem, Contains("table.json:17:29: /parallel/tp"));
  const auto table = [](const std::string& rows) {
    const std::string text =
        R"({"base": {}, "columns": ["name", "source"], "texts": {"one": "x"}, "rows": [)" + rows +
        "]}";
    return ScenarioFile::of(Document::parse(text, "t.json"));
  };
  CHECK_THROWS_WITH(table(R"(["a", "b"], ["c"])"), Contains("1 cells in a table of 2 columns"));
  CHECK_THROWS_WITH(table(R"(["a", "b"], ["a", "b"])"), Contains("a second row named \"a\""));
  CHECK_THROWS_WITH(table(R"(["a", "@oen"])").scenario(0),
                    Contains("no text \"@oen\"") && Contains("did you mean \"one\"?"));
  CHECK(table(R"(["a", "@one"])").scenario(0).root().at("source").text() == "x");
}

TEST_CASE(
    "the JUnit file has the counts, attributes and elements that Jenkins and Surefire ask for") {
  const auto trials = answered();
  const std::string xml = junit_report(trials);
  CHECK_THAT(xml, Catch::StartsWith("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>"));
  CHECK_THAT(xml, Contains("<testsuite name=\"flopcast\" tests=\"7\" failures=\"2\" errors=\"3\" "
                           "skipped=\"1\" time=\""));
  CHECK(times(xml, "<testcase classname=\"") == 7);
  CHECK(times(xml, "</testcase>") == 7);
  CHECK(times(xml, "<failure message=\"step_time ") == 2);
  CHECK(times(xml, "<error message=\"") == 3);
  CHECK(times(xml, "<skipped message=\"") == 1);
  CHECK(times(xml, "<failure") == times(xml, "</failure>"));
  CHECK(times(xml, "<error") == times(xml, "</error>"));
  CHECK(times(xml, "type=\"unsupported\"") == 1);
  CHECK(times(xml, " time=\"") == 8);
}

TEST_CASE("what XML and Markdown would read as markup is escaped") {
  Trial trial;
  trial.name = "a<b>&\"c\"|d";
  trial.problem = "line\nline \x01";
  const std::string xml = junit_report(std::vector{trial});
  CHECK_THAT(xml,
             Contains("name=\"a&lt;b&gt;&amp;&quot;c&quot;|d\"") && Contains("line&#10;line ?"));
  CHECK_THAT(batch_markdown(std::vector{trial}), Contains("a\\<b>&\"c\"\\|d"));
}

TEST_CASE("the Markdown summary counts and lists") {
  CHECK_THAT(batch_markdown(answered()),
             Catch::StartsWith("## flopcast: 1 of 7 passed, 1 failed as allowed, 2 failed, "
                               "1 unsupported, 2 wrong\n") &&
                 Contains("| FAIL | row-fails | step_time |") && Contains("\n- row-is-illegal: "));
}

}  // namespace flopcast
