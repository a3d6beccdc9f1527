#include "tools/csv_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

#include "tools/layout_text.h"

namespace flopcast {
namespace {

/// Heading and value, so that the two rows cannot drift apart.
using Field = std::pair<std::string, std::string>;

std::string number_text(double value) { return fmt::format("{:.12g}", value); }

template <class T>
Field field(std::string name, const T& value) {
  if constexpr (std::is_floating_point_v<T>) return {std::move(name), number_text(value)};
  return {std::move(name), fmt::format("{}", value)};
}

std::vector<Field> question_fields(const Answer& answer) {
  const Scenario& scenario = answer.scenario;
  const Layout& layout = scenario.job.layout;
  const Training& training = scenario.job.training;
  return {
      {"scenario", scenario.name},
      {"model", scenario.job.model.name},
      {"system", scenario.cluster.system.name},
      field("gpus", answer.report.gpus),
      field("tp", layout.grid.tp),
      field("cp", layout.grid.cp),
      field("ep", layout.grid.ep),
      field("etp", layout.grid.etp),
      field("dp", layout.grid.dp),
      field("pp", layout.grid.pp),
      field("vpp", layout.vpp),
      field("zero", layout.zero),
      {"schedule", answer.report.schedule},
      field("sequence_tokens", training.batch.sequence),
      field("micro_batch_sequences", training.batch.micro_batch),
      field("global_batch_sequences", training.batch.global_batch),
      {"precision", std::string(to_text(training.precision))},
      {"recompute", recompute_text(training.recompute)},
      {"framework", training.framework.name},
      {"profile", scenario.profile.name},
  };
}

std::vector<Field> answer_fields(const Answer& answer) {
  const StepReport& report = answer.report;
  const auto fullest = static_cast<std::size_t>(report.fullest_stage);
  const Bytes peak = fullest < report.memory.size() ? report.memory[fullest].reserved() : Bytes{};
  return {
      field("step_time_s", report.step.value),
      field("tokens_per_second", report.tokens_per_second),
      field("tokens_per_second_per_gpu", report.tokens_per_second_per_gpu),
      {"flop_convention", std::string(to_text(report.convention))},
      field("model_flop_per_second_per_gpu", report.model_flops_per_gpu.value),
      field("mfu", report.mfu),
      field("hfu", report.hfu),
      field("memory_peak_bytes", peak.value),
      field("device_memory_bytes", report.device_memory.value),
      field("fullest_stage", report.fullest_stage),
      field("fits", report.fits),
      {"evidence", std::string(to_text(report.evidence))},
      field("passed", answer.passed()),
  };
}

std::string time_heading(std::string_view name) {
  return fmt::format("time_{}_s", heading_of(std::string(name)));
}

/// Every line that any breakdown has, in the order of first sight.
std::vector<std::string> breakdown_names(std::span<const Answer> answers) {
  std::vector<std::string> names;
  for (const Answer& answer : answers) {
    for (const TimeShare& share : answer.report.breakdown) {
      if (std::ranges::find(names, share.name) == names.end()) names.push_back(share.name);
    }
  }
  return names;
}

std::vector<Field> fields(const Answer& answer, const std::vector<std::string>& times) {
  auto row = question_fields(answer);
  std::ranges::move(answer_fields(answer), std::back_inserter(row));
  for (const std::string& name : times) {
    const auto& shares = answer.report.breakdown;
    const auto share = std::ranges::find(shares, name, &TimeShare::name);
    row.emplace_back(time_heading(name),
                     share != shares.end() ? number_text(share->time.value) : "");
  }
  return row;
}

std::string line(const std::vector<Field>& row, std::string Field::*part) {
  std::string text;
  for (const Field& entry : row) text += csv_field(entry.*part) + ",";
  text.back() = '\n';
  return text;
}

}  // namespace

std::string heading_of(std::string name) {
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

std::string csv_report(std::span<const Answer> answers) {
  const auto times = breakdown_names(answers);
  std::string text;
  for (const Answer& answer : answers) {
    const auto row = fields(answer, times);
    if (text.empty()) text = line(row, &Field::first);
    text += line(row, &Field::second);
  }
  return text;
}

}  // namespace flopcast
