#include "models/step_report.h"

#include <algorithm>
#include <string_view>

#include "models/layer_operators.h"
#include "models/parameters.h"
#include "models/pipeline_schedule.h"
#include "sim/check.h"

namespace flopcast {
namespace {

/// What CUDA, NCCL and the allocator hold beside the tensors: assumed.
///   context: driver, cuBLAS workspace, NCCL buffers; torch reports 1 to 3 GB beside its own
///   fragmentation: of the allocated activations
constexpr Bytes kContextMargin = gigabytes(2);
constexpr double kFragmentation = 0.03;

/// The category, and those of its messages where collectives run as such.
std::vector<std::size_t> with_messages(const RankSummary& rank, StepCategory category) {
  std::vector<std::size_t> places{static_cast<std::size_t>(category)};
  for (const MessageLane lane : {MessageLane::first, MessageLane::other}) {
    const auto place = static_cast<std::size_t>(id_of(category, lane));
    if (place < rank.by_category.size()) places.push_back(place);
  }
  return places;
}

/// Sums over ranks, each as often as it stands for, divided by their number.
class Means {
 public:
  Means(const Plan& plan, const Result& result) : plan_(plan), result_(result) {
    for (const Rank& rank : plan.workload.ranks) ranks_ += static_cast<double>(rank.count);
  }

  Seconds of(SimTime CategoryTime::*member, StepCategory category) const {
    return over_ranks([&](const RankSummary& rank) {
      SimTime sum;
      for (const std::size_t place : with_messages(rank, category)) {
        // Lanes run side by side: the first one's time is the collective's.
        const bool beside = place >= 2 * kStepCategoryNames.size();
        if (!beside || member != &CategoryTime::busy) sum += rank.by_category[place].*member;
      }
      return to_seconds(sum);
    });
  }
  Seconds idle() const {
    return over_ranks([](const RankSummary& rank) { return to_seconds(rank.idle); });
  }
  Bytes sent(StepCategory category) const {
    double sum = 0;
    for (std::size_t i = 0; i < result_.ranks.size(); ++i) {
      for (const std::size_t place : with_messages(result_.ranks[i], category)) {
        sum += weight(i) * result_.ranks[i].bytes_by_category[place];
      }
    }
    return bytes(sum);
  }
  std::uint64_t calls(StepCategory category) const {
    std::uint64_t most = 0;
    for (const RankSummary& rank : result_.ranks) {
      most = std::max(most, rank.ops_by_category[static_cast<std::size_t>(category)]);
    }
    return most;
  }

 private:
  double weight(std::size_t row) const {
    return static_cast<double>(plan_.workload.ranks[row].count) / ranks_;
  }
  Seconds over_ranks(auto value) const {
    Seconds sum;
    for (std::size_t i = 0; i < result_.ranks.size(); ++i) {
      sum += weight(i) * value(result_.ranks[i]);
    }
    return sum;
  }

