#include "topology/group_load.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "named_weights.h"
#include "small_clusters.h"

using namespace flopcast;

namespace {

// The one weight that all loaded links of a kind and direction have.
std::set<double> weights_of(const Cluster& cluster, const std::vector<LinkLoad>& loads,
                            LinkKind kind) {
  std::set<double> found;
  for (const LinkLoad& load : loads) {
    if (cluster.links()[index_of(load.link)].kind == kind) found.insert(load.weight);
  }
  return found;
}

}  // namespace

TEST_CASE("ring in one domain: each GPU sends and receives one byte per byte") {
  const Cluster cluster(lone_node());
  const auto loads = group_load(cluster, all_gpus(cluster), LoadPattern::ring);
  CHECK(loads.size() == 16);
  CHECK(weights_of(cluster, loads, LinkKind::nvlink) == std::set{1.0});
  CHECK(group_load(cluster, gpus({2, 5}), LoadPattern::ring).size() == 4);
  CHECK(group_load(cluster, gpus({2}), LoadPattern::ring).empty());
}

TEST_CASE("flat ring over all rails: each NIC carries 1/g") {
  // g GPUs with a NIC each in N nodes. Of the 2(n-1)/n S that a rank of n = gN sends in an
  // all-reduce of S, a NIC carries 1/g each way, NVLink the rest.
  const int g = GENERATE(2, 4, 8);
  const int nodes = GENERATE(2, 3, 8);
  CAPTURE(g, nodes);
  const Cluster cluster({small_system(g, g), nodes, {}});
  const auto loads = group_load(cluster, all_gpus(cluster), LoadPattern::ring);
  CHECK(weights_of(cluster, loads, LinkKind::nic) == std::set{1.0 / g});
  CHECK(weights_of(cluster, loads, LinkKind::pcie) == std::set{1.0 / g});
  CHECK(weights_of(cluster, loads, LinkKind::nvlink) == std::set{(g - 1.0) / g});
  CHECK(weights_of(cluster, loads, LinkKind::leaf_uplink).empty());  // one pod: stays on rails
  CHECK(loads.size() == 6u * static_cast<std::size_t>(g * nodes));
}

TEST_CASE("flat ring over pods: each rail crosses once each way") {
  const Cluster cluster(small_rails());
  const auto loads = group_load(cluster, all_gpus(cluster), LoadPattern::ring);
  CHECK(loads.size() == cluster.links().size());
  CHECK(std::ranges::all_of(loads, [](const LinkLoad& load) { return load.weight == 0.5; }));
  CHECK(
      std::ranges::is_sorted(loads, {}, [](const LinkLoad& load) { return index_of(load.link); }));
}

TEST_CASE("ring with one GPU per node: its NIC carries all") {
  const Cluster cluster(small_rails());
  const auto loads = group_load(cluster, gpus({1, 3, 5, 7}), LoadPattern::ring);
  CHECK(weights_of(cluster, loads, LinkKind::nvlink).empty());
  CHECK(weights_of(cluster, loads, LinkKind::nic) == std::set{1.0});
  CHECK(weights_of(cluster, loads, LinkKind::leaf_uplink) == std::set{1.0});
}

TEST_CASE("ring order does not scatter a node's ranks") {
  const Cluster cluster(small_rails());
  const auto in_order = weights(cluster, gpus({0, 1, 2, 3}), LoadPattern::ring);
  CHECK(weights(cluster, gpus({0, 2, 1, 3}), LoadPattern::ring) == in_order);
}

TEST_CASE("GPUs that share a NIC add up on it") {
  const Cluster cluster({small_system(4, 2), 2, {.kind = FabricKind::single_switch}});
  const auto loads = group_load(cluster, all_gpus(cluster), LoadPattern::ring);
  CHECK(weights_of(cluster, loads, LinkKind::nvlink) == std::set{0.75});
  CHECK(weights_of(cluster, loads, LinkKind::pcie) == std::set{0.25});
  CHECK(weights_of(cluster, loads, LinkKind::nic) == std::set{0.5});
}

