#include "models/lower.h"

#include <utility>

#include "models/operator_timing.h"
#include "models/parameters.h"
#include "models/pipeline_schedule.h"
#include "models/stage_program.h"

namespace flopcast {

namespace {

bool can_lower(ScheduleKind kind) {
  return kind == ScheduleKind::gpipe || kind == ScheduleKind::one_f_one_b ||
         kind == ScheduleKind::interleaved;
}

}  // namespace

std::optional<std::string> lowering_gap(const Job& job) {
  if (job.model.mtp_layers > 0) return "multi-token prediction is not simulated yet";
  if (job.layout.grid.cp > 1 && job.model.sliding_window > 0) {
    return "context parallelism (cp > 1) of sliding-window attention is not simulated yet";
  }
  if (job.layout.grid.cp > 1 && !job.training.framework.fused_attention) {
    return "context parallelism (cp > 1) without fused attention is not simulated yet";
  }
  if (job.layout.zero > 2) return "ZeRO stage 3 is not simulated yet; stages 0 to 2 are";
  if (job.layout.zero == 2 && job.training.framework.reduces_each_micro_batch) {
    return "ZeRO stage 2 of DeepSpeed, which reduces gradients after every micro-batch, is not "
           "simulated yet";
  }
  if (!can_lower(job.layout.schedule)) {
    return std::string("the ")
        .append(schedule_name(job.layout.schedule))
        .append(" schedule is not simulated yet; GPipe, 1F1B and interleaved 1F1B are");
  }
  return std::nullopt;
}

Plan lower(const Job& job, const Cluster& cluster, const Profile& profile) {
  const Layout& layout = job.layout;
  Plan plan;
  Communicators communicators = build_communicators(cluster, layout.grid, layout.context);
  plan.padded_vocab =
      padded_vocab(job.model.vocab, job.training.framework.vocab_divisor, layout.grid.tp);
  plan.stages = split_layers(job.model, layout);
  const ScheduleShape shape{
      .ranks = layout.grid.pp,
      .micro_batches = static_cast<int>(micro_batches(layout, job.training.batch)),
      .chunks = layout.vpp,
      .group = layout.micro_batch_group};
  const StageInputs inputs{.job = job,
                           .communicators = communicators,
                           .padded_vocab = plan.padded_vocab,
                           .stages = plan.stages,
                           .schedule = pipeline_schedule(layout.schedule, shape)};

  CostTables tables(profile, communicators);
  Workload& workload = plan.workload;
  const auto replicas = static_cast<std::uint64_t>(layout.grid.world() / layout.grid.pp);
  for (int rank = 0; rank < layout.grid.pp; ++rank) {
    StageProgram stage = stage_program(inputs, rank, tables);
    const auto& slots = communicators.by_stage[static_cast<std::size_t>(rank)];
    workload.programs.push_back(std::move(stage.program));
    workload.ranks.push_back({.name = "pipeline rank " + std::to_string(rank),
                              .program = ProgramId{static_cast<std::uint32_t>(rank)},
                              .speed = 1,
                              .groups = {slots.begin(), slots.end()},
                              .count = replicas});
    plan.executed += static_cast<double>(replicas) * stage.executed;
    plan.recomputed += static_cast<double>(replicas) * stage.recomputed;
  }
  plan.evidence = tables.evidence();
  std::move(tables).finish(workload);
  plan.facts = communicators.facts;
  plan.groups = communicators.by_stage;
  workload.groups = std::move(communicators.groups);
  workload.links = std::move(communicators.links);
  workload.stream_names.assign(kStepStreamNames.begin(), kStepStreamNames.end());
  workload.category_names.assign(kStepCategoryNames.begin(), kStepCategoryNames.end());
  workload.pool_names.assign(kMemoryPoolNames.begin(), kMemoryPoolNames.end());
  return plan;
}

}  // namespace flopcast
