// Fabrics against the closed forms of the papers that describe them.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "small_clusters.h"
#include "topology/analysis.h"
#include "topology/ecmp.h"
#include "topology/group_load.h"
#include "topology/group_path.h"

using namespace flopcast;

namespace {

std::vector<LinkKind> route_kinds(const Cluster& cluster, std::uint32_t from, std::uint32_t to) {
  std::vector<LinkId> route;
  cluster.append_route(GpuId{from}, GpuId{to}, route);
  std::vector<LinkKind> kinds;
  for (const LinkId link : route) kinds.push_back(cluster.links()[index_of(link)].kind);
  return kinds;
}

/// Weights on links of one kind under all-to-all over all GPUs.
std::set<double> all_to_all_weights(const Cluster& cluster, LinkKind kind) {
  std::set<double> weights;
  for (const LinkLoad& load : group_load(cluster, all_gpus(cluster), LoadPattern::direct)) {
    if (cluster.links()[index_of(load.link)].kind == kind) weights.insert(load.weight);
  }
  return weights;
}

ClusterSpec dragonfly(int nodes) {
  // Kim, Dally, Scott and Abts, ISCA 2008, figure 6: p = h = 2, a = 4, so routers of 7 ports.
  return {small_system(1, 1), nodes, {.kind = FabricKind::dragonfly, .switch_ports = 7}};
}

ClusterSpec torus(std::vector<int> dimensions) {
  int nodes = 1;
  for (const int size : dimensions) nodes *= size;
  return {small_system(1, 1),
          nodes,
          {.kind = FabricKind::torus,
           .dimensions = std::move(dimensions),
           .link_bandwidth = gigabytes_per_second(10)}};
}

}  // namespace

TEST_CASE("a dragonfly of 7-port routers has 9 groups of 8 nodes, each pair joined once") {
  const Cluster cluster(dragonfly(72));
  CHECK(cluster.fabric_plan().leaves() == 36);
  CHECK(cluster.fabric_plan().spine_groups == 9);
  CHECK(global_cables(cluster.fabric_plan(), cluster.spec().fabric) == 1);
  // A minimal route: own router, gateway, gateway of the other group, router there.
  CHECK(network_latency(cluster, all_gpus(cluster)) / nanoseconds(300) == Approx(4));
  using enum LinkKind;
  CHECK(route_kinds(cluster, 0, 71) ==
        std::vector{pcie, nic, leaf_uplink, switch_link, leaf_uplink, nic, pcie});
}

TEST_CASE("a dragonfly's bisection is the cables between its halves") {
  const Cluster cluster(dragonfly(64));  // 8 groups: 4 x 4 pairs of one 40 GB/s cable
  CHECK(bisection_bandwidth(cluster) == gigabytes_per_second(16 * 40));
  ClusterSpec two = dragonfly(64);
  two.fabric.global_links = 2;
  CHECK(bisection_bandwidth(Cluster(two)) == gigabytes_per_second(32 * 40));
  // All-to-all: 8 x 8 flows between two groups, each of 1/63 of what a GPU sends.
  CHECK(all_to_all_weights(cluster, LinkKind::switch_link) == std::set{64.0 / 63});
  CHECK(slowest_tier(cluster, gpus({0, 7})) == LinkKind::leaf_uplink);
  CHECK(slowest_tier(cluster, gpus({0, 8})) == LinkKind::switch_link);
}

