#include "topology/cluster.h"

#include <cstddef>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "small_clusters.h"

using namespace flopcast;

namespace {

using Names = std::vector<std::string>;

Names route_names(const Cluster& cluster, std::uint32_t from, std::uint32_t to) {
  std::vector<LinkId> route;
  cluster.append_route(GpuId{from}, GpuId{to}, route);
  Names names;
  for (const LinkId link : route) names.push_back(cluster.name_of(link));
  return names;
}

}  // namespace

TEST_CASE("devices and links, counted by hand") {
  struct Row {
    ClusterSpec spec;
    std::size_t devices;
    std::size_t links;
  };
  const std::vector<Row> rows{
      {small_fat_tree(), 8 + 4 + 8 + 2 + 1, 16 + 16 + 16 + 4},
      {small_rails(), 8 + 4 + 8 + 4 + 1, 16 + 16 + 16 + 8},
      {small_rails_with_core(), 16 + 8 + 16 + 8 + 4 + 1, 32 + 32 + 32 + 16 + 8},
      {small_switch(), 8 + 4 + 8 + 1, 16 + 16 + 16},
      {lone_node(), 8 + 1, 16},
      {pcie_nodes(), 8 + 2 + 2 + 1, 16 + 4 + 4},     // GPU-host, host-NIC, NIC-leaf
      {bridged_pairs(), 4 + 2 + 1, 8 + 8},           // bridges and host
      {small_racks(), 16 + 2 + 16 + 4 + 1, 96 + 8},  // a pod holds one whole rack
  };
  for (const Row& row : rows) {
    const Cluster cluster(row.spec);
    CHECK(cluster.devices().size() == row.devices);
    CHECK(cluster.links().size() == row.links);
  }
}

TEST_CASE("routes by name") {
  SECTION("inside a domain, through its switch") {
    CHECK(route_names(Cluster(lone_node()), 3, 5) ==
          Names{"node 0 gpu 3 -> node 0 switch", "node 0 switch -> node 0 gpu 5"});
    CHECK(route_names(Cluster(small_racks()), 0, 7) ==
          Names{"node 0 gpu 0 -> domain 0 switch", "domain 0 switch -> node 3 gpu 1"});
  }
  SECTION("to itself: nothing") { CHECK(route_names(Cluster(lone_node()), 3, 3).empty()); }
  SECTION("between bridged pairs, through the host") {
    CHECK(route_names(Cluster(bridged_pairs()), 0, 3) ==
          Names{"node 0 gpu 0 -> node 0 host", "node 0 host -> node 0 gpu 3"});
  }
  SECTION("between PCIe nodes, through host and shared NIC") {
    CHECK(route_names(Cluster(pcie_nodes()), 1, 6) ==
          Names{"node 0 gpu 1 -> node 0 host", "node 0 host -> node 0 nic 0",
                "node 0 nic 0 -> leaf 0", "leaf 0 -> node 1 nic 0", "node 1 nic 0 -> node 1 host",
                "node 1 host -> node 1 gpu 2"});
  }
  SECTION("fat tree, over the spine") {
    CHECK(route_names(Cluster(small_fat_tree()), 0, 5) ==
          Names{"node 0 gpu 0 -> node 0 nic 0", "node 0 nic 0 -> leaf 0", "leaf 0 -> spine group 0",
                "spine group 0 -> leaf 1", "leaf 1 -> node 2 nic 1",
                "node 2 nic 1 -> node 2 gpu 1"});
  }
  SECTION("same rail and pod: one leaf") {
    CHECK(route_names(Cluster(small_rails()), 1, 3) ==
          Names{"node 0 gpu 1 -> node 0 nic 1", "node 0 nic 1 -> pod 0 leaf 1",
                "pod 0 leaf 1 -> node 1 nic 1", "node 1 nic 1 -> node 1 gpu 1"});
  }
  SECTION("other rail: first over NVLink to the GPU on it") {
    CHECK(route_names(Cluster(small_rails()), 0, 3) ==
          Names{"node 0 gpu 0 -> node 0 switch", "node 0 switch -> node 0 gpu 1",
                "node 0 gpu 1 -> node 0 nic 1", "node 0 nic 1 -> pod 0 leaf 1",
                "pod 0 leaf 1 -> node 1 nic 1", "node 1 nic 1 -> node 1 gpu 1"});
  }
  SECTION("over the core") {
    CHECK(route_names(Cluster(small_rails_with_core()), 0, 4) ==
          Names{"node 0 gpu 0 -> node 0 nic 0", "node 0 nic 0 -> pod 0 leaf 0",
                "pod 0 leaf 0 -> spine group 0", "spine group 0 -> core", "core -> spine group 1",
                "spine group 1 -> pod 1 leaf 0", "pod 1 leaf 0 -> node 2 nic 0",
                "node 2 nic 0 -> node 2 gpu 0"});
  }
}

