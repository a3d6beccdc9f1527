#include "models/placement.h"

#include <catch2/catch.hpp>
#include <string>

using namespace flopcast;

namespace {

/// Nodes of 4 GPUs: NVLink 400 GB/s, one 40 GB/s card for each GPU; 2 nodes on a leaf.
ClusterSpec machine(int nodes, double oversubscription) {
  ClusterSpec spec;
  System& system = spec.system;
  system.gpu.nvlink = gigabytes_per_second(400);
  system.gpu.pcie = gigabytes_per_second(64);
  system.gpus_per_node = system.nvlink_domain = system.nics = 4;
  system.nic_bandwidth = gigabytes_per_second(40);
  spec.nodes = nodes;
  spec.fabric = {
      .kind = FabricKind::fat_tree, .switch_ports = 16, .oversubscription = oversubscription};
  return spec;
}

GroupPlacement only(const ParallelGrid& grid, const ClusterSpec& spec, const std::string& kind) {
  Job job;
  job.layout.grid = grid;
  for (const GroupPlacement& placement : group_placements(job, Cluster(spec))) {
    if (placement.kind == kind) return placement;
  }
  FAIL("no group " << kind);
  return {};
}

}  // namespace

TEST_CASE("groups inside their home are not warned of") {
  const GroupPlacement tensor = only({.tp = 4, .dp = 4}, machine(4, 1), "tp");
  CHECK(tensor.slowest == LinkKind::nvlink);
  CHECK(tensor.alone == gigabytes_per_second(400));
  CHECK(tensor.together == gigabytes_per_second(400));
  CHECK(tensor.inside == BytesPerSecond{});
  CHECK(tensor.warning.empty());
}

TEST_CASE("a tensor parallel group over two nodes is held by the cards") {
  // A ring of 4 + 4: each card carries a quarter of what a rank sends.
  const GroupPlacement tensor = only({.tp = 8, .dp = 1}, machine(2, 1), "tp");
  CHECK(tensor.slowest == LinkKind::nic);
  CHECK(tensor.alone / gigabytes_per_second(4 * 40) == Approx(1));
  CHECK(tensor.inside == gigabytes_per_second(400));
  CHECK(tensor.warning == "TP group spans nodes");
}

TEST_CASE("experts leave the node where their tensor parallelism fills it") {
  Job job;
  job.model.moe = MixtureOfExperts{.experts = 8, .top_k = 2, .expert_ffn = 64};
  const auto warning = [&](const ParallelGrid& grid) {
    job.layout.grid = grid;
    for (const GroupPlacement& placement : group_placements(job, Cluster(machine(2, 1)))) {
      if (placement.kind == "ep") return placement.warning;
    }
    return std::string("no group");
  };
  CHECK(warning({.tp = 2, .ep = 4, .dp = 4, .etp = 1}).empty());
  CHECK(warning({.tp = 2, .ep = 4, .dp = 4, .etp = 2}) ==
        "EP group spans nodes, as etp 2 leaves it 2 of the 4 GPUs of an NVLink domain");
}

TEST_CASE("data parallel groups share an oversubscribed tier") {
  // tp 4: four rings of one GPU in each of 4 nodes, each over its own card. A leaf of two nodes has
  // 8 cards; at 4:1 two cables go on. Each ring crosses each leaf's uplink once: 80 GB/s for 4.
  const GroupPlacement data = only({.tp = 4, .dp = 4}, machine(4, 4), "dp");
  CHECK(data.slowest == LinkKind::leaf_uplink);
  CHECK(data.alone / gigabytes_per_second(40) == Approx(1));
  CHECK(data.together / gigabytes_per_second(80.0 / 4) == Approx(1));
  CHECK(data.inside / gigabytes_per_second(40) == Approx(1));
  CHECK(data.warning == "DP group spans leaf switches");
  // Without oversubscription the same groups lose nothing.
  const GroupPlacement wide = only({.tp = 4, .dp = 4}, machine(4, 1), "dp");
  CHECK(wide.together / gigabytes_per_second(40) == Approx(1));
  CHECK(wide.warning.empty());
}
