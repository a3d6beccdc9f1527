// Whole training steps with collectives as messages: against the fluid model, and what is the same
// by construction.

#include "models/step_network.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "models/operator_timing.h"
#include "models/step_report.h"
#include "simple_machine.h"

using namespace flopcast;
using namespace flopcast::test;

namespace {

struct Machine {
  int gpus = 4;  // per node
  int nodes = 4;
  int nics = 4;  // per node
  FabricKind fabric = FabricKind::rail_optimized;
  double oversubscription = 1;
  bool trees = false;      // are what all-reduces between nodes take
  bool in_switch = false;  // are all-reduces inside a node
};

Cluster cluster_of(const Machine& machine) {
  ClusterSpec spec = simple_cluster(machine.gpus, gigabytes_per_second(100));
  spec.system.gpu.pcie = gigabytes_per_second(50);
  spec.system.gpu.peak_dense[static_cast<std::size_t>(DataType::bf16)] = teraflops_per_second(1);
  spec.system.nics = machine.nics;
  spec.system.nic_bandwidth = gigabytes_per_second(10);
  spec.nodes = machine.nodes;
  spec.fabric = {
      .kind = machine.fabric, .switch_ports = 16, .oversubscription = machine.oversubscription};
  return Cluster(spec);
}

/// Small kernels and wide layers, so that communication is what the step takes.
Job job_of(const ParallelGrid& grid) {
  Job job;
  job.model.layers = 4;
  job.model.hidden = 512;
  job.model.heads = 8;
  job.model.kv_heads = 8;
  job.model.head_dim = 64;
  job.model.ffn = 2048;
  job.model.vocab = 4096;
  job.layout.grid = grid;
  job.layout.zero = 1;
  job.layout.sequence_parallel = grid.tp > 1;
  job.training.batch = {.sequence = 1024, .micro_batch = 1, .global_batch = 4 * grid.dp};
  job.training.framework.host_per_operator = seconds(0);
  return job;
}

/// Activations are all-reduced.
Job unsplit_job(const ParallelGrid& grid) {
  Job job = job_of(grid);
  job.layout.sequence_parallel = false;
  return job;
}

Profile profile() { return simple_profile({.collective_latency = microseconds(5)}); }

/// Latency is dear: trees have fewer steps than rings.
Profile tree_profile() {
  Profile machine = profile();
  machine.network.domain = machine.network.network = {
      .base = microseconds(5), .hop = {}, .efficiency = 0.5, .ramp = 0, .provenance = {}};
  return machine;
}

/// Reduced in the switch, buffers come faster than links could hand them round a ring.
Profile switch_profile() {
  Profile machine = profile();
  machine.network.switch_reduction =
      SwitchReduction{.domain = fixed_latency(microseconds(5)), .tree = fixed_latency(seconds(1))};
  machine.network.switch_reduction->domain.efficiency = 0.75;
  return machine;
}

Profile profile_of(const Machine& machine) {
  if (machine.in_switch) return switch_profile();
  return machine.trees ? tree_profile() : profile();
}

bool has_pattern(const Plan& plan, std::uint8_t pattern) {
  return std::ranges::any_of(plan.workload.transfers, [&](const Transfer& transfer) {
    return transfer.pattern == pattern && transfer.size > Bytes{};
  });
}

StepReport report_of(const Job& job, const Cluster& cluster, const Machine& machine,
                     NetworkDetail network) {
  Plan plan = lower(job, cluster, profile_of(machine), Ranks::all);
  REQUIRE(has_pattern(plan, kTreePattern) == machine.trees);
  REQUIRE(has_pattern(plan, kInSwitchPattern) == machine.in_switch);
  if (network == NetworkDetail::steps) {
    const auto gap = step_network_gap(plan);
    INFO(gap.value_or(""));
    REQUIRE_FALSE(gap);
    plan = with_step_network(std::move(plan), cluster);
  }
  const Result all = run(plan.workload);
  const Plan classes = folded(plan);
  CHECK(to_seconds(run(classes.workload).makespan) / to_seconds(all.makespan) ==
        Approx(1).epsilon(1e-9));
  return step_report(job, cluster, plan, all);
}

void compare(const Job& job, const Machine& machine, double tolerance) {
  const Cluster cluster = cluster_of(machine);
  const StepReport fluid = report_of(job, cluster, machine, NetworkDetail::fluid);
  const StepReport steps = report_of(job, cluster, machine, NetworkDetail::steps);
  CHECK(fluid.step / steps.step == Approx(1).margin(tolerance));
  REQUIRE(fluid.communication.size() == steps.communication.size());
  Seconds standing;
  for (std::size_t i = 0; i < fluid.communication.size(); ++i) {
    const CommunicationShare& a = fluid.communication[i];
    const CommunicationShare& b = steps.communication[i];
    CAPTURE(a.name);
    CHECK(b.sent / a.sent == Approx(1).epsilon(1e-9));
    CHECK(b.calls == a.calls);
    standing += a.exposed;
  }
  CHECK(standing > 0.2 * fluid.step);  // else nothing is compared
}

}  // namespace

