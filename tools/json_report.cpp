#include "tools/json_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "tools/layout_text.h"

namespace flopcast {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 1;

/// Twelve significant digits, so that 0.240605197887 s is not written 0.24060519788700002. Beyond
/// them lies nothing but the order of additions.
void round_numbers(Json& value) {
  if (value.is_number_float() && std::isfinite(value.get<double>())) {
    value = std::stod(fmt::format("{:.12g}", value.get<double>()));
  }
  if (!value.is_structured()) return;
  for (Json& part : value) round_numbers(part);
}

Json question(const Answer& answer) {
  const Scenario& scenario = answer.scenario;
  const Job& job = scenario.job;
  const StepReport& report = answer.report;
  const ParallelGrid& grid = job.layout.grid;
  const System& system = scenario.cluster.system;
  Json found{
      {"model", {{"name", job.model.name}, {"parameters", report.parameters}}},
      {"machine",
       {{"system", system.name},
        {"gpu", system.gpu.name},
        {"nodes", scenario.cluster.nodes},
        {"gpus", report.gpus}}},
      {"layout",
       {{"tp", grid.tp},
        {"cp", grid.cp},
        {"ep", grid.ep},
        {"etp", grid.etp},
        {"dp", grid.dp},
        {"pp", grid.pp},
        {"vpp", job.layout.vpp},
        {"zero", job.layout.zero},
        {"sequence_parallel", job.layout.sequence_parallel},
        {"schedule", report.schedule}}},
      {"training",
       {{"sequence_tokens", job.training.batch.sequence},
        {"micro_batch_sequences", job.training.batch.micro_batch},
        {"global_batch_sequences", job.training.batch.global_batch},
        {"micro_batches", report.micro_batches},
        {"tokens_per_step", report.tokens},
        {"precision", to_text(job.training.precision)},
        {"recompute", recompute_text(job.training.recompute)},
        {"framework", job.training.framework.name}}},
      {"profile", scenario.profile.name},
  };
  for (std::size_t kind = 0; kind < scenario.cluster.others.size(); ++kind) {
    const OtherNodes& other = scenario.cluster.others[kind];
    Json nodes = Json::array();
    for (const OtherNodes::Range& range : other.nodes) nodes.push_back({range.first, range.last});
    found["machine"]["other_nodes"].push_back({{"system", other.system.name},
                                               {"gpu", other.system.gpu.name},
                                               {"nodes", std::move(nodes)},
                                               {"profile", scenario.other_profiles[kind].name}});
  }
  return found;
}

Json speed(const StepReport& report) {
  return {
      {"step_time_s", report.step.value},
      {"evidence", to_text(report.evidence)},
      {"tokens_per_second", report.tokens_per_second},
      {"tokens_per_second_per_gpu", report.tokens_per_second_per_gpu},
      {"flop_convention", to_text(report.convention)},
      {"model_flop_per_step", report.model_flops.value},
      {"hardware_flop_per_step", report.hardware_flops.value},
      {"model_flop_per_second_per_gpu", report.model_flops_per_gpu.value},
      {"peak_dtype", to_text(report.peak_dtype)},
      {"peak_dense_flop_per_second", report.peak.value},
      {"mfu", report.mfu},
      {"hfu", report.hfu},
  };
}

Json breakdown(const StepReport& report) {
  Json lines = Json::array();
  for (const TimeShare& share : report.breakdown) {
    lines.push_back({{"name", share.name},
                     {"time_s", share.time.value},
                     {"evidence", to_text(share.evidence)}});
  }
  return lines;
}

Json communication(const StepReport& report) {
  Json lines = Json::array();
  for (const CommunicationShare& share : report.communication) {
    lines.push_back({
        {"name", share.name},
        {"sent_bytes", share.sent.value},
        {"calls", share.calls},
        {"transfer_s", share.transfer.value},
        {"exposed_s", share.exposed.value},
        {"waiting_s", share.waiting.value},
        {"hidden_fraction", share.hidden_fraction()},
        {"bus_bandwidth_bytes_per_second", gigabytes_per_second(share.bus_bandwidth_gb).value},
        {"ranks_per_nvlink_domain", share.shape.ranks_per_node},
        {"nvlink_domains", share.shape.nodes},
        {"slowest_link", share.slowest_link},
        {"evidence", to_text(share.evidence)},
    });
  }
  return lines;
}

Json routing(const StepReport& report) {
  const RoutingShare& share = *report.routing;
  return {{"kind", share.kind},
          {"dropped_fraction", share.summary.dropped},
          {"expert_load_max_over_mean", share.summary.expert_load},
          {"rank_load_max_over_mean", share.summary.rank_load},
          {"exchange_load_max_over_mean", share.summary.exchange_load},
          {"hottest_rank", share.summary.hottest_rank},
          {"hottest_rank_load_over_mean", share.summary.hottest_rank_load},
          {"routed_bytes", share.routed.value},
          {"sent_bytes", share.sent.value}};
}

Json jitter(const JitterReport& report) {
  return {{"steps", report.steps},
          {"undisturbed_step_s", report.undisturbed.value},
          {"step_mean_s", report.mean.value},
          {"step_shortest_s", report.shortest.value},
          {"step_p50_s", report.median.value},
          {"step_p99_s", report.p99.value},
          {"step_longest_s", report.longest.value},
          {"slowdown", report.slowdown()},
          {"undisturbed_waiting_s", report.undisturbed_waiting.value},
          {"waiting_mean_s", report.waiting_mean.value},
          {"waiting_p50_s", report.waiting_p50.value},
          {"waiting_p99_s", report.waiting_p99.value},
          {"waiting_most_s", report.waiting_most.value},
          {"slowest_rank", report.slowest_rank},
          {"slowest_rank_compute_over_mean", report.slowest_factor},
          {"slowest_rank_waiting_over_mean", report.slowest_waiting},
          {"evidence", to_text(report.evidence)}};
}

Json goodput(const GoodputReport& report) {
  return {{"goodput", report.goodput},
          {"interval_s", report.interval.value},
          {"interval_steps", report.steps},
          {"dumping_fraction", report.dumping},
          {"best_goodput", report.best_goodput},
          {"best_interval_s", report.best_interval.value},
          {"young_interval_s", report.young.value},
          {"daly_interval_s", report.daly.value},
          {"mtbf_s", report.reliability.between_failures.value}};
}

Json placement(const StepReport& report) {
  Json lines = Json::array();
  for (const GroupPlacement& group : report.placement) {
    const bool leaves = group.inside > BytesPerSecond{};
    const bool costs = !group.warning.empty() && group.cost > Seconds{};
    lines.push_back({
        {"group", group.kind},
        {"slowest_link", to_text(group.slowest)},
        {"alone_bytes_per_second", group.alone.value},
        {"together_bytes_per_second", group.together.value},
        {"inside_bytes_per_second", leaves ? Json(group.inside.value) : Json(nullptr)},
        {"warning", costs ? Json(group.warning) : Json(nullptr)},
        {"cost_s", costs ? Json(group.cost.value) : Json(nullptr)},
        {"evidence", "assumed"},
    });
  }
  return lines;
}

Json memory(const StepReport& report) {
  Json stages = Json::array();
  for (const StageMemory& stage : report.memory) {
    stages.push_back({
        {"stage", stage.stage},
        {"layers", stage.layers},
        {"parameters_bytes", stage.parameters.value},
        {"gradients_bytes", stage.gradients.value},
        {"optimizer_bytes", stage.optimizer.value},
        {"activations_bytes", stage.activations.value},
        {"buffers_bytes", stage.buffers.value},
        {"margin_bytes", stage.margin.value},
        {"allocated_bytes", stage.allocated().value},
        {"reserved_bytes", stage.reserved().value},
    });
    if (stage.device) {
      stages.back()["gpu"] = stage.gpu;
      stages.back()["device_bytes"] = stage.device->value;
    }
  }
  Json found{{"fits", report.fits},
             {"device_bytes", report.device_memory.value},
             {"fullest_stage", report.fullest_stage},
             {"stages", std::move(stages)}};
  if (report.host) {
    const HostMemory& host = *report.host;
    found["host"] = {{"fits", host.fits()},
                     {"optimizer_bytes", host.optimizer.value},
                     {"activations_bytes", host.activations.value},
                     {"size_bytes", host.size > Bytes{} ? Json(host.size.value) : Json(nullptr)}};
  }
  return found;
}

Json bound(std::optional<double> value) { return value ? Json(*value) : Json(nullptr); }

Json expectations(const Answer& answer) {
  Json lines = Json::array();
  for (const ExpectationResult& result : answer.expectations) {
    lines.push_back({{"metric", result.metric.name},
                     {"unit", to_text(result.metric.unit)},
                     {"found", result.found},
                     {"expected", bound(result.expected)},
                     {"lowest", bound(result.lowest)},
                     {"highest", bound(result.highest)},
                     {"passed", result.passed}});
  }
  return lines;
}

Json band(const ErrorBand& band, Seconds step) {
  return {{"low_s", (band.low * step).value},
          {"high_s", (band.high * step).value},
          {"share_of_runs", kBandShare},
          {"style", band.style},
          {"published_runs", band.runs}};
}

Json report_object(const Answer& answer) {
  const StepReport& report = answer.report;
  Json object{
      {"schema_version", kSchemaVersion},
      {"scenario", answer.scenario.name},
      {"question", question(answer)},
      {"speed", speed(report)},
      {"breakdown", breakdown(report)},
      {"communication", communication(report)},
      {"placement", placement(report)},
      {"memory", memory(report)},
      {"expectations", expectations(answer)},
      {"passed", answer.passed()},
      {"simulation",
       {{"simulated_ranks", report.simulated_ranks},
        {"represented_ranks", report.represented_ranks},
        {"events", report.events}}},
  };
  if (report.routing) object["routing"] = routing(report);
  if (report.jitter) object["jitter"] = jitter(*report.jitter);
  if (report.goodput) object["goodput"] = goodput(*report.goodput);
  if (answer.band) object["step_time_band"] = band(*answer.band, report.step);
  return object;
}

}  // namespace

std::string json_report(std::span<const Answer> answers) {
  Json document;
  if (answers.size() == 1) {
    document = report_object(answers.front());
  } else {
    document = Json::array();
    for (const Answer& answer : answers) document.push_back(report_object(answer));
  }
  round_numbers(document);
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace flopcast
