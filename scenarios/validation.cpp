#include "scenarios/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <utility>

namespace flopcast {
namespace {

constexpr std::string_view kStepTime = "step_time";

std::string scale_of(int gpus) {
  if (gpus <= 8) return "1 to 8 GPUs";
  if (gpus <= 64) return "9 to 64 GPUs";
  if (gpus < 1024) return "65 to 1023 GPUs";
  return "1024 GPUs or more";
}

std::string_view mark_of(const Trial& trial) {
  return trial.scenario.mark == Mark::fit ? "fit" : "test";
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

GroupErrors summary_of(std::string group, const std::vector<double>& errors) {
  std::vector<double> sizes;
  sizes.reserve(errors.size());
  for (const double error : errors) sizes.push_back(std::abs(error));
  std::sort(sizes.begin(), sizes.end());
  const auto count = static_cast<double>(sizes.size());
  const auto ninth = static_cast<std::size_t>(std::ceil(0.9 * count)) - 1;
  return {.group = std::move(group),
          .runs = sizes.size(),
          .median = median_of(sizes),
          .mean = std::accumulate(sizes.begin(), sizes.end(), 0.0) / count,
          .p90 = sizes[ninth],
          .bias = median_of(errors)};
}

/// The groups that a run belongs to. "0" to "9" sort the kinds and are not shown.
std::vector<std::string> groups_of(const Comparison& run) {
  const Trial& trial = *run.trial;
  if (!is_time(run)) return {fmt::format("9{}", run.metric.name)};
  const Scenario& scenario = trial.scenario;
  const std::string_view style = style_of(scenario.job);
  const std::string_view mark = mark_of(trial);
  return {"0all",
          fmt::format("1{}", mark),
          fmt::format("2{}", style),
          fmt::format("2{}, {}", style, mark),
          fmt::format("3{}", scale_of(trial.report.gpus)),
          fmt::format("4gpu {}", scenario.cluster.system.gpu.name),
          fmt::format("4gpu {}, {}", scenario.cluster.system.gpu.name, mark),
          fmt::format("5precision {}", to_text(scenario.job.training.precision)),
          fmt::format("6family {}", family_of(trial)),
          fmt::format("7source {}", source_of(trial))};
}

std::vector<GroupErrors> summaries(const std::vector<Comparison>& runs) {
  std::map<std::string, std::vector<double>> errors;
  for (const Comparison& run : runs) {
    for (const std::string& group : groups_of(run)) errors[group].push_back(run.error());
  }
  std::vector<GroupErrors> groups;
  groups.reserve(errors.size());
  for (const auto& [group, of_group] : errors) {
    groups.push_back(summary_of(group.substr(1), of_group));
  }
  return groups;
}

/// What the runs of a sweep share.
std::string sweep_name(const Comparison& run) {
  const Scenario& scenario = run.trial->scenario;
  const Job& job = scenario.job;
  return fmt::format("{}: {} L{} h{} on {} {}, batch {} of {}, {}", source_of(*run.trial),
                     family_of(*run.trial), job.model.layers, job.model.hidden,
                     run.trial->report.gpus, scenario.cluster.system.gpu.name,
                     job.training.batch.global_batch, job.training.batch.sequence,
                     to_text(job.training.precision));
}

Sweep sweep_of(std::string name, const std::vector<const Comparison*>& runs) {
  std::vector<double> measured;
  std::vector<double> predicted;
  measured.reserve(runs.size());
  predicted.reserve(runs.size());
  for (const Comparison* run : runs) {
    measured.push_back(run->measured);
    predicted.push_back(run->predicted);
  }
  const auto chosen = std::min_element(predicted.begin(), predicted.end()) - predicted.begin();
  const double best = *std::min_element(measured.begin(), measured.end());
  return {.name = std::move(name),
          .runs = runs.size(),
          .rank_correlation = rank_correlation(measured, predicted),
          .best_gap = measured[static_cast<std::size_t>(chosen)] / best - 1};
}

std::vector<Sweep> sweeps_of(const std::vector<Comparison>& runs) {
  std::map<std::string, std::vector<const Comparison*>> sweeps;
  for (const Comparison& run : runs) {
    if (is_time(run)) sweeps[sweep_name(run)].push_back(&run);
  }
  std::vector<Sweep> found;
  for (const auto& [name, of_sweep] : sweeps) {
    if (of_sweep.size() >= kSmallestSweep) found.push_back(sweep_of(name, of_sweep));
  }
  return found;
}

BandCoverage coverage(const ErrorBand& band, const std::vector<Comparison>& runs) {
  BandCoverage covered{.band = band};
  for (const Comparison& run : runs) {
    const Scenario& scenario = run.trial->scenario;
    if (!is_time(run) || scenario.mark != Mark::test) continue;
    if (style_of(scenario.job) != band.style) continue;
    ++covered.runs;
    const double ratio = run.measured / run.predicted;
    if (ratio >= band.low && ratio <= band.high) ++covered.inside;
  }
  return covered;
}

std::vector<double> ranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> rank(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t last = first;
    while (last + 1 < order.size() && values[order[last + 1]] == values[order[first]]) ++last;
    const double shared = static_cast<double>(first + last) / 2;
    for (std::size_t i = first; i <= last; ++i) rank[order[i]] = shared;
    first = last + 1;
  }
  return rank;
}

}  // namespace

bool is_time(const Comparison& run) { return run.metric.name == kStepTime; }

std::string source_of(const Trial& trial) {
  return std::filesystem::path(trial.file).stem().string();
}

std::string family_of(const Trial& trial) {
  const std::string& name = trial.scenario.job.model.name;
  return name.substr(0, name.find('-'));
}

double rank_correlation(std::span<const double> a, std::span<const double> b) {
  const auto x = ranks(a);
  const auto y = ranks(b);
  const double mean = (static_cast<double>(x.size()) - 1) / 2;
  double both = 0;
  double in_x = 0;
  double in_y = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    both += (x[i] - mean) * (y[i] - mean);
    in_x += (x[i] - mean) * (x[i] - mean);
    in_y += (y[i] - mean) * (y[i] - mean);
  }
  return in_x > 0 && in_y > 0 ? both / std::sqrt(in_x * in_y) : 0;
}

std::vector<ErrorBand> error_bands(std::span<const Comparison> runs) {
  std::map<std::string, std::vector<double>> ratios;
  for (const Comparison& run : runs) {
    const Scenario& scenario = run.trial->scenario;
    if (!is_time(run) || scenario.mark != Mark::fit) continue;
    ratios[std::string(style_of(scenario.job))].push_back(run.measured / run.predicted);
  }
  std::vector<ErrorBand> bands;
  for (auto& [style, of_style] : ratios) {
    if (auto band = error_band(style, std::move(of_style))) bands.push_back(std::move(*band));
  }
  return bands;
}

Validation validation_of(std::span<const Trial> trials, std::span<const ErrorBand> bands) {
  Validation validation;
  for (const Trial& trial : trials) {
    for (const ExpectationResult& result : trial.expectations) {
      if (!result.expected || *result.expected <= 0) continue;
      validation.runs.push_back({.trial = &trial,
                                 .metric = result.metric,
                                 .measured = *result.expected,
                                 .predicted = result.found});
    }
  }
  validation.groups = summaries(validation.runs);
  validation.sweeps = sweeps_of(validation.runs);
  for (const ErrorBand& band : bands) validation.bands.push_back(coverage(band, validation.runs));
  return validation;
}

}  // namespace flopcast
