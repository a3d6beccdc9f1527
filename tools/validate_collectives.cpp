#include "tools/validate_collectives.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>

#include "calibration/collective_check.h"
#include "scenarios/read_recorded_tables.h"
#include "tools/data_folders.h"
#include "tools/output.h"
#include "tools/text_table.h"

namespace flopcast {
namespace {

struct CollectiveOptions {
  std::optional<std::string> data;
  std::optional<std::string> output;
  bool markdown = false;
};

std::string percent(double fraction) { return fmt::format("{:.1f}", 100 * fraction); }

std::string median_and_p90(const std::vector<double>& errors) {
  if (errors.empty()) return "";
  const ErrorSummary summary = summary_of(errors);
  return fmt::format("{} / {}", percent(summary.median), percent(summary.p90));
}

TextTable prior_table(std::span<const RecordedTable> tables) {
  TextTable out{.title = "NCCL's constants alone: mean error of a table, % (assumed)",
                .columns = {{"machines", Align::left}, {"tables"}, {"median"}, {"worst"}},
                .rows = {}};
  const std::vector<PriorErrors> groups = validate_prior(tables);
  out.rows.reserve(groups.size());
  for (const PriorErrors& group : groups) {
    out.rows.push_back({{group.group, fmt::format("{}", group.tables), percent(group.median),
                         percent(group.worst)}});
  }
  return out;
}

void append(std::vector<double>& all, const std::vector<double>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

TextTable fits_table(std::span<const ClusterErrors> clusters) {
  TextTable out{.title = "Fitted to a machine's own tables: errors of all rows, median / 90 %, %",
                .columns = {{"machine", Align::left},
                            {"tables"},
                            {"rows"},
                            {"regimes"},
                            {"curve, between rows"},
                            {"shape left out"},
                            {"largest left out"}},
                .rows = {}};
  ClusterErrors all;
  out.rows.reserve(clusters.size() + 1);
  const auto add = [&out](const ClusterErrors& row, Tone tone) {
    out.rows.push_back(
        {{row.cluster, fmt::format("{}", row.tables), fmt::format("{}", row.fitted.size()),
          median_and_p90(row.fitted), median_and_p90(row.between), median_and_p90(row.left_out),
          median_and_p90(row.largest)},
         tone});
  };
  for (const ClusterErrors& row : clusters) {
    add(row, Tone::plain);
    all.tables += row.tables;
    append(all.fitted, row.fitted);
    append(all.between, row.between);
    append(all.left_out, row.left_out);
    append(all.largest, row.largest);
  }
  all.cluster = "all";
  add(all, Tone::heading);
  return out;
}

TextTable faults_table(std::span<const RecordedTable> tables) {
  TextTable out{.title = "Tables below what their machine should reach",
                .columns = {{"table", Align::left},
                            {"large"},
                            {"small"},
                            {"falls"},
                            {"flagged", Align::left},
                            {"known cause", Align::left}},
                .rows = {}};
  std::size_t faulty = 0;
  std::size_t found = 0;
  std::size_t healthy = 0;
  std::size_t wrong = 0;
  for (const RecordedTable& table : tables) {
    const CheckedTable checked = check_recorded(table, tables);
    (table.fault ? faulty : healthy) += 1;
    if (!checked.healthy()) (table.fault ? found : wrong) += 1;
    if (!table.fault && checked.healthy()) continue;
    std::string flags;
    for (const Shortfall one : checked.shortfalls) flags += fmt::format(" {}", to_text(one));
    out.rows.push_back({{table.placed.table.file, fmt::format("{:.2f}", checked.large),
                         fmt::format("{:.2f}", checked.small), fmt::format("{}", checked.falls),
                         flags.empty() ? "-" : flags.substr(1), table.fault.value_or("healthy")},
                        table.fault && !checked.healthy() ? Tone::plain : Tone::bad});
  }
  out.title += fmt::format(": {} of {} faulty ones flagged, {} of {} healthy ones", found, faulty,
                           wrong, healthy);
  return out;
}

ExitCode validate(const CollectiveOptions& options) {
  const Document document =
      Document::read(find_data_folders(options.data).measured / "collectives.json");
  const std::vector<RecordedTable> tables = read_recorded_tables(document);
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const auto progress = [terminal](std::string_view cluster) {
    if (terminal) fmt::print(stderr, "fitting {}\n", cluster);
  };
  const std::vector<ClusterErrors> clusters = validate_fits(tables, progress);
  const bool colour = !options.output && terminal_shows_colour();
  std::string text;
  for (const TextTable& table : {prior_table(tables), fits_table(clusters), faults_table(tables)}) {
    if (!text.empty()) text += "\n";
    text += options.markdown ? markdown_text(table) : aligned_text(table, colour);
  }
  write_output(options.output, text);
  return ExitCode::passed;
}

}  // namespace

Verb add_validate_collectives(CLI::App& validate_verb) {
  const auto options =
      std::make_shared<CollectiveOptions>();  // shared by the parser and the action
  CLI::App* verb = validate_verb.add_subcommand(
      "collectives", "The network model against measured nccl-tests tables");
  verb->add_option("--data", options->data, "Folder with catalogue/, profiles/ and measured data")
      ->type_name("DIR");
  verb->add_flag("--md", options->markdown, "Write Markdown");
  verb->add_option("-o,--output", options->output, "Write to a file")->type_name("FILE");
  return {verb, [options] { return validate(*options); }};
}

}  // namespace flopcast
