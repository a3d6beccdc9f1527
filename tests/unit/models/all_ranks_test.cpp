#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <utility>
#include <vector>

#include "simple_machine.h"

// Every rank of a step, and the classes that irregular machines leave, counted by hand.

using namespace flopcast;
using namespace flopcast::test;

namespace {

Job small_job(ParallelGrid grid) {
  Job job;
  job.model = small_model(2);
  job.layout.grid = grid;
  job.training.batch = {.sequence = 64, .micro_batch = 1, .global_batch = 2 * grid.dp};
  job.training.overlap_grad_reduce = job.training.overlap_param_gather = false;
  job.training.framework.host_per_operator = seconds(0);
  return job;
}

ClusterSpec nodes_of(int gpus, int nodes, FabricKind kind) {
  ClusterSpec spec = simple_cluster(gpus, gigabytes_per_second(100));
  spec.system.gpu.pcie = gigabytes_per_second(50);
  spec.system.nics = gpus;
  spec.system.nic_bandwidth = gigabytes_per_second(10);
  spec.nodes = nodes;
  spec.fabric.kind = kind;
  return spec;
}

std::vector<std::uint64_t> class_sizes(const Plan& plan) {
  std::vector<std::uint64_t> sizes;
  for (const Rank& rank : plan.workload.ranks) sizes.push_back(rank.count);
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

Plan plan_of(const Job& job, const ClusterSpec& spec, Ranks ranks) {
  return lower(job, Cluster(spec), simple_profile({}), ranks);
}

using Sizes = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("a slow GPU splits off itself and those that meet it") {
  const Job job = small_job({.tp = 2, .dp = 4});
  ClusterSpec spec = simple_cluster(8, gigabytes_per_second(100));
  CHECK(class_sizes(folded(plan_of(job, spec, Ranks::all))) == Sizes{8});
  CHECK(plan_of(job, spec, Ranks::by_stage).alike);

  // GPU 3; GPU 2, which shares its tensor group; 1, 5, 7 of its data group; 0, 4, 6 of the other.
  spec.slow = {{.first = 3, .last = 3, .speed = 0.5}};
  CHECK(class_sizes(folded(plan_of(job, spec, Ranks::all))) == Sizes{1, 1, 3, 3});
  CHECK_FALSE(plan_of(job, spec, Ranks::by_stage).alike);

  // All of one data group: 1, 3, 5, 7, each beside one of the others.
  spec.slow.clear();
  for (int gpu = 1; gpu < 8; gpu += 2) spec.slow.push_back({gpu, gpu, 0.5});
  CHECK(class_sizes(folded(plan_of(job, spec, Ranks::all))) == Sizes{4, 4});

  spec.slow = {{.first = 0, .last = 7, .speed = 0.5}};  // all alike again
  CHECK(class_sizes(folded(plan_of(job, spec, Ranks::all))) == Sizes{8});
  CHECK(plan_of(job, spec, Ranks::by_stage).alike);
}

TEST_CASE("all wait for a GPU of half the speed") {
  const Job job = small_job({.dp = 4});
  ClusterSpec spec = simple_cluster(4, bytes_per_second(kEndless));
  const SimTime regular = run(plan_of(job, spec, Ranks::all).workload).makespan;
  spec.slow = {{.first = 2, .last = 2, .speed = 0.5}};
  const SimTime slow = run(plan_of(job, spec, Ranks::all).workload).makespan;
  CHECK(to_seconds(slow) / to_seconds(regular) == Approx(2));
}

TEST_CASE("a ring goes at the rate of its slowest card") {
  const Job job = small_job({.dp = 4});
  ClusterSpec spec = nodes_of(1, 4, FabricKind::single_switch);
  spec.fabric.hop_latency = seconds(0);
  const auto reduction = [&] {
    const Result result = run(plan_of(job, spec, Ranks::all).workload);
    std::vector<Seconds> times;
    for (const RankSummary& rank : result.ranks) {
      times.push_back(
          to_seconds(rank.by_category[static_cast<std::size_t>(StepCategory::gradient)].busy));
    }
    return times;
  };
  const std::vector<Seconds> regular = reduction();
  spec.degraded = {{.kind = LinkKind::nic, .first = 1, .last = 1, .factor = 0.25}};
  const std::vector<Seconds> degraded = reduction();
  for (std::size_t r = 0; r < 4; ++r) CHECK(degraded[r] / regular[r] == Approx(4));
  CHECK(class_sizes(folded(plan_of(job, spec, Ranks::all))) == Sizes{4});  // they wait as one
}

TEST_CASE("a ring goes at the rate of the worst link between zones") {
  const Job job = small_job({.dp = 4});
  ClusterSpec spec = nodes_of(1, 4, FabricKind::fat_tree);
  spec.fabric.hop_latency = seconds(0);
  spec.fabric.switch_ports = 4;
  spec.fabric.spine_group_nodes = 2;
  spec.fabric.zone_nodes = 2;
  spec.fabric.zone_bandwidth = spec.system.nic_bandwidth;  // of one flow: no link is wider
  const auto reduction = [&] {
    const Result result = run(plan_of(job, spec, Ranks::all).workload);
    return to_seconds(
        result.ranks[0].by_category[static_cast<std::size_t>(StepCategory::gradient)].busy);
  };
  const Seconds regular = reduction();
  spec.degraded = {{.kind = LinkKind::zone_uplink, .first = 1, .last = 1, .factor = 0.25}};
  CHECK(reduction() / regular == Approx(4));
  CHECK(class_sizes(folded(plan_of(job, spec, Ranks::all))) == Sizes{4});
}

TEST_CASE("a degraded spine splits off the pipelines that cross it") {
  // Stage 0 on nodes 0 to 3, stage 1 on 4 to 7; two nodes under each group of spines.
  const Job job = small_job({.dp = 4, .pp = 2});
  ClusterSpec spec = nodes_of(1, 8, FabricKind::fat_tree);
  spec.fabric.switch_ports = 4;
  spec.fabric.spine_group_nodes = 2;
  CHECK(class_sizes(folded(plan_of(job, spec, Ranks::all))) == Sizes{4, 4});
  // Nodes 6 and 7, and the first stages that send to them.
  spec.degraded = {{.kind = LinkKind::spine_uplink, .first = 3, .last = 3, .factor = 0.25}};
  CHECK(class_sizes(folded(plan_of(job, spec, Ranks::all))) == Sizes{2, 2, 2, 2});
}

TEST_CASE("groups that lie differently have their own costs") {
  // Tensor groups of 4 on nodes of 6: 0-3 and 8-11 within a node, 4-7 two and two.
  const Job job = small_job({.tp = 4, .dp = 3});
  const ClusterSpec spec = nodes_of(6, 2, FabricKind::single_switch);
  const Plan plan = plan_of(job, spec, Ranks::all);
  CHECK_FALSE(plan_of(job, spec, Ranks::by_stage).alike);
  for (std::size_t r = 0; r < 12; ++r) {
    CAPTURE(r);
    const auto program = index_of(plan.workload.ranks[r].program);
    const GroupFacts& tensor = plan.facts[program][static_cast<std::size_t>(StepGroup::tensor)];
    CHECK(tensor.shape == (4 <= r && r < 8 ? GroupShape{2, 2} : GroupShape{4, 1}));
    CHECK(tensor.slowest == (4 <= r && r < 8 ? LinkKind::nic : LinkKind::nvlink));
  }
  std::uint64_t ranks = 0;
  for (const std::uint64_t size : class_sizes(folded(plan))) ranks += size;
  CHECK(ranks == 12);
}

TEST_CASE("every rank, communicator and link is a row") {
  const Job job = small_job({.tp = 2, .dp = 2, .pp = 2});
  const Plan plan = plan_of(job, nodes_of(4, 2, FabricKind::single_switch), Ranks::all);
  CHECK(plan.workload.ranks.size() == 8);
  // 4 tensor, 4 data, the world, 4 pipelines with a hop each way.
  CHECK(plan.workload.groups.size() == 4 + 4 + 1 + 4 * 2);
  CHECK(plan.workload.links.size() == 8 * 2 * 3);  // NVLink, PCIe and NIC of each GPU, both ways
  CHECK(plan.workload.programs.size() == 2);
  CHECK(class_sizes(folded(plan)) == Sizes{4, 4});
}

// Two nodes of a double binary tree have one edge in each tree: half of the data goes up and half
// down, so that each node sends the buffer once over all of its cards together, not 15/8 times as a
// ring of 16 does. Source: NCCL 2.30.7, src/graph/trees.cc.
TEST_CASE("an all-reduce by trees loads the links of its trees") {
  Job job = small_job({.dp = 16});
  job.layout.zero = 0;
  ClusterSpec spec = nodes_of(8, 2, FabricKind::rail_optimized);
  spec.system.nvlink_domain = 8;
  spec.system.gpu.nvlink = gigabytes_per_second(1000);
  spec.fabric.hop_latency = seconds(0);
  for (const Ranks ranks : {Ranks::all, Ranks::by_stage}) {
    const Plan plan = plan_of(job, spec, ranks);
    CHECK(plan.alike);
    const Result result = run(plan.workload);
    const auto gradient = static_cast<std::size_t>(StepCategory::gradient);
    const double sent = result.ranks[0].bytes_by_category[gradient];  // as by a ring
    const Seconds time = bytes(sent * 8 / 15) / gigabytes_per_second(8 * 10);
    const double found = to_seconds(result.ranks[0].by_category[gradient].busy) / time;
    CHECK(found == Approx(1).epsilon(0.01));
  }
}
