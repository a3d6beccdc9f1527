#include "topology/analysis.h"

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "small_clusters.h"

using namespace flopcast;

TEST_CASE("routes are shortest paths, but for the hop that keeps them on a rail") {
  for (const NamedSpec& named : all_small_clusters()) {
    CAPTURE(named.name);
    const Cluster cluster(named.spec);
    std::vector<LinkId> route;
    for (const GpuId from : all_gpus(cluster)) {
      const auto hops = hop_counts(cluster, DeviceId{index_of(from)});
      for (const GpuId to : all_gpus(cluster)) {
        CAPTURE(index_of(from), index_of(to));
        route.clear();
        cluster.append_route(from, to, route);
        const int shortest = hops[index_of(to)].value();
        const int length = static_cast<int>(route.size());
        const bool same_rail = index_of(from) % 2 == index_of(to) % 2;  // two GPUs per node
        if (!cluster.uses_pxn() || same_rail) {
          CHECK(length == shortest);
        } else {
          CHECK(length >= shortest);
          CHECK(length <= shortest + 2);
        }
      }
    }
  }
}

TEST_CASE("diameter, by hand") {
  CHECK(diameter(Cluster(lone_node())) == 2);  // up, down
  CHECK(diameter(Cluster(bridged_pairs())) == 2);
  CHECK(diameter(Cluster(small_switch())) == 4);    // PCIe, NIC and back
  CHECK(diameter(Cluster(pcie_nodes())) == 6);      // one more at each host
  CHECK(diameter(Cluster(small_fat_tree())) == 6);  // and the spine
  CHECK(diameter(Cluster(small_rails_with_core())) == 8);
}

TEST_CASE("bisection bandwidth, by hand") {
  struct Row {
    const char* name;
    ClusterSpec spec;
    BytesPerSecond expected;
  };
  // Half of 8 nodes has 8 NICs of 40 GB/s; at 2:1 half of their cables go on.
  ClusterSpec fat{small_system(2, 2), 8, {.kind = FabricKind::fat_tree, .switch_ports = 8}};
  ClusterSpec fat_2_to_1 = fat;
  fat_2_to_1.fabric.oversubscription = 2;
  ClusterSpec rails = small_rails_with_core();
  ClusterSpec rails_2_to_1 = rails;
  rails_2_to_1.fabric.oversubscription = 2;
  ClusterSpec core_4_to_1 = rails;
  core_4_to_1.fabric.core_oversubscription = 4;
  ClusterSpec slow_pcie = fat;
  slow_pcie.system.gpu.pcie = gigabytes_per_second(12);
  const std::vector<Row> rows{
      {"fat tree 1:1", fat, gigabytes_per_second(8 * 40)},
      {"fat tree 2:1", fat_2_to_1, gigabytes_per_second(4 * 40)},
      {"rails 1:1", rails, gigabytes_per_second(8 * 40)},
      {"rails 2:1", rails_2_to_1, gigabytes_per_second(4 * 40)},
      {"core 4:1", core_4_to_1, gigabytes_per_second(2 * 40)},
      {"PCIe slower than the NIC", slow_pcie, gigabytes_per_second(8 * 12)},
      {"one switch", small_switch(), gigabytes_per_second(4 * 40)},
      {"lone node", lone_node(), gigabytes_per_second(4 * 400)},
      {"bridged pairs", bridged_pairs(), gigabytes_per_second(2 * 50)},
      {"PCIe nodes share a NIC", pcie_nodes(), gigabytes_per_second(40)},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(bisection_bandwidth(Cluster(row.spec)) / row.expected == Approx(1));
  }
}

TEST_CASE("a flow takes every way there is") {
  // From a GPU to the same rail of the other pod: 40 GB/s by its own card, and over NVLink 40 more
  // by the neighbour's.
  const Cluster cluster(small_rails());
  CHECK(max_flow(cluster, gpus({0}), gpus({4})) == gigabytes_per_second(40 + 40));
}

TEST_CASE("link classes sum up what is there") {
  ClusterSpec spec = small_fat_tree();
  spec.nodes = 3;  // the second leaf has half the cards
  CHECK(link_classes(Cluster(spec)) ==
        std::vector<LinkClass>{{LinkKind::nvlink, gigabytes_per_second(400), 12},
                               {LinkKind::pcie, gigabytes_per_second(50), 12},
                               {LinkKind::nic, gigabytes_per_second(40), 12},
                               {LinkKind::leaf_uplink, gigabytes_per_second(160), 2},
                               {LinkKind::leaf_uplink, gigabytes_per_second(80), 2}});
}

TEST_CASE("DOT has a node per device and an edge per pair") {
  const Cluster cluster(bridged_pairs());
  const std::string dot = to_dot(cluster);
  CHECK(std::ranges::count(dot, '\n') == 3 + 7 + 8 + 1);
  CHECK(dot.find("d0 [label=\"node 0 gpu 0\", shape=box];") != std::string::npos);
  CHECK(dot.find("d3 -> d5 [label=\"400.0 GB/s\"];") != std::string::npos);
}
