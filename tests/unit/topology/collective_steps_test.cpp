#include "topology/collective_steps.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/engine.h"
#include "sim/fold.h"
#include "small_clusters.h"
#include "topology/group_load.h"

using namespace flopcast;

namespace {

using Kind = CollectiveKind;
using Algorithm = StepAlgorithm;

/// GPUs on one switch, each with a port of this rate, full duplex.
Cluster one_switch(int ranks, BytesPerSecond port) {
  System system = small_system(ranks, 0);
  system.gpu.nvlink = port;
  return Cluster({system, 1, {}});
}

Workload workload_of(const Cluster& cluster, const CollectiveSteps& steps) {
  Workload network = idle_network(cluster);
  REQUIRE_FALSE(problem_of(steps, cluster, all_gpus(cluster)));
  append_steps(cluster, all_gpus(cluster), steps, network);
  return network;
}

Seconds time_of(const Cluster& cluster, const CollectiveSteps& steps) {
  return to_seconds(run(workload_of(cluster, steps)).makespan);
}

std::vector<Bytes> carried_by(const Cluster& cluster, const CollectiveSteps& steps) {
  std::vector<Bytes> carried;
  for (const LinkSummary& link : run(workload_of(cluster, steps)).links) {
    carried.push_back(link.carried);
  }
  return carried;
}

/// What the fluid model puts on links where each rank sends `sent`.
std::vector<Bytes> fluid_bytes(const Cluster& cluster, LoadPattern pattern, Bytes sent) {
  std::vector<Bytes> carried(cluster.links().size());
  for (const LinkLoad& load : group_load(cluster, all_gpus(cluster), pattern)) {
    carried[index_of(load.link)] = load.weight * sent;
  }
  return carried;
}

void check_equal(const Cluster& cluster, const std::vector<Bytes>& a, const std::vector<Bytes>& b) {
  REQUIRE(a.size() == b.size());
  for (std::uint32_t i = 0; i < a.size(); ++i) {
    CAPTURE(cluster.name_of(LinkId{i}));
    CHECK(a[i].value == Approx(b[i].value).epsilon(1e-9).margin(1e-6));
  }
}

Bytes sum_over(const Cluster& cluster, const std::vector<Bytes>& carried, LinkKind kind) {
  Bytes sum{};
  for (std::size_t i = 0; i < carried.size(); ++i) {
    if (cluster.links()[i].kind == kind) sum += carried[i];
  }
  return sum;
}

Cluster rails(int nodes, int gpus_per_node) {
  return Cluster({small_system(gpus_per_node, gpus_per_node),
                  nodes,
                  {.kind = FabricKind::rail_optimized, .switch_ports = 8}});
}

}  // namespace

