#include "calibration/collective_validation.h"

#include <catch2/catch.hpp>

#include "calibration/collective_check.h"
#include "scenarios/profile_regimes.h"
#include "scenarios/read_profile.h"
#include "scenarios/read_recorded_tables.h"
#include "tests/unit/calibration/table.h"

namespace flopcast {
namespace {

std::vector<RecordedTable> all_tables() {
  return read_recorded_tables(
      Document::read(std::string(FLOPCAST_SOURCE_DIR) + "/calibration/data/collectives.json"));
}

}  // namespace

TEST_CASE("the public tables are all there") {
  const std::vector<RecordedTable> tables = all_tables();
  CHECK(tables.size() == 255);
  const auto faulty = std::count_if(tables.begin(), tables.end(),
                                    [](const auto& table) { return table.fault.has_value(); });
  CHECK(faulty == 27);
  for (const RecordedTable& table : tables) {
    CAPTURE(table.placed.table.file);
    CHECK_FALSE(table.source.empty());
    CHECK_FALSE(table.placed.table.rows.empty());
  }
}

// Mean error of a table, median over the healthy tables of a kind of machine; with a small margin.
TEST_CASE("NCCL's constants alone, on all public tables") {
  const std::map<std::string, double> gates{
      {"A100 one node", 0.16},  {"H100 one node", 0.11}, {"H200 one node", 0.14},
      {"B200 one node", 0.125}, {"NDR400", 0.14},        {"EFA", 0.22},
      {"TCPX", 0.34},           {"Slingshot", 0.39},     {"RoCE", 0.18}};
  std::size_t seen = 0;
  for (const PriorErrors& group : validate_prior(all_tables())) {
    const auto gate = gates.find(group.group);
    if (gate == gates.end()) continue;
    CAPTURE(group.group, group.tables, group.median);
    CHECK(group.median <= gate->second);
    ++seen;
  }
  CHECK(seen == gates.size());
}

// EFA gives no order of stores: two nodes of p5.48xlarge take 63 us for the smallest all-reduces,
// what NVLS-tree in Simple takes (25 + 2 * 20.9 us), and not the 26 us of a tree in LL.
TEST_CASE("the smallest all-reduce over EFA is one of the Simple protocol") {
  ProtocolRegimes machine{.generation = GpuGeneration::hopper,
                          .cpu = HostCpu::intel,
                          .sharp = false,
                          .transport = NetworkTransport::efa,
                          .fitted = {},
                          .provenance = {}};
  const NetworkPath path{.domain = gigabytes_per_second(450),
                         .network = gigabytes_per_second(400),
                         .network_hop = nanoseconds(300)};
  const auto time = [&] {
    return regime_time(machine, CollectiveKind::all_reduce, bytes(32), {8, 2}, path);
  };
  CHECK(time().protocol == NcclProtocol::simple);
  CHECK(to_microseconds(time().total()) == Approx(64).epsilon(0.1));
  machine.transport = NetworkTransport::verbs;
  CHECK(time().protocol == NcclProtocol::ll);
}

// By hand: 8 GPUs of 450 GB/s, of which 8 cards carry 400 GB/s out of a node; 1 GB.
TEST_CASE("the least time by links alone") {
  const NetworkPath path{
      .domain = gigabytes_per_second(450), .network = gigabytes_per_second(400), .network_hop = {}};
  const auto time = [&](CollectiveKind kind, GroupShape shape, bool reduces = false) {
    return to_microseconds(links_time(kind, gigabytes(1), shape, path, reduces));
  };
  CHECK(time(CollectiveKind::all_reduce, {8, 1}) == Approx(2 * 7.0 / 8 / 450e-6));
  CHECK(time(CollectiveKind::all_reduce, {8, 1}, true) == Approx(1 / 450e-6));
  CHECK(time(CollectiveKind::all_reduce, {8, 4}, true) == Approx(1.5 / 400e-6));
  CHECK(time(CollectiveKind::all_gather, {8, 2}) == Approx(7.0 / 8 / 450e-6));
  CHECK(time(CollectiveKind::reduce_scatter, {1, 4}) == Approx(0.75 / 400e-6));
  CHECK(time(CollectiveKind::all_to_all, {8, 2}) == Approx(8 * 8.0 / 16 / 400e-6));
  CHECK(time(CollectiveKind::send_recv, {1, 2}) == Approx(1 / 400e-6));
}

TEST_CASE("faulty machines are told from healthy ones") {
  int found = 0;
  int wrong = 0;
  const std::vector<RecordedTable> tables = all_tables();
  for (const RecordedTable& table : tables) {
    const CheckedTable checked = check_recorded(table, tables);
    if (table.fault && !checked.healthy()) {
      ++found;
      CHECK_FALSE(checked.likely_causes.empty());
    }
    if (!table.fault && !checked.healthy()) ++wrong;
    // All of the logs in which NCCL ran over TCP are below a seventh of their bound.
    if (table.fault && table.fault->find("TCP socket transport") != std::string::npos) {
      CAPTURE(table.placed.table.file);
      REQUIRE_FALSE(checked.likely_causes.empty());
      CHECK(checked.likely_causes.front().cause.find("TCP sockets") != std::string::npos);
    }
  }
  CAPTURE(found, wrong);
  CHECK(found >= 26);  // of 27
  CHECK(wrong <= 4);   // of 228
}

TEST_CASE("a curve is monotone: neighbours that fall share their geometric mean") {
  PlacedTable placed;
  placed.table.kind = CollectiveKind::all_gather;
  const std::vector<CollectivePoint> points{{bytes(8), microseconds(10)},
                                            {bytes(16), microseconds(40)},
                                            {bytes(32), microseconds(10)},
                                            {bytes(64), microseconds(50)}};
  const CollectiveCurve curve = measured_curve(placed, points);
  REQUIRE(curve.times.size() == 4);
  CHECK(to_microseconds(curve.times[0]) == Approx(10));
  CHECK(to_microseconds(curve.times[1]) == Approx(20));  // sqrt(40 * 10)
  CHECK(to_microseconds(curve.times[2]) == Approx(20));
  CHECK(to_microseconds(curve.times[3]) == Approx(50));
}

TEST_CASE("rows that are not used say why") {
  CollectiveTable table;
  const auto row = [&table](double us, int line) {
    const CollectiveTiming timing{
        .time = microseconds(us), .algorithm_bandwidth = {}, .bus_bandwidth = {}, .errors = {}};
    table.rows.push_back({.size = bytes(8.0 * line),
                          .count = 0,
                          .out_of_place = timing,
                          .in_place = {},
                          .line = line});
  };
  row(10, 1);
  row(90, 2);
  row(11, 3);
  const std::vector<DoubtfulRow> doubtful = doubtful_rows(table);
  REQUIRE(doubtful.size() == 1);
  CHECK(doubtful[0].line == 2);
  CHECK(doubtful[0].reason.find("spike") != std::string::npos);
}

TEST_CASE("a fit is written into a profile and read back") {
  std::vector<PlacedTable> placed;
  for (const RecordedTable& table : all_tables()) {
    if (table.cluster == "p5-nccl2223") placed.push_back(table.placed);
  }
  REQUIRE(placed.size() == 2);
  NetworkModel prior;
  prior.regimes = ProtocolRegimes{.generation = GpuGeneration::hopper,
                                  .cpu = HostCpu::intel,
                                  .sharp = false,
                                  .transport = NetworkTransport::efa,
                                  .fitted = {},
                                  .provenance = {}};
  const NetworkFit fit = fit_network(placed, prior);
  CHECK(fit.all_rows.median <= 0.03);
  CHECK(fit.all_rows.p90 <= 0.10);

  std::ifstream file(std::string(FLOPCAST_SOURCE_DIR) + "/calibration/profiles/h100-sxm.json");
  const std::string base{std::istreambuf_iterator<char>(file), {}};
  NetworkUpdate update{.name = "p5", .regimes = *fit.model.regimes, .curves = {}};
  update.regimes.provenance.source = "two logs";
  const Profile profile = read_profile(Document::parse(updated_profile(base, update), "p5.json"));
  CHECK(profile.name == "p5");
  CHECK(profile.network.regimes->provenance.source == "two logs");
  // The fit answers for what it saw, the base profile's tiers for the rest.
  for (const Bytes size : {bytes(1024), mebibytes(4), gibibytes(1)}) {
    const auto time = [&](const Profile& of, CollectiveKind kind) {
      return collective_time(of, kind, size, {8, 2}, placed[0].path).total();
    };
    Profile fitted;
    fitted.network = fit.model;
    CHECK(time(profile, CollectiveKind::all_reduce) / time(fitted, CollectiveKind::all_reduce) ==
          Approx(1).epsilon(1e-4));
    CHECK(time(profile, CollectiveKind::all_gather) ==
          time(shipped_profile("h100-sxm"), CollectiveKind::all_gather));
  }
  // A measured curve goes before both.
  update.curves.push_back(measured_curve(placed[0], clean_points(placed[0].table)));
  const Profile with_curve =
      read_profile(Document::parse(updated_profile(base, update), "p5.json"));
  const CollectivePoint point = clean_points(placed[0].table).back();
  const CollectiveTime measured =
      collective_time(with_curve, CollectiveKind::all_reduce, point.size, {8, 2}, placed[0].path);
  CHECK(measured.evidence == Evidence::measured);
  CHECK(measured.total() / point.time == Approx(1).epsilon(1e-6));
}

}  // namespace flopcast
