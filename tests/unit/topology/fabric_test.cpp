#include "topology/fabric.h"

#include <catch2/catch.hpp>

#include "small_clusters.h"

using namespace flopcast;

TEST_CASE("a rail-optimised fabric takes the switches that NVIDIA's reference design takes") {
  // Leaf, spine and core switches of DGX SuperPOD with DGX B200, 64-port NDR switches, 8 rails.
  // Source: NVIDIA DGX SuperPOD reference architecture (B200), table of the compute fabric,
  // docs.nvidia.com/dgx-superpod/reference-architecture-scalable-infrastructure-b200.
  struct Row {
    int nodes;
    SwitchCounts expected;
  };
  const auto row = GENERATE(values<Row>({
      {64, {16, 8, 0}},
      {128, {32, 16, 0}},
      {256, {64, 32, 0}},
      {512, {128, 128, 64}},
      {1024, {256, 256, 128}},
      {2048, {512, 512, 256}},
  }));
  CAPTURE(row.nodes);
  const Fabric fabric;
  const FabricPlan plan = plan_fabric(small_system(8, 8), row.nodes, fabric);
  CHECK(plan.nodes_per_pod == 32);
  CHECK(switch_counts(plan, row.nodes, fabric) == row.expected);
}

TEST_CASE("a k-ary fat tree has k pods of k switches and k^2/4 cores") {
  // Al-Fares, Loukissas and Vahdat, SIGCOMM 2008, section 3: k^3/4 hosts, k/2 edge and k/2
  // aggregation switches in each of k pods.
  const int k = GENERATE(4, 8);
  const int hosts = k * k * k / 4;
  const Fabric fabric{.kind = FabricKind::fat_tree, .switch_ports = k};
  const FabricPlan plan = plan_fabric(small_system(1, 1), hosts, fabric);
  CHECK(plan.spine_groups == k);
  CHECK(switch_counts(plan, hosts, fabric) == SwitchCounts{k * k / 2, k * k / 2, k * k / 4});
}

TEST_CASE("uplinks are whole cables for the cards that are there") {
  // 5 nodes x 2 cards, 2 nodes on a leaf: 4, 4 and 2 cards.
  Fabric fabric{.kind = FabricKind::fat_tree, .switch_ports = 8};
  const FabricPlan plan = plan_fabric(small_system(2, 2), 5, fabric);
  REQUIRE(plan.leaves() == 3);
  const auto uplinks = [&](double oversubscription) {
    fabric.oversubscription = oversubscription;
    return std::vector{leaf_uplinks(plan, 5, fabric, 0), leaf_uplinks(plan, 5, fabric, 1),
                       leaf_uplinks(plan, 5, fabric, 2)};
  };
  CHECK(uplinks(1) == std::vector{4, 4, 2});
  CHECK(uplinks(2) == std::vector{2, 2, 1});
  CHECK(uplinks(3) == std::vector{2, 2, 1});  // 4/3 of a cable are two
  CHECK(uplinks(8) == std::vector{1, 1, 1});
}

TEST_CASE("a named size of spine groups stands") {
  // Llama 3 (arXiv 2407.21783, section 3.3.1): pods of 3072 GPUs, 1:7 between them.
  const Fabric fabric{.kind = FabricKind::fat_tree,
                      .switch_ports = 256,
                      .core_oversubscription = 7,
                      .spine_group_nodes = 384};
  const FabricPlan plan = plan_fabric(small_system(8, 8), 2048, fabric);
  CHECK(plan.nodes_per_pod == 16);
  CHECK(plan.spine_groups == 6);
  CHECK(plan.core);
  CHECK(spine_group_uplinks(plan, 2048, fabric, 0) == 439);  // 3072 / 7, rounded up
}

TEST_CASE("racks of several nodes are cabled as wholes") {
  System rack = small_system(4, 4);
  rack.nvlink_domain = 72;
  CHECK(plan_fabric(rack, 144, {}).nodes_per_pod == 18);  // of 32 that the ports would take
}

TEST_CASE("a lone node has no network") {
  const FabricPlan plan = plan_fabric(small_system(8, 8), 1, {});
  CHECK(plan.nics_per_node == 0);
  CHECK(plan.leaves() == 0);
  CHECK(switch_counts(plan, 1, {}) == SwitchCounts{});
}
