#include "models/operator_timing.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "calibration/nccl_model.h"
#include "models/expert_routing.h"
#include "models/operand_casts.h"
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

/// By what a forward pass in 8 bits is faster than one in 16. Source: Shah et al.,
/// FlashAttention-3, arXiv 2407.08608, abstract: close to 1.2 PFLOP/s on H100 against 740 TFLOP/s.
/// Assumed for other GPUs. No rate of a backward pass is published for both; it is taken as in 16
/// bits, in line with what NVIDIA's "Accelerating Transformers with NVIDIA cuDNN 9" finds for LoRA
/// of Llama 2 70B on H200: 1.15 times as fast as without cuDNN in 8 bits, 1.11 times in 16.
constexpr double kForwardInEightBits = 1200.0 / 740;

TimeEstimate attention_pass_time(const AttentionCall& call, const Training& training,
                                 const Profile& profile) {
  TimeEstimate estimate =
      attention_time(profile, unquantised_type(training), call.shape, call.pass, call.kernel);
  if (!training.attention_dtype) return estimate;
  estimate.evidence = Evidence::assumed;
  if (call.pass == AttentionPass::forward) estimate.time = estimate.time / kForwardInEightBits;
  return estimate;
}

std::optional<TimeEstimate> compute_time(const Operator& op, const Training& training,
                                         const Profile& profile) {
  if (const auto* gemm = std::get_if<GemmShape>(&op.work)) {
    return gemm_time(profile, product_type(op, training, profile), *gemm);
  }
  if (const auto* call = std::get_if<AttentionCall>(&op.work)) {
    return attention_pass_time(*call, training, profile);
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
    case StepGroup::context:
    case StepGroup::context_exchange: return StepCategory::context;
    case StepGroup::expert:
    case StepGroup::expert_inside:
    case StepGroup::expert_across:
    case StepGroup::expert_tensor: return StepCategory::expert;
    case StepGroup::data:
    case StepGroup::expert_data:
    case StepGroup::world:
    case StepGroup::embedding:
    case StepGroup::forward_next:
    case StepGroup::forward_previous:
    case StepGroup::backward_previous:
    case StepGroup::backward_next:
    case StepGroup::replica:
    case StepGroup::reshard:
    case StepGroup::to_host:
    case StepGroup::from_host:
    case StepGroup::host_memory:
    case StepGroup::storage: break;
  }
  FLOPCAST_CHECK(false, "the other groups are not of a layer");
}

/// SMs that kernels which send once per node take from compute. Source: DeepSeek-V3, arXiv
/// 2412.19437, section 3.2.2; deepseek-ai/DeepEP, Buffer.num_sms.
constexpr double kDispatchSms = 20;

/// NCCL has rings alone for broadcasts and reductions to one rank: each piece passes all ranks, in
/// whole chunks (protocol Simple). Source: NCCL 2.30.7, src/graph/tuning.cc.
Seconds one_rank_latency(GroupShape shape) {
  const NcclLatency step = nccl_latency(NcclAlgorithm::ring, NcclProtocol::simple);
  const double inside = static_cast<double>(shape.nodes) * (shape.ranks_per_node - 1);
  return step.base + inside * step.domain_hop +
         static_cast<double>(shape.nodes - 1) * step.network_hop;
}

/// Of what switches of the network do.
std::uint8_t network_pattern(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce: return kNetworkReducePattern;
    case CollectiveKind::all_gather: return kNetworkGatherPattern;
    case CollectiveKind::reduce_scatter: return kNetworkScatterPattern;
    case CollectiveKind::broadcast:
    case CollectiveKind::all_to_all:
    case CollectiveKind::send_recv: break;
  }
  FLOPCAST_CHECK(false, "the switches serve no other kind");
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
  return kernel(estimate.time);
}

KernelId CostTables::kernel(Seconds duration) {
  const auto [entry, added] = kernel_ids_.try_emplace(
      duration.value, KernelId{static_cast<std::uint32_t>(kernels_.size())});
  if (added) kernels_.push_back({duration});
  return entry->second;
}