TEST_CASE("on one switch each algorithm takes the time of its closed form") {
  struct Row {
    std::string name;  // in the fixture
    Kind kind;
    Algorithm algorithm;
    bool at_once = false;  // a rank sends to all others together
    int most_ranks = 512;
  };
  const auto row = GENERATE(values<Row>({
      {"all_reduce.ring", Kind::all_reduce, Algorithm::ring},
      {"all_gather.ring", Kind::all_gather, Algorithm::ring},
      {"reduce_scatter.ring", Kind::reduce_scatter, Algorithm::ring},
      {"all_reduce.halving_doubling", Kind::all_reduce, Algorithm::halving_doubling},
      {"all_gather.recursive_doubling", Kind::all_gather, Algorithm::halving_doubling},
      {"reduce_scatter.recursive_halving", Kind::reduce_scatter, Algorithm::halving_doubling},
      {"all_to_all.pairwise", Kind::all_to_all, Algorithm::direct, false, 64},
      {"all_to_all.direct_switch", Kind::all_to_all, Algorithm::direct, true, 64},
      {"broadcast.binomial", Kind::broadcast, Algorithm::binomial},
  }));
  std::ifstream file(FLOPCAST_TEST_DATA "/nccl/collectives.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  int compared = 0;
  for (const auto& golden_case : golden.at("alpha_beta").at("cases")) {
    const int ranks = golden_case.at("ranks");
    const auto& expected = golden_case.at("expected_seconds");
    if (ranks > row.most_ranks || !expected.contains(row.name)) continue;
    const Cluster cluster =
        one_switch(ranks, bytes_per_second(golden_case.at("bytes_per_second").get<double>()));
    const Seconds time =
        time_of(cluster, {.kind = row.kind,
                          .algorithm = row.algorithm,
                          .size = bytes(golden_case.at("bytes").get<double>()),
                          .channels = row.at_once ? ranks : 1,
                          .latency = seconds(golden_case.at("latency_seconds").get<double>())});
    CAPTURE(row.name, ranks, golden_case.at("bytes").get<double>());
    // The clock rounds each of two halves of a step up to a picosecond, of a microsecond or more.
    CHECK(time.value == Approx(expected.at(row.name).get<double>()).epsilon(2e-6));
    ++compared;
  }
  CHECK(compared > 5);
}

TEST_CASE("a tree of two ranks, pipelined, by hand") {
  // K chunks of t each go up one after another; chunk k is up at (k + 1) t and down one t later,
  // when the next is up. The port is full duplex: (K + 1) t in all.
  const int chunks = GENERATE(1, 2, 16);
  const Cluster cluster = one_switch(2, gigabytes_per_second(100));
  const Seconds chunk_time = microseconds(2) + megabytes(16) / chunks / gigabytes_per_second(100);
  const Seconds time = time_of(cluster, {.algorithm = Algorithm::tree,
                                         .size = megabytes(16),
                                         .chunks = chunks,
                                         .latency = microseconds(2)});
  CAPTURE(chunks);
  CHECK(time / ((chunks + 1) * chunk_time) == Approx(1).epsilon(1e-6));
}

// K chunks of t each: the last leaves the first of n ranks at K t and passes n - 2 more hops.
// Source: Barnett et al., J. Parallel Distrib. Comput. 24(1), 1995, a pipelined chain.
TEST_CASE("a broadcast goes round a ring chunk by chunk") {
  const int ranks = GENERATE(2, 3, 8);
  const int chunks = GENERATE(1, 4, 64);
  CAPTURE(ranks, chunks);
  const Cluster cluster = one_switch(ranks, gigabytes_per_second(100));
  const CollectiveSteps steps{
      .kind = Kind::broadcast, .size = megabytes(64), .chunks = chunks, .latency = microseconds(2)};
  const Seconds chunk_time = microseconds(2) + megabytes(64) / chunks / gigabytes_per_second(100);
  CHECK(time_of(cluster, steps) / ((chunks + ranks - 2) * chunk_time) == Approx(1).epsilon(1e-6));
}

// 15 edges lead to 15 ranks. In one of four channels the first is the first of its node, and three
// edges cross. In the others the chain comes back to the rest of its node: four cross.
TEST_CASE("a broadcast goes once to each rank, on the rails of its channels") {
  const Cluster cluster = rails(4, 4);
  const auto carried = carried_by(
      cluster, {.kind = Kind::broadcast, .size = megabytes(64), .channels = 4, .chunks = 4});
  const Bytes across = sum_over(cluster, carried, LinkKind::nic) / 2;
  const Bytes inside = sum_over(cluster, carried, LinkKind::nvlink) / 2;
  CHECK(across / megabytes(64) == Approx((3 + 3 * 4) / 4.0));
  CHECK((across + inside) / megabytes(64) == Approx(15));
}

// S bytes on n ranks in C chunks, links of rate B. The first reduce has n slices on each link up,
// the last copy n on each link down: S / (C B) each. Between them a copy goes beside the next
// reduce, n + 1 slices on each link: (n + 1) / n S / (C B).
TEST_CASE("a switch that reduces takes 1 + 1/n times a buffer's transfer") {
  const int ranks = GENERATE(2, 4, 8);
  const int chunks = GENERATE(1, 2, 64);
  CAPTURE(ranks, chunks);
  const Cluster cluster = one_switch(ranks, gigabytes_per_second(100));
  const CollectiveSteps steps{.algorithm = Algorithm::in_switch,
                              .size = megabytes(64),
                              .chunks = chunks,
                              .latency = microseconds(2)};
  const Seconds turn = megabytes(64) / chunks / gigabytes_per_second(100);
  const Seconds expected =
      (chunks + 1) * microseconds(2) + 2.0 * turn + (chunks - 1) * (1 + 1.0 / ranks) * turn;
  CHECK(time_of(cluster, steps) / expected == Approx(1).epsilon(1e-6));
  for (const Bytes carried : carried_by(cluster, steps)) {
    if (carried == Bytes{}) continue;
    CHECK(carried / megabytes(64) == Approx(1 + 1.0 / ranks));
  }
}

TEST_CASE("the rotated channels of a ring load links as the fluid model says") {
  const auto [nodes, gpus] =
      GENERATE(values<std::pair<int, int>>({{1, 8}, {2, 4}, {4, 2}, {8, 8}}));
  const auto kind =
      GENERATE(FabricKind::rail_optimized, FabricKind::fat_tree, FabricKind::single_switch);
  CAPTURE(nodes, gpus, to_text(kind));
  const Cluster cluster({small_system(gpus, gpus), nodes, {.kind = kind, .switch_ports = 8}});
  const Bytes sent = bus_factor(Kind::all_reduce, nodes * gpus) * megabytes(64);
  check_equal(cluster, carried_by(cluster, {.size = megabytes(64), .channels = gpus, .chunks = 2}),
              fluid_bytes(cluster, LoadPattern::ring, sent));
}

TEST_CASE("both forms of all-to-all load links as the fluid model says") {
  const Cluster cluster = rails(8, 4);
  const auto fluid = fluid_bytes(cluster, LoadPattern::direct, 31.0 / 32 * megabytes(64));
  CollectiveSteps steps{.kind = Kind::all_to_all,
                        .algorithm = Algorithm::direct,
                        .size = megabytes(64),
                        .channels = 4};
  check_equal(cluster, carried_by(cluster, steps), fluid);
  // With PXN the same bytes take the same links, in larger messages.
  steps.algorithm = Algorithm::hierarchical;
  steps.channels = 1;
  steps.chunks = 3;
  check_equal(cluster, carried_by(cluster, steps), fluid);
}

TEST_CASE("the double binary tree loads links as the fluid model says") {
  const auto [nodes, gpus] =
      GENERATE(values<std::pair<int, int>>({{1, 8}, {2, 4}, {5, 2}, {8, 8}}));
  CAPTURE(nodes, gpus);
  const Cluster cluster = rails(nodes, gpus);
  check_equal(cluster,
              carried_by(cluster, {.algorithm = Algorithm::double_binary_tree,
                                   .size = megabytes(64),
                                   .channels = gpus}),
              fluid_bytes(cluster, LoadPattern::tree, megabytes(64)));
}

TEST_CASE("trees: each edge carries its data once up and once down") {
  const auto algorithm = GENERATE(Algorithm::tree, Algorithm::double_binary_tree);
  const int nodes = GENERATE(2, 5, 8);
  CAPTURE(to_text(algorithm), nodes);
  const Cluster cluster({small_system(4, 4), nodes, {.kind = FabricKind::single_switch}});
  const Bytes size = megabytes(64);
  const auto carried =
      carried_by(cluster, {.algorithm = algorithm, .size = size, .channels = 4, .chunks = 4});
  // N - 1 edges between nodes and 3 in each; a send crosses two links of its kind.
  CHECK(sum_over(cluster, carried, LinkKind::nic) / (2 * 2 * (nodes - 1) * size) == Approx(1));
  CHECK(sum_over(cluster, carried, LinkKind::nvlink) / (2 * 2 * 3 * nodes * size) == Approx(1));
  // A card has at most a parent and two children in one tree; in the other it is a leaf.
  const double most = algorithm == Algorithm::tree ? 3 : 2;
  for (std::size_t i = 0; i < carried.size(); ++i) {
    if (cluster.links()[i].kind != LinkKind::nic) continue;
    CHECK(carried[i] / size <= most / 4 * (1 + 1e-9));
  }
}

TEST_CASE("steps fold exactly") {
  const Cluster cluster({small_system(8, 8), 8, {.kind = FabricKind::single_switch}});
  const auto steps = GENERATE(values<CollectiveSteps>({
      {.size = megabytes(64), .latency = microseconds(1)},
      {.size = megabytes(64), .channels = 8, .chunks = 2, .latency = microseconds(1)},
      {.kind = Kind::all_to_all,
       .algorithm = Algorithm::direct,
       .size = megabytes(64),
       .channels = 63,
       .latency = microseconds(1)},
      {.kind = Kind::all_to_all,
       .algorithm = Algorithm::hierarchical,
       .size = megabytes(64),
       .latency = microseconds(1)},
  }));
  CAPTURE(to_text(steps.algorithm), steps.channels);
  const Workload whole = workload_of(cluster, steps);
  const Folding folding = fold(whole);
  CHECK(folding.workload.ranks.size() < whole.ranks.size());
  CHECK(to_seconds(run(folding.workload).makespan) / to_seconds(run(whole).makespan) ==
        Approx(1).epsilon(1e-9));
}

TEST_CASE("steps that cannot be built say why") {
  const Cluster cluster(small_rails());
  const auto problem = [&](const CollectiveSteps& steps, std::vector<std::uint32_t> numbers) {
    return problem_of(steps, cluster, gpus(std::move(numbers))).value_or("");
  };
  const Bytes size = megabytes(1);
  CHECK(problem({.size = size}, {0, 1, 2}).empty());
  CHECK(problem({.size = size}, {3}) == "1 ranks have nobody to send to");
  CHECK(problem({}, {0, 1}) == "a collective needs more than 0 bytes");
  CHECK(problem({.size = size, .channels = 0}, {0, 1}) == "channels 0 is less than 1");
  CHECK(problem({.size = size, .chunks = 0}, {0, 1}) == "chunks 0 is less than 1");
  CHECK(problem({.kind = Kind::all_gather, .algorithm = Algorithm::tree, .size = size}, {0, 1}) ==
        "all_gather has no tree form");
  CHECK(problem({.algorithm = Algorithm::halving_doubling, .size = size}, {0, 1, 2}) ==
        "halving_doubling needs a power of two, not 3 ranks");
  CHECK(problem({.kind = Kind::all_to_all, .algorithm = Algorithm::hierarchical, .size = size},
                {0, 1, 2}) == "hierarchical needs equally many ranks per domain, not 2 and 1");
  CHECK(
      problem({.kind = Kind::all_to_all, .algorithm = Algorithm::direct, .size = size, .chunks = 2},
              {0, 1}) == "direct sends messages whole: chunks 1");
  CHECK(problem({.kind = Kind::broadcast, .algorithm = Algorithm::tree, .size = size}, {0, 1}) ==
        "broadcast has no tree form");
  CHECK(problem({.algorithm = Algorithm::in_switch, .size = size}, {0, 1, 2}) ==
        "in_switch needs one domain, not 2");
  CHECK(problem({.algorithm = Algorithm::in_switch, .size = size, .channels = 2}, {0, 1}) ==
        "in_switch has one way: channels 1");
}
