// Published runs: every file is read and simulated, and there are enough of them to judge by.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "scenarios/forecast.h"

namespace flopcast {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = FLOPCAST_SOURCE_DIR;
const fs::path kPublished = kSource / "scenarios/published";
const DataFolders kData{kSource / "scenarios/catalogue", kSource / "calibration/profiles"};
constexpr double kMedianMargin = 0.12;  // the goal of the project: scenarios/published/README.md
constexpr int kLarge = 1024;            // GPUs

std::vector<fs::path> published_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(kPublished)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

int gpus(const Scenario& scenario) {
  return scenario.cluster.nodes * scenario.cluster.system.gpus_per_node;
}

}  // namespace

TEST_CASE("there are published runs of many sources and scales, each with its source") {
  std::set<fs::path> sources;
  std::set<std::string> names;
  std::size_t large = 0;
  std::size_t tests = 0;
  const auto files = published_files();
  for (const fs::path& file : files) {
    CAPTURE(file.string());
    const Scenario scenario = read_scenario(file, {}, kData);
    CHECK(scenario.name == file.stem().string());
    CHECK_FALSE(scenario.sources.empty());
    CHECK(scenario.mark != Mark::none);
    REQUIRE(scenario.expect.size() == 1);
    CHECK(scenario.expect[0].metric == "step_time");
    CHECK(scenario.expect[0].value.has_value());
    sources.insert(file.parent_path());
    names.insert(scenario.name);
    if (gpus(scenario) >= kLarge) ++large;
    if (scenario.mark == Mark::test) ++tests;
  }
  CHECK(names.size() == files.size());
  CHECK(files.size() >= 40);
  CHECK(sources.size() >= 5);
  CHECK(large >= 8);
  CHECK(2 * tests >= files.size());
}

TEST_CASE("every published run is simulated") {
  for (const fs::path& file : published_files()) {
    CAPTURE(file.string());
    const Scenario scenario = read_scenario(file, {}, kData);
    const StepReport report = forecast(scenario).report;
    CHECK(std::isfinite(report.step.value));
    CHECK(report.step > Seconds{});
    CHECK(report.gpus == gpus(scenario));
  }
}

TEST_CASE("step times of the published test runs are met within the margin, in the median") {
  std::vector<double> errors;
  for (const fs::path& file : published_files()) {
    const Scenario scenario = read_scenario(file, {}, kData);
    if (scenario.mark != Mark::test) continue;
    const double measured = *scenario.expect.at(0).value;
    errors.push_back(std::abs(forecast(scenario).report.step.value / measured - 1));
  }
  const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
  std::nth_element(errors.begin(), middle, errors.end());
  CHECK(*middle <= kMedianMargin);
}

}  // namespace flopcast
