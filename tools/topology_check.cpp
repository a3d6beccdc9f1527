#include "tools/topology_check.h"

#include <fmt/format.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "tools/text_table.h"

namespace flopcast {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLow = 0.5;  // of what is expected; such rows are shown as bad

std::string_view bound_text(const CheckedRow& row) {
  return row.own ? "a healthy log" : "the model";
}

Evidence evidence_of(const CheckedTable& checked) {
  const bool own = std::ranges::all_of(checked.rows, &CheckedRow::own);
  return own ? Evidence::measured : Evidence::assumed;
}

/// As nccl-tests defines it.
BytesPerSecond bus_bandwidth(const PlacedTable& placed, const CheckedRow& row, Seconds time) {
  return row.size * bus_factor(placed.table.kind, placed.shape.ranks()) / time;
}

TextTable rows_table(const CheckedLog& log) {
  const CollectiveTable& table = log.placed.table;
  TextTable out{.title = fmt::format("{}: {}, {} GPUs x {} nodes", table.file, to_text(table.kind),
                                     log.placed.shape.ranks_per_node, log.placed.shape.nodes),
                .columns = {{"size"},
                            {"measured us"},
                            {"bus GB/s"},
                            {"expected us"},
                            {"of expected"},
                            {"expected by", Align::left},
                            {"links alone us"},
                            {"of links"}},
                .rows = {}};
  out.rows.reserve(log.checked.rows.size());
  for (const CheckedRow& row : log.checked.rows) {
    const double bus = to_gigabytes_per_second(bus_bandwidth(log.placed, row, row.time));
    out.rows.push_back(
        {{to_text(row.size), fmt::format("{:.1f}", to_microseconds(row.time)),
          fmt::format("{:.2f}", bus), fmt::format("{:.1f}", to_microseconds(row.bound)),
          percent_text(row.reached), std::string(bound_text(row)),
          fmt::format("{:.1f}", to_microseconds(row.links)), percent_text(row.links_reached)},
         row.reached < kLow ? Tone::bad : Tone::plain});
  }
  return out;
}

std::string verdict_text(const CheckedTable& checked) {
  const std::string_view evidence = to_text(evidence_of(checked));
  if (checked.healthy()) {
    return fmt::format("as expected: no shortfall against what is expected ({})\n", evidence);
  }
  std::string text = fmt::format("below what the cluster should reach ({}):", evidence);
  for (const Shortfall shortfall : checked.shortfalls) {
    text += fmt::format(" {}", to_text(shortfall));
  }
  for (const LikelyCause& likely : checked.likely_causes) {
    text += fmt::format("\n  likely: {}\n    because: {}", likely.cause, likely.because);
  }
  return text + "\n";
}

Json log_json(const CheckedLog& log) {
  const CollectiveTable& table = log.placed.table;
  Json rows = Json::array();
  for (const CheckedRow& row : log.checked.rows) {
    rows.push_back(
        {{"bytes", row.size.value},
         {"time_s", row.time.value},
         {"bus_bandwidth_bytes_per_second", bus_bandwidth(log.placed, row, row.time).value},
         {"model_time_s", row.bound.value},
         {"reached_of_model", row.reached},
         {"expected_by", row.own ? "healthy_log" : "model"},
         {"links_time_s", row.links.value},
         {"reached_of_links", row.links_reached}});
  }
  Json shortfalls = Json::array();
  for (const Shortfall one : log.checked.shortfalls) shortfalls.push_back(to_text(one));
  Json causes = Json::array();
  for (const LikelyCause& likely : log.checked.likely_causes) {
    causes.push_back({{"cause", likely.cause}, {"because", likely.because}});
  }
  return {{"file", table.file},
          {"kind", to_text(table.kind)},
          {"ranks_per_node", log.placed.shape.ranks_per_node},
          {"nodes", log.placed.shape.nodes},
          {"evidence", to_text(evidence_of(log.checked))},
          {"healthy", log.checked.healthy()},
          {"shortfalls", shortfalls},
          {"likely_causes", causes},
          {"notes", table.notes},
          {"rows", rows}};
}

}  // namespace

std::string topology_check_text(std::span<const CheckedLog> logs, bool colour) {
  std::string text;
  for (const CheckedLog& log : logs) {
    if (!text.empty()) text += "\n";
    text += aligned_text(rows_table(log), colour);
    for (const std::string& note : log.placed.table.notes) text += fmt::format("note: {}\n", note);
    text += verdict_text(log.checked);
  }
  return text;
}

std::string topology_check_json(std::span<const CheckedLog> logs) {
  Json document{{"schema_version", 1}, {"logs", Json::array()}};
  for (const CheckedLog& log : logs) document["logs"].push_back(log_json(log));
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace flopcast
