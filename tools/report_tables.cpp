#include "tools/report_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "tools/layout_text.h"

namespace flopcast {
namespace {

constexpr std::size_t kBarWidth = 30;  // characters of the whole step

std::string gigabytes_text(Bytes size) { return fmt::format("{:.2f}", to_gigabytes(size)); }
std::string milliseconds_text(Seconds time) { return fmt::format("{:.2f}", to_milliseconds(time)); }

std::string teraflops_text(FlopsPerSecond rate) {
  return fmt::format("{:.1f} TFLOP/s", to_teraflops_per_second(rate));
}

std::string bar(double fraction) {
  const double length = std::round(std::clamp(fraction, 0.0, 1.0) * kBarWidth);
  return std::string(static_cast<std::size_t>(length), '#');
}

struct Ledger {
  std::string_view name;
  std::string_view heading;
  Bytes size;
};

std::array<Ledger, 6> ledgers(const StageMemory& stage) {
  return {Ledger{"parameters", "params", stage.parameters},
          Ledger{"gradients", "gradients", stage.gradients},
          Ledger{"optimizer", "optimizer", stage.optimizer},
          Ledger{"activations", "activations", stage.activations},
          Ledger{"buffers", "buffers", stage.buffers},
          Ledger{"margin", "margin", stage.margin}};
}

Row memory_row(const StageMemory& stage, Bytes device, bool fullest) {
  Row row{{fmt::format("{}", stage.stage), fmt::format("{}", stage.layers)}};
  for (const Ledger& ledger : ledgers(stage)) row.cells.push_back(gigabytes_text(ledger.size));
  const double used = device.value > 0 ? stage.reserved() / device : 0;
  row.cells.insert(row.cells.end(),
                   {gigabytes_text(stage.reserved()), fmt::format("{:.0f} %", used * 100),
                    fullest ? "fullest" : ""});
  if (!stage.gpu.empty()) row.cells.back() += " " + stage.gpu;
  if (stage.reserved() > device) row.tone = Tone::bad;
  return row;
}

/// Stages that look alike share a row.
bool same_but_stage(const Row& a, const Row& b) {
  return std::equal(a.cells.begin() + 1, a.cells.end(), b.cells.begin() + 1, b.cells.end());
}

std::string verdict(const ExpectationResult& result) {
  if (result.passed) return "pass";
  return result.allow_failure ? "fail (allowed)" : "FAIL";
}

std::string deviation_text(const ExpectationResult& result) {
  if (!result.expected || *result.expected == 0) return "";
  return fmt::format("{:+.1f} %", (result.found / *result.expected - 1) * 100);
}

Fact host_fact(const HostMemory& host) {
  const std::string size =
      host.size > Bytes{} ? fmt::format(" of {} GB", gigabytes_text(host.size)) : " GB";
  return {"host memory",
          fmt::format("{}{}{} of the fullest node: optimizer {}, activations {}",
                      host.fits() ? "" : "DOES NOT FIT: ", gigabytes_text(host.used()), size,
                      gigabytes_text(host.optimizer), gigabytes_text(host.activations)),
          host.fits() ? Tone::plain : Tone::bad};
}

std::string profiles_text(const Scenario& scenario) {
  std::string text = scenario.profile.name;
  for (std::size_t kind = 0; kind < scenario.other_profiles.size(); ++kind) {
    text += fmt::format("; {} on {}", scenario.other_profiles[kind].name,
                        scenario.cluster.others[kind].system.name);
  }
  return text;
}

std::string link_text(std::string name) {
  std::ranges::replace(name, '_', ' ');
  return name;
}

}  // namespace

std::string metric_text(double value, MetricUnit unit) {
  switch (unit) {
    case MetricUnit::seconds: return to_text(seconds(value));
    case MetricUnit::bytes: return to_text(bytes(value));
    case MetricUnit::tokens_per_second: return fmt::format("{} tokens/s", count_text(value));
    case MetricUnit::teraflops: return teraflops_text(teraflops_per_second(value));
    case MetricUnit::fraction: return percent_text(value);
  }
  return {};
}

std::string bounds_text(const ExpectationResult& result) {
  const MetricUnit unit = result.metric.unit;
  if (result.lowest && result.highest) {
    return fmt::format("{} to {}", metric_text(*result.lowest, unit),
                       metric_text(*result.highest, unit));
  }
  if (result.lowest) return fmt::format("at least {}", metric_text(*result.lowest, unit));
  if (result.highest) return fmt::format("at most {}", metric_text(*result.highest, unit));
  return "any";
}

std::string count_text(double count) {
  constexpr std::array<std::pair<double, std::string_view>, 4> kLetters{
      {{1e12, " T"}, {1e9, " B"}, {1e6, " M"}, {1e3, " k"}}};
  constexpr double kWhole = 1e5;  // smaller ones are read better in full
  constexpr double kFourDigits = 999.95;
  if (std::abs(count) >= kWhole) {
    for (const auto& [size, letter] : kLetters) {
      if (std::abs(count) < size) continue;
      const double scaled = count / size;
      const int decimals = std::abs(scaled) >= 99.995 ? 1 : std::abs(scaled) >= 9.9995 ? 2 : 3;
      return fmt::format("{:.{}f}{}", scaled, decimals, letter);
    }
  }
  const bool whole = count == std::floor(count) || std::abs(count) >= kFourDigits;
  return fmt::format("{:.{}f}", count, whole ? 0 : 1);
}

std::vector<Fact> question_facts(const Answer& answer) {
  const Scenario& scenario = answer.scenario;
  const Job& job = scenario.job;
  const BatchShape& batch = job.training.batch;
  const StepReport& report = answer.report;
  std::vector<Fact> facts{
      {"model", fmt::format("{}, {} parameters", job.model.name,
                            count_text(static_cast<double>(report.parameters)))},
      {"machine", machine_text(scenario.cluster)},
      {"layout", layout_text(job.layout)},
      {"batch", fmt::format("{} sequences of {} tokens; {} micro-batch{} of {} per pipeline",
                            batch.global_batch, batch.sequence, report.micro_batches,
                            report.micro_batches == 1 ? "" : "es", batch.micro_batch)},
      {"training",
       fmt::format("{}, {}, recompute {}, as {} does it", to_text(job.training.precision),
                   report.schedule, recompute_text(job.training.recompute),
                   job.training.framework.name)},
      {"profile", profiles_text(scenario)},
  };
  if (job.training.copies_to_host()) facts.push_back({"offload", offload_text(job)});
  return facts;
}

std::vector<Fact> answer_facts(const Answer& answer) {
  const StepReport& report = answer.report;
  std::vector<Fact> facts = memory_facts(report);
  facts.push_back({"step time", fmt::format("{} for {} tokens", to_text(report.step),
                                            count_text(static_cast<double>(report.tokens)))});
  if (answer.band) {
    const ErrorBand& band = *answer.band;
    facts.push_back(
        {"", fmt::format("{} to {}: where {} of runs lie, by {} published {} runs",
                         to_text(band.low * report.step), to_text(band.high * report.step),
                         percent_text(kBandShare), band.runs, band.style)});
  }
  facts.push_back({"throughput", fmt::format("{} tokens/s, {} tokens/s per GPU",
                                             count_text(report.tokens_per_second),
                                             count_text(report.tokens_per_second_per_gpu))});
  facts.push_back(
      {"MFU", fmt::format("{}: {} per GPU of {} {} dense ({} FLOPs)", percent_text(report.mfu),
                          teraflops_text(report.model_flops_per_gpu), teraflops_text(report.peak),
                          to_text(report.peak_dtype), to_text(report.convention))});
  facts.push_back(
      {"HFU", fmt::format("{}: {} per GPU with recomputed work", percent_text(report.hfu),
                          teraflops_text(report.hfu * report.peak))});
  facts.push_back({"evidence", fmt::format("{}: the weakest of all times that enter",
                                           to_text(report.evidence))});
  return facts;
}

std::vector<Fact> memory_facts(const StepReport& report) {
  if (report.memory.empty()) return {{"memory", "not known", Tone::bad}};
  const StageMemory& stage = report.memory.at(static_cast<std::size_t>(report.fullest_stage));
  const Bytes device = report.device_of(stage);
  const std::string size = fmt::format("{} of {} GB on the fullest GPU (pipeline stage {}{}{})",
                                       gigabytes_text(stage.reserved()), gigabytes_text(device),
                                       stage.stage, stage.gpu.empty() ? "" : ", ", stage.gpu);
  std::vector<Fact> facts;
  if (stage.reserved() <= device) {
    facts.push_back({"memory", "fits: " + size, Tone::good});
  } else {
    const auto all = ledgers(stage);
    const Ledger largest = *std::ranges::max_element(all, {}, &Ledger::size);
    facts.push_back({"memory", "DOES NOT FIT: " + size, Tone::bad});
    facts.push_back({"",
                     fmt::format("{} GB too much; the largest ledger is {}, {} GB",
                                 gigabytes_text(stage.reserved() - device), largest.name,
                                 gigabytes_text(largest.size)),
                     Tone::bad});
  }
  if (report.host) facts.push_back(host_fact(*report.host));
  return facts;
}

TextTable time_table(const StepReport& report) {
  TextTable table{.title = "Where the step goes (mean over all ranks)",
                  .columns = {{"", Align::left},
                              {"ms"},
                              {"share"},
                              {"evidence", Align::left},
                              {"", Align::left}},
                  .rows = {}};
  for (const TimeShare& share : report.breakdown) {
    const double fraction = report.step.value > 0 ? share.time / report.step : 0;
    table.rows.push_back({{share.name, milliseconds_text(share.time), percent_text(fraction),
                           std::string(to_text(share.evidence)), bar(fraction)}});
  }
  table.rows.push_back({{"step", milliseconds_text(report.step), percent_text(1),
                         std::string(to_text(report.evidence)), ""},
                        Tone::heading});
  return table;
}

TextTable communication_table(const StepReport& report) {
  TextTable table{
      .title =
          "Communication (mean per rank and step; ms; group: ranks in an NVLink domain x domains)",
      .columns = {{"", Align::left},
                  {"sent GB"},
                  {"calls"},
                  {"transfer"},
                  {"exposed"},
                  {"hidden"},
                  {"bus GB/s"},
                  {"group"},
                  {"slowest", Align::left}},
      .rows = {}};
  for (const CommunicationShare& share : report.communication) {
    table.rows.push_back({{share.name, gigabytes_text(share.sent), fmt::format("{}", share.calls),
                           milliseconds_text(share.transfer), milliseconds_text(share.exposed),
                           fmt::format("{:.0f} %", share.hidden_fraction() * 100),
                           fmt::format("{:.1f}", share.bus_bandwidth_gb),
                           fmt::format("{}x{}", share.shape.ranks_per_node, share.shape.nodes),
                           link_text(share.slowest_link)}});
  }
  return table;
}

TextTable placement_table(const StepReport& report) {
  TextTable table{.title = "Placement (GB/s that a rank can send, at line rates: assumed)",
                  .columns = {{"group", Align::left},
                              {"slowest link", Align::left},
                              {"alone"},
                              {"beside its sisters"},
                              {"inside its tier"}},
                  .rows = {}};
  const auto rate = [](BytesPerSecond bandwidth) {
    return fmt::format("{:.1f}", to_gigabytes_per_second(bandwidth));
  };
  for (const GroupPlacement& placement : report.placement) {
    table.rows.push_back({{placement.kind, link_text(std::string(to_text(placement.slowest))),
                           rate(placement.alone), rate(placement.together),
                           placement.inside > BytesPerSecond{} ? rate(placement.inside) : ""}});
  }
  return table;
}

std::vector<Fact> placement_warnings(const StepReport& report) {
  std::vector<Fact> facts;
  for (const GroupPlacement& placement : report.placement) {
    if (placement.warning.empty() || placement.cost <= Seconds{}) continue;
    facts.push_back({"placement",
                     fmt::format("{}: costs up to {} of the step (assumed line rates)",
                                 placement.warning, to_text(placement.cost)),
                     Tone::bad});
  }
  return facts;
}

std::vector<Fact> routing_facts(const StepReport& report) {
  if (!report.routing) return {};
  const RoutingShare& share = *report.routing;
  const RoutingSummary& summary = share.summary;
  return {
      {"routing", fmt::format("{}, {} of the routed tokens dropped", share.kind,
                              percent_text(summary.dropped))},
      {"fullest",
       fmt::format("expert {:.2f}, rank {:.2f}, exchange {:.2f} times the mean, by layer and "
                   "micro-batch; over the step rank {} of its group with {:.2f}",
                   summary.expert_load, summary.rank_load, summary.exchange_load,
                   summary.hottest_rank, summary.hottest_rank_load)},
      {"exchanged", fmt::format("{} sent by a rank for {} of tokens x experts x width",
                                to_text(share.sent), to_text(share.routed))},
  };
}

std::vector<Fact> jitter_facts(const StepReport& report) {
  if (!report.jitter) return {};
  const JitterReport& jitter = *report.jitter;
  return {
      {"steps", fmt::format("{} of {} in the mean, {} without jitter: {:.3f} times as long ({})",
                            jitter.steps, to_text(jitter.mean), to_text(jitter.undisturbed),
                            jitter.slowdown(), to_text(jitter.evidence))},
      {"spread", fmt::format("shortest {}, median {} (shown above), p99 {}, longest {}",
                             to_text(jitter.shortest), to_text(jitter.median), to_text(jitter.p99),
                             to_text(jitter.longest))},
      {"waiting", fmt::format("of a rank for others {} in the mean, {} without jitter; over ranks "
                              "p50 {}, p99 {}, most {}",
                              to_text(jitter.waiting_mean), to_text(jitter.undisturbed_waiting),
                              to_text(jitter.waiting_p50), to_text(jitter.waiting_p99),
                              to_text(jitter.waiting_most))},
      {"slowest", fmt::format("rank {}: computes {:.3f} times as long as its pipeline rank's mean "
                              "and waits {:.2f} times the mean",
                              jitter.slowest_rank, jitter.slowest_factor, jitter.slowest_waiting)},
  };
}

std::vector<Fact> goodput_facts(const StepReport& report) {
  if (!report.goodput) return {};
  const GoodputReport& found = *report.goodput;
  const Reliability& given = found.reliability;
  return {
      {"goodput",
       fmt::format("{:.1f} % of the time, {:.0f} tokens/s, with {} of work ({:.0f} steps) "
                   "between dumps of {}",
                   100 * found.goodput, found.goodput * report.tokens_per_second,
                   to_text(found.interval), found.steps, to_text(given.dump))},
      {"failures",
       fmt::format("every {} in the mean, {} to restart; {:.1f} % of the time between "
                   "them goes into dumps",
                   to_text(given.between_failures), to_text(given.restart), 100 * found.dumping)},
      {"best interval",
       fmt::format("{} with {:.1f} %; by Young {}, by Daly {}", to_text(found.best_interval),
                   100 * found.best_goodput, to_text(found.young), to_text(found.daly))},
  };
}

TextTable memory_table(const StepReport& report) {
  TextTable table{.title = fmt::format("Memory of each pipeline stage at its peak (GB of {} GB)",
                                       gigabytes_text(report.device_memory)),
                  .columns = {{"stage"}, {"layers"}},
                  .rows = {}};
  for (const Ledger& ledger : ledgers({})) table.columns.push_back({std::string(ledger.heading)});
  table.columns.insert(table.columns.end(), {{"total"}, {"used"}, {"", Align::left}});
  int first = 0;  // stage of the last row
  for (std::size_t index = 0; index < report.memory.size(); ++index) {
    const StageMemory& stage = report.memory[index];
    const bool fullest = index == static_cast<std::size_t>(report.fullest_stage);
    Row row = memory_row(stage, report.device_of(stage), fullest);
    if (!table.rows.empty() && same_but_stage(table.rows.back(), row)) {
      table.rows.back().cells[0] = fmt::format("{}-{}", first, stage.stage);
      continue;
    }
    first = stage.stage;
    table.rows.push_back(std::move(row));
  }
  return table;
}

TextTable expectation_table(std::span<const ExpectationResult> expectations) {
  TextTable table{.title = "Expectations",
                  .columns = {{"", Align::left},
                              {"metric", Align::left},
                              {"found"},
                              {"expected"},
                              {"off"},
                              {"allowed", Align::left}},
                  .rows = {}};
  for (const ExpectationResult& result : expectations) {
    const MetricUnit unit = result.metric.unit;
    table.rows.push_back(
        {{verdict(result), std::string(result.metric.name), metric_text(result.found, unit),
          result.expected ? metric_text(*result.expected, unit) : "", deviation_text(result),
          bounds_text(result)},
         result.passed       ? Tone::good
         : result.accepted() ? Tone::faint
                             : Tone::bad});
  }
  return table;
}

std::string simulation_note(const StepReport& report) {
  return fmt::format("Simulated {} rank{} for {}, {} events.", report.simulated_ranks,
                     report.simulated_ranks == 1 ? "" : "s", report.represented_ranks,
                     report.events);
}

}  // namespace flopcast