TEST_CASE("PCIe nodes: the GPU's one slot carries all it sends") {
  const Cluster cluster(pcie_nodes());
  const auto loads = group_load(cluster, all_gpus(cluster), LoadPattern::ring);
  CHECK(weights_of(cluster, loads, LinkKind::pcie) == std::set{1.0});  // 3/4 inside, 1/4 out
  CHECK(weights_of(cluster, loads, LinkKind::nic) == std::set{1.0});   // four quarters
}

TEST_CASE("uneven ring: a lone member passes on every channel") {
  const Cluster cluster(small_switch());
  CHECK(weights(cluster, gpus({0, 1, 2}), LoadPattern::ring) ==
        Weights{{"node 0 gpu 0 -> node 0 switch", 0.5},
                {"node 0 switch -> node 0 gpu 0", 0.5},
                {"node 0 gpu 1 -> node 0 switch", 0.5},
                {"node 0 switch -> node 0 gpu 1", 0.5},
                {"node 0 gpu 0 -> node 0 nic 0", 0.5},
                {"node 0 nic 0 -> node 0 gpu 0", 0.5},
                {"node 0 gpu 1 -> node 0 nic 1", 0.5},
                {"node 0 nic 1 -> node 0 gpu 1", 0.5},
                {"node 0 nic 0 -> leaf 0", 0.5},
                {"leaf 0 -> node 0 nic 0", 0.5},
                {"node 0 nic 1 -> leaf 0", 0.5},
                {"leaf 0 -> node 0 nic 1", 0.5},
                {"node 1 gpu 0 -> node 1 nic 0", 1},
                {"node 1 nic 0 -> node 1 gpu 0", 1},
                {"node 1 nic 0 -> leaf 0", 1},
                {"leaf 0 -> node 1 nic 0", 1}});
}

TEST_CASE("direct: NICs carry g(N-1)/(gN-1), whatever the fabric") {
  // So the bytes that a rank sends per second are at most (gN-1)/(g(N-1)) of its NIC's, about
  // N/(N-1): the ceiling that NCCL's maintainers give for all-to-all.
  const auto kind =
      GENERATE(FabricKind::single_switch, FabricKind::fat_tree, FabricKind::rail_optimized);
  const int g = GENERATE(1, 2, 8);
  const int nodes = GENERATE(2, 5);
  CAPTURE(to_text(kind), g, nodes);
  const Cluster cluster({small_system(g, g), nodes, {.kind = kind}});
  const auto loads = group_load(cluster, all_gpus(cluster), LoadPattern::direct);
  CHECK(weights_of(cluster, loads, LinkKind::nic) ==
        std::set{static_cast<double>(g * (nodes - 1)) / (g * nodes - 1)});
  if (kind == FabricKind::rail_optimized) {
    CHECK(weights_of(cluster, loads, LinkKind::leaf_uplink).empty());  // PXN keeps to the rails
  }
}

TEST_CASE("direct: NVLink carries what PXN relays, too") {
  // Two nodes of two. Of three bytes a GPU sends one to its neighbour, one on its rail, and one
  // over NVLink to the neighbour's rail.
  const Cluster cluster(small_rails());
  const auto loads = group_load(cluster, gpus({0, 1, 2, 3}), LoadPattern::direct);
  CHECK(weights_of(cluster, loads, LinkKind::nvlink) == std::set{2.0 / 3});
  const Cluster plain(small_switch());
  const auto without = group_load(plain, gpus({0, 1, 2, 3}), LoadPattern::direct);
  CHECK(weights_of(plain, without, LinkKind::nvlink) == std::set{1.0 / 3});
}

TEST_CASE("pair: one byte along the route") {
  const Cluster cluster(small_fat_tree());
  const auto loads = group_load(cluster, gpus({0, 5}), LoadPattern::pair);
  CHECK(loads.size() == 6);
  CHECK(std::ranges::all_of(loads, [](const LinkLoad& load) { return load.weight == 1; }));
}