TEST_CASE("a torus's bisection is twice its cross-section, its all-to-all load n k / 8") {
  // Dally and Towles 2004, sections 3.3 and 5.2: bisection of a k-ary n-cube 2 N / k cables each
  // way; uniform traffic loads a channel with k/8 of what a node sends (k even).
  const Cluster cube(torus({4, 4, 4}));
  CHECK(bisection_bandwidth(cube) == gigabytes_per_second(2 * 16 * 10));
  CHECK(all_to_all_weights(cube, LinkKind::switch_link) == std::set{64.0 * 4 / 8 / 63});
  const Cluster square(torus({8, 8}));
  CHECK(bisection_bandwidth(square) == gigabytes_per_second(2 * 8 * 10));
  CHECK(all_to_all_weights(square, LinkKind::switch_link) == std::set{64.0 * 8 / 8 / 63});
  // Farthest: half round in each dimension; a router and a cable for each step, and the own router.
  CHECK(network_latency(cube, all_gpus(cube)) / nanoseconds(300) == Approx(2 + 2 + 2 + 1));
  CHECK(network_latency(square, all_gpus(square)) / nanoseconds(300) == Approx(4 + 4 + 1));
}

TEST_CASE("a torus shares a node's cards out over its cables") {
  ClusterSpec spec = torus({4, 4});
  spec.fabric.link_bandwidth = {};
  CHECK(bisection_bandwidth(Cluster(spec)) == gigabytes_per_second(2 * 4 * 40.0 / 4));
}

TEST_CASE("rails that are never joined: data changes rails in the node") {
  ClusterSpec spec = small_rails_with_core();  // 8 nodes x 2 GPUs, 4-port switches
  spec.fabric.kind = FabricKind::rail_only;
  const Cluster cluster(spec);
  CHECK(cluster.fabric_plan().spine_groups == 2);
  CHECK_FALSE(cluster.fabric_plan().core);
  using enum LinkKind;
  CHECK(route_kinds(cluster, 0, 15) ==
        std::vector{nvlink, nvlink, pcie, nic, leaf_uplink, leaf_uplink, nic, pcie});
  CHECK(slowest_tier(cluster, all_gpus(cluster)) == leaf_uplink);
  // 4 leaves of 2 cables in each rail: 8 leaves; 8 cables into 4-port spines: 2 for each rail.
  CHECK(switch_counts(cluster.fabric_plan(), 8, spec.fabric) == SwitchCounts{8, 4, 0});
  // Half of the nodes has 8 cards of 40 GB/s.
  CHECK(bisection_bandwidth(cluster) == gigabytes_per_second(8 * 40));
  spec.system.node_link = NodeLink::pcie;
  CHECK(problem_of(spec) == "rail_only needs NVLink between all GPUs of a node, to change rails");
}

TEST_CASE("zones meet over one long link each") {
  ClusterSpec spec = small_fat_tree();
  spec.fabric.zone_nodes = 2;
  CHECK(problem_of(spec) == "zones need zone_bandwidth, of one zone to the others");
  spec.fabric.zone_bandwidth = gigabytes_per_second(50);
  spec.fabric.zone_latency = milliseconds(1);
  const Cluster cluster(spec);
  CHECK(bisection_bandwidth(cluster) == gigabytes_per_second(50));
  CHECK(slowest_tier(cluster, gpus({0, 3})) == LinkKind::nic);
  CHECK(slowest_tier(cluster, gpus({0, 4})) == LinkKind::zone_uplink);
  // Leaf, spine, core, backbone and back.
  CHECK(network_latency(cluster, gpus({0, 4})) / (milliseconds(1) + nanoseconds(7 * 300)) ==
        Approx(1));
  spec.fabric.zone_nodes = 3;
  CHECK(problem_of(spec) == "zone_nodes 3 is no multiple of the 2 nodes that share a leaf");
}

TEST_CASE("levels that the ports do not reach are a problem") {
  const auto problem = [](int levels, int nodes) {
    ClusterSpec spec = small_fat_tree();  // 2 nodes on a leaf of 8 ports
    spec.fabric.levels = levels;
    spec.nodes = nodes;
    return problem_of(spec).value_or("sound");
  };
  CHECK(problem(1, 2) == "sound");
  CHECK(problem(1, 4) == "levels 1: 4 nodes need 2 switches of 8 ports");
  CHECK(problem(2, 16) == "sound");
  CHECK(problem(2, 18) == "levels 2: 9 leaves are more than the 8 ports of a spine");
  CHECK(problem(3, 18) == "sound");
  CHECK(problem(4, 4) == "levels 4 is not 1, 2 or 3 (0: as many as the ports need)");
  ClusterSpec three = small_fat_tree();
  three.fabric.levels = 3;
  CHECK(Cluster(three).fabric_plan().core);
}

