#include <catch2/catch.hpp>

#include "models/activation_memory.h"
#include "simple_machine.h"

// What is said of layouts, as it comes out of a step. Others beside what they are about: zigzag in
// context_parallel_test.cpp, accumulation in sharded_parameters_test.cpp, capacity and experts over
// nodes in routing_test.cpp, a slow GPU in step_jitter_test.cpp.

using namespace flopcast;
using namespace flopcast::test;

namespace {

/// Eight heads, so that tp may be 8; the host issues everything at once.
Job wide_job() {
  Job job;
  job.model = small_model(2);
  job.model.hidden = 1024;
  job.model.heads = job.model.kv_heads = 8;
  job.model.head_dim = 128;
  job.model.ffn = 1024;
  job.training.batch = {.sequence = 1024, .micro_batch = 1, .global_batch = 8};
  job.training.framework.host_per_operator = seconds(0);
  return job;
}

/// Two nodes of four GPUs: NVLink 400 GB/s, a card of 10 GB/s for each GPU.
ClusterSpec two_nodes() {
  ClusterSpec spec = simple_cluster(4, gigabytes_per_second(400));
  spec.system.gpu.pcie = gigabytes_per_second(50);
  spec.system.nics = 4;
  spec.system.nic_bandwidth = gigabytes_per_second(10);
  spec.nodes = 2;
  spec.fabric.kind = FabricKind::single_switch;
  spec.fabric.hop_latency = seconds(0);
  return spec;
}

}  // namespace

// Gathers of one size: 3/4 of it at 400 GB/s inside a node, 7/8 of it at 4 x 10 GB/s over both.
TEST_CASE("tensor parallelism over nodes collapses") {
  const auto busy = [](int tp) {
    Job job = wide_job();
    job.layout.grid = {.tp = tp, .dp = 8 / tp};
    job.layout.sequence_parallel = true;
    const Result result =
        run(lower(job, Cluster(two_nodes()), simple_profile(no_kernel_times())).workload);
    const auto tensor = static_cast<std::size_t>(StepCategory::tensor);
    // As many tokens for each: half as many micro-batches where there are two replicas.
    return to_seconds(result.ranks[0].by_category[tensor].busy).value / tp;
  };
  CHECK(busy(8) / busy(4) == Approx((7.0 / 8 / 40) / (3.0 / 4 / 400)).epsilon(0.02));
}

// ZeRO, arXiv 1910.02054, section 7: stage 3 moves one and a half times what stage 1 does.
TEST_CASE("ZeRO-3 costs more than ZeRO-1 where communication is all, and nothing where it hides") {
  const auto step_time = [](const char* framework, int zero, const KernelTimes& times,
                            BytesPerSecond nvlink) {
    Job job = wide_job();
    job.layout.grid.dp = 8;
    job.layout.zero = zero;
    job.layout.reshard = Reshard::always;
    job.training.framework = *framework_preset(framework);
    job.training.framework.host_per_operator = seconds(0);
    job.training.gradient_dtype = DataType::bf16;
    return to_seconds(run_step(job, times, nvlink).result.makespan).value;
  };
  const auto ratio = [&](const KernelTimes& times, BytesPerSecond nvlink) {
    return step_time("megatron-fsdp", 3, times, nvlink) / step_time("megatron", 1, times, nvlink);
  };
  CHECK(ratio(no_kernel_times(), gigabytes_per_second(1)) == Approx(1.5).epsilon(0.01));
  KernelTimes slow;
  slow.gemm = milliseconds(10);
  CHECK(ratio(slow, gigabytes_per_second(400)) == Approx(1).epsilon(0.01));
}

// Korthikanti et al., arXiv 2205.05198, section 4.1: 5 a s^2 b of a layer's activations.
TEST_CASE("half the sequence has a quarter of naive attention's activations") {
  const auto attention = [](std::int64_t sequence) {
    Job job = wide_job();
    job.model.dropout = true;
    job.training.batch.sequence = sequence;
    job.training.framework = *framework_preset("megatron-2021");
    const OperatorContext context{job.model, job.layout, job.training, 128};
    const double all = saved_by_layer(context, 0, 0).value;
    job.training.recompute.kind = RecomputeKind::selective;
    return all - saved_by_layer(context, 0, 0).value;
  };
  CHECK(attention(2048) == 5.0 * 8 * 2048 * 2048);
  CHECK(attention(2048) == 4 * attention(1024));
}
