// Switches that reduce (SHARP): each byte goes up and down a tree of switches once.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "named_weights.h"
#include "small_clusters.h"
#include "topology/group_load.h"

using namespace flopcast;

namespace {

std::set<double> weights_of(const Cluster& cluster, LoadPattern pattern, LinkKind kind) {
  std::set<double> found;
  for (const LinkLoad& load : group_load(cluster, all_gpus(cluster), pattern)) {
    if (cluster.links()[index_of(load.link)].kind == kind) found.insert(load.weight);
  }
  return found;
}

std::string problem_with_sharp(ClusterSpec spec) {
  spec.fabric.sharp = true;
  return problem_of(spec).value_or("sound");
}

}  // namespace

TEST_CASE("an all-reduce in the network: 1/g of the buffer on each NIC, whatever the nodes") {
  // Where a ring puts 2(n-1)/n S/g on a NIC each way, the switches need S/g.
  const int g = GENERATE(1, 2, 4, 8);
  const int nodes = GENERATE(2, 3, 16);
  CAPTURE(g, nodes);
  const Cluster cluster({small_system(g, g), nodes, {}});
  const auto pattern = LoadPattern::in_network_reduce;
  CHECK(weights_of(cluster, pattern, LinkKind::nic) == std::set{1.0 / g});
  CHECK(weights_of(cluster, pattern, LinkKind::pcie) == std::set{1.0 / g});
  const std::set<double> inside = weights_of(cluster, pattern, LinkKind::nvlink);
  if (g == 1) {
    CHECK(inside.empty());
  } else {
    CHECK(inside == std::set{2 * (g - 1.0) / g});  // reduce-scatter and all-gather
  }
  CHECK(weights_of(cluster, pattern, LinkKind::leaf_uplink).empty());  // each rail on its leaf
}

TEST_CASE("an all-reduce in the network goes over an uplink once for each channel") {
  struct Row {
    ClusterSpec spec;
    double leaf;   // uplinks
    double spine;  // uplinks; 0: none are used
  };
  const std::vector<Row> rows{
      {small_fat_tree(), 1, 0},          // both halves of two NICs
      {small_rails(), 0.5, 0},           // one rail, one half
      {small_rails_with_core(), 0.5, 1}  // a group of spines joins both rails
  };
  for (const Row& row : rows) {
    const Cluster cluster(row.spec);
    const auto pattern = LoadPattern::in_network_reduce;
    CHECK(weights_of(cluster, pattern, LinkKind::leaf_uplink) == std::set{row.leaf});
    const std::set<double> spine = weights_of(cluster, pattern, LinkKind::spine_uplink);
    CHECK(spine == (row.spine > 0 ? std::set{row.spine} : std::set<double>{}));
  }
}

TEST_CASE("an all-gather through the network: own part up, the others' down") {
  // Nodes 0 and 1 on leaf 0, node 2 on leaf 1; 6 ranks, two channels of half a buffer each. Of a
  // half a NIC sends the third that is its node's, and gets the rest. Leaf 0 sends two thirds of
  // both halves up, leaf 1 one third.
  const Cluster cluster(small_fat_tree());
  const auto members = gpus({0, 1, 2, 3, 4, 5});
  const Weights gather = weights(cluster, members, LoadPattern::in_network_gather);
  CHECK(gather.at("node 0 nic 0 -> leaf 0") == Approx(1.0 / 6));
  CHECK(gather.at("leaf 0 -> node 0 nic 0") == Approx(2.0 / 6));
  CHECK(gather.at("node 2 nic 1 -> leaf 1") == Approx(1.0 / 6));
  CHECK(gather.at("leaf 1 -> node 2 nic 1") == Approx(2.0 / 6));
  CHECK(gather.at("leaf 0 -> spine group 0") == Approx(2.0 / 3));
  CHECK(gather.at("spine group 0 -> leaf 0") == Approx(1.0 / 3));
  CHECK(gather.at("leaf 1 -> spine group 0") == Approx(1.0 / 3));
  CHECK(gather.at("spine group 0 -> leaf 1") == Approx(2.0 / 3));
  CHECK(gather.at("node 1 gpu 0 -> node 1 switch") == Approx(1.0 / 2));
  CHECK(gather.at("node 1 switch -> node 1 gpu 0") == Approx(1.0 / 2));
  // A reduce-scatter is the same the other way round.
  const Weights scatter = weights(cluster, members, LoadPattern::in_network_scatter);
  CHECK(scatter.size() == gather.size());
  CHECK(scatter.at("node 0 nic 0 -> leaf 0") == Approx(2.0 / 6));
  CHECK(scatter.at("leaf 0 -> node 0 nic 0") == Approx(1.0 / 6));
  CHECK(scatter.at("leaf 0 -> spine group 0") == Approx(1.0 / 3));
  CHECK(scatter.at("spine group 0 -> leaf 0") == Approx(2.0 / 3));
}

TEST_CASE("GPUs that share a NIC, and nodes with fewer members") {
  const Cluster shared({small_system(4, 2), 2, {.kind = FabricKind::single_switch}});
  CHECK(weights_of(shared, LoadPattern::in_network_reduce, LinkKind::nic) == std::set{0.5});
  // A lone member takes part in every channel.
  const Cluster cluster(small_switch());
  const Weights reduce = weights(cluster, gpus({0, 1, 2}), LoadPattern::in_network_reduce);
  CHECK(reduce.at("node 0 nic 0 -> leaf 0") == 0.5);
  CHECK(reduce.at("node 0 nic 1 -> leaf 0") == 0.5);
  CHECK(reduce.at("node 1 nic 0 -> leaf 0") == 1);
  CHECK(reduce.at("leaf 0 -> node 1 nic 0") == 1);
  CHECK(reduce.at("node 0 gpu 1 -> node 0 switch") == 1);
  CHECK(reduce.count("node 1 gpu 0 -> node 1 switch") == 0);
  CHECK(weights(cluster, gpus({0, 1}), LoadPattern::in_network_reduce).empty());
}

TEST_CASE("only InfiniBand switches along a tree reduce") {
  CHECK(problem_with_sharp(small_fat_tree()) == "sound");
  CHECK(problem_with_sharp(small_rail_only()) == "sound");
  CHECK(problem_with_sharp(small_switch()) == "sound");
  CHECK(problem_with_sharp(small_torus()) ==
        "sharp: switches reduce along a tree, which a torus is not; expected kind single_switch, "
        "fat_tree, rail_optimized or rail_only");
  CHECK(problem_with_sharp(small_dragonfly()).starts_with("sharp: switches reduce along a tree"));
  CHECK(problem_with_sharp(small_graph()).starts_with("sharp: switches reduce along a tree"));
  ClusterSpec roce = small_rails();
  roce.system.network = NetworkKind::roce;
  roce.system.name = "box";
  CHECK(problem_with_sharp(roce) ==
        "sharp: only InfiniBand switches reduce, but the cards of box speak roce");
  ClusterSpec sockets = small_rails();
  sockets.transport = Transport::socket;
  CHECK(problem_with_sharp(sockets) ==
        "sharp: switches reduce what RDMA sends, but transport is socket");
}
