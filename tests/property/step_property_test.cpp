#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "models/layer_operators.h"
#include "models/model_flops.h"
#include "models/parameters.h"
#include "random_job.h"
#include "sim/engine.h"

// What holds for the step of any legal job.

using namespace flopcast;
using namespace flopcast::test;

namespace {

constexpr std::uint64_t kSeed = 20240611;
constexpr int kJobs = 400;

std::size_t row(StepCategory category) { return static_cast<std::size_t>(category); }
std::size_t row(MemoryPool pool) { return static_cast<std::size_t>(pool); }

std::string described(const RandomJob& c) {
  const Layout& l = c.job.layout;
  const BatchShape& b = c.job.training.batch;
  return "tp " + std::to_string(l.grid.tp) + " cp " + std::to_string(l.grid.cp) + " ep " +
         std::to_string(l.grid.ep) + " etp " + std::to_string(l.grid.etp) + " experts " +
         std::to_string(c.job.model.moe ? c.job.model.moe->experts : 0) + " dp " +
         std::to_string(l.grid.dp) + " pp " + std::to_string(l.grid.pp) + " vpp " +
         std::to_string(l.vpp) + " zero " + std::to_string(l.zero) + " sp " +
         std::to_string(l.sequence_parallel) + " layers " + std::to_string(c.job.model.layers) +
         " sequence " + std::to_string(b.sequence) + " global batch " +
         std::to_string(b.global_batch) + ", " + c.job.training.framework.name;
}

/// Runs `check` on every legal job of a sequence that the seed decides.
template <class Check>
void for_random_jobs(std::uint64_t seed, Check check) {
  Generator random(seed);
  int jobs = 0;
  while (jobs < kJobs) {
    const auto c = random_job(random);
    if (!c) continue;
    ++jobs;
    INFO("seed " << seed << ", job " << jobs << ": " << described(*c));
    check(*c);
  }
}

Result simulate(const RandomJob& c, TimelineSink* sink = nullptr) {
  return run(lower(c.job, Cluster(c.cluster), c.profile).workload, sink);
}

void check_accounting(const Result& result) {
  for (const RankSummary& rank : result.ranks) {
    SimTime sum = rank.compute_busy + rank.idle;
    for (const CategoryTime& time : rank.by_category) sum += time.exposed + time.waiting;
    REQUIRE(sum == result.makespan);
    const auto& pools = rank.memory.by_pool;
    REQUIRE(std::accumulate(pools.begin(), pools.end(), std::int64_t{0}) == rank.memory.total);
  }
  for (const LinkSummary& link : result.links) REQUIRE(link.peak_use <= 1 + 1e-9);
}

/// Activations are all released; the rest stays, but for what ZeRO-2 and 3 hold unsharded and for
/// gradients that exist from their reduction to the optimizer step.
void check_memory_at_end(const Job& job, const Result& result, const TimelineBuffer& timeline) {
  std::vector<std::int64_t> last(result.ranks.size());
  for (const MemorySample& sample : timeline.memory) last[index_of(sample.rank)] = sample.bytes;
  for (std::size_t r = 0; r < last.size(); ++r) {
    const auto& peaks = result.ranks[r].memory.pool_peak;
    const auto all = std::accumulate(peaks.begin(), peaks.end(), std::int64_t{0});
    REQUIRE(peaks[row(MemoryPool::activations)] > 0);
    const std::int64_t rest = all - peaks[row(MemoryPool::activations)];
    if (job.layout.zero < 2) {
      REQUIRE(last[r] == rest);
    } else {
      const bool passes = job.layout.zero == 3 && job.training.framework.keeps_fp32_parameters;
      const auto kept = peaks[row(MemoryPool::parameters)] + peaks[row(MemoryPool::optimizer)] +
                        (passes ? 0 : peaks[row(MemoryPool::gradients)]);
      REQUIRE(last[r] >= kept);
      REQUIRE(last[r] <= rest);
    }
  }
}

/// Whether experts' gradients are reduced over other ranks than the rest.
bool experts_apart(const Job& job) {
  const ParallelGrid& grid = job.layout.grid;
  return job.model.moe && (grid.ep > 1 || grid.etp != grid.tp);
}

/// Gradients and parameters travel in as many bytes as one rank holds, padded by less than 1 % or
/// 64 KB. Each of the two kinds of parameters over its own ranks.
void check_reduced_bytes(const RandomJob& c, const RankSummary& rank) {
  const ParallelGrid& grid = c.job.layout.grid;
  const double element = element_size(c.job.training.gradient_dtype).value;
  const double held = static_cast<double>(rank.memory.pool_peak[row(MemoryPool::gradients)]);
  const bool scatters = c.job.layout.zero > 0 && !c.job.training.framework.zero_all_reduces;
  const auto ring = [scatters](int ranks) { return (scatters ? 1 : 2) * (ranks - 1.0) / ranks; };
  const int copies = model_copies(c.job.layout.schedule);
  const double dense = ring(copies * grid.dp * grid.cp);
  const double experts = experts_apart(c.job) ? ring(copies * grid.edp()) : dense;
  const double sent = rank.bytes_by_category[row(StepCategory::gradient)];
  REQUIRE(sent >= std::min(dense, experts) * held * (1 - 1e-12));
  // At most 63 elements before each tensor and lcm(3, 128) - 1 at the end of each bucket.
  const auto calls = static_cast<double>(rank.ops_by_category[row(StepCategory::gradient)]);
  const double gaps = 64 * (20 + 16) * 12 + 384.0 * calls;
  REQUIRE(sent <= std::max(dense, experts) * (held + gaps * element) * (1 + 1e-12));
}

/// Under ZeRO-2 and 3 each reduction sends the gradients of the whole rank, as often as the
/// framework says, and ZeRO-3 gathers them once or twice for each micro-batch. Shards are padded.
void check_sharded_bytes(const RandomJob& c, const RankSummary& rank) {
  const Layout& layout = c.job.layout;
  const Training& training = c.job.training;
  if (experts_apart(c.job) || layout.shard > 0 || layout.grid.pp > 1) return;
  const double ranks = layout.grid.dp * layout.grid.cp;
  const bool fp32 = layout.zero == 3 && training.framework.keeps_fp32_parameters;
  const double stored = fp32 ? 4 : element_size(training.parameter_dtype).value;
  const auto held = static_cast<double>(rank.memory.pool_peak[row(MemoryPool::parameters)]);
  const double elements = held / stored * (layout.zero == 3 ? ranks : 1);
  const double ring = (ranks - 1) / ranks;
  const auto m = static_cast<double>(micro_batches(layout, training.batch));
  const bool all_reduces = layout.zero == 2 && training.framework.zero_all_reduces;
  const double reductions =
      (training.framework.reduces_each_micro_batch ? m : 1) * (all_reduces ? 2 : 1);
  const double gradients = ring * elements * element_size(training.gradient_dtype).value;
  const double sent = rank.bytes_by_category[row(StepCategory::gradient)];
  const double most = layout.zero == 3 ? 1.1 : 1.3;  // tiny tensors, wide padding
  REQUIRE(sent >= reductions * gradients * (1 - 1e-6));
  REQUIRE(sent <= reductions * gradients * most + 1e6);
  const double gathered = rank.bytes_by_category[row(StepCategory::parameter)];
  const double parameters = ring * elements * element_size(training.parameter_dtype).value;
  const double times = layout.zero == 3 ? 2 * m : 1;
  REQUIRE(gathered <= times * parameters * most + 1e6);
  REQUIRE(gathered >= parameters * (1 - 1e-6));
}

/// Dispatch, combine and their gradients in every layer with experts, two more where the layer
/// is recomputed; of what is sent (n - 1) / n leaves, at each level of exchanges that have two.
/// Balanced routing, nothing dropped.
double routed_bytes(const Job& job, const Plan& plan) {
  const OperatorContext context{job.model, job.layout, job.training, plan.padded_vocab};
  const double buffer =
      static_cast<double>(context.sharded_tokens() * job.model.moe->top_k * job.model.hidden * 2);
  const auto leaves = [](double ranks) { return (ranks - 1) / ranks; };
  const int inner = job.layout.expert_inner;
  const double sent = job.layout.dispatcher == TokenDispatcher::hierarchical
                          ? leaves(inner) + leaves(job.layout.grid.ep / inner)
                          : leaves(job.layout.grid.ep);
  double exchanges = 0;
  for (const StageContent& stage : plan.stages) {
    for (std::int64_t i = 0; i < stage.layers; ++i) {
      if (!job.model.has_experts(stage.first_layer + i)) continue;
      exchanges += fully_recomputed(job.training.recompute, i) ? 6 : 4;
    }
  }
  return exchanges * buffer * sent *
         static_cast<double>(micro_batches(job.layout, job.training.batch));
}

/// Between stages that lie on different ranks.
int hops_of(const Layout& layout) {
  const PipelineShape pipeline{placement_of(layout.schedule), layout.grid.pp, layout.vpp};
  int hops = 0;
  StagePlace place{};
  while (const auto next = next_place(pipeline, place)) {
    hops += next->rank == place.rank ? 0 : 1;
    place = *next;
  }
  return hops;
}

/// A dimension of size one sends nothing; stages pass each micro-batch on once each way.
void check_bytes(const RandomJob& c, const Plan& plan, const Result& result) {
  const ParallelGrid& grid = c.job.layout.grid;
  const auto calls = [](const RankSummary& rank, StepCategory category) {
    return rank.ops_by_category[row(category)];
  };
  const int copies = model_copies(c.job.layout.schedule);
  const bool reduces =
      copies * grid.dp * grid.cp > 1 || (experts_apart(c.job) && copies * grid.edp() > 1);
  double hops = 0;
  double routed = 0;
  for (const RankSummary& rank : result.ranks) {
    if (grid.tp == 1) REQUIRE(calls(rank, StepCategory::tensor) == 0);
    if (grid.cp == 1) REQUIRE(calls(rank, StepCategory::context) == 0);
    if (grid.pp == 1) REQUIRE(calls(rank, StepCategory::pipeline) == 0);
    if (!reduces) REQUIRE(calls(rank, StepCategory::gradient) == 0);
    if (!reduces || c.job.layout.zero == 0) {
      REQUIRE(calls(rank, StepCategory::parameter) == 0);
    } else if (c.job.layout.zero == 1) {
      REQUIRE(calls(rank, StepCategory::parameter) == calls(rank, StepCategory::gradient));
    }
    hops += rank.bytes_by_category[row(StepCategory::pipeline)];
    routed += rank.bytes_by_category[row(StepCategory::expert)];
    if (reduces && c.job.layout.zero < 2) check_reduced_bytes(c, rank);
    if (reduces && c.job.layout.zero >= 2) check_sharded_bytes(c, rank);
  }
  if (grid.ep * grid.etp == 1) REQUIRE(routed == 0);
  if (grid.ep > 1 && grid.etp == 1) {
    // Beside the tokens their counts: an int64 for each expert.
    const double tokens = routed_bytes(c.job, plan);
    REQUIRE(routed >= tokens * (1 - 1e-12));
    REQUIRE(routed <= tokens * 1.1);
  }
  const OperatorContext context{c.job.model, c.job.layout, c.job.training, plan.padded_vocab};
  const double messages = 2.0 * hops_of(c.job.layout) *
                          static_cast<double>(micro_batches(c.job.layout, c.job.training.batch));
  REQUIRE(hops == Approx(grid.pp == 1 ? 0 : messages * pipeline_hop_size(context).value));
}

/// Forward FLOPs of core attention over the full square of scores, whole job.
double attention_forward(const Job& job) {
  const Transformer& model = job.model;
  return 2.0 * static_cast<double>(job.training.batch.global_batch * model.layers) *
         static_cast<double>(model.heads * (model.qk_dim() + model.v_dim())) *
         static_cast<double>(job.training.batch.sequence * job.training.batch.sequence);
}

/// Forward work of one layer beside core attention, by its weights: two FLOPs for each weight that
/// a token meets. Without sequence parallelism the down projections of latent attention are done
/// by every tensor-parallel rank.
double layer_work(const Job& job, std::int64_t layer) {
  const Transformer& model = job.model;
  double weights = 0;
  for (const ParameterTensor& tensor : layer_parameters(model, layer)) {
    if (tensor.name.find("weight") == std::string::npos) continue;
    const bool norm = tensor.name.find("norm") != std::string::npos;
    const bool repeated = tensor.shard == Shard::replicated && !job.layout.sequence_parallel;
    double each = norm ? 0 : static_cast<double>(tensor.elements);
    if (tensor.shard == Shard::expert) {
      each *= static_cast<double>(model.moe->top_k) / static_cast<double>(model.moe->experts);
    }
    weights += each * (repeated ? job.layout.grid.tp : 1);
  }
  return 2 * weights *
         static_cast<double>(job.training.batch.sequence * job.training.batch.global_batch);
}

struct LayerSums {
  double all = 0;
  double recomputed = 0;  // of layers recomputed in full
};

/// The second product of a dense layer, where recompute stops before it.
double left_out(const Job& job, std::int64_t layer) {
  if (!job.training.framework.recompute_stops_early || job.model.has_experts(layer)) return 0;
  const BatchShape& batch = job.training.batch;
  return 2.0 * static_cast<double>(job.model.ffn * job.model.hidden) *
         static_cast<double>(batch.sequence * batch.global_batch);
}

LayerSums layer_sums(const Job& job, const Plan& plan, double attention) {
  LayerSums sums;
  for (const StageContent& stage : plan.stages) {
    for (std::int64_t i = 0; i < stage.layers; ++i) {
      const double work = layer_work(job, stage.first_layer + i);
      sums.all += work;
      if (fully_recomputed(job.training.recompute, i)) {
        sums.recomputed += work + attention / static_cast<double>(job.model.layers) -
                           left_out(job, stage.first_layer + i);
      }
    }
  }
  return sums;
}

/// The work of all weights, the scores that fused attention computes again in its backward pass,
/// and what is recomputed. For a plain dense model that is what Megatron counts.
void check_flops(const Job& job, const Plan& plan) {
  const BatchShape& batch = job.training.batch;
  const bool fused = job.training.framework.fused_attention;
  const double attention = attention_forward(job) * (fused ? 0.5 : 1);
  const LayerSums layers = layer_sums(job, plan, attention);
  const double head = 2.0 * static_cast<double>(job.model.hidden * plan.padded_vocab) *
                      static_cast<double>(batch.sequence * batch.global_batch);
  const double model = 3 * (layers.all + attention + head);
  if (!job.model.moe && !job.model.mla) {
    const auto convention = fused ? FlopConvention::megatron : FlopConvention::megatron_full;
    REQUIRE(model == Approx(model_flops(job.model, batch.sequence, batch.global_batch,
                                        plan.padded_vocab, convention)
                                .value)
                         .epsilon(1e-9));
  }
  double again = 0;
  switch (job.training.recompute.kind) {
    case RecomputeKind::none: break;
    case RecomputeKind::selective: again = attention; break;
    case RecomputeKind::full: again = layers.recomputed; break;
    case RecomputeKind::every_other_matmul: {
      // Keys, output of attention and one of the two products of the gated MLP.
      const Transformer& m = job.model;
      again = 2.0 * static_cast<double>(m.kv_width() + m.query_width() + m.ffn) *
              static_cast<double>(m.hidden * m.layers) *
              static_cast<double>(batch.sequence * batch.global_batch);
      break;
    }
  }
  if (job.training.loss_chunks > 1) again += head;
  REQUIRE(plan.recomputed.value == Approx(again).epsilon(1e-9));
  REQUIRE(plan.executed.value ==
          Approx(model + again + (fused ? 0.5 * attention : 0)).epsilon(1e-9));
}

RandomJob faster_links(RandomJob c, double factor) {
  c.cluster.system.gpu.nvlink = factor * c.cluster.system.gpu.nvlink;
  c.cluster.system.gpu.pcie = factor * c.cluster.system.gpu.pcie;
  c.cluster.system.nic_bandwidth = factor * c.cluster.system.nic_bandwidth;
  for (FabricGraph::Cable& cable : c.cluster.fabric.graph.cables) {
    cable.bandwidth = factor * cable.bandwidth;
  }
  return c;
}

/// Everything takes 1/factor of the time, latencies as well.
RandomJob faster_in_all(const RandomJob& from, double factor) {
  RandomJob c = faster_links(from, factor);
  Profile& p = c.profile;
  const auto shrink = [factor](Seconds& time) { time = time / factor; };
  for (auto& peak : p.peak_dense) {
    if (peak) peak = factor * *peak;
  }
  p.memory_bandwidth = factor * p.memory_bandwidth;
  for (auto& gemm : p.gemm) {
    if (gemm) shrink(gemm->t0);
  }
  for (AttentionCurve& curve : p.attention) shrink(curve.t0);
  for (MemoryCurve& curve : p.memory) shrink(curve.t0);
  NetworkModel& n = p.network;
  std::vector<TierParameters*> tiers{&n.domain,         &n.network, &n.tree,        &n.direct,
                                     &n.direct_network, &n.pair,    &n.pair_network};
  if (n.switch_reduction) {
    tiers.push_back(&n.switch_reduction->domain);
    tiers.push_back(&n.switch_reduction->tree);
  }
  for (TierParameters* tier : tiers) {
    shrink(tier->base);
    shrink(tier->hop);
  }
  shrink(c.cluster.fabric.hop_latency);
  for (FabricGraph::Cable& cable : c.cluster.fabric.graph.cables) shrink(cable.latency);
  shrink(c.job.training.framework.host_per_operator);
  shrink(c.job.training.framework.host_per_expert_product);
  shrink(c.job.training.framework.step_overhead);
  return c;
}

}  // namespace

