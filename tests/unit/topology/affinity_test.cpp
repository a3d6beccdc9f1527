// Which network card a GPU uses: 8 GPUs, 4 cards of 40 GB/s, counted by hand.

#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "small_clusters.h"
#include "topology/group_load.h"
#include "topology/group_path.h"

using namespace flopcast;

namespace {

/// Two nodes; the first and the last GPU share card 0, those next to them card 1, and so on.
ClusterSpec mirrored(FabricKind kind) {
  ClusterSpec spec{small_system(8, 4), 2, {.kind = kind}};
  spec.system.gpu_nic = {0, 1, 2, 3, 3, 2, 1, 0};
  return spec;
}

std::vector<std::string> route(const Cluster& cluster, std::uint32_t from, std::uint32_t to) {
  std::vector<LinkId> links;
  cluster.append_route(GpuId{from}, GpuId{to}, links);
  std::vector<std::string> names;
  for (const LinkId link : links) names.push_back(cluster.name_of(link));
  return names;
}

std::map<std::string, double> card_weights(const Cluster& cluster) {
  std::map<std::string, double> weights;
  for (const LinkLoad& load : group_load(cluster, all_gpus(cluster), LoadPattern::ring)) {
    if (cluster.links()[index_of(load.link)].kind != LinkKind::nic) continue;
    weights[cluster.name_of(load.link)] = load.weight;
  }
  return weights;
}

std::string problem_with(std::vector<int> gpu_nic, int nics = 4) {
  ClusterSpec spec{small_system(8, nics), 2, {}};
  spec.system.gpu_nic = std::move(gpu_nic);
  return problem_of(spec).value_or("sound");
}

}  // namespace

TEST_CASE("a GPU leaves and enters its node by its own card") {
  const Cluster cluster(mirrored(FabricKind::single_switch));
  CHECK(cluster.nic_of(GpuId{4}) == 3);
  CHECK(cluster.nic_of(GpuId{15}) == 4);
  CHECK(route(cluster, 4, 15) ==
        std::vector<std::string>{"node 0 gpu 4 -> node 0 nic 3", "node 0 nic 3 -> leaf 0",
                                 "leaf 0 -> node 1 nic 0", "node 1 nic 0 -> node 1 gpu 7"});
  // In order and equal shares, where the system does not say: two neighbours on each card.
  const Cluster plain({small_system(8, 4), 2, {.kind = FabricKind::single_switch}});
  CHECK(plain.nic_of(GpuId{4}) == 2);
  CHECK(plain.nic_of(GpuId{15}) == 7);
}

TEST_CASE("on rails a GPU's rail is that of its card") {
  const Cluster cluster(mirrored(FabricKind::rail_optimized));
  // The last GPU is on the rail of the first, so nothing crosses NVLink.
  CHECK(route(cluster, 0, 15).size() == 4);
  CHECK(route(cluster, 0, 15).front() == "node 0 gpu 0 -> node 0 nic 0");
  // GPU 4 of node 1 is on rail 3: over NVLink to the own node's GPU 4 first.
  CHECK(route(cluster, 0, 12).at(1) == "node 0 switch -> node 0 gpu 4");
  CHECK(route(cluster, 0, 12).at(2) == "node 0 gpu 4 -> node 0 nic 3");
}

TEST_CASE("cards that GPUs share carry what all of them send") {
  // A channel for each of 8 GPUs, an eighth of the data each: two eighths on every card.
  for (const auto& [link, weight] : card_weights(Cluster(mirrored(FabricKind::single_switch)))) {
    CAPTURE(link);
    CHECK(weight == 0.25);
  }
  ClusterSpec spec{small_system(8, 4), 2, {.kind = FabricKind::single_switch}};
  spec.system.gpu_nic = {0, 0, 0, 0, 0, 1, 2, 3};
  const auto crowded = card_weights(Cluster(spec));
  CHECK(crowded.at("node 0 nic 0 -> leaf 0") == 5.0 / 8);
  CHECK(crowded.at("leaf 0 -> node 1 nic 3") == 1.0 / 8);
}

TEST_CASE("a group is as wide as the cards that its members use") {
  const Cluster cluster(mirrored(FabricKind::single_switch));
  const auto width = [&](std::vector<std::uint32_t> members) {
    return to_gigabytes_per_second(node_bandwidth(cluster, gpus(std::move(members))));
  };
  CHECK(width({0, 7, 8, 15}) == Approx(40));
  CHECK(width({0, 1, 8, 9}) == Approx(80));
  CHECK(width({0, 1, 2, 3, 8, 9, 10, 11}) == Approx(160));
  const Cluster plain({small_system(8, 4), 2, {.kind = FabricKind::single_switch}});
  CHECK(node_bandwidth(plain, gpus({0, 1, 8, 9})) == gigabytes_per_second(40));
}

// Two racks of four trays with 2 GPUs and 2 cards of 40 GB/s each.
TEST_CASE("a group leaves an NVLink domain by the cards of all its trays") {
  ClusterSpec spec{small_system(2, 2), 8, {.kind = FabricKind::single_switch}};
  spec.system.nvlink_domain = 8;
  const Cluster cluster(spec);
  const auto width = [&](std::vector<std::uint32_t> members) {
    return to_gigabytes_per_second(node_bandwidth(cluster, gpus(std::move(members))));
  };
  CHECK(width({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}) == Approx(320));
  CHECK(width({0, 2, 4, 6, 8, 10, 12, 14}) == Approx(160));
  CHECK(width({0, 1, 8, 9}) == Approx(80));
}

TEST_CASE("with a card all its GPUs lose their way out") {
  ClusterSpec spec = mirrored(FabricKind::single_switch);
  spec.missing_nics = {7};
  const Cluster cluster(spec);
  CHECK(cluster.borrows_nic(GpuId{0}));
  CHECK(cluster.borrows_nic(GpuId{7}));
  CHECK_FALSE(cluster.borrows_nic(GpuId{3}));
  CHECK(cluster.nic_of(GpuId{0}) == 1);
  spec.missing_nics = {0, 1, 2, 3};
  CHECK(problem_of(spec) == "node 0 has no network card left");
}

TEST_CASE("lists of cards that cannot be") {
  CHECK(problem_with({0, 1, 2, 3, 3, 2, 1, 0}) == "sound");
  CHECK(problem_with({}) == "sound");
  CHECK(problem_with({0, 1, 2, 3}) == "gpu_nic: expected a card for each of 8 GPUs, found 4");
  CHECK(problem_with({0, 1, 2, 3, 4, 2, 1, 0}) ==
        "gpu_nic: GPU 4 uses card 4, but cards are 0 to 3");
  CHECK(problem_with({0, 0, 1, 1, 1, 1, 3, 3}) ==
        "gpu_nic: no GPU uses card 2; expected 3 cards, or a GPU on each");
  CHECK(problem_with({0, 1, 2, 3, 4, 5, 6, 7}, 16) ==
        "gpu_nic: 16 cards for 8 GPUs, of which each uses its own share of cards");
}
