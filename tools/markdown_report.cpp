#include "tools/markdown_report.h"

#include <fmt/format.h>

#include "tools/report_tables.h"

namespace flopcast {
namespace {

std::string list_text(const std::vector<Fact>& facts) {
  std::string text;
  for (const Fact& fact : facts) {
    // A fact without a name goes on with the one before.
    text += fact.name.empty()
                ? fmt::format("  {}\n", markdown_escaped(fact.text))
                : fmt::format("- **{}**: {}\n", fact.name, markdown_escaped(fact.text));
  }
  return text;
}

}  // namespace

std::string markdown_report(const Answer& answer) {
  const StepReport& report = answer.report;
  std::string text = fmt::format("## {}\n\n", markdown_escaped(answer.scenario.name));
  text += list_text(question_facts(answer)) + "\n### Answer\n\n";
  text += list_text(answer_facts(answer)) + "\n";
  text += markdown_text(time_table(report)) + "\n";
  if (!report.communication.empty()) text += markdown_text(communication_table(report)) + "\n";
  if (!report.placement.empty()) text += markdown_text(placement_table(report)) + "\n";
  const std::vector<Fact> warnings = placement_warnings(report);
  if (!warnings.empty()) text += list_text(warnings) + "\n";
  const std::vector<Fact> jitter = jitter_facts(report);
  if (!jitter.empty()) text += "### Jitter\n\n" + list_text(jitter) + "\n";
  const std::vector<Fact> goodput = goodput_facts(report);
  if (!goodput.empty()) text += "### Goodput\n\n" + list_text(goodput) + "\n";
  const std::vector<Fact> routing = routing_facts(report);
  if (!routing.empty()) text += "### Experts\n\n" + list_text(routing) + "\n";
  text += markdown_text(memory_table(report)) + "\n";
  if (!answer.expectations.empty()) {
    text += markdown_text(expectation_table(answer.expectations)) + "\n";
  }
  text += simulation_note(report) + "\n";
  return text;
}

}  // namespace flopcast
