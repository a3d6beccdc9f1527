// Whole training steps over switches that reduce (SHARP): what crosses each link, by hand.

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

#include "models/parameters.h"
#include "models/step_network.h"
#include "simple_machine.h"

using namespace flopcast;
using namespace flopcast::test;

namespace {

constexpr int kGpus = 4;  // of a node, each with a card
constexpr int kNodes = 4;
constexpr int kRanks = kGpus * kNodes;

Cluster cluster_with(bool sharp, FabricKind kind = FabricKind::rail_optimized) {
  ClusterSpec spec = simple_cluster(kGpus, gigabytes_per_second(400));
  spec.system.gpu.pcie = gigabytes_per_second(50);
  spec.system.nics = kGpus;
  spec.system.nic_bandwidth = gigabytes_per_second(10);
  spec.nodes = kNodes;
  spec.fabric = {.kind = kind, .switch_ports = 16, .sharp = sharp};
  return Cluster(spec);
}

/// Data parallel alone; no parameter that sharding would have to pad.
Job data_parallel_job(int zero) {
  Job job;
  job.model = small_model(2);
  job.layout.grid = {.dp = kRanks};
  job.layout.zero = zero;
  job.training.batch = {.sequence = 32, .micro_batch = 1, .global_batch = kRanks};
  job.training.framework.host_per_operator = seconds(0);
  return job;
}

/// Rings at a third of the network's rate, and slow to start: the switches are faster.
Profile slow_rings() {
  Profile profile = simple_profile({});
  const TierParameters slow{
      .base = milliseconds(1), .hop = {}, .efficiency = 1.0 / 3, .ramp = 0, .provenance = {}};
  profile.network.network = profile.network.tree = slow;
  return profile;
}

Bytes carried(const Cluster& cluster, const Result& result, const std::string& name) {
  for (std::uint32_t i = 0; i < cluster.links().size(); ++i) {
    if (cluster.name_of(LinkId{i}) == name) return result.links[i].carried;
  }
  FAIL("no link " << name);
  return {};
}

}  // namespace

// S bytes of gradients in fp32. NVLink: a reduce-scatter and an all-gather of the node, 2 * 3/4 S.
TEST_CASE("gradients of a step cross each card once each way") {
  const Job job = data_parallel_job(0);
  const double gradients = 4.0 * static_cast<double>(parameter_count(job.model).total);
  const Cluster plain = cluster_with(false);
  const Cluster sharp = cluster_with(true);
  const Result ring = run(lower(job, plain, slow_rings(), Ranks::all).workload);
  const Result tree = run(lower(job, sharp, slow_rings(), Ranks::all).workload);
  const auto part = [&](const Cluster& cluster, const Result& result, const std::string& name) {
    return carried(cluster, result, name).value / gradients;
  };
  // A ring of 16 ranks: 2 * 15/16 S over 4 cards.
  CHECK(part(plain, ring, "node 1 nic 2 -> pod 0 leaf 2") == Approx(30.0 / 16 / 4));
  CHECK(part(sharp, tree, "node 1 nic 2 -> pod 0 leaf 2") == Approx(1.0 / 4));
  CHECK(part(sharp, tree, "pod 0 leaf 2 -> node 1 nic 2") == Approx(1.0 / 4));
  CHECK(part(sharp, tree, "node 1 gpu 2 -> node 1 switch") == Approx(2 * 3.0 / 4));
  CHECK(tree.makespan < ring.makespan);
}

// With 8 ports of 16 down, two nodes of 4 cards share a leaf: both leaves send all four channels up
// once, not the 8 cards' loads.
TEST_CASE("a leaf adds up what its nodes send") {
  const Job job = data_parallel_job(0);
  const double gradients = 4.0 * static_cast<double>(parameter_count(job.model).total);
  const Cluster cluster = cluster_with(true, FabricKind::fat_tree);
  REQUIRE(cluster.fabric_plan().leaves() == 2);
  const Result result = run(lower(job, cluster, slow_rings(), Ranks::all).workload);
  CHECK(carried(cluster, result, "leaf 0 -> spine group 0").value / gradients == Approx(1));
  CHECK(carried(cluster, result, "spine group 0 -> leaf 1").value / gradients == Approx(1));
}

// ZeRO-1: gradients are scattered in fp32, parameters gathered in bf16. A card sends 12/16 of a
// quarter of the first and 4/16 of the second, and receives the rest of both.
TEST_CASE("sharded gradients go up, parameters come down") {
  const Job job = data_parallel_job(1);
  const double parameters = static_cast<double>(parameter_count(job.model).total);
  const Cluster cluster = cluster_with(true);
  const Result result = run(lower(job, cluster, slow_rings(), Ranks::all).workload);
  const double up = carried(cluster, result, "node 0 nic 1 -> pod 0 leaf 1").value / parameters;
  const double down = carried(cluster, result, "pod 0 leaf 1 -> node 0 nic 1").value / parameters;
  CHECK(up == Approx((4 * 12.0 + 2 * 4.0) / 16 / 4).epsilon(0.01));  // padding of shards
  CHECK(down == Approx((4 * 4.0 + 2 * 12.0) / 16 / 4).epsilon(0.01));
}

TEST_CASE("stages and classes stand for all ranks where switches reduce") {
  for (const int zero : {0, 1}) {
    for (const FabricKind kind : {FabricKind::rail_optimized, FabricKind::fat_tree}) {
      const Job job = data_parallel_job(zero);
      const Cluster cluster = cluster_with(true, kind);
      const Plan all = lower(job, cluster, slow_rings(), Ranks::all);
      const Plan stages = lower(job, cluster, slow_rings());
      const double makespan = to_seconds(run(all.workload).makespan).value;
      CHECK(stages.alike);
      CHECK(to_seconds(run(stages.workload).makespan).value == Approx(makespan).epsilon(1e-9));
      const Plan classes = lower(job, cluster, slow_rings(), Ranks::by_class);
      CHECK(to_seconds(run(classes.workload).makespan).value == Approx(makespan).epsilon(1e-9));
    }
  }
}

TEST_CASE("switches that reduce have no form as messages") {
  const Plan plan = lower(data_parallel_job(0), cluster_with(true), slow_rings(), Ranks::all);
  const auto gap = step_network_gap(plan);
  REQUIRE(gap);
  CHECK_THAT(*gap, Catch::Contains("all_reduce in the switches of the network (SHARP)"));
}
