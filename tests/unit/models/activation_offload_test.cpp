#include "models/activation_offload.h"

#include <catch2/catch.hpp>

#include "llama_8b.h"
#include "models/step_report.h"
#include "simple_machine.h"

// Activations on the host between the passes: what leaves the GPU's memory, what the copies cost
// and where they hide, worked out by hand.
//
// A layer computes c in a pass and is copied in x. Of L layers N are offloaded; where L - N >= 2
// and x >= c copies follow each other without a gap: forward, the last layer starts at c + N x
// instead of (L - 1) c; backward, the first layer starts at c + N x likewise. So a pass stands
// still for N x - (L - 2) c.

using namespace flopcast;
using namespace flopcast::test;

namespace {

constexpr double kStart = 10e-6;   // of a copy
constexpr double kReached = 0.77;  // of the nominal rate of PCIe
constexpr std::int64_t kLayers = 8;
constexpr double kForward = 0.040;   // s: four products of 10 ms, all else takes no time
constexpr double kBackward = 0.080;  // s: eight of them

/// Llama 3 8B, 1024 tokens: sbh (12 + 4 g/a) + 6 sbf, with 8 bytes a token of the norms and 4 a of
/// fused attention (s 1024, b 1, h 4096, g 8, a 32, f 14336).
constexpr double kLayerBytes = 13 * 4194304.0 + 6 * 14680064.0 + 8 * 1024 + 4 * 32 * 1024;

Job short_llama(std::int64_t offloaded, int dp = 1) {
  Job job = llama_8b(dp);
  job.model.layers = kLayers;
  job.training.framework.host_per_operator = {};
  job.training.offloaded_layers = offloaded;
  return job;
}

KernelTimes products_alone() {
  KernelTimes times = no_kernel_times();
  times.gemm = milliseconds(10);
  return times;
}

/// PCIe over which a layer is copied in so many seconds.
BytesPerSecond pcie_for(double copy) {
  return bytes_per_second(kLayerBytes / (kReached * (copy - kStart)));
}

ClusterSpec machine(const Job& job, BytesPerSecond pcie, int gpus_per_host_link = 1) {
  ClusterSpec spec = simple_cluster(job.layout.grid.world(), gigabytes_per_second(100));
  spec.host_copies = true;
  spec.system.gpu.pcie = pcie;
  spec.system.gpus_per_host_link = gpus_per_host_link;
  spec.system.host_memory = gigabytes_per_second(10'000);
  return spec;
}

Step run_offloaded(const Job& job, BytesPerSecond pcie, int gpus_per_host_link = 1) {
  const Cluster cluster(machine(job, pcie, gpus_per_host_link));
  Step step{
      .plan = lower(job, cluster, simple_profile(products_alone())), .result = {}, .timeline = {}};
  step.result = run(step.plan.workload, &step.timeline);
  return step;
}

double duration(const Step& step) { return to_seconds(step.result.makespan).value; }

double exposed(const Step& step) {
  const auto category = static_cast<std::size_t>(StepCategory::activation);
  return to_seconds(step.rank(0).by_category[category].exposed).value;
}

/// What the step takes beyond that of the same job without offload.
double added(Job job, const Step& step) {
  job.training.offloaded_layers = 0;
  return duration(step) - duration(run_step(job, products_alone()));
}

double activations(const Step& step) {
  return static_cast<double>(step.peak(0, MemoryPool::activations));
}

}  // namespace

TEST_CASE("a window says which layer leaves for which and which comes back") {
  // Transformer Engine, 8 layers of which 6: layer i has left when i + 2 begins, and comes back
  // when the backward pass of i + 2 is through.
  const OffloadWindow window{.layers = 8, .offloaded = 6};
  CHECK_FALSE(window.gone_before(1));
  CHECK(window.gone_before(2) == 0u);
  CHECK(window.gone_before(7) == 5u);
  CHECK_FALSE(window.back_from(7));
  CHECK(window.back_from(6) == 5u);
  CHECK(window.back_from(1) == 0u);
  CHECK_FALSE(window.back_from(0));
}

TEST_CASE("what is on the host is not on the GPU") {
  const Step plain = run_step(short_llama(0), products_alone());
  for (const std::int64_t layers : {1, 4, 6, 7}) {
    CAPTURE(layers);
    const Step step = run_offloaded(short_llama(layers), pcie_for(0.03));
    CHECK(activations(plain) - activations(step) == static_cast<double>(layers) * kLayerBytes);
  }
}

TEST_CASE("a GPT layer on the host is 34 sbh + 5 a s^2 b and the statistics of its norms") {
  Job job = short_llama(0);
  job.model = {};
  job.model.layers = 4;
  job.model.hidden = 2048;
  job.model.heads = job.model.kv_heads = 16;
  job.model.head_dim = 128;
  job.model.ffn = 8192;
  job.model.vocab = 512;
  job.model.gated_mlp = false;
  job.model.dropout = true;
  job.training.framework.fused_attention = false;
  const double plain = activations(run_step(job, products_alone()));
  job.training.offloaded_layers = 3;
  const double offloaded = activations(run_offloaded(job, pcie_for(0.01)));
  // s 1024, b 1: Korthikanti et al., arXiv 2205.05198, equation 1.
  CHECK(plain - offloaded == 3 * (34 * 2097152.0 + 5 * 16 * 1048576.0 + 8 * 1024));
}

TEST_CASE("copies that take no longer than a layer are hidden") {
  const Job job = short_llama(6);
  const Step step = run_offloaded(job, pcie_for(0.03));
  CHECK(exposed(step) == 0);
  CHECK(added(job, step) == 0);
}

TEST_CASE("copies that take longer than a layer are what the step waits for") {
  const double copy = 0.1;
  const double expected = 6 * copy - 6 * kForward + 6 * copy - 6 * kBackward;
  for (const int micro_batches : {1, 3}) {
    CAPTURE(micro_batches);
    Job job = short_llama(6);
    job.training.batch.global_batch = micro_batches;
    const Step step = run_offloaded(job, pcie_for(copy));
    CHECK(exposed(step) == Approx(micro_batches * expected).epsilon(1e-9));
    CHECK(added(job, step) == Approx(micro_batches * expected).epsilon(1e-9));
  }
}

TEST_CASE("where all layers but the last are offloaded nothing hides") {
  const Job job = short_llama(kLayers - 1);
  const Step step = run_offloaded(job, pcie_for(0.03));
  CHECK(exposed(step) == Approx(2 * 7 * 0.03).epsilon(1e-9));
  CHECK(added(job, step) == Approx(2 * 7 * 0.03).epsilon(1e-9));
}

TEST_CASE("GPUs behind one switch share its link for their activations") {
  const Job job = short_llama(6, 2);
  CHECK(added(job, run_offloaded(job, pcie_for(0.03))) == Approx(0).margin(1e-9));
  // Twice as long: longer than a layer forward, shorter than one backward.
  const double copy = kStart + 2 * (0.03 - kStart);
  CHECK(added(job, run_offloaded(job, pcie_for(0.03), 2)) ==
        Approx(6 * (copy - kForward)).epsilon(1e-9));
}

TEST_CASE("every byte that goes to the host comes back") {
  Job job = short_llama(5);
  job.training.batch.global_batch = 3;
  const Step step = run_offloaded(job, pcie_for(0.05));
  CHECK(step.sent(0, StepCategory::activation) == 2 * 3 * 5 * kLayerBytes);
  CHECK(step.calls(0, StepCategory::activation) == 2 * 3 * 5);
  const auto carried = [&step](const std::string& name) {
    for (std::size_t link = 0; link < step.result.links.size(); ++link) {
      if (step.plan.workload.links[link].name == name) return step.result.links[link].carried.value;
    }
    return 0.0;
  };
  const double once = 3 * 5 * kLayerBytes / kReached;
  CHECK(carried("node 0 gpu 0 -> node 0 host") == Approx(once).epsilon(1e-9));
  CHECK(carried("node 0 host -> node 0 gpu 0") == Approx(once).epsilon(1e-9));
}

TEST_CASE("the host's memory holds what all GPUs of a node put there") {
  Job job = short_llama(6, 2);
  job.training.offload = OptimizerOffload{};
  ClusterSpec spec = machine(job, pcie_for(0.03));
  spec.system.gpu.peak_dense[static_cast<std::size_t>(DataType::bf16)] = teraflops_per_second(1);
  const auto host = [&](Bytes size) {
    spec.system.host_memory_size = size;
    const Cluster cluster(spec);
    const Plan plan = lower(job, cluster, simple_profile(products_alone()));
    return step_report(job, cluster, plan, run(plan.workload));
  };
  const StepReport report = host({});
  REQUIRE(report.host);
  CHECK(report.host->activations.value == 2 * 6 * kLayerBytes);
  // Twelve bytes of state and the gradient's four; each rank has half of the parameters.
  const double parameters = 8 * 218112000.0 + 2 * 128256 * 4096.0 + 4096;
  CHECK(report.host->optimizer.value == 16 * parameters);
  CHECK(report.host->fits());
  const Bytes used = report.host->used();
  CHECK(host(used).fits);
  const StepReport full = host(used - bytes(1));
  CHECK_FALSE(full.host->fits());
  CHECK_FALSE(full.fits);
}

TEST_CASE("what Megatron refuses beside offloaded activations is refused") {
  struct Row {
    void (*change)(Job& job);
    std::string key;
    std::vector<std::int64_t> nearest;
  };
  const std::vector<Row> rows{
      {[](Job& job) { job.training.offloaded_layers = 8; },
       "training.offload.activations.layers",
       {7}},
      {[](Job& job) { job.training.offloaded_layers = job.model.layers = 1; },
       "training.offload.activations",
       {}},
      {[](Job& job) { job.layout.grid.pp = 2; }, "parallel.pp", {1}},
      {[](Job& job) { job.layout.schedule = ScheduleKind::gpipe; }, "training.schedule", {}},
      {[](Job& job) { job.training.recompute.kind = RecomputeKind::selective; },
       "training.recompute",
       {}},
      {[](Job& job) { job.training.recompute.kind = RecomputeKind::full; },
       "training.recompute",
       {}}};
  CHECK(activation_offload_violations(short_llama(7)).empty());
  for (const Row& row : rows) {
    CAPTURE(row.key);
    Job job = short_llama(4);
    row.change(job);
    const auto broken = activation_offload_violations(job);
    REQUIRE(broken.size() == 1);
    CHECK(broken[0].key == row.key);
    CHECK(broken[0].nearest == row.nearest);
    job.training.offloaded_layers = 0;
    CHECK(activation_offload_violations(job).empty());
  }
}

TEST_CASE("what offloaded activations cannot be simulated with yet is said") {
  Job job = short_llama(4);
  CHECK_FALSE(lowering_gap(job));
  job.network = NetworkDetail::steps;
  CHECK(lowering_gap(job));
  job = short_llama(4, 2);
  job.model = golden_model("mixtral-8x7b");
  job.layout.grid.ep = 2;
  CHECK_FALSE(lowering_gap(job));
  job.training.routing.kind = RoutingKind::zipf;
  job.training.routing.exponent = 0.5;
  CHECK(lowering_gap(job));
}