TEST_CASE("the step of any legal job adds up") {
  for_random_jobs(kSeed, [](const RandomJob& c) {
    const Plan plan = lower(c.job, Cluster(c.cluster), c.profile);
    TimelineBuffer timeline;
    const Result result = run(plan.workload, &timeline);
    check_accounting(result);
    check_memory_at_end(c.job, result, timeline);
    check_bytes(c, plan, result);
    check_flops(c.job, plan);
    const auto world = static_cast<std::uint64_t>(c.job.layout.grid.world());
    std::uint64_t represented = 0;
    for (const Rank& rank : plan.workload.ranks) represented += rank.count;
    REQUIRE(represented == world);
  });
}

TEST_CASE("a machine that is twice as fast in all takes half the time") {
  for_random_jobs(kSeed + 1, [](const RandomJob& c) {
    const Seconds time = to_seconds(simulate(c).makespan);
    const Seconds faster = to_seconds(simulate(faster_in_all(c, 2)).makespan);
    REQUIRE(faster / time == Approx(0.5).epsilon(1e-6));
  });
}

// With one dimension of communication no two transfers ever share a link, so that none can be
// slowed down by another that a faster link brought forward.
TEST_CASE("faster links never slow down a lone dimension of communication") {
  for_random_jobs(kSeed + 2, [](const RandomJob& from) {
    RandomJob c = from;
    ParallelGrid& grid = c.job.layout.grid;
    (grid.tp > 1 ? grid.dp : grid.tp) = 1;
    grid.cp = grid.ep = 1;
    grid.etp = grid.tp;
    grid.pp = c.job.layout.vpp = 1;
    c.job.layout.schedule = ScheduleKind::one_f_one_b;
    if (!layout_is_legal(c.job.model, c.job.layout, c.job.training.batch, grid.world())) return;
    c.profile.network.compute_share = {};
    const SimTime slow = simulate(c).makespan;
    const SimTime fast = simulate(faster_links(c, 1.5)).makespan;
    REQUIRE(fast.picoseconds <= slow.picoseconds + slow.picoseconds / 1'000'000'000 + 1000);
  });
}
