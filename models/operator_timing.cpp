#include "models/operator_timing.h"

#include <algorithm>
#include <utility>

#include "sim/check.h"

namespace flopcast {
namespace {

StepCategory category_of(OperatorPhase phase) {
  switch (phase) {
    case OperatorPhase::forward: return StepCategory::forward;
    case OperatorPhase::data_gradient: return StepCategory::backward;
    case OperatorPhase::weight_gradient: return StepCategory::backward;
    case OperatorPhase::recompute: return StepCategory::recompute;
  }
  return StepCategory::forward;
}

std::optional<TimeEstimate> compute_time(const Operator& op, DataType precision,
                                         const Profile& profile) {
  if (const auto* gemm = std::get_if<GemmShape>(&op.work)) {
    return gemm_time(profile, precision, *gemm);
  }
  if (const auto* call = std::get_if<AttentionCall>(&op.work)) {
    return attention_time(profile, DataType::bf16, call->shape, call->pass);
  }
  if (const auto* call = std::get_if<MemoryCall>(&op.work)) {
    return memory_time(profile, call->kernel, call->moved);
  }
  return std::nullopt;
}

double compute_share(const Profile& profile, CollectiveKind kind, const GroupFacts& facts) {
  const ComputeShare& share = profile.network.compute_share;
  if (kind == CollectiveKind::send_recv) return share.point_to_point;
  return facts.shape.nodes > 1 ? share.network : share.domain;
}

}  // namespace

LabelId CostTables::label(std::string_view text) {
  if (const auto found = label_ids_.find(text); found != label_ids_.end()) return found->second;
  const LabelId id{static_cast<std::uint32_t>(labels_.size())};
  labels_.emplace_back(text);
  label_ids_.emplace(std::string(text), id);
  return id;
}

void CostTables::note(StepCategory category, Evidence evidence) {
  Evidence& known = evidence_[static_cast<std::size_t>(category)];
  known = weakest(known, evidence);
}

KernelId CostTables::kernel(TimeEstimate estimate, StepCategory category) {
  note(category, estimate.evidence);
  const auto [entry, added] = kernel_ids_.try_emplace(
      estimate.time.value, KernelId{static_cast<std::uint32_t>(kernels_.size())});
  if (added) kernels_.push_back({estimate.time});
  return entry->second;
}

TransferId CostTables::transfer(CollectiveKind kind, Bytes size, GroupId group,
                                StepCategory category) {
  const auto [entry, added] = transfer_ids_.try_emplace(
      {kind, size.value, group}, TransferId{static_cast<std::uint32_t>(transfers_.size())});
  const GroupFacts& facts = communicators_.facts[index_of(group)];
  const CollectiveTime cost = collective_time(profile_, kind, size, facts.shape, facts.path);
  note(category, cost.evidence);
  if (!added) return entry->second;
  Transfer transfer{.latency = cost.latency,
                    .size = cost.sent,
                    .solo_rate = cost.rate,
                    .pattern = kRingPattern,
                    .compute_share = compute_share(profile_, kind, facts)};
  // Faster than point-to-point sends could be over the links it has: the switch reduces.
  if (transfer.solo_rate.value * facts.heaviest > 1) transfer.pattern = kInSwitchPattern;
  transfers_.push_back(transfer);
  return entry->second;
}

void CostTables::finish(Workload& workload) && {
  workload.kernels = std::move(kernels_);
  workload.transfers = std::move(transfers_);
  workload.labels = std::move(labels_);
}

TimedOperators timed(const std::vector<Operator>& operators, DataType precision,
                     GroupId tensor_group, CostTables& tables) {
  using Kind = TimedOperators::Item::Kind;
  TimedOperators out;
  for (const Operator& op : operators) {
    const StepCategory category = category_of(op.phase);
    const LabelId label = tables.label(op.name);
    if (const auto estimate = compute_time(op, precision, tables.profile())) {
      const KernelId kernel = tables.kernel(*estimate, category);
      out.items.push_back({Kind::kernel, index_of(kernel), category, label});
    } else if (const auto* call = std::get_if<TensorCall>(&op.work)) {
      const TransferId transfer =
          tables.transfer(call->kind, call->size, tensor_group, StepCategory::tensor);
      out.items.push_back({call->beside ? Kind::beside : Kind::collective, index_of(transfer),
                           StepCategory::tensor, label});
    } else {
      out.items.push_back({Kind::join, 0, StepCategory::tensor, label});
    }
    out.executed += executed_flops(op);
    if (op.phase == OperatorPhase::recompute) out.recomputed += executed_flops(op);
  }
  return out;
}

void append(ProgramBuilder& program, const TimedOperators& work) {
  using Kind = TimedOperators::Item::Kind;
  constexpr std::size_t compute = index_of(StepStream::compute);
  constexpr std::size_t tensor = index_of(StepStream::tensor);
  constexpr auto slot = static_cast<std::uint16_t>(StepGroup::tensor);
  for (const TimedOperators::Item& item : work.items) {
    const CategoryId category = id_of(item.category);
    switch (item.kind) {
      case Kind::kernel: program.compute(compute, KernelId{item.row}, category, item.label); break;
      case Kind::collective:
        program.order(compute, tensor);
        program.collective(tensor, slot, TransferId{item.row}, category, item.label);
        program.order(tensor, compute);
        break;
      case Kind::beside:
        program.order(compute, tensor);
        program.collective(tensor, slot, TransferId{item.row}, category, item.label);
        break;
      case Kind::join: program.order(tensor, compute); break;
    }
  }
}

}  // namespace flopcast
