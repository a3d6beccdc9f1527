#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "scenarios/forecast.h"
#include "sim/errors.h"
#include "tools/answer.h"
#include "tools/choice.h"
#include "tools/chrome_trace.h"
#include "tools/data_folders.h"
#include "tools/output.h"
#include "tools/rank_report.h"
#include "tools/report_format.h"
#include "tools/scenario_options.h"
#include "tools/verbs.h"

namespace flopcast {
namespace {

struct RunOptions {
  ScenarioOptions scenarios;
  std::string format = "table";
  std::optional<std::string> output;
  std::optional<std::string> trace;
  std::optional<std::string> ranks;
  std::optional<std::string> convention;
  std::string fold = "auto";
};

FlopConvention read_convention(std::string_view name) {
  constexpr Choice<FlopConvention> kConventions[] = {
      {"megatron", FlopConvention::megatron},
      {"megatron_full", FlopConvention::megatron_full},
      {"palm", FlopConvention::palm},
      {"six_n", FlopConvention::six_n},
  };
  return read_choice<FlopConvention>("--convention", name, kConventions);
}

/// Timeline and summaries of ranks go to their files as they come.
StepReport run_scenario(const Scenario& scenario, const RunOptions& options) {
  const Prepared prepared = prepare(scenario, read_fold(options.fold));
  std::optional<ChromeTrace> trace;
  if (options.trace) trace.emplace(*options.trace, prepared.plan.workload);
  Forecast forecast = run_prepared(scenario, prepared, trace ? &*trace : nullptr);
  if (trace) trace->close();
  if (options.ranks) write_rank_summaries(*options.ranks, prepared.plan, forecast.result);
  return std::move(forecast.report);
}

ExitCode run_all(const RunOptions& options) {
  const ReportFormat format = read_report_format(options.format);
  read_fold(options.fold);  // before anything runs
  std::optional<FlopConvention> convention;
  if (options.convention) convention = read_convention(*options.convention);
  for (const auto& [name, file] :
       {std::pair{"--trace", options.trace}, {"--ranks", options.ranks}}) {
    if (file && options.scenarios.files.size() > 1) {
      throw InputError(std::string(name) + ": one scenario at a time");
    }
  }
  if (options.ranks) check_rank_file(*options.ranks);
  const auto bands =
      read_error_bands(error_bands_file(find_data_folders(options.scenarios.data).catalogue));
  std::vector<Answer> answers;
  for (Scenario& scenario : read_scenarios(options.scenarios)) {
    StepReport report = run_scenario(scenario, options);
    Answer& found =
        answers.emplace_back(answer(std::move(scenario), std::move(report), convention));
    found.band = band_of(bands, found.scenario.job);
  }
  const bool colour = !options.output && terminal_shows_colour();
  write_output(options.output, render(format, answers, colour));
  return std::ranges::all_of(answers, &Answer::passed) ? ExitCode::passed : ExitCode::failed;
}

}  // namespace

Verb add_run_verb(CLI::App& app) {
  const auto options = std::make_shared<RunOptions>();  // shared by the parser and the action
  CLI::App* verb = app.add_subcommand("run", "Simulate a training step of each scenario");
  add_scenario_options(*verb, options->scenarios);
  verb->add_option("--format", options->format, "table, json, csv or md")->capture_default_str();
  verb->add_option("-o,--output", options->output, "Write the report to a file")->type_name("FILE");
  verb->add_option("--trace", options->trace,
                   "Write a timeline for ui.perfetto.dev; compressed as FILE.gz")
      ->type_name("FILE");
  verb->add_option(
          "--ranks", options->ranks,
          "Write where the time of each simulated rank went; .csv or .json, or .gz of them")
      ->type_name("FILE");
  verb->add_option("--convention", options->convention,
                   "How model FLOPs are counted: megatron, megatron_full, palm or six_n");
  add_fold_option(*verb, options->fold);
  return {verb, [options] { return run_all(*options); }};
}

}  // namespace flopcast