TransferId CostTables::transfer(CollectiveKind kind, Bytes size, GroupId group,
                                StepCategory category, ExchangeTraits traits) {
  const auto [entry, added] = transfer_ids_.try_emplace(
      {kind, size.value, group, traits}, TransferId{static_cast<std::uint32_t>(transfers_.size())});
  if (!added) {
    note(category, transfer_evidence_[index_of(entry->second)]);
    return entry->second;
  }
  const GroupFacts& facts = communicators_.facts[index_of(group)];
  const CollectiveTime cost = collective_time(profile_, kind, size, facts.shape, facts.path);
  note(category, cost.evidence);
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
  if (traits.one_rank) {
    transfer.latency = std::max(transfer.latency, one_rank_latency(facts.shape));
  }
  const bool tree =
      cost.algorithm == NcclAlgorithm::tree || cost.algorithm == NcclAlgorithm::nvls_tree;
  if (kind == CollectiveKind::all_reduce && tree && facts.trees) transfer.pattern = kTreePattern;
  if (facts.path.sharp && reduces_in_network(cost.algorithm, facts.shape)) {
    transfer.pattern = network_pattern(kind);
  }
  transfer.solo_rate = transfer.solo_rate / traits.uneven;
  if (traits.once_per_node) {
    transfer.compute_share = std::min(1.0, kDispatchSms / static_cast<double>(profile_.sms));
  }
  transfers_.push_back(transfer);
  transfer_kinds_.push_back(kind);
  transfer_evidence_.push_back(cost.evidence);
  return entry->second;
}

/// To start an asynchronous copy, or a step of the processors: assumed.
constexpr Seconds kCopyLatency = microseconds(10);

