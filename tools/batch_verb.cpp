#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "scenarios/batch.h"
#include "sim/errors.h"
#include "tools/batch_report.h"
#include "tools/data_folders.h"
#include "tools/output.h"
#include "tools/scenario_options.h"
#include "tools/verbs.h"

namespace flopcast {
namespace {

struct BatchOptions {
  ScenarioOptions scenarios;
  std::optional<std::string> junit;
  std::optional<std::string> markdown;
};

/// A wrong file weighs more than an expectation that failed.
ExitCode exit_code(std::span<const Trial> trials) {
  const auto any = [&](Outcome outcome) {
    return std::ranges::find(trials, outcome, &Trial::outcome) != trials.end();
  };
  if (any(Outcome::broken)) return ExitCode::machine;
  if (any(Outcome::wrong) || any(Outcome::unsupported)) return ExitCode::wrong_input;
  return any(Outcome::failed) ? ExitCode::failed : ExitCode::passed;
}

ExitCode run(const BatchOptions& options) {
  const auto trials =
      run_batch(batch_question(options.scenarios), find_data_folders(options.scenarios.data));
  if (trials.empty()) throw InputError("batch: no scenario there, or none that --only names");
  if (options.junit) write_output(options.junit, junit_report(trials));
  if (options.markdown) write_output(options.markdown, batch_markdown(trials));
  write_output(std::nullopt, batch_table(trials, terminal_shows_colour()));
  return exit_code(trials);
}

}  // namespace

Verb add_batch_verb(CLI::App& app) {
  const auto options = std::make_shared<BatchOptions>();  // shared by the parser and the action
  CLI::App* verb = app.add_subcommand("batch", "Hold many scenarios to what they expect, for CI");
  add_scenario_options(*verb, options->scenarios);
  add_batch_options(*verb, options->scenarios);
  verb->add_option("--junit", options->junit, "Write JUnit XML")->type_name("FILE");
  verb->add_option("--markdown,-o", options->markdown, "Write a summary in Markdown")
      ->type_name("FILE");
  return {verb, [options] { return run(*options); }};
}

}  // namespace flopcast
