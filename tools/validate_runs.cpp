#include "tools/validate_runs.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "scenarios/batch.h"
#include "sim/errors.h"
#include "tools/data_folders.h"
#include "tools/output.h"
#include "tools/scenario_options.h"
#include "tools/validation_plot.h"
#include "tools/validation_report.h"

namespace flopcast {
namespace {

struct ValidateOptions {
  ScenarioOptions scenarios;
  std::string format = "table";
  std::size_t sample = 0;
  std::optional<std::size_t> worst;
  bool left_out = false;
  std::optional<std::string> output;
  std::optional<std::string> bands;
  std::optional<std::string> plot;
};

/// A run that is not simulated yet is counted; one that cannot be is a mistake of the table.
void refuse_mistakes(std::span<const Trial> trials) {
  std::string mistakes;
  for (const Trial& trial : trials) {
    const bool mistake = trial.outcome == Outcome::wrong || trial.outcome == Outcome::broken;
    if (mistake) mistakes += fmt::format("\n{}: {}", trial.name, trial.problem);
  }
  if (!mistakes.empty()) throw InputError("validate:" + mistakes);
}

ExitCode compare(const ValidateOptions& options) {
  const ReportFormat format = read_report_format(options.format);
  const DataFolders data = find_data_folders(options.scenarios.data);
  BatchQuestion question = batch_question(options.scenarios);
  if (question.paths.empty()) question.paths = {data.catalogue.parent_path() / "published"};
  question.sample = options.sample;
  const auto trials = run_batch(question, data);
  if (trials.empty()) throw InputError("validate: no run there, or none that --only names");
  const bool colour = !options.output && terminal_shows_colour();
  const Validation validation =
      validation_of(trials, read_error_bands(error_bands_file(data.catalogue)));
  write_output(options.output, validation_report(validation, trials,
                                                 {.format = format,
                                                  .worst = options.worst,
                                                  .left_out = options.left_out,
                                                  .colour = colour}));
  if (options.bands) {
    write_output(options.bands, error_bands_text(error_bands(validation.runs)));
  }
  if (options.plot) write_output(options.plot, validation_plot_svg(validation));
  refuse_mistakes(trials);
  return ExitCode::passed;
}

}  // namespace

std::function<ExitCode()> add_validate_runs(CLI::App& validate) {
  const auto options = std::make_shared<ValidateOptions>();  // shared by the parser and the action
  add_scenario_options(validate, options->scenarios);
  validate.get_option("FILE")->required(false)->description(
      "Scenarios, tables and folders of measured runs; default: the published ones");
  add_batch_options(validate, options->scenarios);
  validate
      .add_option("--sample", options->sample,
                  "Of each file no more than so many, always the same; default: all")
      ->type_name("N");
  validate.add_option("--format", options->format, "table, json, csv or md")->capture_default_str();
  validate
      .add_option("--worst", options->worst, "List the largest errors and where those steps go")
      ->type_name("N");
  validate.add_flag("--left-out", options->left_out, "List every run without a forecast, and why");
  validate
      .add_option("--write-bands", options->bands,
                  "Write the error bands that these runs' fit marks give to a file")
      ->type_name("FILE");
  validate.add_option("--plot", options->plot, "Draw forecast over measured step times, an SVG")
      ->type_name("FILE");
  validate.add_option("-o,--output", options->output, "Write the report to a file")
      ->type_name("FILE");
  return [options] { return compare(*options); };
}

}  // namespace flopcast