TEST_CASE("every pair has a continuous route") {
  for (const NamedSpec& named : all_small_clusters()) {
    CAPTURE(named.name);
    const Cluster cluster(named.spec);
    std::vector<LinkId> route;
    for (const GpuId from : all_gpus(cluster)) {
      for (const GpuId to : all_gpus(cluster)) {
        if (from == to) continue;
        CAPTURE(index_of(from), index_of(to));
        route.clear();
        cluster.append_route(from, to, route);
        DeviceId at{index_of(from)};
        for (const LinkId id : route) {
          const ClusterLink& link = cluster.links()[index_of(id)];
          REQUIRE(link.from == at);
          at = link.to;
        }
        REQUIRE(at == DeviceId{index_of(to)});
      }
    }
  }
}

TEST_CASE("cards and GPUs need not be equal in number") {
  SECTION("two GPUs share a card") {
    ClusterSpec spec{small_system(8, 4), 2, {}};
    const Cluster cluster(spec);
    CHECK(cluster.nic_of(GpuId{0}) == 0);
    CHECK(cluster.nic_of(GpuId{1}) == 0);
    CHECK(cluster.nic_of(GpuId{7}) == 3);
    CHECK(cluster.nic_of(GpuId{8}) == 4);
  }
  SECTION("four cards of one GPU act as one") {
    // As p5.48xlarge: 32 cards of 100 Gb/s are 8 NICs of 400 Gb/s.
    ClusterSpec spec{small_system(8, 32), 2, {}};
    spec.system.nic_bandwidth = gigabits_per_second(100);
    const Cluster cluster(spec);
    CHECK(cluster.nic_of(GpuId{5}) == 5);
    std::vector<LinkId> route;
    cluster.append_route(GpuId{5}, GpuId{13}, route);
    CHECK(cluster.links()[index_of(route[1])].capacity == gigabits_per_second(400));
  }
}

TEST_CASE("what cannot be built is told in words") {
  const auto problem = [](auto change) {
    ClusterSpec spec = small_rails();
    change(spec);
    return problem_of(spec).value_or("sound");
  };
  CHECK(problem([](ClusterSpec&) {}) == "sound");
  CHECK(problem([](ClusterSpec& s) { s.nodes = 0; }) == "nodes 0 is less than 1");
  CHECK(problem([](ClusterSpec& s) { s.system.gpus_per_node = 8, s.system.nvlink_domain = 6; }) ==
        "nvlink_domain 6 neither divides gpus_per_node 8 nor is a multiple of it");
  CHECK(problem([](ClusterSpec& s) { s.system.nics = 0; }) ==
        "4 nodes without network cards cannot reach each other");
  CHECK(problem([](ClusterSpec& s) { s.system.nics = 0, s.system.nvlink_domain = 8; }) == "sound");
  CHECK(problem([](ClusterSpec& s) { s.system.gpu.nvlink = {}; }) ==
        "node_link \"nvswitch\" needs a GPU with NVLink, test gpu has none");
  CHECK(problem([](ClusterSpec& s) { s.fabric.oversubscription = 0; }) ==
        "oversubscription must be above 0 (1 is non-blocking)");
}

