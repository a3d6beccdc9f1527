// Faults against published measurements of them.

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "small_clusters.h"
#include "topology/group_load.h"
#include "topology/group_path.h"

using namespace flopcast;

namespace {

System box(int gpus, int nics, double gigabits) {
  System system = small_system(gpus, nics);
  system.nic_bandwidth = gigabits_per_second(gigabits);
  return system;
}

/// Bus bandwidth of a large ring all-reduce over all GPUs: the fullest link sets it.
double ring_bus_gigabytes(const ClusterSpec& spec) {
  const Cluster cluster(spec);
  double heaviest = 0;
  for (const LinkLoad& load : group_load(cluster, all_gpus(cluster), LoadPattern::ring)) {
    heaviest =
        std::max(heaviest, load.weight / cluster.links()[index_of(load.link)].capacity.value);
  }
  return 1 / heaviest / 1e9;
}

}  // namespace

TEST_CASE("without GPUDirect a card carries a third") {
  // 1 GiB over two nodes with one H100 and 400G RoCE each: all-reduce 14.97, send/recv 13.96 GB/s.
  // Source: CCI-MOC/roce-testing, RHELAI/3_nccl_tests. And 72.1 of 178.3 GB/s on 8 cards:
  // NVIDIA/nccl issue 2409.
  ClusterSpec spec{box(1, 1, 400), 2, {}};
  spec.transport = Transport::host_memory;
  const double found = ring_bus_gigabytes(spec);
  CHECK(found == Approx(14.97).epsilon(0.2));
  CHECK(found == Approx(13.96).epsilon(0.2));
  CHECK(found / 50 == Approx(72.1 / 178.3).epsilon(0.2));
}

TEST_CASE("sockets carry a few GB/s, whatever the cards") {
  // All-reduce of 1 GiB. Sources: argonne-lcf/alcf-nccl-tests (Polaris, no libfabric plug-in),
  // schmaustech/nvidia-tools-image (InfiniBand transport switched off).
  struct Table {
    System system;
    int nodes;
    double measured;
  };
  const std::vector<Table> tables{{box(4, 2, 200), 2, 3.10},
                                  {box(4, 2, 200), 8, 3.30},
                                  {box(4, 2, 200), 128, 4.64},
                                  {box(1, 1, 400), 2, 8.11}};
  for (const Table& table : tables) {
    ClusterSpec spec{table.system, table.nodes, {.kind = FabricKind::fat_tree}};
    const double healthy = ring_bus_gigabytes(spec);
    spec.transport = Transport::socket;
    const double ratio = ring_bus_gigabytes(spec) / table.measured;
    CAPTURE(table.nodes, table.measured);
    CHECK(ratio > 1 / 1.65);
    CHECK(ratio < 1.65);
    CHECK(healthy > 5 * table.measured);
  }
}

TEST_CASE("fewer cards, less bandwidth") {
  // 1 GiB all-reduce over two nodes of 8 H100 with 1, 2, 4 and 8 cards: 27.0, 52.8, 101.4, 178.3
  // GB/s of data a second. Source: NVIDIA/nccl issue 2409.
  const double eight = ring_bus_gigabytes({box(8, 8, 400), 2, {}});
  const std::vector<std::pair<int, double>> rows{{1, 27.0}, {2, 52.8}, {4, 101.4}};
  for (const auto& [cards, measured] : rows) {
    const double part = ring_bus_gigabytes({box(8, cards, 400), 2, {}}) / eight;
    CHECK(part == Approx(measured / 178.3).epsilon(0.2));
  }
}

TEST_CASE("one missing card costs its share of a whole node's ring") {
  ClusterSpec spec{box(8, 8, 400), 4, {}};
  const double healthy = ring_bus_gigabytes(spec);
  spec.missing_nics = {11};
  const Cluster cluster(spec);
  CHECK(cluster.nic_of(GpuId{11}) == 12);
  CHECK(cluster.borrows_nic(GpuId{11}));
  CHECK(ring_bus_gigabytes(spec) / healthy == Approx(7.0 / 8));
  CHECK(node_bandwidth(cluster, all_gpus(cluster)) == gigabits_per_second(7 * 400));
  // Two GPUs with one card between them, in groups of one GPU a node.
  const auto loads = group_load(cluster, gpus({3, 11}), LoadPattern::ring);
  const auto neighbours = group_load(cluster, gpus({4, 12}), LoadPattern::ring);
  std::size_t shared = 0;
  for (const LinkLoad& load : loads) {
    for (const LinkLoad& other : neighbours) {
      shared +=
          load.link == other.link && cluster.links()[index_of(load.link)].kind == LinkKind::nic;
    }
  }
  // In and out of node 1, and out of node 0, which sends on the rail where the data is to arrive.
  CHECK(shared == 3);
  spec.missing_nics = {8, 9, 10, 11, 12, 13, 14, 15};
  CHECK(problem_of(spec) == "node 1 has no network card left");
}
