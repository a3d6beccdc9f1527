#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sample_answer.h"
#include "tools/csv_report.h"
#include "tools/json_report.h"
#include "tools/markdown_report.h"
#include "tools/report_format.h"
#include "tools/report_tables.h"
#include "tools/table_report.h"

using namespace flopcast;
using Catch::Matchers::Contains;

namespace {

std::vector<std::string> lines(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> all;
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}

/// Splits a row without quoted commas.
std::vector<std::string> cells(const std::string& row) {
  std::istringstream in(row + ",");
  std::vector<std::string> all;
  for (std::string cell; std::getline(in, cell, ',');) all.push_back(cell);
  return all;
}

Answer with_expectation(double max_step) {
  Answer answer = sample_answer();
  Expectation expectation;
  expectation.metric = "step_time";
  expectation.max = max_step;
  answer.scenario.expect = {expectation};
  answer.expectations = evaluate(answer.scenario.expect, answer.report);
  return answer;
}

}  // namespace

TEST_CASE("the table says what was asked and what the answer is") {
  const std::string text = table_report(with_expectation(12), false);
  CHECK_THAT(text, Contains("llama3-8b, 8.030 B parameters"));
  CHECK_THAT(text, Contains("16 GPUs: 2 x dgx-h100 with 8 h100-sxm"));
  CHECK_THAT(text, Contains("tp 8, pp 2, dp 1, ZeRO 1, sequence parallel"));
  CHECK_THAT(text, Contains("fits: 60.00 of 80.00 GB on the fullest GPU (pipeline stage 0)"));
  CHECK_THAT(text, Contains("10.00 s for 131.1 k tokens"));
  CHECK_THAT(text, Contains("13107 tokens/s, 819.2 tokens/s per GPU"));
  CHECK_THAT(text, Contains("40.0 %: 400.0 TFLOP/s per GPU of 1000.0 TFLOP/s bf16 dense"));
  CHECK_THAT(text, Contains("(megatron FLOPs)"));
  CHECK_THAT(text, Contains("45.0 %: 450.0 TFLOP/s per GPU with recomputed work"));
  CHECK_THAT(text, Contains("fitted"));
  CHECK_THAT(text, Contains("at most 12.00 s"));
  CHECK(lines(text).back() == "Simulated 2 ranks for 16, 4321 events.");
}

TEST_CASE("the communication table shows volume, exposure and where it lies") {
  const auto text = lines(aligned_text(communication_table(sample_answer().report), false));
  REQUIRE(text.size() == 3);
  for (const char* part :
       {"90.00", "1234", "250.00", "50.00", "80 %", "360.0", "8x1", "leaf uplink"}) {
    CHECK_THAT(text[2], Contains(part));
  }
}

TEST_CASE("no line is wider than 100 columns with the longest names and large numbers") {
  Answer answer = with_expectation(12);
  answer.report.communication[0].name = "expert data parallel";
  answer.report.communication[0].calls = 123456;
  answer.report.communication[0].transfer = seconds(99);
  answer.report.communication[0].shape = {8, 2048};
  answer.report.communication[0].slowest_link = "spine_uplink";
  answer.report.breakdown.push_back({"exposed pipeline parallel", seconds(9), Evidence::measured});
  for (StageMemory& stage : answer.report.memory) {
    stage.stage = 127;
    stage.activations = gigabytes(1234);
  }
  answer.report.fits = false;
  answer.report.convention = FlopConvention::megatron_full;
  for (const std::string& line : lines(table_report(answer, false))) {
    CAPTURE(line);
    CHECK(line.size() <= 100);
  }
}

TEST_CASE("a job that does not fit names the excess and the largest ledger") {
  StepReport report = sample_answer().report;
  report.device_memory = gigabytes(40);
  report.fits = false;
  const auto facts = memory_facts(report);
  REQUIRE(facts.size() == 2);
  CHECK(facts[0].tone == Tone::bad);
  CHECK_THAT(facts[0].text, Contains("DOES NOT FIT: 60.00 of 40.00 GB"));
  CHECK_THAT(facts[1].text, Contains("20.00 GB too much"));
  CHECK_THAT(facts[1].text, Contains("activations, 30.00 GB"));
}

TEST_CASE("what is in the host's memory is told beside the GPU's, and what is too much") {
  StepReport report = sample_answer().report;
  report.host = HostMemory{
      .optimizer = gigabytes(100), .activations = gigabytes(25.5), .size = gigabytes(128)};
  auto facts = memory_facts(report);
  REQUIRE(facts.size() == 2);
  CHECK(facts[1].name == "host memory");
  CHECK(facts[1].tone == Tone::plain);
  CHECK_THAT(facts[1].text, Contains("125.50 of 128.00 GB"));
  CHECK_THAT(facts[1].text, Contains("optimizer 100.00, activations 25.50"));
  report.host->size = gigabytes(125);
  report.fits = false;
  facts = memory_facts(report);
  CHECK_THAT(facts[0].text, Contains("fits"));
  CHECK(facts[1].tone == Tone::bad);
  CHECK_THAT(facts[1].text, Contains("DOES NOT FIT: 125.50 of 125.00 GB"));
}

TEST_CASE("stages that look alike share a row of the memory table, the fullest stands alone") {
  StepReport report = sample_answer().report;
  for (int stage = 2; stage < 5; ++stage) {
    report.memory.push_back(report.memory[1]);
    report.memory.back().stage = stage;
  }
  const TextTable table = memory_table(report);
  REQUIRE(table.rows.size() == 2);
  CHECK(table.rows[0].cells.front() == "0");
  CHECK(table.rows[0].cells.back() == "fullest");
  CHECK(table.rows[1].cells.front() == "1-4");
}