TEST_CASE("a step's fluid = its messages within 3 % where nothing shares a link") {
  SECTION("tensor parallel in a node, data parallel over rails") {
    compare(job_of({.tp = 4, .dp = 4}), {}, 0.03);
  }
  SECTION("data parallel over rings of whole nodes") { compare(job_of({.dp = 16}), {}, 0.03); }
  SECTION("parameters gathered layer by layer") {
    Job job = job_of({.dp = 16});
    job.training.framework = *framework_preset("fsdp2");
    job.training.framework.host_per_operator = seconds(0);
    job.layout.zero = 3;
    compare(job, {}, 0.03);
  }
  SECTION("a pipeline") { compare(job_of({.tp = 4, .dp = 2, .pp = 2}), {}, 0.03); }
  SECTION("a ring of keys and values") { compare(job_of({.cp = 4, .dp = 4}), {}, 0.03); }
  SECTION("experts in every node") {
    Job job = job_of({.ep = 4, .dp = 16});
    job.model.moe = MixtureOfExperts{.experts = 8, .top_k = 2, .expert_ffn = 1024};
    compare(job, {}, 0.03);
  }
  SECTION("experts over nodes, by the rails of neighbours") {
    Job job = job_of({.ep = 16, .dp = 16});
    job.model.moe = MixtureOfExperts{.experts = 16, .top_k = 2, .expert_ffn = 1024};
    compare(job, {}, 0.03);
  }
  SECTION("tensor parallel by the switch of a node") {
    compare(unsplit_job({.tp = 4, .dp = 4}), {.in_switch = true}, 0.03);
  }
}

/// The messages that each stream of the first rank sends by an all-to-all of all GPUs, by hand: two
/// levels take 3 neighbours and then 3 domains of 4, whatever the number of ranks.
TEST_CASE("an all-to-all by rails has as many messages as neighbours and domains") {
  Job job = job_of({.ep = 16, .dp = 16});
  job.model.moe = MixtureOfExperts{.experts = 16, .top_k = 2, .expert_ffn = 1024};
  const auto chunks_sent = [&](FabricKind fabric) {
    const Cluster cluster = cluster_of({.fabric = fabric});
    const Plan plan = with_step_network(lower(job, cluster, profile(), Ranks::all), cluster);
    const auto category = id_of(StepCategory::expert, MessageLane::other);
    std::size_t lanes = 0;  // beside the first, with sends
    for (const auto& stream : plan.workload.programs[0].streams) {
      if (std::ranges::any_of(stream, [&](const Op& op) {
            return op.kind == OpKind::send && op.category == category;
          })) {
        ++lanes;
      }
    }
    return lanes;
  };
  CHECK(chunks_sent(FabricKind::rail_optimized) == 3 + 3 - 1);
  CHECK(chunks_sent(FabricKind::fat_tree) == 15 - 1);
}

// Without the weight of what travels twice it would be 0.63 of them. Of the whole step 2e-4 of the
// bytes differ, with direct all-to-alls too.
TEST_CASE("an all-to-all by rails puts the fluid model's bytes on every link") {
  Job job = job_of({.ep = 16, .dp = 16});
  job.model.moe = MixtureOfExperts{.experts = 16, .top_k = 2, .expert_ffn = 1024};
  const Cluster cluster = cluster_of({});
  const Plan plan = lower(job, cluster, profile(), Ranks::all);
  const Result fluid = run(plan.workload);
  const Result steps = run(with_step_network(plan, cluster).workload);
  REQUIRE(steps.links.size() == fluid.links.size());
  for (std::uint32_t link = 0; link < fluid.links.size(); ++link) {
    CAPTURE(cluster.name_of(LinkId{link}));
    CHECK(steps.links[link].carried.value == Approx(fluid.links[link].carried.value).epsilon(1e-3));
  }
}

// Of every byte a member sends up n parts of 1/n, and its own slice once more: 1 + 1/n.
TEST_CASE("a switch that reduces gets every byte of each member once, and copies it out once") {
  const Cluster cluster = cluster_of({.nodes = 1});
  const Job job = unsplit_job({.tp = 4});
  Plan plan = lower(job, cluster, switch_profile(), Ranks::all);
  double buffers = 0;  // bytes that each rank has summed
  const Program& program = plan.workload.programs[0];
  for (const Op& op : program.streams[index_of(StepStream::tensor)]) {
    if (op.kind != OpKind::collective) continue;
    const Transfer& transfer = plan.workload.transfers[op.row];
    REQUIRE((transfer.pattern == kInSwitchPattern || transfer.size == Bytes{}));
    buffers += transfer.size.value / (2 * 3.0 / 4);
  }
  REQUIRE(buffers > 0);
  plan = with_step_network(std::move(plan), cluster);
  const Result result = run(plan.workload);
  for (std::uint32_t gpu = 0; gpu < 4; ++gpu) {
    CHECK(result.links[index_of(cluster.to_domain(GpuId{gpu}))].carried.value / buffers ==
          Approx(1 + 1.0 / 4).epsilon(1e-9));
    CHECK(result.links[index_of(cluster.from_domain(GpuId{gpu}))].carried.value / buffers ==
          Approx(1 + 1.0 / 4).epsilon(1e-9));
  }
}

