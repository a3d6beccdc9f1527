#include "models/activation_offload.h"

#include <fmt/format.h>

#include <string>

#include "models/pipeline_schedule.h"

namespace flopcast {
namespace {

struct OffloadRule {
  std::string_view key;
  bool (*broken)(const Job& job);
  std::string (*problem)(const Job& job);
  std::vector<std::int64_t> (*nearest)(const Job& job);
};

std::vector<std::int64_t> nothing(const Job& /*job*/) { return {}; }

constexpr OffloadRule kRules[] = {
    {"training.offload.activations.layers",
     [](const Job& job) {
       return job.model.layers > 1 && job.training.offloaded_layers >= job.model.layers;
     },
     [](const Job& job) {
       return fmt::format("{} layers cannot be offloaded: the last of the {} stays on the GPU",
                          job.training.offloaded_layers, job.model.layers);
     },
     [](const Job& job) { return std::vector<std::int64_t>{job.model.layers - 1}; }},
    {"training.offload.activations", [](const Job& job) { return job.model.layers == 1; },
     [](const Job& /*job*/) {
       return std::string("the only layer of the model stays on the GPU: nothing to offload");
     },
     nothing},
    {"parallel.pp", [](const Job& job) { return job.layout.grid.pp > 1; },
     [](const Job& job) {
       return fmt::format("pp = {}, but activations are offloaded only without a pipeline",
                          job.layout.grid.pp);
     },
     [](const Job& /*job*/) { return std::vector<std::int64_t>{1}; }},
    // A forward pass forgets what the one before it left: each is followed by its backward pass.
    {"training.schedule",
     [](const Job& job) {
       return job.layout.grid.pp == 1 && job.layout.schedule != ScheduleKind::one_f_one_b;
     },
     [](const Job& job) {
       return fmt::format("activations are offloaded only under 1f1b, not under {}",
                          schedule_name(job.layout.schedule));
     },
     nothing},
    {"training.recompute",
     [](const Job& job) { return job.training.recompute.kind != RecomputeKind::none; },
     [](const Job& /*job*/) {
       return std::string("activations are either recomputed or offloaded; give \"none\"");
     },
     nothing},
};

}  // namespace

std::vector<LayoutViolation> activation_offload_violations(const Job& job) {
  if (job.training.offloaded_layers == 0) return {};
  std::vector<LayoutViolation> violations;
  for (const OffloadRule& rule : kRules) {
    if (!rule.broken(job)) continue;
    violations.push_back(
        {.key = std::string(rule.key), .problem = rule.problem(job), .nearest = rule.nearest(job)});
  }
  return violations;
}

}  // namespace flopcast