TransferId CostTables::copy(Bytes size, GroupId group, StepCategory category) {
  const auto [entry, added] =
      transfer_ids_.try_emplace({CollectiveKind::send_recv, size.value, group, ExchangeTraits{}},
                                TransferId{static_cast<std::uint32_t>(transfers_.size())});
  note(category, Evidence::assumed);
  if (!added) return entry->second;
  const BytesPerSecond alone{1 / communicators_.facts[index_of(group)].heaviest_alone};
  transfers_.push_back({.latency = kCopyLatency, .size = size, .solo_rate = alone});
  transfer_kinds_.push_back(CollectiveKind::send_recv);
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

std::uint32_t CostTables::add_routed(const RoutedWork& work) {
  routed_.push_back({.work = work});
  return static_cast<std::uint32_t>(routed_.size() - 1);
}

std::uint32_t CostTables::make_routed(const RoutedWork& routed, const RoutingLoad& load) {
  const double own = RoutingLoad::part(load.own);
  if (const auto* gemm = std::get_if<GemmShape>(&routed.work)) {
    GemmShape shape = *gemm;
    const double rows = std::round(own * static_cast<double>(shape.m));
    shape.m = std::max<std::int64_t>(1, static_cast<std::int64_t>(rows));
    return index_of(kernel(gemm_time(profile(), routed.precision, shape), routed.category));
  }
  if (const auto* call = std::get_if<MemoryCall>(&routed.work)) {
    const TimeEstimate time = memory_time(profile(), call->kernel, own * call->moved);
    return index_of(kernel(time, routed.category));
  }
  if (const auto* parts = std::get_if<std::vector<std::uint32_t>>(&routed.work)) {
    Seconds sum;
    for (const std::uint32_t part : *parts) sum += duration(KernelId{routed_row(part, load)});
    return index_of(kernel(sum));
  }
  const auto& call = std::get<GroupCall>(routed.work);
  const double mean = RoutingLoad::part(load.mean);
  const double uneven = mean > 0 ? RoutingLoad::part(load.hottest) / mean : 1;
  return index_of(transfer(call.kind, mean * call.size, routed.group, routed.category,
                           {std::max(1.0, uneven), call.once_per_node}));
}

std::uint32_t CostTables::routed_row(std::uint32_t number, const RoutingLoad& load) {
  constexpr std::uint32_t kUnknown = 0xffffffffU;
  if (std::holds_alternative<GroupCall>(routed_[number].work.work)) {
    const LoadKey key{load.hottest, load.mean};
    auto& rows = routed_[number].rows;
    if (const auto found = rows.find(key); found != rows.end()) return found->second;
    return rows.emplace(key, make_routed(routed_[number].work, load)).first->second;
  }
  auto& rows = routed_[number].by_own;
  if (load.own >= rows.size()) rows.resize(load.own + std::size_t{1}, kUnknown);
  std::uint32_t& row = rows[load.own];
  if (row == kUnknown) row = make_routed(routed_[number].work, load);
  return row;
}

namespace {

/// Turns operators into items, and keeps an eye on the host.
class Timer {
 public:
  Timer(const OperatorContext& context, const RankGroups& groups, CostTables& tables)
      : context_(context), training_(context.training), groups_(groups), tables_(tables) {}

  void add(const Operator& op) {
    const StepCategory category = category_of(op.phase);
    const LabelId label = tables_.label(op.name);
    issue(op);
    if (const auto estimate = compute_time(op, training_, tables_.profile())) {
      device_ += estimate->time;
      const KernelId kernel = tables_.kernel(*estimate, category);
      out_.items.push_back({Kind::kernel, index_of(kernel), category, label});
      if (op.routed) out_.items.back().routed = routed_kernel(op, category);
    } else if (const auto* call = std::get_if<GroupCall>(&op.work)) {
      add_call(*call, label, op.routed);
    } else if (const auto* join = std::get_if<Join>(&op.work)) {
      out_.items.push_back({Kind::join, 0, category_of(join->group), label, join->group});
    }
    count(op);
    if (op.host_waits) catch_up();
  }

  TimedOperators take() && {
    catch_up();
    return std::move(out_);
  }

 private:
  using Kind = TimedOperators::Item::Kind;

  /// Products of experts are launched one by one, where no kernel does them all; other batches of
  /// products, as unfused attention's, have strides for that and are one launch. Casts are launched
  /// by the linear layer that needs them.
  void issue(const Operator& op) {
    if (std::holds_alternative<Join>(op.work)) return;
    const auto* memory = std::get_if<MemoryCall>(&op.work);
    if (memory != nullptr && memory->kernel == MemoryKernel::quantise) return;
    host_ += static_cast<double>(op.host_calls) * training_.framework.host_per_operator;
    const auto* gemm = std::get_if<GemmShape>(&op.work);
    if (gemm == nullptr || !op.routed || gemm->batch == 1) return;
    host_ += static_cast<double>(gemm->batch) * training_.framework.host_per_expert_product;
  }

  std::uint32_t routed_kernel(const Operator& op, StepCategory category) {
    RoutedWork work{.work = {},
                    .precision = product_type(op, training_, tables_.profile()),
                    .group = {},
                    .category = category};
    if (const auto* gemm = std::get_if<GemmShape>(&op.work)) work.work = *gemm;
    if (const auto* call = std::get_if<MemoryCall>(&op.work)) work.work = *call;
    return tables_.add_routed(work);
  }

  void add_call(const GroupCall& call, LabelId label, bool routed) {
    const GroupId group = groups_[static_cast<std::size_t>(call.group)];
    const StepCategory charged = category_of(call.group);
    GroupCall sent = call;
    if (call.once_per_node) {
      sent.size = merged_copies(*context_.model.moe, tables_.shape_of(group)) * call.size;
    }
    const TransferId transfer =
        tables_.transfer(sent.kind, sent.size, group, charged, {1, call.once_per_node});
    if (!call.beside) device_ += tables_.solo_time(transfer);
    const Kind waiting = call.exchanges_tokens ? Kind::exchange : Kind::collective;
    out_.items.push_back(
        {call.beside ? Kind::beside : waiting, index_of(transfer), charged, label, call.group});
    if (!routed) return;
    out_.items.back().routed =
        tables_.add_routed({.work = sent, .precision = {}, .group = group, .category = charged});
  }

  void count(const Operator& op) {
    const Flops work = executed_flops(op);
    out_.executed += work;
    if (op.routed) out_.executed_routed += work;
    if (op.phase != OperatorPhase::recompute) return;
    out_.recomputed += work;
    if (op.routed) out_.recomputed_routed += work;
  }

  /// The GPU waits where the host took longer to issue what came since the last time.
  void catch_up() {
    if (host_ > device_) {
      const TimeEstimate rest{host_ - device_, Evidence::assumed};
      const KernelId kernel = tables_.kernel(rest, StepCategory::overhead);
      out_.items.push_back({Kind::kernel, index_of(kernel), StepCategory::overhead,
                            tables_.label("waiting for the host")});
    }
    host_ = device_ = seconds(0);
  }

  const OperatorContext& context_;
  const Training& training_;
  const RankGroups& groups_;
  CostTables& tables_;
  TimedOperators out_;
  Seconds host_;
  Seconds device_;  // what the compute stream needs at least
};

}  // namespace

TimedOperators timed(const std::vector<Operator>& operators, const OperatorContext& context,
                     const RankGroups& groups, CostTables& tables) {
  Timer timer(context, groups, tables);
  for (const Operator& op : operators) timer.add(op);
  return std::move(timer).take();
}

}  // namespace flopcast
