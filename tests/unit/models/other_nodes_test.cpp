#include <algorithm>
#include <catch2/catch.hpp>

#include "llama_8b.h"
#include "models/step_report.h"
#include "simple_machine.h"

// Nodes of another kind in one cluster: their ranks compute by their own kernels, in their own
// memory. Worked out by hand.
//
// A rank that computes a layer forward runs four products and attention, backward eight products
// and attention's own; the head runs one product forward and two backward. All else takes no time.

using namespace flopcast;
using namespace flopcast::test;

namespace {

constexpr int kLayers = 8;

KernelTimes times(double gemm, double forward, double backward) {
  KernelTimes times = no_kernel_times();
  times.gemm = milliseconds(gemm);
  times.attention_forward = milliseconds(forward);
  times.attention_backward = milliseconds(backward);
  return times;
}

// No one factor: products take three times as long, attention 1.25 and 1.6 times.
KernelTimes own_times() { return times(10, 20, 50); }
KernelTimes other_times() { return times(30, 25, 80); }

double layers_busy(const KernelTimes& t, int layers) {
  return layers * (12 * t.gemm + t.attention_forward + t.attention_backward).value;
}
double head_busy(const KernelTimes& t) { return 3 * t.gemm.value; }

/// Two nodes of two GPUs in one NVLink domain, of which the second is another.
ClusterSpec two_kinds() {
  ClusterSpec spec = simple_cluster(4, gigabytes_per_second(100));
  spec.system.gpus_per_node = 2;
  spec.nodes = 2;
  const auto bf16 = static_cast<std::size_t>(DataType::bf16);
  spec.system.gpu.peak_dense[bf16] = teraflops_per_second(1000);
  OtherNodes other{.system = spec.system, .nodes = {{1, 1}}};
  other.system.gpu.name = "other";
  other.system.gpu.peak_dense[bf16] = teraflops_per_second(300);
  spec.others.push_back(other);
  return spec;
}

Job short_llama(int dp, int pp) {
  Job job = llama_8b(dp);
  job.model.layers = kLayers;
  job.layout.grid.pp = pp;
  job.training.framework.host_per_operator = {};
  return job;
}

struct Mixed {
  Cluster cluster;
  Plan plan;
  Result result;

  double busy(std::size_t row) const { return to_seconds(result.ranks[row].compute_busy).value; }
};

Mixed run_mixed(const Job& job, const ClusterSpec& spec, Ranks ranks) {
  const std::vector<Profile> others{simple_profile(other_times())};
  const Cluster cluster(spec);
  Plan plan = lower(job, cluster, simple_profile(own_times()), ranks, others);
  Result result = run(plan.workload);
  return {cluster, std::move(plan), std::move(result)};
}

}  // namespace

TEST_CASE("each rank computes by the kernels of its own node") {
  const Mixed mixed = run_mixed(short_llama(4, 1), two_kinds(), Ranks::all);
  REQUIRE(mixed.result.ranks.size() == 4);
  for (const std::size_t rank : {0u, 1u}) {
    CHECK(mixed.busy(rank) ==
          Approx(layers_busy(own_times(), kLayers) + head_busy(own_times())).epsilon(1e-9));
  }
  for (const std::size_t rank : {2u, 3u}) {
    CHECK(mixed.busy(rank) ==
          Approx(layers_busy(other_times(), kLayers) + head_busy(other_times())).epsilon(1e-9));
  }
}

TEST_CASE("where all wait for all the step is that of the slower kind") {
  const Job job = short_llama(4, 1);
  const Mixed mixed = run_mixed(job, two_kinds(), Ranks::all);
  ClusterSpec spec = two_kinds();
  spec.others.clear();
  const Plan slower = lower(job, Cluster(spec), simple_profile(other_times()));
  CHECK(mixed.result.makespan == run(slower.workload).makespan);
}

TEST_CASE("other nodes split off their own ranks and no others") {
  const Job job = short_llama(4, 1);
  const Mixed all = run_mixed(job, two_kinds(), Ranks::all);
  const Mixed classes = run_mixed(job, two_kinds(), Ranks::by_class);
  CHECK_FALSE(run_mixed(job, two_kinds(), Ranks::by_stage).plan.alike);
  REQUIRE(classes.plan.workload.ranks.size() == 2);
  CHECK(classes.plan.workload.ranks[0].count == 2);
  CHECK(classes.plan.workload.ranks[1].count == 2);
  CHECK(classes.result.makespan == all.result.makespan);
}

TEST_CASE("a stage on nodes of one kind is one row") {
  const Mixed mixed = run_mixed(short_llama(2, 2), two_kinds(), Ranks::by_stage);
  CHECK(mixed.plan.alike);
  REQUIRE(mixed.result.ranks.size() == 2);
  CHECK(mixed.busy(0) == Approx(layers_busy(own_times(), kLayers / 2)).epsilon(1e-9));
  CHECK(mixed.busy(1) ==
        Approx(layers_busy(other_times(), kLayers / 2) + head_busy(other_times())).epsilon(1e-9));
}

TEST_CASE("each rank must fit into the memory of its own GPU") {
  const Job job = short_llama(4, 1);
  const auto report = [&](Bytes own, Bytes other) {
    ClusterSpec spec = two_kinds();
    spec.system.gpu.memory = own;
    spec.others[0].system.gpu.memory = other;
    const Mixed mixed = run_mixed(job, spec, Ranks::by_class);
    return step_report(job, mixed.cluster, mixed.plan, mixed.result);
  };
  const Bytes used = report(gigabytes(80), gigabytes(80)).memory[0].reserved();
  CHECK(report(used, used).fits);
  const StepReport fuller = report(2 * used, used - bytes(1));
  CHECK_FALSE(fuller.fits);
  CHECK(fuller.memory[0].gpu == "other");
  CHECK(fuller.device_of(fuller.memory[0]) == used - bytes(1));
  const StepReport own = report(used - bytes(1), 2 * used);
  CHECK_FALSE(own.fits);
  CHECK(own.memory[0].gpu.empty());
}

TEST_CASE("MFU counts the peak of every GPU") {
  const Job job = short_llama(4, 1);
  const Mixed mixed = run_mixed(job, two_kinds(), Ranks::by_class);
  // Two of 1000 and two of 300 TFLOP/s.
  CHECK(step_report(job, mixed.cluster, mixed.plan, mixed.result).peak ==
        teraflops_per_second(650));
}

TEST_CASE("what keeps nodes from being mixed is said") {
  ClusterSpec spec = two_kinds();
  CHECK_FALSE(problem_of(spec));
  spec.others[0].nodes = {{1, 2}};
  CHECK(problem_of(spec));
  spec = two_kinds();
  spec.others.push_back(spec.others[0]);
  CHECK(problem_of(spec));
  spec = two_kinds();
  spec.others[0].system.gpus_per_node = 4;
  CHECK(problem_of(spec));
  spec = two_kinds();
  spec.others[0].system.nvlink_domain = 2;
  CHECK(problem_of(spec));
}
