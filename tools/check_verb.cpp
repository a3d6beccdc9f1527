#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "scenarios/forecast.h"
#include "tools/output.h"
#include "tools/report_tables.h"
#include "tools/scenario_options.h"
#include "tools/table_report.h"
#include "tools/verbs.h"

namespace flopcast {
namespace {

std::string check_text(const Answer& checked, bool colour) {
  const StepReport& report = checked.report;
  std::string text = painted(checked.scenario.name, Tone::heading, colour) + "\n";
  text += facts_text(question_facts(checked), colour) + "\n";
  text += aligned_text(memory_table(report), colour) + "\n";
  return text + facts_text(memory_facts(report), colour);
}

struct CheckOptions {
  ScenarioOptions scenarios;
  std::string fold = "auto";
};

ExitCode check_all(const CheckOptions& options) {
  const FoldMode fold = read_fold(options.fold);
  const bool colour = terminal_shows_colour();
  bool all_fit = true;
  std::string text;
  // A layout that is not legal does not come back from reading.
  for (Scenario& scenario : read_scenarios(options.scenarios)) {
    StepReport report = forecast(scenario, nullptr, fold).report;
    const Answer checked{std::move(scenario), std::move(report), {}};
    if (!text.empty()) text += "\n";
    text += check_text(checked, colour);
    all_fit = all_fit && checked.report.fits;
  }
  write_output(std::nullopt, text);
  return all_fit ? ExitCode::passed : ExitCode::failed;
}

}  // namespace

Verb add_check_verb(CLI::App& app) {
  const auto options = std::make_shared<CheckOptions>();  // shared by the parser and the action
  CLI::App* verb = app.add_subcommand("check", "Is the layout legal, and does it fit in memory?");
  add_scenario_options(*verb, options->scenarios);
  add_fold_option(*verb, options->fold);
  return {verb, [options] { return check_all(*options); }};
}

}  // namespace flopcast
