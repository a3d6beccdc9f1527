#include "calibration/nccl_model.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "calibration/closed_forms.h"
#include "sim/double_binary_tree.h"

namespace flopcast {
namespace {

// Golden values: see the `source` of each section of the file.
nlohmann::json golden(const std::string& section) {
  std::ifstream file(std::string(FLOPCAST_TEST_DATA) + "/nccl/collectives.json");
  return nlohmann::json::parse(file).at(section);
}

template <class Kinds>
auto by_name(const Kinds& kinds, const std::string& name) {
  for (const auto kind : kinds) {
    if (to_text(kind) == name) {
      return kind;
    }
  }
  throw std::runtime_error("unknown name " + name);
}

NcclProtocol protocol_named(const std::string& name) {
  return name == "LL" ? NcclProtocol::ll
                      : (name == "LL128" ? NcclProtocol::ll128 : NcclProtocol::simple);
}

NcclGraph graph_of(const nlohmann::json& item) {
  const int nodes = item.at("nodes");
  const int capability = item.at("compute_capability");
  return {.generation = capability >= 90 ? GpuGeneration::hopper : GpuGeneration::ampere,
          .cpu = by_name(kHostCpus, item.at("cpu")),
          .shape = {item.at("ranks").get<int>() / nodes, nodes},
          .channels = item.at("channels"),
          .intra = gigabytes_per_second(item.at("bw_intra_gbs")),
          .inter = gigabytes_per_second(item.at("bw_inter_gbs")),
          .sharp = false};
}

AlphaBeta link_of(const nlohmann::json& item, const char* bandwidth = "bytes_per_second") {
  return {.latency = seconds(item.at("latency_seconds")),
          .bandwidth = bytes_per_second(item.at(bandwidth))};
}

}  // namespace

TEST_CASE("NCCL's own estimates, as its tuner gave them") {
  const nlohmann::json section = golden("nccl_time_model");
  const double tolerance = section.at("tolerance");
  for (const nlohmann::json& item : section.at("cases")) {
    CAPTURE(item.dump());
    const CollectiveKind kind = by_name(kCollectiveKinds, item.at("collective"));
    const NcclAlgorithm algorithm = by_name(kNcclAlgorithms, item.at("algorithm"));
    const NcclProtocol protocol = protocol_named(item.at("protocol"));
    const NcclGraph graph = graph_of(item);
    const auto cost = nccl_cost(graph, kind, algorithm, protocol);
    REQUIRE(cost);
    CHECK(to_microseconds(cost->latency) ==
          Approx(item.at("latency_us").get<double>()).epsilon(tolerance));
    CHECK(to_gigabytes_per_second(cost->bandwidth) ==
          Approx(item.at("algbw_gbs").get<double>()).epsilon(tolerance));
    for (const auto& [size, expected] : item.at("time_us").items()) {
      CAPTURE(size);
      const auto time = nccl_time(graph, kind, algorithm, protocol, bytes(std::stod(size)));
      REQUIRE(time);
      CHECK(to_microseconds(*time) == Approx(expected.get<double>()).epsilon(tolerance));
    }
  }
}

TEST_CASE("NCCL uses an algorithm only where it can") {
  const NcclGraph two_nodes{.generation = GpuGeneration::hopper,
                            .cpu = HostCpu::intel,
                            .shape = {8, 2},
                            .channels = 8,
                            .intra = gigabytes_per_second(48),
                            .inter = gigabytes_per_second(48),
                            .sharp = false};
  const auto has = [](const NcclGraph& graph, CollectiveKind kind, NcclAlgorithm algorithm) {
    return nccl_cost(graph, kind, algorithm, NcclProtocol::simple).has_value();
  };
  CHECK(has(two_nodes, CollectiveKind::all_reduce, NcclAlgorithm::nvls_tree));
  CHECK_FALSE(has(two_nodes, CollectiveKind::all_reduce, NcclAlgorithm::nvls));
  CHECK_FALSE(has(two_nodes, CollectiveKind::all_gather, NcclAlgorithm::tree));
  CHECK_FALSE(has(two_nodes, CollectiveKind::all_gather, NcclAlgorithm::pat));
  CHECK_FALSE(has(two_nodes, CollectiveKind::all_reduce, NcclAlgorithm::collnet_chain));

  NcclGraph sharp = two_nodes;
  sharp.sharp = true;
  CHECK(has(sharp, CollectiveKind::all_reduce, NcclAlgorithm::nvls));
  CHECK(has(sharp, CollectiveKind::all_reduce, NcclAlgorithm::collnet_chain));

  NcclGraph old = two_nodes;
  old.generation = GpuGeneration::ampere;
  CHECK_FALSE(has(old, CollectiveKind::all_reduce, NcclAlgorithm::nvls_tree));

  NcclGraph single = two_nodes;
  single.shape = {1, 16};
  CHECK(has(single, CollectiveKind::all_gather, NcclAlgorithm::pat));
}

// 8 x H200: Ring LL up to 1 MiB, NVLS Simple from 2 MiB. Source: stas00/ml-engineering 744d01e1,
// network/README.md (NCCL 2.27.7).
TEST_CASE("NCCL's choice on one node of eight H200") {
  const NcclGraph graph{.generation = GpuGeneration::hopper,
                        .cpu = HostCpu::intel,
                        .shape = {8, 1},
                        .channels = 12,
                        .intra = gigabytes_per_second(30),
                        .inter = gigabytes_per_second(30),
                        .sharp = false};
  NcclGraph nvls = graph;
  nvls.channels = 16;
  nvls.intra = nvls.inter = gigabytes_per_second(20);
  const auto choice = [&](Bytes size) {
    return nccl_choice(graph, nvls, CollectiveKind::all_reduce, size);
  };
  CHECK(choice(kibibytes(8)).algorithm == NcclAlgorithm::ring);
  CHECK(choice(mebibytes(1)).algorithm == NcclAlgorithm::ring);
  CHECK(choice(mebibytes(1)).protocol == NcclProtocol::ll);
  CHECK(choice(mebibytes(2)).algorithm == NcclAlgorithm::nvls);
  CHECK(choice(mebibytes(16)).protocol == NcclProtocol::simple);
}

TEST_CASE("double binary trees are NCCL's") {
  const nlohmann::json section = golden("nccl_double_binary_tree");
  const auto node = [](const nlohmann::json& up, const nlohmann::json& down) {
    const auto rank = [](int value) {
      return value < 0 ? std::nullopt : std::optional<int>(value);
    };
    return TreeNode{.up = rank(up), .down = {rank(down.at(0)), rank(down.at(1))}};
  };
  for (const auto& [nodes, rows] : section.at("cases").items()) {
    for (const nlohmann::json& row : rows) {
      CAPTURE(nodes, row.dump());
      const DoubleBinaryTree tree = double_binary_tree(std::stoi(nodes), row.at("rank"));
      CHECK(tree.first == node(row.at("tree0_up"), row.at("tree0_down")));
      CHECK(tree.second == node(row.at("tree1_up"), row.at("tree1_down")));
    }
  }
}

TEST_CASE("closed forms of the alpha-beta model") {
  using enum CollectiveAlgorithm;
  struct Form {
    const char* name;
    CollectiveKind kind;
    CollectiveAlgorithm algorithm;
  };
  const std::vector<Form> forms{
      {"all_reduce.ring", CollectiveKind::all_reduce, ring},
      {"all_gather.ring", CollectiveKind::all_gather, ring},
      {"reduce_scatter.ring", CollectiveKind::reduce_scatter, ring},
      {"all_reduce.binomial_reduce_then_broadcast", CollectiveKind::all_reduce, binomial},
      {"broadcast.binomial", CollectiveKind::broadcast, binomial},
      {"broadcast.scatter_then_ring_all_gather", CollectiveKind::broadcast, scatter_all_gather},
      {"all_reduce.direct_one_shot_one_port", CollectiveKind::all_reduce, direct_one_shot},
      {"all_reduce.direct_two_shot_switch", CollectiveKind::all_reduce, direct_switch},
      {"all_gather.direct_switch", CollectiveKind::all_gather, direct_switch},
      {"reduce_scatter.direct_switch", CollectiveKind::reduce_scatter, direct_switch},
      {"all_to_all.pairwise", CollectiveKind::all_to_all, ring},
      {"all_to_all.direct_switch", CollectiveKind::all_to_all, direct_switch},
      {"all_reduce.recursive_doubling", CollectiveKind::all_reduce, recursive},
      {"all_reduce.halving_doubling", CollectiveKind::all_reduce, halving_doubling},
      {"all_gather.recursive_doubling", CollectiveKind::all_gather, recursive},
      {"reduce_scatter.recursive_halving", CollectiveKind::reduce_scatter, recursive},
      {"all_to_all.bruck", CollectiveKind::all_to_all, bruck},
      {"all_reduce.double_binary_tree_bandwidth_bound", CollectiveKind::all_reduce,
       double_binary_tree_bandwidth_bound}};
  const nlohmann::json section = golden("alpha_beta");
  const double tolerance = section.at("tolerance");
  for (const nlohmann::json& item : section.at("cases")) {
    std::size_t found = 0;
    for (const Form& form : forms) {
      if (!item.at("expected_seconds").contains(form.name)) {
        continue;
      }
      ++found;
      CAPTURE(form.name, item.dump());
      const Seconds time = closed_form(form.kind, form.algorithm, item.at("ranks"),
                                       bytes(item.at("bytes")), link_of(item));
      CHECK(time.value ==
            Approx(item.at("expected_seconds").at(form.name).get<double>()).epsilon(tolerance));
    }
    CHECK(found == item.at("expected_seconds").size());
  }
}

TEST_CASE("two-level all-reduce and all-to-all") {
  const nlohmann::json reduce = golden("hierarchical_all_reduce");
  for (const nlohmann::json& item : reduce.at("cases")) {
    CAPTURE(item.dump());
    const nlohmann::json expected = item.at("expected_seconds");
    const HierarchicalAllReduce time = hierarchical_all_reduce(
        {item.at("ranks_per_node"), item.at("nodes")}, bytes(item.at("bytes")),
        link_of(item.at("intra")), link_of(item.at("inter"), "bytes_per_second_per_rank"));
    const double tolerance = reduce.at("tolerance");
    const auto near = [tolerance](const nlohmann::json& value) {
      return Approx(value.get<double>()).epsilon(tolerance);
    };
    CHECK(time.reduce_scatter.value == near(expected.at("reduce_scatter_intra")));
    CHECK(time.all_reduce.value == near(expected.at("all_reduce_inter")));
    CHECK(time.all_gather.value == near(expected.at("all_gather_intra")));
    CHECK(time.total().value == near(expected.at("total")));
    CHECK(time.network_sent.value == near(item.at("network_bytes_sent_per_rank")));
  }
  const nlohmann::json exchange = golden("hierarchical_all_to_all");
  for (const nlohmann::json& item : exchange.at("cases")) {
    CAPTURE(item.dump());
    const nlohmann::json expected = item.at("expected");
    const HierarchicalAllToAll sent = hierarchical_all_to_all(
        {item.at("ranks_per_node"), item.at("nodes")}, bytes(item.at("bytes_per_rank")));
    CHECK(sent.to_other_nodes.value == expected.at("bytes_to_other_nodes_per_rank"));
    CHECK(sent.inside_node.value == expected.at("bytes_inside_node_per_rank"));
    CHECK(sent.messages_plain == expected.at("messages_to_other_nodes_per_rank_plain"));
    CHECK(sent.messages_same_rail == expected.at("messages_per_nic_same_rail"));
    CHECK(sent.message_plain.value == expected.at("message_bytes_plain"));
    CHECK(sent.message_same_rail.value == expected.at("message_bytes_same_rail"));
  }
}

TEST_CASE("bus bandwidth as nccl-tests defines it") {
  const nlohmann::json section = golden("bus_bandwidth");
  for (const nlohmann::json& item : section.at("cases")) {
    const std::string name = item.at("collective");
    for (const CollectiveKind kind : kCollectiveKinds) {
      if (to_text(kind) == name) {
        CHECK(item.at("algbw").get<double>() * bus_factor(kind, item.at("ranks")) ==
              Approx(item.at("busbw").get<double>()).epsilon(1e-9));
      }
    }
  }
}

}  // namespace flopcast
