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
constexpr double kApartMargin = 0.15;   // of runs to which nothing was fitted
constexpr int kLarge = 1024;            // GPUs

/// Runs of models with experts, and of schedules that split the backward pass, are judged apart.
enum class Runs { plain, with_experts, split_backward };

Runs kind_of(const fs::path& file) {
  const fs::path folder = file.parent_path().filename();
  if (folder == "moe") return Runs::with_experts;
  return folder == "split-backward" ? Runs::split_backward : Runs::plain;
}

std::vector<fs::path> published_files(Runs kind) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(kPublished)) {
    const fs::path& file = entry.path();
    if (file.extension() != ".json") continue;
    if (kind_of(file) == kind) files.push_back(file);
  }
  std::sort(files.begin(), files.end());
  return files;
}

double median_error(Runs kind, Mark mark) {
  std::vector<double> errors;
  for (const fs::path& file : published_files(kind)) {
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
  const auto files = published_files(Runs::plain);
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
  const auto kind = GENERATE(Runs::plain, Runs::with_experts, Runs::split_backward);
  for (const fs::path& file : published_files(kind)) {
    CAPTURE(file.string());
    const Scenario scenario = read_scenario(file, {}, kData);
    CHECK(scenario.job.model.moe.has_value() == (kind == Runs::with_experts));
    const StepReport report = forecast(scenario).report;
    CHECK(std::isfinite(report.step.value));
    CHECK(report.step > Seconds{});
    CHECK(report.gpus == gpus(scenario));
  }
}

TEST_CASE("step times of the published test runs are met within the margin, in the median") {
  CHECK(median_error(Runs::plain, Mark::test) <= kMedianMargin);
}

TEST_CASE("published runs of split backward passes are met within their margin, in the median") {
  CHECK(published_files(Runs::split_backward).size() >= 20);
  CHECK(median_error(Runs::split_backward, Mark::none) <= kApartMargin);
}

TEST_CASE("published runs of models with experts are met within their margin, in the median") {
  CHECK(published_files(Runs::with_experts).size() >= 20);
  CHECK(median_error(Runs::with_experts, Mark::none) <= kApartMargin);
  CHECK(median_error(Runs::with_experts, Mark::test) <= kApartMargin);
}

}  // namespace flopcast