  const Plan& plan_;
  const Result& result_;
  double ranks_ = 0;
};

Evidence evidence_of(const Plan& plan, StepCategory category) {
  return plan.evidence[static_cast<std::size_t>(category)];
}

std::vector<TimeShare> breakdown(const Plan& plan, const Means& means) {
  using enum StepCategory;
  const auto exposed = [&means](StepCategory c) { return means.of(&CategoryTime::exposed, c); };
  const auto waiting = [&means](StepCategory c) { return means.of(&CategoryTime::waiting, c); };
  const auto line = [&plan](std::string name, Seconds time, StepCategory category) {
    return TimeShare{std::move(name), time, evidence_of(plan, category)};
  };
  const auto busy = [&](std::string name, StepCategory category) {
    return line(std::move(name), means.of(&CategoryTime::busy, category), category);
  };
  std::vector<TimeShare> shares{
      busy("forward", forward),
      busy("backward", backward),
      busy("recompute", recompute),
      busy("optimizer", optimizer),
      busy("waiting for the host", overhead),
      line("exposed tensor parallel", exposed(tensor), tensor),
      line("exposed context parallel", exposed(context), context),
      line("exposed expert parallel", exposed(expert), expert),
      line("exposed pipeline parallel", exposed(pipeline), pipeline),
      line("exposed gradient reduction", exposed(gradient), gradient),
      line("exposed parameter gather", exposed(parameter), parameter),
      line("exposed synchronization", exposed(synchronize), synchronize),
      line("exposed offload", exposed(offload), offload),
      line("exposed activation offload", exposed(activation), activation),
  };
  // Standing still since another stage has not got there: the pipeline's fill and drain, unequal
  // stages, and the wait for the slowest at the gradient norm.
  const Seconds bubble = waiting(pipeline) + waiting(synchronize) + means.idle();
  shares.push_back({"pipeline bubble", bubble,
                    weakest(evidence_of(plan, forward), evidence_of(plan, backward))});
  const Seconds others =
      waiting(tensor) + waiting(context) + waiting(expert) + waiting(gradient) + waiting(parameter);
  shares.push_back({"waiting for other ranks", others, evidence_of(plan, forward)});
  std::erase_if(shares, [](const TimeShare& share) { return share.time == seconds(0); });
  return shares;
}

/// The slowest communicator of a kind over all stages.
const GroupFacts* facts_of(const Plan& plan, StepGroup slot) {
  const GroupFacts* slowest = nullptr;
  for (const auto& slots : plan.facts) {
    const GroupFacts& facts = slots[static_cast<std::size_t>(slot)];
    if (facts.ranks == 1) continue;  // no such group
    if (slowest == nullptr || facts.slowest > slowest->slowest) slowest = &facts;
  }
  return slowest;
}

struct CommunicationLine {
  std::string_view name;
  StepCategory category;
  StepGroup slot;
  StepGroup instead;  // where the rank has no group of that slot
};

std::vector<CommunicationShare> communication(const Plan& plan, const Means& means) {
  constexpr std::array<CommunicationLine, 7> kLines{{
      {"tensor parallel", StepCategory::tensor, StepGroup::tensor, StepGroup::tensor},
      {"context parallel", StepCategory::context, StepGroup::context, StepGroup::context},
      {"expert parallel", StepCategory::expert, StepGroup::expert, StepGroup::expert_tensor},
      {"pipeline parallel", StepCategory::pipeline, StepGroup::forward_next,
       StepGroup::forward_next},
      {"gradient reduction", StepCategory::gradient, StepGroup::data, StepGroup::expert_data},
      {"parameter gather", StepCategory::parameter, StepGroup::data, StepGroup::expert_data},
      {"synchronization", StepCategory::synchronize, StepGroup::world, StepGroup::world},
  }};
  std::vector<CommunicationShare> shares;
  for (const CommunicationLine& line : kLines) {
    const std::uint64_t calls = means.calls(line.category);
    const GroupFacts* facts = facts_of(plan, line.slot);
    if (facts == nullptr) facts = facts_of(plan, line.instead);
    if (calls == 0 || facts == nullptr) continue;
    CommunicationShare share{.name = std::string(line.name),
                             .sent = means.sent(line.category),
                             .calls = calls,
                             .transfer = means.of(&CategoryTime::busy, line.category),
                             .exposed = means.of(&CategoryTime::exposed, line.category),
                             .waiting = means.of(&CategoryTime::waiting, line.category),
                             .shape = facts->shape,
                             .slowest_link = std::string(to_text(facts->slowest)),
                             .evidence = evidence_of(plan, line.category)};
    if (share.transfer > seconds(0)) {
      share.bus_bandwidth_gb = to_gigabytes_per_second(share.sent / share.transfer);
    }
    shares.push_back(std::move(share));
  }
  return shares;
}

// The lines of the communication table that groups of a slot carry.
Seconds cost_of(const GroupPlacement& placement, const Means& means) {
  const auto saved = [&](StepCategory category) {
    const Seconds transfer = means.of(&CategoryTime::busy, category);
    return std::min(means.of(&CategoryTime::exposed, category),
                    (1 - placement.together / placement.inside) * transfer);
  };
  if (placement.slot == StepGroup::tensor) return saved(StepCategory::tensor);
  if (placement.slot == StepGroup::context) return saved(StepCategory::context);
  if (placement.slot == StepGroup::expert) return saved(StepCategory::expert);
  if (placement.slot == StepGroup::forward_next) return saved(StepCategory::pipeline);
  return saved(StepCategory::gradient) + saved(StepCategory::parameter);
}

std::vector<GroupPlacement> placements(const Job& job, const Cluster& cluster, const Means& means) {
  std::vector<GroupPlacement> all = group_placements(job, cluster);
  for (GroupPlacement& placement : all) {
    if (!placement.warning.empty()) placement.cost = cost_of(placement, means);
  }
  return all;
}

StageMemory stage_memory(const MemoryPeak& peak, int stage) {
  const auto pool = [&peak](MemoryPool p) {
    return bytes(static_cast<double>(peak.by_pool[static_cast<std::size_t>(p)]));
  };
  const Bytes activations = pool(MemoryPool::activations);
  return {.stage = stage,
          .layers = 0,
          .parameters = pool(MemoryPool::parameters),
          .gradients = pool(MemoryPool::gradients),
          .optimizer = pool(MemoryPool::optimizer),
          .activations = activations,
          .buffers = pool(MemoryPool::buffers),
          .margin = kContextMargin + kFragmentation * activations};
}

/// The most of its GPU comes last.
bool less_full(const StepReport& report, const StageMemory& a, const StageMemory& b) {
  const Bytes device = report.device_of(a);
  const Bytes other = report.device_of(b);
  if (device == other) return a.reserved() < b.reserved();
  return a.reserved() / device < b.reserved() / other;
}

void fill_memory(StepReport& report, const Cluster& cluster, const Plan& plan, const Result& result,
                 const Layout& layout) {
  const PipelineShape pipeline{placement_of(layout.schedule), layout.grid.pp, layout.vpp};
  report.memory.resize(static_cast<std::size_t>(layout.grid.pp));
  for (std::size_t row = 0; row < result.ranks.size(); ++row) {
    const std::size_t program = index_of(plan.workload.ranks[row].program);
    StageMemory memory = stage_memory(result.ranks[row].memory, plan.stage_of[program]);
    if (const int kind = plan.kind_of[program]; kind != 0) {
      memory.gpu = cluster.system_of_kind(kind).gpu.name;
      memory.device = cluster.system_of_kind(kind).gpu.memory;
    }
    StageMemory& fullest = report.memory[static_cast<std::size_t>(memory.stage)];
    if (less_full(report, fullest, memory)) fullest = memory;
  }
  for (int rank = 0; rank < layout.grid.pp; ++rank) {
    for (int chunk = 0; chunk < layout.vpp; ++chunk) {
      const int stage = stage_of(pipeline, {.rank = rank, .chunk = chunk});
      report.memory[static_cast<std::size_t>(rank)].layers +=
          plan.stages[static_cast<std::size_t>(stage)].layers;
    }
  }
  const auto fullest = std::ranges::max_element(
      report.memory,
      [&report](const StageMemory& a, const StageMemory& b) { return less_full(report, a, b); });
  report.fullest_stage = fullest->stage;
  report.fits = fullest->reserved() <= report.device_of(*fullest);
}

/// Of one GPU, in the mean.
FlopsPerSecond peak_of(const Job& job, const Cluster& cluster) {
  const auto peak = [&](int kind) {
    const auto found = cluster.system_of_kind(kind).gpu.peak(job.training.precision);
    FLOPCAST_CHECK(found.has_value(), "the reader refuses a precision that a GPU does not have");
    return *found;
  };
  if (cluster.spec().others.empty()) return peak(0);
  FlopsPerSecond sum;
  const int ranks = job.layout.grid.world();
  for (int rank = 0; rank < ranks; ++rank) sum += peak(cluster.kind_of(static_cast<GpuId>(rank)));
  return sum / ranks;
}

/// Ranks of a stage keep as much there as each other.
std::optional<HostMemory> host_memory(const Job& job, const Cluster& cluster, const Plan& plan) {
  if (!job.training.copies_to_host()) return std::nullopt;
  std::vector<HostBytes> of_stage(static_cast<std::size_t>(job.layout.grid.pp));
  for (std::size_t program = 0; program < plan.host.size(); ++program) {
    of_stage[static_cast<std::size_t>(plan.stage_of[program])] = plan.host[program];
  }
  std::vector<HostBytes> nodes(static_cast<std::size_t>(cluster.spec().nodes));
  const std::vector<int> stage_of = stage_of_ranks(job.layout.grid);
  for (std::size_t rank = 0; rank < stage_of.size(); ++rank) {
    const HostBytes& host = of_stage[static_cast<std::size_t>(stage_of[rank])];
    HostBytes& node = nodes[static_cast<std::size_t>(cluster.node_of(static_cast<GpuId>(rank)))];
    node.optimizer += host.optimizer;
    node.activations += host.activations;
  }
  const HostBytes fullest = *std::ranges::max_element(nodes, {}, &HostBytes::total);
  return HostMemory{.optimizer = bytes(static_cast<double>(fullest.optimizer)),
                    .activations = bytes(static_cast<double>(fullest.activations)),
                    .size = cluster.spec().system.host_memory_size};
}

std::string routing_text(const TokenRouting& routing) {
  switch (routing.kind) {
    case RoutingKind::balanced: return "balanced";
    case RoutingKind::zipf: return "zipf " + std::to_string(exponent_now(routing)).substr(0, 4);
    case RoutingKind::measured: return "measured";
  }
  return {};
}

/// Dispatch, combine and their gradients, of the layers of one pipeline rank in the mean.
std::optional<RoutingShare> routing_share(const Job& job, const Plan& plan, const Means& means) {
  if (!plan.routing) return std::nullopt;
  const Transformer& model = job.model;
  std::int64_t layers = model.has_experts(model.layers - 1) ? model.mtp_layers : 0;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) layers += model.has_experts(layer);
  const OperatorContext context{model, job.layout, job.training, plan.padded_vocab};
  const std::int64_t rows = context.sharded_tokens() * model.moe->top_k * layers *
                            micro_batches(job.layout, job.training.batch);
  const double elements = 4.0 * static_cast<double>(rows * model.hidden) / job.layout.grid.pp;
  return RoutingShare{.kind = routing_text(job.training.routing),
                      .summary = *plan.routing,
                      .routed = elements * element_size(job.training.parameter_dtype),
                      .sent = means.sent(StepCategory::expert)};
}

}  // namespace

