#include "tools/rank_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "sim/errors.h"
#include "tools/csv_report.h"
#include "tools/trace_file.h"

namespace flopcast {
namespace {

/// Heading and value, so that they cannot drift apart; a value is a number, or text.
struct Field {
  std::string name;
  std::string value;
  bool text = false;
};

Field number(std::string name, double value) {
  return {std::move(name), fmt::format("{:.12g}", value)};
}
Field time_of(std::string name, SimTime value) {
  return number(std::move(name), to_seconds(value).value);
}
template <class T>
Field count(std::string name, T value) {
  return {std::move(name), fmt::format("{}", value)};
}

std::vector<Field> fields(const Plan& plan, const Result& result, std::size_t row) {
  const Rank& rank = plan.workload.ranks[row];
  const RankSummary& summary = result.ranks[row];
  SimTime exposed;
  SimTime waiting;
  for (const CategoryTime& time : summary.by_category) {
    exposed += time.exposed;
    waiting += time.waiting;
  }
  std::vector<Field> out{
      {"name", rank.name, true},
      count("ranks", rank.count),
      count("pipeline_rank", plan.stage_of[index_of(rank.program)]),
      number("speed", rank.speed),
      time_of("end_s", summary.end),
      time_of("compute_s", summary.compute_busy),
      time_of("exposed_s", exposed),
      time_of("waiting_s", waiting),
      time_of("idle_s", summary.idle),
      time_of("slowdown_s", summary.slowdown),
      count("memory_peak_bytes", summary.memory.total),
      time_of("memory_peak_at_s", summary.memory.at),
  };
  for (std::size_t c = 0; c < plan.workload.category_names.size(); ++c) {
    const std::string key = heading_of(plan.workload.category_names[c]);
    const CategoryTime& time = summary.by_category[c];
    out.push_back(time_of(key + "_busy_s", time.busy));
    out.push_back(time_of(key + "_exposed_s", time.exposed));
    out.push_back(time_of(key + "_waiting_s", time.waiting));
    out.push_back(number(key + "_bytes", summary.bytes_by_category[c]));
  }
  return out;
}

std::string csv_line(const std::vector<Field>& row, std::string Field::*part) {
  std::string text;
  for (const Field& field : row) text += csv_field(field.*part) + ",";
  text.back() = '\n';
  return text;
}

std::string json_object(const std::vector<Field>& row) {
  std::string text;
  for (const Field& field : row) {
    const std::string value = field.text ? nlohmann::json(field.value).dump() : field.value;
    text += fmt::format("{}\"{}\": {}", text.empty() ? "{" : ", ", field.name, value);
  }
  return text + "}";
}

/// ".csv" of "ranks.csv.gz".
std::filesystem::path format_of(const std::filesystem::path& file) {
  return file.extension() == ".gz" ? file.stem().extension() : file.extension();
}

}  // namespace

void check_rank_file(const std::filesystem::path& file) {
  if (format_of(file) == ".csv" || format_of(file) == ".json") return;
  throw InputError(fmt::format("--ranks: the name ends in .csv or .json, found \"{}\"",
                               file.filename().string()));
}

void write_rank_summaries(const std::filesystem::path& file, const Plan& plan,
                          const Result& result) {
  const bool json = format_of(file) == ".json";
  TraceFile out(file);
  for (std::size_t row = 0; row < result.ranks.size(); ++row) {
    const std::vector<Field> line = fields(plan, result, row);
    if (json) {
      out.write((row == 0 ? "[\n" : ",\n") + json_object(line));
      continue;
    }
    if (row == 0) out.write(csv_line(line, &Field::name));
    out.write(csv_line(line, &Field::value));
  }
  if (json) out.write("\n]\n");
  out.close();
}

}  // namespace flopcast