TEST_CASE("slow GPUs and degraded links are where they were put") {
  ClusterSpec spec = small_fat_tree();
  spec.slow = {{.first = 2, .last = 3, .speed = 0.8}, {.first = 3, .last = 3, .speed = 0.5}};
  spec.degraded = {{.kind = LinkKind::nic, .first = 5, .last = 5, .factor = 0.5},
                   {.kind = LinkKind::leaf_uplink, .first = 1, .last = 1, .factor = 0.25},
                   {.kind = LinkKind::leaf_uplink, .first = 1, .last = 1, .factor = 0.75}};
  const Cluster whole(small_fat_tree());
  const Cluster cluster(spec);
  CHECK(cluster.speed_of(GpuId{1}) == 1);
  CHECK(cluster.speed_of(GpuId{2}) == 0.8);
  CHECK(cluster.speed_of(GpuId{3}) == 0.5);
  int degraded = 0;
  for (std::uint32_t i = 0; i < cluster.links().size(); ++i) {
    const ClusterLink& link = cluster.links()[i];
    const double factor = link.capacity / whole.links()[i].capacity;
    CHECK(factor == cluster.condition_of(LinkId{i}));
    if (factor == 1) continue;
    ++degraded;
    CHECK(factor == (link.kind == LinkKind::nic ? 0.5 : 0.25));
  }
  CHECK(degraded == 4);  // both ways of a card and of an uplink
}

TEST_CASE("degraded links above the leaves are those of their place") {
  struct Case {
    ClusterSpec spec;
    LinkKind kind;
    int places;
    int place;
    const char* name;
  };
  // small_torus: one cable of 2 routers in 12 rows, rings of 3 and 4 of 24 each.
  const std::vector<Case> cases{
      {small_rails_with_core(), LinkKind::spine_uplink, 4, 2, "spine group 2 -> core"},
      {small_zones(), LinkKind::zone_uplink, 2, 1, "zone 1 core -> backbone"},
      {small_dragonfly(), LinkKind::switch_link, 3, 2, "group 1 -> group 2"},
      {small_torus(), LinkKind::switch_link, 60, 0, "router 0 -> router 1"},
      {small_graph(), LinkKind::switch_link, 4, 3, "c -> d"}};
  for (const Case& row : cases) {
    CAPTURE(row.name);
    CHECK(count_of_places(row.spec, row.kind) == row.places);
    ClusterSpec spec = row.spec;
    spec.degraded = {{.kind = row.kind, .first = row.place, .last = row.place, .factor = 0.5}};
    REQUIRE_FALSE(problem_of(spec));
    const Cluster cluster(spec);
    const Cluster whole(row.spec);
    std::vector<std::string> found;
    for (std::uint32_t i = 0; i < cluster.links().size(); ++i) {
      if (cluster.condition_of(LinkId{i}) == 1) continue;
      CHECK(cluster.links()[i].capacity == 0.5 * whole.links()[i].capacity);
      CHECK(cluster.links()[i].kind == row.kind);
      found.push_back(cluster.name_of(LinkId{i}));
    }
    REQUIRE(found.size() == 2);  // both ways
    CHECK(found.front() == row.name);
    spec.degraded[0].first = spec.degraded[0].last = row.places;
    CHECK(problem_of(spec));
  }
  CHECK(count_of_places(small_fat_tree(), LinkKind::spine_uplink) == 0);
  CHECK(count_of_places(small_zones(), LinkKind::switch_link) == 0);
}

TEST_CASE("what cannot be slow or degraded is a problem") {
  const auto problem_with = [](const SlowGpus& slow) {
    ClusterSpec spec = small_fat_tree();
    spec.slow = {slow};
    return problem_of(spec).has_value();
  };
  CHECK_FALSE(problem_with({.first = 0, .last = 7, .speed = 1}));
  CHECK(problem_with({.first = 0, .last = 8, .speed = 1}));
  CHECK(problem_with({.first = -1, .last = 0, .speed = 1}));
  CHECK(problem_with({.first = 0, .last = 0, .speed = 0}));
  CHECK(problem_with({.first = 0, .last = 0, .speed = 1.5}));
  CHECK(count_of_places(small_fat_tree(), LinkKind::nic) == 8);
  CHECK(count_of_places(small_fat_tree(), LinkKind::leaf_uplink) == 2);
  CHECK(count_of_places(lone_node(), LinkKind::nic) == 0);
  CHECK(count_of_places(small_switch(), LinkKind::leaf_uplink) == 0);
}
