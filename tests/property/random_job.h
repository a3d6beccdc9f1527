#pragma once

// Random small training jobs that the frameworks would accept.

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "generator.h"
#include "models/lower.h"
#include "models/pipeline_schedule.h"
#include "topology/cluster.h"

namespace flopcast::test {

struct RandomJob {
  Job job;
  ClusterSpec cluster;
  Profile profile;
  std::vector<Profile> others{};  // of the cluster's other nodes
};

template <class T, std::size_t N>
T one_of(Generator& random, const std::array<T, N>& choices) {
  return choices[random.below(N)];
}

inline Transformer random_model(Generator& random) {
  Transformer model;
  model.layers = one_of(random, std::array{1, 2, 4, 6, 8, 12});
  model.head_dim = one_of(random, std::array{16, 32, 64});
  model.heads = one_of(random, std::array{4, 8, 12});
  model.kv_heads = random.chance(0.5) ? model.heads : model.heads / 2;
  model.hidden = model.heads * model.head_dim;
  model.ffn = one_of(random, std::array{64, 192, 256}) * model.heads;
  model.vocab = static_cast<std::int64_t>(random.between(100, 5000));
  model.gated_mlp = random.chance(0.5);
  model.tied_embeddings = random.chance(0.5);
  model.dropout = random.chance(0.3);
  model.norm = random.chance(0.5) ? NormKind::rms_norm : NormKind::layer_norm;
  model.qkv_bias = model.mlp_bias = random.chance(0.3);
  if (random.chance(0.3)) {
    model.positions = PositionKind::learned;
    model.max_positions = 1024;
  }
  if (random.chance(0.2)) {
    model.mla = LatentAttention{.q_rank = random.chance(0.5) ? 48 : 0,
                                .kv_rank = 32,
                                .qk_nope_dim = 32,
                                .qk_rope_dim = 16,
                                .v_dim = 32};
  }
  if (random.chance(0.4)) {
    model.moe = MixtureOfExperts{.experts = one_of(random, std::array{4, 8}),
                                 .top_k = one_of(random, std::array{1, 2, 4}),
                                 .expert_ffn = one_of(random, std::array{64, 128}),
                                 .shared_ffn = random.chance(0.5) ? 96 : 0,
                                 .first_dense = one_of(random, std::array{0, 0, 1}),
                                 .every = one_of(random, std::array{1, 1, 2})};
  }
  return model;
}

inline Layout random_layout(Generator& random) {
  Layout layout;
  layout.grid.tp = one_of(random, std::array{1, 1, 2, 4});
  layout.grid.dp = one_of(random, std::array{1, 2, 3, 4});
  layout.grid.pp = one_of(random, std::array{1, 1, 2, 3, 4});
  if (random.chance(0.3)) layout.grid.cp = one_of(random, std::array{2, 2, 4});
  if (random.chance(0.4)) layout.grid.ep = one_of(random, std::array{2, 4});
  layout.grid.etp = random.chance(0.5) ? layout.grid.tp : 1;
  layout.context = one_of(
      random, std::array{ContextKind::ring, ContextKind::all_gather, ContextKind::all_to_all});
  if (layout.grid.cp == 4 && random.chance(0.5)) {
    layout.context = ContextKind::exchange_and_ring;
    layout.context_exchange = 2;
  }
  if (layout.grid.ep == 4 && random.chance(0.5)) {
    layout.dispatcher = TokenDispatcher::hierarchical;
    layout.expert_inner = 2;
  }
  layout.sequence_parallel = random.chance(0.5);
  layout.zero = random.chance(0.5) ? 1 : 0;
  constexpr auto kLast = static_cast<std::uint64_t>(ScheduleKind::dualpipe_v);
  layout.schedule = static_cast<ScheduleKind>(random.below(kLast + 1));
  const ChunkRange chunks = chunk_range(layout.schedule);
  layout.vpp = std::min(chunks.most, chunks.least + (random.chance(0.3) ? 1 : 0));
  return layout;
}

inline Training random_training(Generator& random, int dp) {
  Training training;
  training.batch.sequence = one_of(random, std::array{64, 256, 1024});
  training.batch.micro_batch = one_of(random, std::array{1, 2});
  training.batch.global_batch =
      training.batch.micro_batch * dp * static_cast<std::int64_t>(random.between(1, 10));
  training.gradient_dtype = random.chance(0.5) ? DataType::fp32 : DataType::bf16;
  training.overlap_grad_reduce = random.chance(0.5);
  training.overlap_param_gather = random.chance(0.5);
  training.tensor_overlap = random.chance(0.3);
  training.overlap_p2p = random.chance(0.5);
  if (random.chance(0.5)) {
    training.bucket = kilobytes(static_cast<double>(random.between(10, 1000)));
  }
  const auto names = framework_names();
  training.framework = *framework_preset(names[random.below(names.size())]);
  training.framework.align_grad_reduce = random.chance(0.5);
  training.framework.fused_attention = random.chance(0.5);
  training.recompute.kind =
      one_of(random, std::array{RecomputeKind::none, RecomputeKind::selective, RecomputeKind::full,
                                RecomputeKind::every_other_matmul});
  if (random.chance(0.3)) training.recompute.layers = 1;
  if (random.chance(0.2)) training.loss_chunks = 4;
  return training;
}

/// What fabrics need that are no tree, for the nodes and cards as they are.
inline void complete_fabric(Generator& random, ClusterSpec& spec) {
  Fabric& fabric = spec.fabric;
  fabric.dimensions.clear();
  int rest = spec.nodes;
  for (const int factor : {2, 3}) {
    if (rest % factor != 0) continue;
    fabric.dimensions.push_back(factor);
    rest /= factor;
  }
  fabric.dimensions.push_back(rest);
  // A ring of switches with one longer cable.
  fabric.graph = {.switches = {"a", "b", "c", "d"}, .cables = {}, .attached = {}};
  for (int i = 0; i < 4; ++i) {
    fabric.graph.cables.push_back({.from = i,
                                   .to = (i + 1) % 4,
                                   .bandwidth = gigabytes_per_second(40),
                                   .latency = microseconds(i == 3 ? 5 : 1)});
  }
  const int nics = std::min(spec.system.nics, spec.system.gpus_per_node);
  for (int i = 0; i < spec.nodes * nics; ++i) fabric.graph.attached.push_back(i % 4);
  fabric.routing = one_of(random, kRoutings);
}

inline ClusterSpec random_cluster(Generator& random, int gpus) {
  ClusterSpec spec;
  System& system = spec.system;
  system.name = system.gpu.name = "random";
  system.gpu.memory = gigabytes(80);
  system.gpu.nvlink = gigabytes_per_second(static_cast<double>(random.between(50, 500)));
  system.gpu.pcie = gigabytes_per_second(64);
  system.gpus_per_node = system.nvlink_domain = one_of(random, std::array{1, 2, 4, 8});
  system.nics = system.gpus_per_node;
  system.nic_bandwidth = gigabytes_per_second(static_cast<double>(random.between(5, 50)));
  spec.nodes = (gpus + system.gpus_per_node - 1) / system.gpus_per_node;
  spec.fabric.kind = one_of(random, kFabricKinds);
  complete_fabric(random, spec);
  return spec;
}

inline Profile random_profile(Generator& random) {
  Profile profile;
  profile.sms = 100;
  profile.memory_bandwidth = gigabytes_per_second(3000);
  const auto bf16 = static_cast<std::size_t>(DataType::bf16);
  profile.peak_dense[bf16] = teraflops_per_second(500 + 500 * random.unit());
  GemmCurve gemm;
  gemm.eff_inf = 0.7;
  gemm.eff_bw = 0.8;
  gemm.t0 = microseconds(2);
  gemm.p = 2;
  profile.gemm[bf16] = gemm;
  for (const auto pass : {AttentionPass::forward, AttentionPass::backward}) {
    AttentionCurve curve;
    curve.pass = pass;
    curve.eff_inf = 0.5;
    curve.s0 = 256;
    curve.t0 = microseconds(5);
    profile.attention.push_back(curve);
  }
  for (MemoryCurve& curve : profile.memory) {
    curve.efficiency = 0.8;
    curve.t0 = microseconds(2 + 2 * random.unit());
  }
  TierParameters tier;
  tier.base = microseconds(10);
  tier.hop = microseconds(1);
  tier.efficiency = 0.8;
  tier.ramp = random.unit();
  NetworkModel& network = profile.network;
  network.domain = network.network = network.tree = network.direct = network.direct_network =
      network.pair = network.pair_network = tier;
  if (random.chance(0.5)) network.switch_reduction = SwitchReduction{tier, tier};
  network.compute_share.domain = network.compute_share.network = 0.2 * random.unit();
  network.compute_share.point_to_point = 0.05 * random.unit();
  return profile;
}

/// ZeRO-2 or 3, under a framework that knows them.
inline void shard_more(Generator& random, Job& job) {
  constexpr std::array<std::string_view, 4> kFrameworks{"fsdp2", "fsdp1", "mosaicml", "deepspeed"};
  job.training.framework = *framework_preset(one_of(random, kFrameworks));
  job.layout.zero = one_of(random, std::array{2, 3, 3});
  job.layout.reshard =
      one_of(random, std::array{Reshard::all_but_last, Reshard::always, Reshard::never});
  if (random.chance(0.3)) job.training.framework.reduces_each_micro_batch = false;
  if (random.chance(0.3)) job.training.framework.gathers_ahead = 2;
  if (job.layout.zero == 3 && random.chance(0.3)) job.layout.shard = job.layout.grid.cp;
  if (job.layout.zero == 3 && random.chance(0.3)) job.layout.reshard_ranks = 2;
}

/// Nothing where the layout drawn is not legal.
inline std::optional<RandomJob> random_job(Generator& random) {
  RandomJob out;
  out.job.model = random_model(random);
  out.job.layout = random_layout(random);
  const ParallelGrid& grid = out.job.layout.grid;
  out.job.training = random_training(random, grid.dp);
  if (random.chance(0.2)) shard_more(random, out.job);
  out.cluster = random_cluster(random, grid.world());
  out.profile = random_profile(random);
  if (!out.job.model.moe) out.job.layout.grid.ep = out.job.layout.grid.etp = 1;
  const bool legal =
      layout_is_legal(out.job.model, out.job.layout, out.job.training.batch, grid.world());
  if (!legal || lowering_gap(out.job) || problem_of(out.cluster)) return std::nullopt;
  return out;
}

}  // namespace flopcast::test