TEST_CASE("bytes out of GPUs are bytes into GPUs") {
  for (const NamedSpec& named : all_small_clusters()) {
    for (const LoadPattern pattern : {LoadPattern::ring, LoadPattern::direct}) {
      CAPTURE(named.name);
      const Cluster cluster(named.spec);
      const auto members = all_gpus(cluster);
      double out = 0;
      double in = 0;
      for (const LinkLoad& load : group_load(cluster, members, pattern)) {
        const ClusterLink& link = cluster.links()[index_of(load.link)];
        if (cluster.devices()[index_of(link.from)].kind == DeviceKind::gpu) out += load.weight;
        if (cluster.devices()[index_of(link.to)].kind == DeviceKind::gpu) in += load.weight;
      }
      CHECK(out == Approx(in));
      const auto n = static_cast<double>(members.size());
      if (pattern == LoadPattern::ring) CHECK(out == Approx(n));  // one byte per rank
      CHECK(out >= n - 1e-9);
    }
  }
}

TEST_CASE("shape of groups") {
  struct Row {
    ClusterSpec spec;
    std::vector<std::uint32_t> members;
    GroupShape expected;
  };
  const std::vector<Row> rows{
      {lone_node(), {0, 1, 2, 3}, {4, 1}},
      {lone_node(), {6}, {1, 1}},
      {small_rails(), {0, 2, 4, 6}, {1, 4}},
      {small_rails(), {0, 1, 6, 7}, {2, 2}},
      {small_rails(), {0, 1, 2}, {2, 2}},            // uneven: the fullest
      {small_racks(), {0, 2, 4, 6, 8, 10}, {4, 2}},  // by domain, not by node
      {pcie_nodes(), {0, 1, 4, 5}, {2, 2}},
      {bridged_pairs(), {0, 1, 2, 3}, {2, 2}},  // pairs, not the node
  };
  for (const Row& row : rows) {
    CHECK(group_shape(Cluster(row.spec), gpus(row.members)) == row.expected);
  }
}

TEST_CASE("slowest tier of groups") {
  struct Row {
    ClusterSpec spec;
    std::vector<std::uint32_t> members;
    LinkKind expected;
  };
  const std::vector<Row> rows{
      {small_rails(), {0, 1}, LinkKind::nvlink},
      {small_rails(), {0, 3}, LinkKind::nic},  // PXN: same pod, one leaf
      {small_rails(), {0, 4}, LinkKind::leaf_uplink},
      {small_rails_with_core(), {0, 4}, LinkKind::spine_uplink},
      {small_fat_tree(), {0, 3}, LinkKind::nic},
      {small_fat_tree(), {0, 1, 2, 6}, LinkKind::leaf_uplink},
      {small_switch(), {0, 7}, LinkKind::nic},
      {pcie_nodes(), {0, 3}, LinkKind::pcie},
      {pcie_nodes(), {0, 4}, LinkKind::nic},
      {bridged_pairs(), {0, 1}, LinkKind::nvlink},
      {bridged_pairs(), {1, 2}, LinkKind::pcie},
      {small_racks(), {0, 7}, LinkKind::nvlink},
      {small_racks(), {0, 8}, LinkKind::leaf_uplink},
  };
  for (const Row& row : rows) {
    CAPTURE(row.members);
    CHECK(to_text(slowest_tier(Cluster(row.spec), gpus(row.members))) == to_text(row.expected));
  }
}

TEST_CASE("the slowest tier of a group is that of its worst pair") {
  for (const NamedSpec& named : all_small_clusters()) {
    CAPTURE(named.name);
    const Cluster cluster(named.spec);
    for (const GpuId a : all_gpus(cluster)) {
      for (const GpuId b : all_gpus(cluster)) {
        if (a == b) continue;
        LinkKind worst = LinkKind::nvlink;
        std::vector<LinkId> route;
        cluster.append_route(a, b, route);
        for (const LinkId link : route)
          worst = std::max(worst, cluster.links()[index_of(link)].kind);
        CHECK(slowest_tier(cluster, std::vector{a, b}) == worst);
      }
    }
  }
}
