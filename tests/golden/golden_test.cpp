// Did any result move? Each folder beside this file that holds a scenario.json is a case; its
// reports are compared as text. FLOPCAST_UPDATE_GOLDEN=1 rewrites them, to be reviewed line by
// line.

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

#include "scenarios/forecast.h"
#include "tools/json_report.h"
#include "tools/table_report.h"

using namespace flopcast;
namespace fs = std::filesystem;

namespace {

const fs::path kSource = FLOPCAST_SOURCE_DIR;

bool update_wanted() {
  const char* wanted = std::getenv("FLOPCAST_UPDATE_GOLDEN");
  return wanted != nullptr && std::string_view(wanted) == "1";
}

std::vector<fs::path> cases() {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(kSource / "tests/golden")) {
    if (fs::exists(entry.path() / "scenario.json")) folders.push_back(entry.path());
  }
  std::ranges::sort(folders);
  return folders;
}

std::string contents(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The first line in which the texts differ; empty where they are equal.
std::string first_difference(const std::string& expected, const std::string& actual) {
  std::istringstream left(expected);
  std::istringstream right(actual);
  for (int number = 1; left || right; ++number) {
    std::string was;
    std::string is;
    const bool more = static_cast<bool>(std::getline(left, was));
    const bool more_actual = static_cast<bool>(std::getline(right, is));
    if (more != more_actual || was != is)
      return fmt::format("line {}:\n- {}\n+ {}", number, was, is);
  }
  return {};
}

void compare(const fs::path& file, const std::string& actual) {
  if (update_wanted()) {
    std::ofstream out(file, std::ios::binary);
    out << actual << std::flush;
    REQUIRE(out.good());
    return;
  }
  INFO(file.string() << ", against now (FLOPCAST_UPDATE_GOLDEN=1 rewrites it):");
  REQUIRE(fs::exists(file));
  CHECK(first_difference(contents(file), actual) == "");
}

}  // namespace

TEST_CASE("golden reports have not moved") {
  const DataFolders data{kSource / "scenarios/catalogue", kSource / "calibration/profiles"};
  for (const fs::path& folder : cases()) {
    DYNAMIC_SECTION(folder.filename().string()) {
      const Scenario scenario = read_scenario(folder / "scenario.json", {}, data);
      const Answer now = answer(scenario, forecast(scenario).report, std::nullopt);
      compare(folder / "report.txt", table_report(now, false));
      compare(folder / "report.json", json_report(std::span(&now, 1)));
    }
  }
}

TEST_CASE("the comparison finds the first line that differs, and missing lines") {
  CHECK(first_difference("a\nb\n", "a\nb\n").empty());
  CHECK(first_difference("a\nb\n", "a\nc\n") == "line 2:\n- b\n+ c");
  CHECK(first_difference("a\n", "a\nb\n") == "line 2:\n- \n+ b");
  CHECK(first_difference("a\n\n", "a\n") == "line 2:\n- \n+ ");
}