StepReport step_report(const Job& job, const Cluster& cluster, const Plan& plan,
                       const Result& result) {
  const BatchShape& batch = job.training.batch;
  const Means means(plan, result);
  StepReport report;
  report.gpus = job.layout.grid.world();
  report.micro_batches = micro_batches(job.layout, batch);
  report.tokens = batch.global_batch * batch.sequence;
  report.parameters = parameter_count(job.model).total;
  report.schedule = schedule_name(job.layout.schedule);

  report.step = to_seconds(result.makespan);
  report.evidence = *std::ranges::min_element(plan.evidence);
  report.tokens_per_second = static_cast<double>(report.tokens) / report.step.value;
  report.tokens_per_second_per_gpu = report.tokens_per_second / report.gpus;
  report.peak_dtype = job.training.precision;
  report.peak = peak_of(job, cluster);
  report = in_convention(std::move(report), job, FlopConvention::megatron);
  report.hardware_flops = report.model_flops + plan.recomputed;
  report.hfu = report.hardware_flops / report.step / report.gpus / report.peak;

  report.breakdown = breakdown(plan, means);
  report.communication = communication(plan, means);
  report.placement = placements(job, cluster, means);
  report.routing = routing_share(job, plan, means);
  report.device_memory = cluster.spec().system.gpu.memory;
  fill_memory(report, cluster, plan, result, job.layout);
  report.host = host_memory(job, cluster, plan);
  report.fits = report.fits && (!report.host || report.host->fits());

  report.simulated_ranks = result.ranks.size();
  for (const Rank& rank : plan.workload.ranks) report.represented_ranks += rank.count;
  report.events = result.events;
  return report;
}

StepReport in_convention(StepReport report, const Job& job, FlopConvention convention) {
  const BatchShape& batch = job.training.batch;
  const auto vocab =
      padded_vocab(job.model.vocab, job.training.framework.vocab_divisor, job.layout.grid.tp);
  report.convention = convention;
  report.model_flops = model_flops(job.model,
                                   {.sequence = batch.sequence,
                                    .global_batch = batch.global_batch,
                                    .padded_vocab = vocab,
                                    .attended = job.training.attended(),
                                    .frozen = job.training.adapters.has_value()},
                                   convention);
  report.model_flops_per_gpu = report.model_flops / report.step / report.gpus;
  report.mfu = report.model_flops_per_gpu / report.peak;
  return report;
}

}  // namespace flopcast
