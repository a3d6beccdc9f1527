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
constexpr double kMedianMargin = 0.12;   // the goal of the project: scenarios/published/README.md
constexpr double kExpertsMargin = 0.15;  // of models with experts, to which nothing was fitted
constexpr int kLarge = 1024;             // GPUs

/// Runs of models with experts are judged apart.
enum class Models { dense, with_experts };

std::vector<fs::path> published_files(Models models) {
  const fs::path experts = kPublished / "moe";
  const bool apart = models == Models::with_experts;
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(kPublished)) {
    const fs::path& file = entry.path();
    if (file.extension() != ".json") continue;
    if ((file.parent_path() == experts) == apart) files.push_back(file);
  }
  std::sort(files.begin(), files.end());
  return files;
}

double median_error(Models models, Mark mark) {
  std::vector<double> errors;
  for (const fs::path& file : published_files(models)) {
    const Scenario scenario = read_scenario(file, {}, kData);
    if (mark != Mark::none && scenario.mark != mark) continue;
    const double measured = *scenario.expect.at(0).value;
    errors.push_back(std::abs(forecast(scenario).report.step.value / measured - 1));
  }
  const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
  std::nth_element(errors.begin(), middle, errors.end());
  return *middle;
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
  const auto files = published_files(Models::dense);
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
  const auto models = GENERATE(Models::dense, Models::with_experts);
  for (const fs::path& file : published_files(models)) {
    CAPTURE(file.string());
    const Scenario scenario = read_scenario(file, {}, kData);
    CHECK(scenario.job.model.moe.has_value() == (models == Models::with_experts));
    const StepReport report = forecast(scenario).report;
    CHECK(std::isfinite(report.step.value));
    CHECK(report.step > Seconds{});
    CHECK(report.gpus == gpus(scenario));
  }
}

TEST_CASE("step times of the published test runs are met within the margin, in the median") {
  CHECK(median_error(Models::dense, Mark::test) <= kMedianMargin);
}

TEST_CASE("published runs of models with experts are met within their margin, in the median") {
  CHECK(published_files(Models::with_experts).size() >= 20);
  CHECK(median_error(Models::with_experts, Mark::none) <= kExpertsMargin);
  CHECK(median_error(Models::with_experts, Mark::test) <= kExpertsMargin);
}

}  // namespace flopcast