TEST_CASE("JSON holds every number in base units") {
  const auto json = nlohmann::json::parse(json_report(std::vector{with_expectation(9)}));
  CHECK(json["schema_version"] == 1);
  CHECK(json["scenario"] == "sample");
  CHECK(json["question"]["layout"]["tp"] == 8);
  CHECK(json["question"]["training"]["tokens_per_step"] == 131072);
  CHECK(json["speed"]["step_time_s"] == 10);
  CHECK(json["speed"]["evidence"] == "fitted");
  CHECK(json["speed"]["model_flop_per_second_per_gpu"] == 400e12);
  CHECK(json["speed"]["flop_convention"] == "megatron");
  CHECK(json["breakdown"][2]["name"] == "pipeline bubble");
  CHECK(json["communication"][0]["bus_bandwidth_bytes_per_second"] == 360e9);
  CHECK(json["communication"][0]["hidden_fraction"].get<double>() == Approx(0.8));
  CHECK(json["memory"]["fits"] == true);
  CHECK(json["memory"]["stages"][0]["reserved_bytes"] == 60e9);
  CHECK(json["expectations"][0]["passed"] == false);
  CHECK(json["expectations"][0]["highest"] == 9);
  CHECK(json["expectations"][0]["lowest"].is_null());
  CHECK(json["passed"] == false);
  CHECK(json["simulation"]["events"] == 4321);
}

TEST_CASE("several answers make a JSON array, one an object") {
  const std::vector<Answer> two{sample_answer(), sample_answer()};
  CHECK(nlohmann::json::parse(json_report(two)).size() == 2);
  CHECK(nlohmann::json::parse(json_report(std::vector{sample_answer()})).is_object());
}

TEST_CASE("a band of step times where there are runs like it") {
  Answer sample = sample_answer();  // a step of 10 s
  CHECK_THAT(table_report(sample, false), !Contains("of runs lie"));
  sample.band = ErrorBand{.style = "dense", .runs = 250, .low = 0.95, .high = 1.3};
  CHECK_THAT(table_report(sample, false),
             Contains("9.500 s to 13.00 s: where 80.0 % of runs lie, by 250 published dense runs"));
  const auto json = nlohmann::json::parse(json_report(std::vector{sample}));
  CHECK(json["step_time_band"]["low_s"] == 9.5);
  CHECK(json["step_time_band"]["published_runs"] == 250);
}

TEST_CASE("CSV has one row per scenario under one heading row") {
  Answer other = sample_answer();
  other.scenario.name = "";
  other.report.breakdown = {{"optimizer step", seconds(2), Evidence::fitted}};
  const auto rows = lines(csv_report(std::vector{sample_answer(), other}));
  REQUIRE(rows.size() == 3);
  const auto headings = cells(rows[0]);
  const auto first = cells(rows[1]);
  const auto second = cells(rows[2]);
  REQUIRE(headings.size() == first.size());
  REQUIRE(headings.size() == second.size());
  const auto at = [&](const std::string& heading) {
    return static_cast<std::size_t>(std::ranges::find(headings, heading) - headings.begin());
  };
  CHECK(first.at(at("scenario")) == "sample");
  CHECK(second.at(at("scenario")).empty());
  CHECK(first.at(at("step_time_s")) == "10");
  CHECK(first.at(at("memory_peak_bytes")) == "60000000000");
  CHECK(first.at(at("time_pipeline_bubble_s")) == "1");
  CHECK(second.at(at("time_pipeline_bubble_s")).empty());
  CHECK(second.at(at("time_optimizer_step_s")) == "2");
}

TEST_CASE("CSV fields are quoted where they must be") {
  CHECK(csv_field("plain") == "plain");
  CHECK(csv_field("a,b") == "\"a,b\"");
  CHECK(csv_field("say \"hi\"\n") == "\"say \"\"hi\"\"\n\"");
}

TEST_CASE("Markdown holds the same tables") {
  const std::string text = markdown_report(with_expectation(9));
  CHECK_THAT(text, Contains("## sample\n"));
  CHECK_THAT(text, Contains("- **MFU**: 40.0 %"));
  CHECK_THAT(text, Contains("| tensor parallel | 90.00 | 1234 |"));
  CHECK_THAT(text, Contains("| FAIL | step\x5ftime | 10.00 s |"));
}

TEST_CASE("formats are found by name, and near names are suggested") {
  CHECK(read_report_format("md") == ReportFormat::markdown);
  CHECK_THROWS_WITH(read_report_format("jsn"),
                    Contains("--format") && Contains("did you mean \"json\"?"));
  const std::vector<Answer> two{sample_answer(), sample_answer()};
  CHECK_THAT(render(ReportFormat::table, two, false), Contains("events.\n\nsample\n"));
}

TEST_CASE("counts are short") {
  CHECK(count_text(819.2) == "819.2");
  CHECK(count_text(1001.6) == "1002");
  CHECK(count_text(12963.8) == "12964");
  CHECK(count_text(131072) == "131.1 k");
  CHECK(count_text(16777216) == "16.78 M");
  CHECK(count_text(405853388800.0) == "405.9 B");
  CHECK(count_text(1.5e13) == "15.00 T");
  CHECK(count_text(0) == "0");
}