/// Gradients are all-reduced.
Job tree_job(const ParallelGrid& grid) {
  Job job = job_of(grid);
  job.layout.zero = 0;
  return job;
}

TEST_CASE("a step's fluid = its messages within 3 % where trees share no link") {
  SECTION("over nodes of one GPU") {
    compare(tree_job({.dp = 8}), {.gpus = 1, .nodes = 8, .nics = 1, .trees = true}, 0.03);
  }
  SECTION("one on each rail") { compare(tree_job({.tp = 4, .dp = 4}), {.trees = true}, 0.03); }
  SECTION("over whole nodes") { compare(tree_job({.dp = 16}), {.trees = true}, 0.03); }
  SECTION("over 64 GPUs") {
    compare(tree_job({.dp = 64}), {.gpus = 8, .nodes = 8, .nics = 8, .trees = true}, 0.03);
  }
}

TEST_CASE("a step's fluid = its messages within 10 % where trees share links") {
  SECTION("groups of a node that share a card") {
    compare(tree_job({.tp = 4, .dp = 4}), {.nics = 1, .trees = true}, 0.1);
  }
  SECTION("an oversubscribed fat tree") {
    compare(tree_job({.tp = 2, .dp = 16}),
            {.gpus = 2,
             .nodes = 16,
             .nics = 2,
             .fabric = FabricKind::fat_tree,
             .oversubscription = 2,
             .trees = true},
            0.1);
  }
}

TEST_CASE("a step's fluid = its messages within 10 % where groups share links") {
  SECTION("data parallel groups of a node that share a card") {
    compare(job_of({.tp = 4, .dp = 4}), {.nics = 1}, 0.1);
  }
  SECTION("an oversubscribed fat tree") {
    compare(
        job_of({.tp = 2, .dp = 16}),
        {.gpus = 2, .nodes = 16, .nics = 2, .fabric = FabricKind::fat_tree, .oversubscription = 2},
        0.1);
  }
  SECTION("experts over nodes") {
    Job job = job_of({.ep = 16, .dp = 16});
    job.model.moe = MixtureOfExperts{.experts = 16, .top_k = 2, .expert_ffn = 1024};
    compare(job, {.fabric = FabricKind::fat_tree, .oversubscription = 2}, 0.1);
  }
}

// A ring of n ranks: each sends n - 1 pieces to scatter and n - 1 to gather, in each channel.
TEST_CASE("a ring's messages are counted by hand") {
  Job job = job_of({.dp = 4});
  job.training.overlap_grad_reduce = job.training.overlap_param_gather = false;
  const Cluster cluster = cluster_of({.gpus = 1, .nodes = 4, .nics = 1});
  const Plan before = lower(job, cluster, profile(), Ranks::all);
  std::size_t collectives = 0;
  for (const Op& op : before.workload.programs[0].streams[index_of(StepStream::data)]) {
    const bool ring = op.slot == static_cast<std::uint16_t>(StepGroup::data);
    if (op.kind == OpKind::collective && ring) ++collectives;
  }
  REQUIRE(collectives > 0);
  const Plan after = with_step_network(before, cluster);
  std::size_t sends = 0;
  std::size_t receives = 0;
  for (const auto& stream : after.workload.programs[0].streams) {
    for (const Op& op : stream) {
      if (op.kind == OpKind::send) ++sends;
      if (op.kind == OpKind::recv) ++receives;
    }
  }
  CHECK(sends == 3 * collectives);
  CHECK(receives == sends);
}

// Two nodes: in each of two trees one hangs from the other. A chunk passes two hops, up and down,
// so there are 64; a node sends each once up in one tree and once down in the other.
TEST_CASE("a tree's messages are counted by hand") {
  Job job = tree_job({.dp = 2});
  job.training.overlap_grad_reduce = false;
  const Cluster cluster = cluster_of({.gpus = 1, .nodes = 2, .nics = 1});
  const Plan before = lower(job, cluster, tree_profile(), Ranks::all);
  std::size_t collectives = 0;
  for (const Op& op : before.workload.programs[0].streams[index_of(StepStream::data)]) {
    if (op.kind != OpKind::collective) continue;
    if (before.workload.transfers[op.row].pattern == kTreePattern) ++collectives;
  }
  REQUIRE(collectives > 0);
  const Plan after = with_step_network(before, cluster);
  for (const Rank& rank : after.workload.ranks) {
    std::size_t sends = 0;
    std::size_t receives = 0;
    for (const auto& stream : after.workload.programs[index_of(rank.program)].streams) {
      for (const Op& op : stream) {
        if (op.kind == OpKind::send) ++sends;
        if (op.kind == OpKind::recv) ++receives;
      }
    }
    CHECK(sends == 128 * collectives);
    CHECK(receives == 128 * collectives);
  }
}
