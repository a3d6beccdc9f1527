#include "tools/batch_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "tools/report_tables.h"
#include "tools/text_table.h"

namespace flopcast {
namespace {

std::string_view outcome_word(Outcome outcome) {
  switch (outcome) {
    case Outcome::passed: return "pass";
    case Outcome::allowed: return "fail (allowed)";
    case Outcome::failed: return "FAIL";
    case Outcome::unsupported: return "UNSUPPORTED";
    case Outcome::wrong: return "WRONG";
    case Outcome::broken: return "BROKEN";
  }
  return {};
}

Tone tone_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::passed: return Tone::good;
    case Outcome::allowed: return Tone::faint;
    case Outcome::failed:
    case Outcome::unsupported:
    case Outcome::wrong:
    case Outcome::broken: return Tone::bad;
  }
  return Tone::plain;
}

Row expectation_row(const Trial& trial, const ExpectationResult& result) {
  const MetricUnit unit = result.metric.unit;
  const bool known = result.expected && *result.expected != 0;
  return {{std::string(result.passed ? "pass" : outcome_word(trial.outcome)), trial.name,
           std::string(result.metric.name), metric_text(result.found, unit),
           known ? fmt::format("{:+.1f} %", (result.found / *result.expected - 1) * 100) : "",
           bounds_text(result)},
          result.passed ? Tone::good : tone_of(trial.outcome)};
}

TextTable table_of(std::span<const Trial> trials) {
  TextTable table{.title = "Scenarios",
                  .columns = {{"", Align::left},
                              {"scenario", Align::left},
                              {"metric", Align::left},
                              {"found"},
                              {"off"},
                              {"allowed", Align::left}},
                  .rows = {}};
  for (const Trial& trial : trials) {
    for (const ExpectationResult& result : trial.expectations) {
      table.rows.push_back(expectation_row(trial, result));
    }
    if (!trial.expectations.empty()) continue;
    // Without an expectation it is told how long the step takes.
    const bool answered = trial.problem.empty();
    table.rows.push_back(
        {{std::string(outcome_word(trial.outcome)), trial.name, answered ? "step_time" : "",
          answered ? to_text(trial.report.step) : "", "", ""},
         tone_of(trial.outcome)});
  }
  return table;
}

std::string problems_of(std::span<const Trial> trials) {
  std::string text;
  for (const Trial& trial : trials) {
    const std::string problem = problem_text(trial);
    if (!problem.empty()) text += fmt::format("{}: {}\n", trial.name, problem);
  }
  return text;
}

std::size_t count_of(std::span<const Trial> trials, Outcome outcome) {
  return static_cast<std::size_t>(std::ranges::count(trials, outcome, &Trial::outcome));
}

/// Text between tags and in attributes; what XML 1.0 has no character for becomes a "?".
std::string xml_escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      case '\n': escaped += "&#10;"; break;
      default: escaped += static_cast<unsigned char>(c) < 0x20 && c != '\t' ? '?' : c;
    }
  }
  return escaped;
}

/// "scenarios.examples.gpt": CI servers group by what stands before the last dot.
std::string class_name(const std::string& file) {
  std::string name = std::filesystem::path(file).replace_extension().lexically_normal().string();
  name.erase(0, name.find_first_not_of("./"));
  std::ranges::replace(name, '/', '.');
  return name;
}

std::string junit_verdict(const Trial& trial) {
  const std::string problem = xml_escaped(problem_text(trial));
  switch (trial.outcome) {
    case Outcome::passed: return {};
    case Outcome::allowed: return fmt::format("      <skipped message=\"{}\"/>\n", problem);
    case Outcome::failed:
      return fmt::format("      <failure message=\"{0}\" type=\"expectation\">{0}</failure>\n",
                         problem);
    case Outcome::unsupported:
    case Outcome::wrong:
    case Outcome::broken:
      return fmt::format("      <error message=\"{0}\" type=\"{1}\">{0}</error>\n", problem,
                         trial.outcome == Outcome::unsupported ? "unsupported"
                         : trial.outcome == Outcome::wrong     ? "input"
                                                               : "internal");
  }
  return {};
}

std::string junit_case(const Trial& trial) {
  return fmt::format(
      "    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\">\n{}    </testcase>\n",
      xml_escaped(class_name(trial.file)), xml_escaped(trial.name), trial.took.value,
      junit_verdict(trial));
}

}  // namespace

std::string failure_text(const ExpectationResult& result) {
  const MetricUnit unit = result.metric.unit;
  const bool below = result.lowest && !(result.found >= *result.lowest);
  const auto bound = below ? result.lowest : result.highest;
  return fmt::format("{} {} is {} {}", result.metric.name, metric_text(result.found, unit),
                     below ? "below" : "above", bound ? metric_text(*bound, unit) : "any number");
}

std::string problem_text(const Trial& trial) {
  std::string text = trial.problem;
  for (const ExpectationResult& result : trial.expectations) {
    if (result.passed) continue;
    if (!text.empty()) text += "\n";
    text += failure_text(result);
  }
  return text;
}

std::string batch_summary(std::span<const Trial> trials) {
  std::string text =
      fmt::format("{} of {} passed", count_of(trials, Outcome::passed), trials.size());
  struct Kind {
    Outcome outcome;
    std::string_view word;
  };
  constexpr Kind kKinds[] = {{Outcome::allowed, "failed as allowed"},
                             {Outcome::failed, "failed"},
                             {Outcome::unsupported, "unsupported"},
                             {Outcome::wrong, "wrong"},
                             {Outcome::broken, "broken"}};
  for (const Kind& kind : kKinds) {
    const std::size_t count = count_of(trials, kind.outcome);
    if (count > 0) text += fmt::format(", {} {}", count, kind.word);
  }
  return text;
}

std::string batch_table(std::span<const Trial> trials, bool colour) {
  std::string text = aligned_text(table_of(trials), colour) + "\n";
  const std::string problems = problems_of(trials);
  if (!problems.empty()) text += problems + "\n";
  return text + batch_summary(trials) + "\n";
}

std::string batch_markdown(std::span<const Trial> trials) {
  std::string text = fmt::format("## flopcast: {}\n\n", batch_summary(trials));
  text += markdown_text(table_of(trials));
  for (const Trial& trial : trials) {
    const std::string problem = problem_text(trial);
    if (!problem.empty()) {
      text += fmt::format("\n- {}: {}", markdown_escaped(trial.name), markdown_escaped(problem));
    }
  }
  return text.ends_with('\n') ? text : text + "\n";
}

std::string junit_report(std::span<const Trial> trials) {
  const std::size_t errors = count_of(trials, Outcome::unsupported) +
                             count_of(trials, Outcome::wrong) + count_of(trials, Outcome::broken);
  Seconds took;
  std::string cases;
  for (const Trial& trial : trials) {
    took += trial.took;
    cases += junit_case(trial);
  }
  const std::string counts = fmt::format(
      "name=\"flopcast\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" "
      "time=\"{:.3f}\"",
      trials.size(), count_of(trials, Outcome::failed), errors, count_of(trials, Outcome::allowed),
      took.value);
  // <testsuites> has no "skipped" in either schema.
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite {}>\n{}"
      "  </testsuite>\n</testsuites>\n",
      counts, cases);
}

}  // namespace flopcast
