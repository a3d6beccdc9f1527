#include "models/lower.h"

#include <algorithm>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "models/expert_routing.h"
#include "models/listed_rows.h"
#include "models/operator_timing.h"
#include "models/parameters.h"
#include "models/pipeline_schedule.h"
#include "models/stage_program.h"
#include "sim/check.h"
#include "sim/fold.h"

namespace flopcast {

namespace {

std::vector<std::uint64_t> ranks_by_role(const Communicators& communicators) {
  std::vector<std::uint64_t> ranks(communicators.roles.size());
  for (const RankRow& row : communicators.ranks) ranks[row.role] += row.count;
  return ranks;
}

std::array<GroupFacts, kStepGroups> facts_of(const Communicators& communicators,
                                             const RankRole& role) {
  std::array<GroupFacts, kStepGroups> facts;
  for (std::size_t slot = 0; slot < kStepGroups; ++slot) {
    const GroupId group = role.groups[slot];
    if (group != kNoGroup) facts[slot] = communicators.facts[index_of(group)];
  }
  return facts;
}

/// By stage.
std::vector<Rank> rank_rows(const Communicators& communicators,
                            std::span<const ProgramPlace> places) {
  std::vector<Rank> rows;
  rows.reserve(communicators.ranks.size());
  for (const RankRow& row : communicators.ranks) {
    rows.push_back({.name = "pipeline rank " + std::to_string(communicators.roles[row.role].stage),
                    .program = places[row.role].program,
                    .speed = row.speed,
                    .groups = {row.groups.begin(), row.groups.end()},
                    .count = row.count,
                    .variant = places[row.role].variant});
  }
  return rows;
}

/// Schedules of one copy of the model that run forward and backward passes one after another.
bool passes_are_whole(ScheduleKind kind) {
  return kind == ScheduleKind::gpipe || kind == ScheduleKind::one_f_one_b ||
         kind == ScheduleKind::interleaved || kind == ScheduleKind::looped_bfs;
}

/// What of ZeRO is not known.
std::optional<std::string> sharding_gap(const Job& job) {
  const Layout& layout = job.layout;
  const Framework& framework = job.training.framework;
  if (layout.zero == 3 && !framework.shards_parameters) {
    return "ZeRO stage 3 of " + framework.name +
           " is not simulated; of megatron-fsdp, fsdp1, fsdp2, mosaicml and deepspeed it is";
  }
  const bool reduces_each = layout.zero == 2 && framework.reduces_each_micro_batch;
  const bool needs_whole = layout.zero == 3 || layout.shard > 0 || reduces_each;
  if (needs_whole && layout.overlap_expert_exchange) {
    return "hidden expert exchanges beside shard groups and ZeRO stage 3 are not simulated yet";
  }
  if (needs_whole && !passes_are_whole(layout.schedule)) {
    return std::string("shard groups, ZeRO stage 3 and gradients reduced after every micro-batch ")
        .append("under the ")
        .append(schedule_name(layout.schedule))
        .append(" schedule are not simulated yet");
  }
  if (reduces_each && layout.grid.pp > 1) {
    return "ZeRO stage 2 that reduces gradients after every micro-batch goes with no pipeline";
  }
  const bool experts_apart =
      job.model.moe && (layout.grid.ep > 1 || layout.grid.etp != layout.grid.tp);
  if (experts_apart && (layout.shard > 0 || layout.reshard_ranks > 0)) {
    return "shard groups beside expert parallelism are not simulated yet";
  }
  if (layout.zero < 3 && (layout.shard == 1 || (layout.shard > 0 && framework.zero_all_reduces))) {
    return "ZeRO stages 1 and 2 need shard groups of several ranks and a reduce-scatter in them";
  }
  return std::nullopt;
}

/// Where a node gets one copy of a token, what comes to one of its ranks spreads over the cards of
/// all: the first to have it sends it on inside the node.
ExchangePlaces exchange_places(const Job& job, const Communicators& communicators) {
  if (job.layout.dispatcher != TokenDispatcher::once_per_node || !job.model.moe) return {};
  const GroupId group =
      communicators.roles.front().groups[static_cast<std::size_t>(StepGroup::expert)];
  if (group == kNoGroup) return {};
  const GroupShape& shape = communicators.facts[index_of(group)].shape;
  const MixtureOfExperts& moe = *job.model.moe;
  return {.ranks_each = shape.nodes > 1 ? shape.ranks_per_node : 1,
          .merged = static_cast<double>(moe.top_k) * merged_copies(moe, shape),
          .limit = shape.nodes > 1 ? moe.node_limit : 0};
}

/// Roles that differ only in the experts that they hold, one list for each.
std::vector<std::vector<std::uint32_t>> roles_by_program(const Communicators& communicators) {
  std::map<std::tuple<int, int, int, RankGroups>, std::size_t> numbers;
  std::vector<std::vector<std::uint32_t>> lists;
  for (std::uint32_t role = 0; role < communicators.roles.size(); ++role) {
    const RankRole& its = communicators.roles[role];
    const auto [entry, is_new] =
        numbers.try_emplace({its.stage, its.context_rank, its.kind, its.groups}, lists.size());
    if (is_new) lists.emplace_back();
    lists[entry->second].push_back(role);
  }
  return lists;
}

/// By role. Programs of one list are alike but for their amounts: it gets one, with a variant for
/// each role.
std::vector<ProgramPlace> write_programs(const StageInputs& inputs,
                                         const Communicators& communicators, CostTables& tables,
                                         Plan& plan) {
  const std::vector<std::uint64_t> ranks_of = ranks_by_role(communicators);
  std::vector<ProgramPlace> places(communicators.roles.size());
  Workload& workload = plan.workload;
  for (const std::vector<std::uint32_t>& roles : roles_by_program(communicators)) {
    const RankRole& first = communicators.roles[roles.front()];
    tables.time_kernels_of(first.kind);
    const StageChunks chunks = stage_chunks(inputs, first, tables);
    const ProgramId program{static_cast<std::uint32_t>(workload.programs.size())};
    for (const std::uint32_t role : roles) {
      const Amounts rest = role == roles.front() ? Amounts::in_variant : Amounts::alone;
      const Amounts amounts = roles.size() > 1 ? rest : Amounts::in_ops;
      StageProgram stage =
          stage_program(inputs, {communicators.roles[role], amounts}, chunks, tables);
      const auto replicas = static_cast<double>(ranks_of[role]);
      plan.executed += replicas * stage.executed;
      plan.recomputed += replicas * stage.recomputed;
      places[role].program = program;
      if (role == roles.front()) {
        workload.programs.push_back(std::move(stage.program));
        plan.host.push_back(stage.host);
      }
      if (roles.size() == 1) continue;
      places[role].variant = VariantId{static_cast<std::uint32_t>(workload.variants.size())};
      workload.variants.push_back(std::move(stage.variant));
    }
    plan.stage_of.push_back(first.stage);
    plan.kind_of.push_back(first.kind);
    plan.facts.push_back(facts_of(communicators, first));
  }
  return places;
}

/// What of an optimizer and of activations on the host is not known.
std::optional<std::string> offload_gap(const Job& job) {
  if (!job.training.copies_to_host()) return std::nullopt;
  if (job.network == NetworkDetail::steps) {
    return "copies to the host are not simulated as messages (\"network\": {\"model\": \"steps\"})";
  }
  if (job.training.offload && job.layout.zero == 3 &&
      job.training.framework.keeps_fp32_parameters) {
    return "an optimizer on the host whose fp32 weights are the parameters (FSDP) is not simulated "
           "yet";
  }
  if (job.training.offloaded_layers == 0) return std::nullopt;
  if (routing_differs(job)) {
    return "activations on the host under routing that is not balanced are not simulated yet";
  }
  if (job.layout.overlap_expert_exchange) {
    return "activations on the host beside hidden expert exchanges are not simulated yet";
  }
  return std::nullopt;
}

/// What of a loss in pieces is not known.
std::optional<std::string> loss_gap(const Job& job) {
  if (job.training.loss_chunks == 1 || passes_are_whole(job.layout.schedule)) return std::nullopt;
  return std::string("a loss in pieces under the ")
      .append(schedule_name(job.layout.schedule))
      .append(" schedule is not simulated yet");
}

/// What of fine-tuning is not known.
std::optional<std::string> tuning_gap(const Job& job) {
  const Training& training = job.training;
  if (training.document && !training.framework.fused_attention) {
    return "packed documents without fused attention are not simulated yet";
  }
  if (!training.adapters) return std::nullopt;
  if (job.model.mla || job.model.mtp_layers > 0) {
    return "low-rank adapters are simulated for plain attention and without prediction modules "
           "only";
  }
  const LowRankAdapters& adapters = *training.adapters;
  const bool on_mlp =
      adapters.on(AdapterTarget::linear_fc1) || adapters.on(AdapterTarget::linear_fc2);
  if (job.model.moe && on_mlp) {
    return "low-rank adapters beside experts' own layers are not simulated yet: with experts the "
           "targets are linear_qkv and linear_proj";
  }
  if (job.layout.zero == 3) return "low-rank adapters under ZeRO stage 3 are not simulated yet";
  if (!passes_are_whole(job.layout.schedule)) {
    return std::string("low-rank adapters under the ")
        .append(schedule_name(job.layout.schedule))
        .append(" schedule are not simulated yet");
  }
  if (training.recompute.kind == RecomputeKind::every_other_matmul) {
    return "low-rank adapters with every other product recomputed are not simulated yet";
  }
  return std::nullopt;
}

/// `fewest` becomes the view that it stands for.
Communicators communicators_of(const Cluster& cluster, const Job& job, Ranks& ranks) {
  if (ranks == Ranks::by_stage || ranks == Ranks::fewest) {
    Communicators stages = stage_communicators(cluster, job, ranks == Ranks::fewest);
    if (ranks == Ranks::by_stage || stages.alike) {
      ranks = Ranks::by_stage;
      return stages;
    }
    ranks = Ranks::by_class;
  }
  return listed_communicators(cluster, job);
}

}  // namespace

std::optional<std::string> lowering_gap(const Job& job) {
  if (job.layout.grid.cp > 1 && !job.training.framework.fused_attention) {
    return "context parallelism (cp > 1) without fused attention is not simulated yet";
  }
  if (job.layout.dispatcher == TokenDispatcher::hierarchical && routing_differs(job)) {
    return "exchanges of two levels under routing that is not balanced are not simulated yet";
  }
  if (job.training.recompute.kind == RecomputeKind::every_other_matmul &&
      (job.model.moe || job.model.mla || !job.model.gated_mlp)) {
    return "recomputing every other product is simulated for plain attention and gated MLPs only";
  }
  if (auto gap = sharding_gap(job)) return gap;
  if (auto gap = offload_gap(job)) return gap;
  if (auto gap = loss_gap(job)) return gap;
  return tuning_gap(job);
}

Plan lower(const Job& job, const Cluster& cluster, const Profile& profile, Ranks ranks,
           std::span<const Profile> others) {
  FLOPCAST_CHECK(others.size() == cluster.spec().others.size(), "the reader finds one for each");
  const Layout& layout = job.layout;
  Plan plan;
  Communicators communicators = communicators_of(cluster, job, ranks);
  plan.padded_vocab =
      padded_vocab(job.model.vocab, job.training.framework.vocab_divisor, layout.grid.tp);
  plan.stages = split_layers(job.model, layout);
  const ScheduleShape shape{
      .ranks = layout.grid.pp,
      .micro_batches = static_cast<int>(micro_batches(layout, job.training.batch)),
      .chunks = layout.vpp,
      .group = layout.micro_batch_group,
      .side_by_side = layout.overlap_expert_exchange};
  const RoutingLoads routing(job, shape.micro_batches, exchange_places(job, communicators));
  if (job.model.moe) plan.routing = routing.summary();
  const StageInputs inputs{.job = job,
                           .padded_vocab = plan.padded_vocab,
                           .stages = plan.stages,
                           .schedule = pipeline_schedule(layout.schedule, shape),
                           .routing = routing};

  CostTables tables(profile, communicators, others);
  // Kernels that vary by themselves are not one.
  const bool kernels_vary = job.jitter && job.jitter->kernel_sigma > 0;
  tables.fuse_kernels(routing.skewed() && !kernels_vary);
  Workload& workload = plan.workload;
  const std::vector<ProgramPlace> places = write_programs(inputs, communicators, tables, plan);
  plan.evidence = tables.evidence();
  plan.transfer_kinds = tables.transfer_kinds();
  std::move(tables).finish(workload);
  plan.alike = communicators.alike;
  workload.stream_names.assign(kStepStreamNames.begin(), kStepStreamNames.end());
  if (!job.training.copies_to_host()) workload.stream_names.resize(kGpuStreams);
  workload.category_names.assign(kStepCategoryNames.begin(), kStepCategoryNames.end());
  workload.pool_names.assign(kMemoryPoolNames.begin(), kMemoryPoolNames.end());
  const ListedRows rows(cluster, communicators, places);
  switch (ranks) {
    case Ranks::fewest:
    case Ranks::by_stage:
      workload.ranks = rank_rows(communicators, places);
      workload.groups = std::move(communicators.groups);
      workload.links = std::move(communicators.links);
      break;
    case Ranks::all: write_rows(rows, workload); break;
    case Ranks::by_class: workload = fold(std::move(workload), rows).workload; break;
  }
  return plan;
}

Plan folded(Plan plan) {
  plan.workload = fold(std::move(plan.workload)).workload;
  return plan;
}

}  // namespace flopcast
