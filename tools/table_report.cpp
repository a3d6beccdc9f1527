#include "tools/table_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace flopcast {

std::string facts_text(const std::vector<Fact>& facts, bool colour) {
  std::size_t width = 0;
  for (const Fact& fact : facts) width = std::max(width, fact.name.size());
  std::string text;
  for (const Fact& fact : facts) {
    text += fmt::format("  {}  {}\n",
                        painted(fmt::format("{:<{}}", fact.name, width), Tone::faint, colour),
                        painted(fact.text, fact.tone, colour));
  }
  return text;
}

std::string table_report(const Answer& answer, bool colour) {
  const StepReport& report = answer.report;
  std::string text = painted(answer.scenario.name, Tone::heading, colour) + "\n";
  text += facts_text(question_facts(answer), colour) + "\n";
  text += facts_text(answer_facts(answer), colour) + "\n";
  text += aligned_text(time_table(report), colour) + "\n";
  if (!report.communication.empty())
    text += aligned_text(communication_table(report), colour) + "\n";
  if (!report.placement.empty()) text += aligned_text(placement_table(report), colour) + "\n";
  const std::vector<Fact> warnings = placement_warnings(report);
  if (!warnings.empty()) text += facts_text(warnings, colour) + "\n";
  const std::vector<Fact> jitter = jitter_facts(report);
  if (!jitter.empty()) text += "Jitter\n" + facts_text(jitter, colour) + "\n";
  const std::vector<Fact> goodput = goodput_facts(report);
  if (!goodput.empty()) text += "Goodput\n" + facts_text(goodput, colour) + "\n";
  const std::vector<Fact> routing = routing_facts(report);
  if (!routing.empty()) text += "Experts\n" + facts_text(routing, colour) + "\n";
  text += aligned_text(memory_table(report), colour) + "\n";
  if (!answer.expectations.empty()) {
    text += aligned_text(expectation_table(answer.expectations), colour) + "\n";
  }
  text += painted(simulation_note(report), Tone::faint, colour) + "\n";
  return text;
}

}  // namespace flopcast
