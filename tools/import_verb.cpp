// flopcast import: what the logs of other programs say, as our tables.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "calibration/collective_check.h"
#include "tools/choice.h"
#include "tools/collective_logs.h"
#include "tools/output.h"
#include "tools/text_table.h"
#include "tools/verbs.h"

namespace flopcast {
namespace {

using Json = nlohmann::ordered_json;

enum class ImportFormat : std::uint8_t { table, json, csv };

struct ImportOptions {
  CollectiveLogOptions logs;
  std::string format = "table";
  std::optional<std::string> output;
  bool check = false;
};

ImportFormat read_format(std::string_view name) {
  constexpr Choice<ImportFormat> kFormats[] = {
      {"table", ImportFormat::table}, {"json", ImportFormat::json}, {"csv", ImportFormat::csv}};
  return read_choice<ImportFormat>("--format", name, kFormats);
}

/// A table of a log, and with --check what its machine should reach.
struct Imported {
  CollectiveTable table;
  std::optional<CheckedTable> checked;
};

std::string number(const std::optional<CollectiveTiming>& timing, bool time) {
  if (!timing) return "";
  return fmt::format("{:.6g}", time ? to_microseconds(timing->time)
                                    : to_gigabytes_per_second(timing->bus_bandwidth));
}

TextTable rows_table(const Imported& imported) {
  TextTable out{
      .title = fmt::format("{}: {}, {} ranks", imported.table.file, to_text(imported.table.kind),
                           imported.table.ranks),
      .columns = {{"bytes"}, {"out of place us"}, {"bus GB/s"}, {"in place us"}, {"bus GB/s"}},
      .rows = {}};
  if (imported.checked) {
    out.columns.push_back({"bound us"});
    out.columns.push_back({"reached"});
  }
  out.rows.reserve(imported.table.rows.size());
  std::size_t checked = 0;
  for (const CollectiveRow& row : imported.table.rows) {
    Row cells{{fmt::format("{:.0f}", row.size.value), number(row.out_of_place, true),
               number(row.out_of_place, false), number(row.in_place, true),
               number(row.in_place, false)}};
    if (imported.checked && (row.out_of_place || row.in_place)) {
      const CheckedRow& bound = imported.checked->rows[checked++];
      cells.cells.push_back(fmt::format("{:.6g}", to_microseconds(bound.bound)));
      cells.cells.push_back(fmt::format("{:.0f} %", 100 * bound.reached));
    }
    out.rows.push_back(std::move(cells));
  }
  return out;
}

std::string verdict_text(const CheckedTable& checked) {
  if (checked.healthy()) return "as expected: no shortfall against NCCL's own model (assumed)\n";
  std::string text = "below the bound of NCCL's own model (assumed):";
  for (const Shortfall shortfall : checked.shortfalls)
    text += fmt::format(" {}", to_text(shortfall));
  for (const LikelyCause& likely : checked.likely_causes)
    text += fmt::format("\n  likely: {} ({})", likely.cause, likely.because);
  return text + "\n";
}

std::string table_text(const std::vector<Imported>& all, bool colour) {
  std::string text;
  for (const Imported& imported : all) {
    if (!text.empty()) text += "\n";
    text += aligned_text(rows_table(imported), colour);
    for (const std::string& note : imported.table.notes) text += fmt::format("note: {}\n", note);
    if (imported.checked) text += verdict_text(*imported.checked);
  }
  return text;
}

Json timing_json(const std::optional<CollectiveTiming>& timing) {
  if (!timing) return nullptr;
  return {{"time_us", to_microseconds(timing->time)},
          {"bus_bandwidth_gb_per_s", to_gigabytes_per_second(timing->bus_bandwidth)},
          {"errors", timing->errors ? Json(*timing->errors) : Json(nullptr)}};
}

Json table_json(const Imported& imported) {
  const CollectiveTable& table = imported.table;
  Json json{{"file", table.file},
            {"kind", to_text(table.kind)},
            {"ranks", table.ranks},
            {"nodes", table.nodes ? Json(*table.nodes) : Json(nullptr)},
            {"element_type", table.element_type},
            {"evidence", "measured"},
            {"notes", table.notes},
            {"rows", Json::array()}};
  for (const CollectiveRow& row : table.rows) {
    json["rows"].push_back({{"bytes", row.size.value},
                            {"out_of_place", timing_json(row.out_of_place)},
                            {"in_place", timing_json(row.in_place)}});
  }
  if (imported.checked) {
    Json shortfalls = Json::array();
    for (const Shortfall one : imported.checked->shortfalls) shortfalls.push_back(to_text(one));
    Json causes = Json::array();
    for (const LikelyCause& likely : imported.checked->likely_causes)
      causes.push_back(likely.cause);
    json["check"] = {{"reached_large", imported.checked->large},
                     {"reached_small", imported.checked->small},
                     {"shortfalls", shortfalls},
                     {"likely_causes", causes}};
  }
  return json;
}

std::string json_text(const std::vector<Imported>& all) {
  Json json{{"schema", 1}, {"tables", Json::array()}};
  for (const Imported& imported : all) json["tables"].push_back(table_json(imported));
  return json.dump(2) + "\n";
}

std::string csv_text(const std::vector<Imported>& all) {
  std::string text = "file,kind,ranks,nodes,bytes,out_of_place_us,in_place_us\n";
  for (const Imported& imported : all) {
    const CollectiveTable& table = imported.table;
    for (const CollectiveRow& row : table.rows) {
      text +=
          fmt::format("\"{}\",{},{},{},{:.0f},{},{}\n", table.file, to_text(table.kind),
                      table.ranks, table.nodes ? fmt::format("{}", *table.nodes) : "",
                      row.size.value, number(row.out_of_place, true), number(row.in_place, true));
    }
  }
  return text;
}

ExitCode import_all(const ImportOptions& options) {
  const ImportFormat format = read_format(options.format);
  std::vector<Imported> all;
  bool healthy = true;
  if (options.check) {
    const CollectiveMachine machine = read_machine(options.logs);
    for (PlacedTable& placed : placed_tables(options.logs, machine)) {
      CheckedTable checked = check_table(placed, machine.prior());
      healthy = healthy && checked.healthy();
      all.push_back({.table = std::move(placed.table), .checked = std::move(checked)});
    }
  } else {
    for (CollectiveTable& table : read_logs(options.logs)) {
      all.push_back({.table = std::move(table), .checked = {}});
    }
  }
  switch (format) {
    case ImportFormat::table:
      write_output(options.output, table_text(all, !options.output && terminal_shows_colour()));
      break;
    case ImportFormat::json: write_output(options.output, json_text(all)); break;
    case ImportFormat::csv: write_output(options.output, csv_text(all)); break;
  }
  return healthy ? ExitCode::passed : ExitCode::failed;
}

}  // namespace

Verb add_import_verb(CLI::App& app) {
  const auto options = std::make_shared<ImportOptions>();  // shared by the parser and the action
  CLI::App* verb = app.add_subcommand("import", "Read nccl-tests and rccl-tests logs");
  verb->add_option("logs", options->logs.files, "Logs, or their JSON or CSV files")
      ->required()
      ->type_name("LOG...");
  verb->add_flag("--check", options->check,
                 "Hold each row against what the machine should reach; needs --system");
  add_collective_log_options(*verb, options->logs);
  verb->add_option("--format", options->format, "table, json or csv")->capture_default_str();
  verb->add_option("-o,--output", options->output, "Write to a file")->type_name("FILE");
  return {verb, [options] { return import_all(*options); }};
}

}  // namespace flopcast
