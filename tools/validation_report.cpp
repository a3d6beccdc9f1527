#include "tools/validation_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/csv_report.h"
#include "tools/report_tables.h"
#include "tools/text_table.h"

namespace flopcast {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 1;  // raised where a key changes its meaning or goes

std::string percent_of(double fraction) { return fmt::format("{:.1f}", 100 * fraction); }
std::string signed_percent_of(double fraction) { return fmt::format("{:+.1f}", 100 * fraction); }

TextTable error_table(const Validation& validation) {
  TextTable table{
      .title = "Absolute errors in %; bias is the median with its sign",
      .columns = {{"part", Align::left}, {"runs"}, {"median"}, {"mean"}, {"p90"}, {"bias"}},
      .rows = {}};
  for (const GroupErrors& group : validation.groups) {
    table.rows.push_back(
        {{group.group, fmt::format("{}", group.runs), percent_of(group.median),
          percent_of(group.mean), percent_of(group.p90), signed_percent_of(group.bias)}});
  }
  return table;
}

TextTable sweep_table(const Validation& validation) {
  TextTable table{.title =
                      "Layouts of the same job: rank correlation of predicted and measured step "
                      "time; how much slower the predicted best is than the measured best, in %",
                  .columns = {{"sweep", Align::left}, {"runs"}, {"Spearman"}, {"best"}},
                  .rows = {}};
  for (const Sweep& sweep : validation.sweeps) {
    table.rows.push_back(
        {{sweep.name, fmt::format("{}", sweep.runs), fmt::format("{:.2f}", sweep.rank_correlation),
          percent_of(sweep.best_gap)}});
  }
  return table;
}

std::string sweep_note(const Validation& validation) {
  if (validation.sweeps.empty()) return {};
  std::vector<double> correlations;
  correlations.reserve(validation.sweeps.size());
  for (const Sweep& sweep : validation.sweeps) correlations.push_back(sweep.rank_correlation);
  const auto middle = correlations.begin() + static_cast<std::ptrdiff_t>(correlations.size() / 2);
  std::nth_element(correlations.begin(), middle, correlations.end());
  const auto good = std::ranges::count_if(
      validation.sweeps, [](const Sweep& sweep) { return sweep.best_gap <= 0.05; });
  return fmt::format(
      "{} sweeps: median Spearman {:.2f}; the predicted best is within 5 % of the "
      "measured best in {}.",
      correlations.size(), *middle, good);
}

TextTable band_table(const Validation& validation) {
  TextTable table{
      .title = fmt::format("Shipped bands: measured step time over forecast; that is to hold {} of "
                           "the runs that they were not made of",
                           percent_text(kBandShare)),
      .columns = {{"style", Align::left}, {"made of"}, {"low"}, {"high"}, {"test runs"}, {"hold"}},
      .rows = {}};
  for (const BandCoverage& covered : validation.bands) {
    const ErrorBand& band = covered.band;
    table.rows.push_back(
        {{band.style, fmt::format("{}", band.runs), fmt::format("{:.2f}", band.low),
          fmt::format("{:.2f}", band.high), fmt::format("{}", covered.runs),
          covered.runs > 0 ? percent_text(static_cast<double>(covered.inside) / covered.runs)
                           : ""}});
  }
  return table;
}

std::string breakdown_text(const StepReport& report) {
  std::vector<TimeShare> shares = report.breakdown;
  std::ranges::stable_sort(shares, std::ranges::greater{}, &TimeShare::time);
  std::string text;
  for (const TimeShare& share : shares) {
    const double part = share.time / report.step;
    if (part < 0.02) break;
    text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", share.name, 100 * part);
  }
  return text;
}

TextTable worst_table(const Validation& validation, std::size_t count) {
  std::vector<Comparison> runs = validation.runs;
  std::ranges::stable_sort(runs, std::ranges::greater{},
                           [](const Comparison& run) { return std::abs(run.error()); });
  runs.resize(std::min(count, runs.size()));
  TextTable table{.title = fmt::format("{} largest errors", runs.size()),
                  .columns = {{"run", Align::left},
                              {"GPUs"},
                              {"measured"},
                              {"predicted"},
                              {"error %"},
                              {"predicted step", Align::left}},
                  .rows = {}};
  for (const Comparison& run : runs) {
    const MetricUnit unit = run.metric.unit;
    table.rows.push_back({{run.trial->name, fmt::format("{}", run.trial->report.gpus),
                           metric_text(run.measured, unit), metric_text(run.predicted, unit),
                           signed_percent_of(run.error()), breakdown_text(run.trial->report)}});
  }
  return table;
}

/// Runs that ran, and are forecast not to fit.
TextTable overflow_table(std::span<const Trial> trials, bool each) {
  struct Overflow {
    int runs = 0;
    double fullest = 0;  // of the device's memory
  };
  std::map<std::string, Overflow> overflows;
  for (const Trial& trial : trials) {
    if (!trial.problem.empty() || trial.report.fits) continue;
    Overflow& overflow = overflows[each ? trial.name : source_of(trial)];
    ++overflow.runs;
    const auto fullest = static_cast<std::size_t>(trial.report.fullest_stage);
    const StageMemory& stage = trial.report.memory[fullest];
    overflow.fullest = std::max(overflow.fullest, stage.reserved() / trial.report.device_of(stage));
  }
  TextTable table{.title = "Runs that ran, and are called out of memory",
                  .columns = {{each ? "run" : "source", Align::left},
                              {"runs"},
                              {"up to % of the GPU's memory"}},
                  .rows = {}};
  for (const auto& [place, overflow] : overflows) {
    table.rows.push_back({{place, fmt::format("{}", overflow.runs), percent_of(overflow.fullest)}});
  }
  return table;
}

/// What the simulator says without the place and without advice, so that runs of one reason share a
/// line.
std::string reason_of(const Trial& trial) {
  std::string_view reason = trial.problem;
  while (reason.starts_with(trial.file) || reason.starts_with('/')) {
    const auto colon = reason.find(": ");
    if (colon == std::string_view::npos) break;
    reason.remove_prefix(colon + 2);
  }
  return std::string(reason.substr(0, reason.find(';')));
}

TextTable unanswered_table(std::span<const Trial> trials, bool each) {
  std::map<std::pair<std::string, std::string>, int> counts;
  for (const Trial& trial : trials) {
    if (trial.problem.empty()) continue;
    ++counts[{each ? trial.name : source_of(trial), reason_of(trial)}];
  }
  TextTable table{
      .title = "Runs without a forecast",
      .columns = {{each ? "run" : "source", Align::left}, {"runs"}, {"why", Align::left}},
      .rows = {}};
  for (const auto& [place, count] : counts) {
    table.rows.push_back({{place.first, fmt::format("{}", count), place.second}});
  }
  return table;
}

std::vector<TextTable> tables_of(const Validation& validation, std::span<const Trial> trials,
                                 const ValidationQuestion& question) {
  std::vector<TextTable> tables{error_table(validation)};
  if (!validation.bands.empty()) tables.push_back(band_table(validation));
  if (!validation.sweeps.empty()) tables.push_back(sweep_table(validation));
  if (question.worst) tables.push_back(worst_table(validation, *question.worst));
  TextTable overflows = overflow_table(trials, question.left_out);
  if (!overflows.rows.empty()) tables.push_back(std::move(overflows));
  TextTable unanswered = unanswered_table(trials, question.left_out);
  if (!unanswered.rows.empty()) tables.push_back(std::move(unanswered));
  return tables;
}

Json run_json(const Comparison& run) {
  const Trial& trial = *run.trial;
  return {{"scenario", trial.name},
          {"source", source_of(trial)},
          {"mark", trial.scenario.mark == Mark::fit ? "fit" : "test"},
          {"style", style_of(trial.scenario.job)},
          {"family", family_of(trial)},
          {"gpu", trial.scenario.cluster.system.gpu.name},
          {"profile", trial.scenario.profile.name},
          {"precision", to_text(trial.scenario.job.training.precision)},
          {"gpus", trial.report.gpus},
          {"fits", trial.report.fits},
          {"metric", run.metric.name},
          {"measured", run.measured},
          {"predicted", run.predicted},
          {"error", run.error()}};
}

std::string json_text(const Validation& validation, std::span<const Trial> trials) {
  Json runs = Json::array();
  for (const Comparison& run : validation.runs) runs.push_back(run_json(run));
  Json groups = Json::array();
  for (const GroupErrors& group : validation.groups) {
    groups.push_back({{"group", group.group},
                      {"runs", group.runs},
                      {"median_error", group.median},
                      {"mean_error", group.mean},
                      {"p90_error", group.p90},
                      {"bias", group.bias}});
  }
  Json sweeps = Json::array();
  for (const Sweep& sweep : validation.sweeps) {
    sweeps.push_back({{"sweep", sweep.name},
                      {"runs", sweep.runs},
                      {"rank_correlation", sweep.rank_correlation},
                      {"best_gap", sweep.best_gap}});
  }
  Json bands = Json::array();
  for (const BandCoverage& covered : validation.bands) {
    bands.push_back({{"style", covered.band.style},
                     {"fit_runs", covered.band.runs},
                     {"low", covered.band.low},
                     {"high", covered.band.high},
                     {"test_runs", covered.runs},
                     {"test_runs_inside", covered.inside}});
  }
  Json unanswered = Json::array();
  for (const Trial& trial : trials) {
    if (trial.problem.empty()) continue;
    unanswered.push_back(
        {{"scenario", trial.name}, {"source", source_of(trial)}, {"why", trial.problem}});
  }
  const Json root{{"schema_version", kSchemaVersion},
                  {"runs", runs},
                  {"groups", groups},
                  {"bands", bands},
                  {"sweeps", sweeps},
                  {"without_forecast", unanswered}};
  return root.dump(2) + "\n";
}

std::string csv_text(const Validation& validation) {
  std::string text =
      "scenario,source,mark,style,family,gpu,profile,precision,gpus,fits,metric,measured,"
      "predicted,error\n";
  for (const Comparison& run : validation.runs) {
    const Json row = run_json(run);
    std::string line;
    for (const auto& [key, value] : row.items()) {
      if (!line.empty()) line += ',';
      line += value.is_string() ? csv_field(value.get<std::string>()) : value.dump();
    }
    text += line + "\n";
  }
  return text;
}

}  // namespace

std::string validation_report(const Validation& validation, std::span<const Trial> trials,
                              const ValidationQuestion& question) {
  if (question.format == ReportFormat::json) return json_text(validation, trials);
  if (question.format == ReportFormat::csv) return csv_text(validation);
  std::string text;
  for (const TextTable& table : tables_of(validation, trials, question)) {
    text += question.format == ReportFormat::markdown ? markdown_text(table)
                                                      : aligned_text(table, question.colour);
    text += "\n";
  }
  return text + sweep_note(validation) + "\n";
}

}  // namespace flopcast
