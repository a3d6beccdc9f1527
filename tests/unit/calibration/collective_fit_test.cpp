#include "calibration/collective_fit.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "scenarios/import_nccl_tests.h"
#include "tests/unit/calibration/table.h"

namespace flopcast {
namespace {

NetworkModel prior(GpuGeneration generation) {
  NetworkModel model;
  model.regimes = ProtocolRegimes{.generation = generation,
                                  .cpu = HostCpu::intel,
                                  .sharp = false,
                                  .fitted = {},
                                  .provenance = {}};
  return model;
}

// A recorded log with its machine, from tests/data/nccl/clusters.csv.
struct Recorded {
  std::string cluster;
  std::string group;
  GpuGeneration generation{};
  PlacedTable placed;
};

std::vector<Recorded> recorded(const std::string& column, const std::set<std::string>& wanted) {
  std::vector<Recorded> out;
  for (const Row& row : read_table("nccl/clusters.csv")) {
    if (wanted.count(row.at(column)) == 0) {
      continue;
    }
    const auto generation =
        std::find_if(kGpuGenerations.begin(), kGpuGenerations.end(),
                     [&row](auto g) { return to_text(g) == row.at("generation"); });
    const std::string file = std::string(FLOPCAST_TEST_DATA) + "/nccl/logs/" + row.at("log");
    out.push_back(
        {.cluster = row.at("cluster"),
         .group = row.at("group"),
         .generation = *generation,
         .placed = {.table = import_nccl_tests(file).front(),
                    .shape = {std::stoi(row.at("ranks_per_node")), std::stoi(row.at("nodes"))},
                    .path = {.domain = gigabytes_per_second(std::stod(row.at("domain"))),
                             .network = gigabytes_per_second(std::stod(row.at("network"))),
                             .network_hop = nanoseconds(300)}}});
  }
  REQUIRE_FALSE(out.empty());
  return out;
}

std::vector<PlacedTable> tables_of(const std::vector<Recorded>& logs) {
  std::vector<PlacedTable> tables;
  for (const Recorded& log : logs) {
    tables.push_back(log.placed);
  }
  return tables;
}

CollectiveTable table_of(const std::vector<std::pair<Bytes, Seconds>>& rows) {
  CollectiveTable table;
  table.kind = CollectiveKind::all_gather;
  table.ranks = 8;
  for (const auto& [size, time] : rows) {
    table.rows.push_back(
        {.size = size,
         .count = 0,
         .out_of_place =
             CollectiveTiming{
                 .time = time, .algorithm_bandwidth = {}, .bus_bandwidth = {}, .errors = {}},
         .in_place = {},
         .line = 0});
  }
  return table;
}

const NetworkPath kPath{.domain = gigabytes_per_second(450),
                        .network = gigabytes_per_second(400),
                        .network_hop = nanoseconds(300)};

}  // namespace

TEST_CASE("spikes of a table are dropped or taken from the other column") {
  CollectiveTable table = table_of({{bytes(8), microseconds(60)},
                                    {bytes(16), microseconds(25)},
                                    {bytes(32), microseconds(90)},
                                    {bytes(64), microseconds(26)},
                                    {mebibytes(1), microseconds(80)}});
  // 8 bytes: in place 24 us; 32 bytes: nothing in place.
  table.rows[0].in_place = table.rows[1].out_of_place;
  const std::vector<CollectivePoint> points = clean_points(table);
  REQUIRE(points.size() == 4);
  CHECK(to_microseconds(points[0].time) == Approx(25));
  CHECK(to_microseconds(points[2].time) == Approx(26));
  CHECK(to_microseconds(points[3].time) == Approx(80));
}

TEST_CASE("the prior of a large message is the bandwidth that NCCL counts on") {
  // 7/8 S at 0.8 * 450 GB/s; the latency of 8.4 + 7 * 3.4 us is 1e-5 of it.
  const RegimeTime time = regime_time(*prior(GpuGeneration::hopper).regimes,
                                      CollectiveKind::all_gather, gigabytes(1000), {8, 1}, kPath);
  CHECK(time.algorithm == NcclAlgorithm::ring);
  CHECK(time.protocol == NcclProtocol::simple);
  CHECK(time.total().value == Approx(1e12 * 7 / 8 / 360e9).epsilon(0.01));
  CHECK(time.evidence == Evidence::assumed);
  // A small one: LL, 6.6 + 7 * 0.6 us.
  const RegimeTime small = regime_time(*prior(GpuGeneration::hopper).regimes,
                                       CollectiveKind::all_gather, bytes(8), {8, 1}, kPath);
  CHECK(small.protocol == NcclProtocol::ll);
  CHECK(to_microseconds(small.total()) == Approx(10.8).epsilon(0.01));
}

TEST_CASE("regimes of a profile answer where no curve was measured") {
  Profile profile;
  profile.network = prior(GpuGeneration::hopper);
  const CollectiveTime time =
      collective_time(profile, CollectiveKind::all_gather, bytes(8), {8, 1}, kPath);
  CHECK(to_microseconds(time.total()) == Approx(10.8).epsilon(0.01));
  CHECK(time.evidence == Evidence::assumed);
}

// By hand: 10 us of launch, 20 of steps inside, 30 between nodes, 40 of transfer.
TEST_CASE("what scales do to the parts of a regime") {
  RegimeParts parts{.algorithm = NcclAlgorithm::ring,
                    .protocol = NcclProtocol::simple,
                    .base = microseconds(10),
                    .inside = microseconds(20),
                    .outside = microseconds(30),
                    .transfer = microseconds(40),
                    .message = kibibytes(64),
                    .shape = {4, 2}};
  const auto time = [&parts](RegimeScale scale) {
    return to_microseconds(scaled(parts, scale).total());
  };
  CHECK(time({}) == Approx(100));
  CHECK(time({.ramp = 0.5}) == Approx(100 + 0.5 * std::sqrt(60 * 40)));
  // Half of the 40 us that steps and transfer have in common.
  CHECK(time({.overlap = 0.5}) == Approx(80));
  // At its size half of a step has come: half of 50 us less half, half of 2 * 30 us.
  CHECK(time({.growth = -0.5, .growth_size = kibibytes(64)}) == Approx(100 - 12.5));
  CHECK(time({.rendezvous = 2, .rendezvous_size = kibibytes(64)}) == Approx(130));
  CHECK(time({.rendezvous = 2, .rendezvous_size = mebibytes(64)}) == Approx(100));
  CHECK(time({.congestion = 1}) == Approx(100));  // two nodes are what the prior is of
  parts.shape = {4, 1};
  CHECK(time({.congestion = 1}) == Approx(140));
}

// A part that starts behind a card passes the network once for each node: of 7 steps 2, on 2 nodes
// of 4; 3 of 3 with one GPU a node. Slingshot's all-gathers of 2 and 8 such nodes rise by 185 and
// 700 us where messages agree on their place first: 90 us a crossing, not 185 and 100.
TEST_CASE("a ring crosses between nodes as often as there are nodes") {
  const auto outside = [](GroupShape shape, double rounds, CollectiveKind kind) {
    const RegimeList list =
        open_regimes(*prior(GpuGeneration::hopper).regimes, kind, bytes(8), shape, kPath);
    for (const RegimeParts& parts : list.view()) {
      if (parts.algorithm != NcclAlgorithm::ring || parts.protocol != NcclProtocol::ll) continue;
      const NcclAlgorithm like =
          shape.ranks_per_node == 1 ? NcclAlgorithm::tree : NcclAlgorithm::ring;
      const Seconds hop = nccl_latency(like, NcclProtocol::ll).network_hop + kPath.network_hop;
      return parts.outside / (rounds * hop);
    }
    return 0.0;
  };
  CHECK(outside({4, 2}, 1, CollectiveKind::all_gather) == Approx(2));
  CHECK(outside({4, 2}, 2, CollectiveKind::all_reduce) == Approx(2));
  CHECK(outside({1, 4}, 1, CollectiveKind::all_gather) == Approx(3));
  CHECK(outside({8, 1}, 1, CollectiveKind::all_gather) == 0);
}

TEST_CASE("unfitted, more bytes never take less time") {
  for (const GpuGeneration generation : kGpuGenerations) {
    for (const CollectiveKind kind : kCollectiveKinds) {
      for (const GroupShape shape : {GroupShape{8, 1}, GroupShape{2, 1}, GroupShape{6, 1},
                                     GroupShape{8, 2}, GroupShape{1, 16}, GroupShape{8, 128}}) {
        Seconds before;
        for (double size = 8; size < 1e11; size *= 1.7) {
          const Seconds now =
              regime_time(*prior(generation).regimes, kind, bytes(size), shape, kPath).total();
          CAPTURE(to_text(generation), to_text(kind), shape.ranks_per_node, shape.nodes, size);
          CHECK(now >= before);
          before = now;
        }
      }
    }
  }
}

TEST_CASE("a fit finds the machine that made the tables") {
  ProtocolRegimes truth = *prior(GpuGeneration::hopper).regimes;
  for (const NcclProtocol protocol : kNcclProtocols) {
    RegimeScale scale = prior_scale(NcclAlgorithm::ring, protocol);
    scale.base = 1.5;
    scale.hop = 0.8;
    scale.bandwidth = 0.9;
    truth.fitted.push_back(
        {.key = {CollectiveKind::all_gather, RegimeScope::domain, NcclAlgorithm::ring, protocol},
         .scale = scale});
  }
  const auto made = [&truth](GroupShape shape) {
    std::vector<std::pair<Bytes, Seconds>> rows;
    for (double size = 1024; size < 1e10; size *= 2) {
      rows.emplace_back(
          bytes(size),
          regime_time(truth, CollectiveKind::all_gather, bytes(size), shape, kPath).total());
    }
    return PlacedTable{.table = table_of(rows), .shape = shape, .path = kPath};
  };
  const std::vector<PlacedTable> known{made({2, 1}), made({4, 1})};
  const NetworkFit fit = fit_network(known, prior(GpuGeneration::hopper));
  CHECK(fit.all_rows.median < 0.01);
  CHECK(fit.model.regimes->provenance.evidence == Evidence::fitted);
  CHECK(fit.tables[0].before.median > 0.05);
  CHECK(summary_of(model_errors(fit.model, made({8, 1}))).median < 0.05);  // not shown to it
}

// Gates on recorded logs, a part of the public ones (here 0.124 for one node, 0.115 on all). The
// figures reached on all public logs stand in calibration/README.md.
TEST_CASE("NCCL's constants alone predict healthy machines") {
  struct Gate {
    std::set<std::string> groups;
    double mean_error;  // of a table, median over tables
  };
  const auto gate = GENERATE(values<Gate>(
      {{{"H100-1n", "H200-1n", "B200-1n"}, 0.13}, {{"NDR400"}, 0.15}, {{"A100-1n"}, 0.20}}));
  std::vector<double> means;
  for (const Recorded& log : recorded("group", gate.groups)) {
    means.push_back(summary_of(model_errors(prior(log.generation), log.placed)).mean);
  }
  CAPTURE(*gate.groups.begin(), means.size(), median(means));
  CHECK(median(means) <= gate.mean_error);
}

TEST_CASE("fitted to a cluster's own tables") {
  struct Gate {
    std::string cluster;
    double median_error;
    double p90_error;
  };
  const auto gate = GENERATE(values<Gate>({{"h100-aic-2.29.2", 0.03, 0.11},
                                           {"cl01", 0.03, 0.08},
                                           {"t309", 0.03, 0.10},
                                           {"echo", 0.03, 0.11}}));
  const std::vector<Recorded> logs = recorded("cluster", {gate.cluster});
  const NetworkFit fit = fit_network(tables_of(logs), prior(logs.front().generation));
  CAPTURE(gate.cluster, fit.all_rows.rows, fit.all_rows.median, fit.all_rows.p90);
  CHECK(fit.all_rows.median <= gate.median_error);
  CHECK(fit.all_rows.p90 <= gate.p90_error);
}

TEST_CASE("a group shape that was not measured") {
  std::vector<double> errors;
  for (const std::string cluster : {"h100-aic-2.29.2", "cl01", "alps", "echo"}) {
    const std::vector<PlacedTable> tables = tables_of(recorded("cluster", {cluster}));
    const GpuGeneration generation = recorded("cluster", {cluster}).front().generation;
    std::set<GroupShape> shapes;
    for (const PlacedTable& table : tables) {
      shapes.insert(table.shape);
    }
    for (const GroupShape left_out : shapes) {
      std::vector<PlacedTable> shown;
      std::vector<PlacedTable> hidden;
      for (const PlacedTable& table : tables) {
        (table.shape == left_out ? hidden : shown).push_back(table);
      }
      const NetworkFit fit = fit_network(shown, prior(generation));
      for (const PlacedTable& table : hidden) {
        const std::vector<double> more = model_errors(fit.model, table);
        errors.insert(errors.end(), more.begin(), more.end());
      }
    }
  }
  CAPTURE(errors.size(), median(errors));
  CHECK(median(errors) <= 0.10);
}

}  // namespace flopcast
