#pragma once

// A machine whose kernels take stated times whatever their shape, and whose links have no latency
// but the one stated, so that a step can be worked out by hand.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "models/lower.h"
#include "sim/engine.h"
#include "topology/cluster.h"

namespace flopcast::test {

/// Rates of arithmetic and memory so high that they add nothing to the fixed times below.
inline constexpr double kEndless = 1e60;

struct KernelTimes {
  Seconds gemm = microseconds(1);
  Seconds attention_forward = microseconds(2);
  Seconds attention_backward = microseconds(5);
  Seconds elementwise = microseconds(1);
  Seconds norm_forward = microseconds(1);
  Seconds norm_backward = microseconds(1);
  Seconds rotary = microseconds(1);
  Seconds softmax = microseconds(1);
  Seconds embedding = microseconds(1);
  Seconds optimizer = microseconds(1);
  Seconds collective_latency{};
  Seconds hop_latency{};  // of a send between stages
};

/// What takes time is then named by the test alone.
inline KernelTimes no_kernel_times() {
  return {.gemm = {},
          .attention_forward = {},
          .attention_backward = {},
          .elementwise = {},
          .norm_forward = {},
          .norm_backward = {},
          .rotary = {},
          .softmax = {},
          .embedding = {},
          .optimizer = {}};
}

inline MemoryCurve fixed_time(Seconds time) {
  return {.efficiency = 1, .t0 = time, .provenance = {}};
}

inline TierParameters fixed_latency(Seconds latency) {
  return {.base = latency, .hop = {}, .efficiency = 1, .ramp = 0, .provenance = {}};
}

inline Profile simple_profile(const KernelTimes& times) {
  Profile profile;
  profile.name = "simple";
  profile.sms = 1;
  profile.memory_bandwidth = bytes_per_second(kEndless);
  const auto bf16 = static_cast<std::size_t>(DataType::bf16);
  profile.peak_dense[bf16] = flops_per_second(kEndless);
  profile.gemm[bf16] = GemmCurve{.eff_inf = 1,
                                 .eff_bw = 1,
                                 .t0 = times.gemm,
                                 .p = 1,
                                 .eff_quantise_bw = {},
                                 .quantise_traffic = {},
                                 .provenance = {}};
  const auto attention = [&profile](AttentionPass pass, Seconds time) {
    profile.attention.push_back(
        {.pass = pass, .eff_inf = 1, .s0 = 0, .t0 = time, .provenance = {}});
  };
  attention(AttentionPass::forward, times.attention_forward);
  attention(AttentionPass::backward, times.attention_backward);
  const auto memory = [&profile](MemoryKernel kernel, Seconds time) {
    profile.memory[static_cast<std::size_t>(kernel)] = fixed_time(time);
  };
  memory(MemoryKernel::elementwise, times.elementwise);
  memory(MemoryKernel::norm_forward, times.norm_forward);
  memory(MemoryKernel::norm_backward, times.norm_backward);
  memory(MemoryKernel::rotary, times.rotary);
  memory(MemoryKernel::softmax, times.softmax);
  memory(MemoryKernel::embedding, times.embedding);
  memory(MemoryKernel::optimizer, times.optimizer);
  memory(MemoryKernel::permute, times.elementwise);
  NetworkModel& network = profile.network;
  network.domain = network.network = network.tree = fixed_latency(times.collective_latency);
  network.direct = network.direct_network = fixed_latency(times.collective_latency);
  network.pair = network.pair_network = fixed_latency(times.hop_latency);
  return profile;
}

/// Hidden 64, 4 heads of 16, MLP 96, vocabulary 128.
inline Transformer small_model(std::int64_t layers) {
  Transformer model;
  model.layers = layers;
  model.hidden = 64;
  model.heads = model.kv_heads = 4;
  model.head_dim = 16;
  model.ffn = 96;
  model.vocab = 128;
  return model;
}

/// One node with a switch that joins all GPUs.
inline ClusterSpec simple_cluster(int gpus, BytesPerSecond nvlink) {
  ClusterSpec spec;
  spec.system.name = "simple";
  spec.system.gpu.name = "simple";
  spec.system.gpu.memory = gigabytes(80);
  spec.system.gpu.nvlink = nvlink;
  spec.system.gpus_per_node = spec.system.nvlink_domain = gpus;
  spec.system.nics = 0;
  return spec;
}

struct Step {
  Plan plan;
  Result result;
  TimelineBuffer timeline;

  const RankSummary& rank(int pipeline_rank) const {
    return result.ranks[static_cast<std::size_t>(pipeline_rank)];
  }
  std::int64_t peak(int pipeline_rank, MemoryPool pool) const {
    return rank(pipeline_rank).memory.pool_peak[static_cast<std::size_t>(pool)];
  }
  double sent(int pipeline_rank, StepCategory category) const {
    return rank(pipeline_rank).bytes_by_category[static_cast<std::size_t>(category)];
  }
  std::uint64_t calls(int pipeline_rank, StepCategory category) const {
    return rank(pipeline_rank).ops_by_category[static_cast<std::size_t>(category)];
  }
};

inline Step run_step_by(const Profile& profile, const Job& job,
                        BytesPerSecond nvlink = gigabytes_per_second(100)) {
  const Cluster cluster(simple_cluster(job.layout.grid.world(), nvlink));
  Step step{.plan = lower(job, cluster, profile), .result = {}, .timeline = {}};
  step.result = run(step.plan.workload, &step.timeline);
  return step;
}

inline Step run_step(const Job& job, const KernelTimes& times = {},
                     BytesPerSecond nvlink = gigabytes_per_second(100)) {
  return run_step_by(simple_profile(times), job, nvlink);
}

}  // namespace flopcast::test
