#include "tools/rank_report.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "sim/errors.h"

using namespace flopcast;

namespace {

std::filesystem::path file_named(const std::string& name) {
  return std::filesystem::temp_directory_path() /
         ("flopcast-" + std::to_string(getpid()) + "-" + name);
}

Plan sample_plan() {
  Plan plan;
  plan.stage_of = {0, 1};
  plan.workload.category_names = {"forward", "tensor parallel"};
  plan.workload.ranks = {{.name = "rank 0, first", .program = ProgramId{0}, .count = 8},
                         {.name = "rank 8", .program = ProgramId{1}, .speed = 0.5}};
  return plan;
}

/// A step of 10 s.
Result sample_result() {
  constexpr std::int64_t kSecond = 1'000'000'000'000;
  Result result;
  result.makespan = {10 * kSecond};
  RankSummary rank{
      .end = {9 * kSecond},
      .compute_busy = {5 * kSecond},
      .idle = {1 * kSecond},
      .slowdown = {},
      .by_category = {{.busy = {5 * kSecond}, .exposed = {}, .waiting = {}},
                      {.busy = {4 * kSecond}, .exposed = {3 * kSecond}, .waiting = {1 * kSecond}}},
      .bytes_by_category = {0, 2.5e9},
      .ops_by_category = {4, 2},
      .memory = {.total = 123, .at = {2 * kSecond}, .by_pool = {}, .pool_peak = {}}};
  result.ranks = {rank, rank};
  return result;
}

std::string written(const std::string& name) {
  const auto file = file_named(name);
  write_rank_summaries(file, sample_plan(), sample_result());
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove(file);
  return text;
}

}  // namespace

TEST_CASE("each rank is a row of times that add up to the step") {
  const auto rows = nlohmann::json::parse(written("ranks.json"));
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["name"] == "rank 0, first");
  CHECK(rows[0]["ranks"] == 8);
  CHECK(rows[1]["pipeline_rank"] == 1);
  CHECK(rows[1]["speed"] == 0.5);
  CHECK(rows[0]["tensor_parallel_busy_s"] == 4);
  CHECK(rows[0]["tensor_parallel_bytes"] == 2.5e9);
  CHECK(rows[0]["memory_peak_bytes"] == 123);
  double sum = 0;
  for (const std::string key : {"compute_s", "exposed_s", "waiting_s", "idle_s"}) {
    sum += rows[0][key].get<double>();
  }
  CHECK(sum == 10);
}

TEST_CASE("the same rows as comma-separated values") {
  std::istringstream lines(written("ranks.csv"));
  std::string heading;
  std::string first;
  std::string second;
  std::string more;
  std::getline(lines, heading);
  std::getline(lines, first);
  std::getline(lines, second);
  CHECK_FALSE(std::getline(lines, more));
  CHECK(heading.rfind("name,ranks,pipeline_rank,speed,end_s,compute_s,", 0) == 0);
  CHECK(first.rfind("\"rank 0, first\",8,0,1,9,5,3,1,1,0,123,2,", 0) == 0);
  CHECK(second.rfind("rank 8,1,1,0.5,9,5,", 0) == 0);
}

TEST_CASE("a file of ranks is a table or JSON") {
  CHECK_NOTHROW(check_rank_file("a.csv"));
  CHECK_NOTHROW(check_rank_file("a.json.gz"));
  CHECK_THROWS_AS(check_rank_file("a.txt"), InputError);
  CHECK_THROWS_AS(check_rank_file("a.gz"), InputError);
  CHECK_THROWS_AS(write_rank_summaries("/no/such/folder/a.csv", sample_plan(), sample_result()),
                  IoError);
}