TEST_CASE("most flows on one of several cables, counted by hand") {
  CHECK(expected_max_load(5, 1) == Approx(5));
  CHECK(expected_max_load(1, 7) == Approx(1));
  CHECK(expected_max_load(2, 10) == Approx(1 + 1.0 / 10));
  CHECK(expected_max_load(2, 2) == Approx(3.0 / 2));
  CHECK(expected_max_load(3, 3) == Approx((6 * 1 + 18 * 2 + 3 * 3) / 27.0));
  CHECK(expected_max_load(4, 4) == Approx((24 * 1 + 180 * 2 + 48 * 3 + 4 * 4) / 256.0));
}

TEST_CASE("thrown flows collide as expected") {
  constexpr int kThrows = 4000;
  double sum = 0;
  for (std::uint64_t seed = 1; seed <= kThrows; ++seed) sum += max_load(32, 32, seed, seed % 7);
  CHECK(sum / kThrows == Approx(expected_max_load(32, 32)).epsilon(0.01));
  CHECK(max_load(32, 32, 5, 1) == max_load(32, 32, 5, 1));
}

TEST_CASE("hash collisions take from a trunk what its fullest cable lacks") {
  ClusterSpec spec = small_fat_tree();  // leaves of 4 cards and 4 cables of 40 GB/s
  spec.fabric.routing = Routing::ecmp;
  CHECK(bisection_bandwidth(Cluster(spec)) / gigabytes_per_second(4 * 40 / 2.125) == Approx(1));
  spec.fabric.flows_per_card = 16;  // more flows spread better
  CHECK(bisection_bandwidth(Cluster(spec)) > gigabytes_per_second(4 * 40 / 1.5));
  spec.fabric.routing = Routing::adaptive;
  CHECK(bisection_bandwidth(Cluster(spec)) == gigabytes_per_second(160));
}

TEST_CASE("a graph is routed by latency, and flows share equal routes") {
  const auto cable = [](int from, int to, double us) {
    return FabricGraph::Cable{from, to, gigabytes_per_second(40), microseconds(us)};
  };
  ClusterSpec spec{small_system(1, 1), 4, {.kind = FabricKind::graph}};
  // a - b - d and a - c - d alike; a - d directly, but slower.
  spec.fabric.graph = {
      .switches = {"a", "b", "c", "d"},
      .cables = {cable(0, 1, 1), cable(1, 3, 1), cable(0, 2, 1), cable(2, 3, 1), cable(0, 3, 5)},
      .attached = {0, 1, 2, 3}};
  const Cluster cluster(spec);
  CHECK(route_kinds(cluster, 0, 3).size() == 2 + 2 + 2);
  CHECK(network_latency(cluster, gpus({0, 3})) / (nanoseconds(300) + microseconds(2)) == Approx(1));
  CHECK(slowest_tier(cluster, gpus({0, 3})) == LinkKind::switch_link);
  const GraphRoutes routes(spec.fabric.graph);
  std::set<int> first;
  for (std::uint64_t flow = 0; flow < 2; ++flow) {
    bool begun = false;
    routes.follow(0, 3, flow, [&](const CableStep& step) {
      if (!begun) first.insert(step.cable);
      begun = true;
    });
  }
  CHECK(first == std::set{0, 2});
  ClusterSpec lone = spec;
  lone.nodes = 1;
  CHECK(Cluster(lone).links().empty());
  spec.fabric.graph.cables = {cable(0, 1, 1), cable(2, 3, 1)};
  CHECK(problem_of(spec) == "no cables lead from switch a to c");
  spec.fabric.graph.attached = {0, 1};
  CHECK(problem_of(spec) == "the graph attaches 2 network cards, 4 nodes have 4");
}
