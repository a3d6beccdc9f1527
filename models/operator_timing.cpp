#include "models/operator_timing.h"

#include <algorithm>
#include <utility>

#include "models/expert_routing.h"
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

/// What the collectives inside a layer are charged to, and the stream that they run on.
StepCategory category_of(StepGroup group) {
  switch (group) {
    case StepGroup::tensor: return StepCategory::tensor;
    case StepGroup::context: return StepCategory::context;
    case StepGroup::expert:
    case StepGroup::expert_tensor: return StepCategory::expert;
    case StepGroup::data:
    case StepGroup::expert_data:
    case StepGroup::world:
    case StepGroup::embedding:
    case StepGroup::forward_next:
    case StepGroup::forward_previous:
    case StepGroup::backward_previous:
    case StepGroup::backward_next: break;
  }
  FLOPCAST_CHECK(false, "the other groups are not of a layer");
}

std::size_t stream_of(StepCategory category) {
  if (category == StepCategory::context) return index_of(StepStream::context);
  if (category == StepCategory::expert) return index_of(StepStream::expert);
  return index_of(StepStream::tensor);
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
  // What is sent depends on the ranks; an uneven group has fewer than its shape.
  const Bytes sent = facts.ranks > 1 ? size * bus_factor(kind, facts.ranks) : bytes(0);
  Transfer transfer{.latency = cost.latency,
                    .size = sent,
                    .solo_rate = cost.rate,
                    .pattern = kRingPattern,
                    .compute_share = compute_share(profile_, kind, facts)};
  // Faster than point-to-point sends could be over its own links: the switch reduces.
  const bool reduced_in_switch =
      facts.shape.nodes == 1 && transfer.solo_rate.value * facts.heaviest_alone > 1;
  if (reduced_in_switch) transfer.pattern = kInSwitchPattern;
  transfers_.push_back(transfer);
  return entry->second;
}

Seconds CostTables::solo_time(TransferId id) const {
  const Transfer& transfer = transfers_[index_of(id)];
  return transfer.latency +
         (transfer.size > bytes(0) ? transfer.size / transfer.solo_rate : seconds(0));
}

void CostTables::finish(Workload& workload) && {
  workload.kernels = std::move(kernels_);
  workload.transfers = std::move(transfers_);
  workload.labels = std::move(labels_);
}

TimedOperators timed(const std::vector<Operator>& operators, const OperatorContext& context,
                     const RankGroups& groups, CostTables& tables) {
  const Training& training = context.training;
  using Kind = TimedOperators::Item::Kind;
  TimedOperators out;
  Seconds host;
  Seconds device;  // what the compute stream needs at least
  for (const Operator& op : operators) {
    const StepCategory category = category_of(op.phase);
    const LabelId label = tables.label(op.name);
    if (!std::holds_alternative<Join>(op.work)) host += training.framework.host_per_operator;
    if (const auto estimate = compute_time(op, training.precision, tables.profile())) {
      device += estimate->time;
      const KernelId kernel = tables.kernel(*estimate, category);
      out.items.push_back({Kind::kernel, index_of(kernel), category, label});
    } else if (const auto* call = std::get_if<GroupCall>(&op.work)) {
      const GroupId group = groups[static_cast<std::size_t>(call->group)];
      const StepCategory charged = category_of(call->group);
      const double part =
          call->once_per_node ? merged_copies(*context.model.moe, tables.shape_of(group)) : 1;
      const TransferId transfer = tables.transfer(call->kind, part * call->size, group, charged);
      if (!call->beside) device += tables.solo_time(transfer);
      const bool exchanges =
          call->kind == CollectiveKind::all_to_all && call->group == StepGroup::expert;
      const Kind waiting = exchanges ? Kind::exchange : Kind::collective;
      out.items.push_back(
          {call->beside ? Kind::beside : waiting, index_of(transfer), charged, label, call->group});
    } else if (const auto* join = std::get_if<Join>(&op.work)) {
      out.items.push_back({Kind::join, 0, category_of(join->group), label, join->group});
    }
    out.executed += executed_flops(op);
    if (op.phase == OperatorPhase::recompute) out.recomputed += executed_flops(op);
  }
  if (host > device) {
    const TimeEstimate rest{host - device, Evidence::assumed};
    const KernelId kernel = tables.kernel(rest, StepCategory::overhead);
    out.items.push_back({Kind::kernel, index_of(kernel), StepCategory::overhead,
                         tables.label("waiting for the host")});
  }
  return out;
}

namespace {

using Item = TimedOperators::Item;
constexpr std::size_t kComputeStream = index_of(StepStream::compute);

void start(ProgramBuilder& program, const Item& item) {
  const std::size_t stream = stream_of(item.category);
  program.order(kComputeStream, stream);
  program.collective(stream, static_cast<std::uint16_t>(item.group), TransferId{item.row},
                     id_of(item.category), item.label);
}

void append(ProgramBuilder& program, const Item& item) {
  const std::size_t stream = stream_of(item.category);
  switch (item.kind) {
    case Item::Kind::kernel:
      program.compute(kComputeStream, KernelId{item.row}, id_of(item.category), item.label);
      break;
    case Item::Kind::collective:
    case Item::Kind::exchange:
      start(program, item);
      program.order(stream, kComputeStream);
      break;
    case Item::Kind::beside: start(program, item); break;
    case Item::Kind::join: program.order(stream, kComputeStream); break;
  }
}

/// One of two stretches that take turns on the compute stream.
class Turns {
 public:
  explicit Turns(const TimedOperators& work) : next_(work.items.begin()), end_(work.items.end()) {}

  bool done() const { return next_ == end_; }

  /// Up to the next exchange, which goes on when the turn is over.
  void take(ProgramBuilder& program) {
    if (exchanged_) program.wait(kComputeStream, *std::exchange(exchanged_, std::nullopt));
    for (; next_ != end_; ++next_) {
      if (next_->kind != Item::Kind::exchange) {
        append(program, *next_);
        continue;
      }
      start(program, *next_);
      exchanged_ = program.record(stream_of(next_->category));
      ++next_;
      return;
    }
  }
  /// Waits for an exchange that ends the stretch.
  void finish(ProgramBuilder& program) {
    if (exchanged_) program.wait(kComputeStream, *exchanged_);
  }

 private:
  std::vector<Item>::const_iterator next_;
  std::vector<Item>::const_iterator end_;
  std::optional<EventId> exchanged_;
};

}  // namespace

void append(ProgramBuilder& program, const TimedOperators& work) {
  for (const Item& item : work.items) append(program, item);
}

void append_beside(ProgramBuilder& program, const TimedOperators& first,
                   const TimedOperators& second) {
  std::array turns{Turns(first), Turns(second)};
  while (!turns[0].done() || !turns[1].done()) {
    for (Turns& turn : turns) {
      if (!turn.done()) turn.take(program);
    }
  }
  for (Turns& turn : turns) turn.finish(program);
}

}  // namespace flopcast
