// Collectives that switches of the network reduce (SHARP), against tables and by hand.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "scenarios/read_recorded_tables.h"
#include "tests/unit/calibration/table.h"

namespace flopcast {
namespace {

RecordedTable table_named(const std::string& id) {
  const std::vector<RecordedTable> tables = read_recorded_tables(
      Document::read(std::string(FLOPCAST_SOURCE_DIR) + "/calibration/data/collectives.json"));
  const auto found = std::ranges::find_if(
      tables, [&](const RecordedTable& table) { return table.placed.table.file == id; });
  REQUIRE(found != tables.end());
  return *found;
}

NetworkPath ndr_path(bool sharp) {
  return {.domain = gigabytes_per_second(450),
          .network = gigabytes_per_second(400),
          .network_hop = nanoseconds(300),
          .sharp = sharp};
}

CollectiveTime time_on_h100(CollectiveKind kind, Bytes size, GroupShape shape, bool sharp) {
  static const Profile profile = shipped_profile("h100-sxm");
  return collective_time(profile, kind, size, shape, ndr_path(sharp));
}

}  // namespace

// 64 H100 on 8 nodes, 8 NDR400 cards each, SHARP on (coreweave/nccl-tests); 1 GiB takes 5808 us.
// No constant was fitted to it. Within 5 %: NCCL's own constants, which are round numbers.
TEST_CASE("the shipped H100 profile against a published table with SHARP") {
  const RecordedTable table = table_named("h100-sxm_ar_64gpu_8n_ndr-sharp_coreweave");
  REQUIRE(table.sharp);
  for (const CollectiveRow& row : table.placed.table.rows) {
    const CollectiveTime time = time_on_h100(CollectiveKind::all_reduce, row.size, {8, 8}, true);
    CAPTURE(row.size.value, to_microseconds(time.total()));
    CHECK(reduces_in_network(time.algorithm, {8, 8}));
    CHECK(time.total() / row.out_of_place->time == Approx(1).epsilon(0.05));
    CHECK(time.evidence == Evidence::assumed);
  }
}

// The same nodes and cards without: NVIDIA/nccl-tests issue 309, 7370.5 us.
TEST_CASE("SHARP saves what it does in the tables: a fifth of 1 GiB over 8 nodes") {
  const double with =
      to_microseconds(time_on_h100(CollectiveKind::all_reduce, gibibytes(1), {8, 8}, true).total());
  const double without = to_microseconds(
      time_on_h100(CollectiveKind::all_reduce, gibibytes(1), {8, 8}, false).total());
  CHECK(without / with == Approx(7370.5 / 5808).epsilon(0.1));
}

TEST_CASE("SHARP is never slower, and gains with the number of nodes") {
  double last = 0;
  for (const int nodes : {4, 16, 64, 256}) {
    const GroupShape shape{8, nodes};
    const auto time = [&](CollectiveKind kind, Bytes size, bool sharp) {
      return time_on_h100(kind, size, shape, sharp).total();
    };
    for (const CollectiveKind kind :
         {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter}) {
      for (const double mb : {0.01, 1.0, 100.0, 10000.0}) {
        CHECK(time(kind, megabytes(mb), true) <= time(kind, megabytes(mb), false));
      }
    }
    const double gain = time(CollectiveKind::all_reduce, megabytes(100), false) /
                        time(CollectiveKind::all_reduce, megabytes(100), true);
    CHECK(gain > last);  // the trees of NCCL grow, the switches answer at once
    last = gain;
  }
  CHECK(last > 1.3);
}

// NCCL 2.30.7, src/graph/tuning.cc: CollNet direct and NVLS for all three kinds, the chain for
// all-reduces alone. Latency of NVLS over nodes: 25 us in the node, 18 us between, and the hop.
TEST_CASE("the kinds that switches serve") {
  const ProtocolRegimes hopper{.sharp = false, .fitted = {}, .provenance = {}};
  const auto served = [&](CollectiveKind kind, GroupShape shape) {
    return in_network_time(hopper, kind, kibibytes(64), shape, ndr_path(true)).has_value();
  };
  CHECK(served(CollectiveKind::all_reduce, {8, 2}));
  CHECK(served(CollectiveKind::all_gather, {8, 2}));
  CHECK(served(CollectiveKind::reduce_scatter, {8, 2}));
  CHECK_FALSE(served(CollectiveKind::broadcast, {8, 2}));
  CHECK_FALSE(served(CollectiveKind::all_to_all, {8, 2}));
  CHECK_FALSE(served(CollectiveKind::send_recv, {1, 2}));
  CHECK_FALSE(served(CollectiveKind::all_reduce, {8, 1}));
  CHECK(served(CollectiveKind::all_reduce, {1, 2}));
  CHECK_FALSE(served(CollectiveKind::all_gather, {1, 2}));  // CollNet direct needs neighbours
  CHECK_FALSE(
      in_network_time(hopper, CollectiveKind::all_reduce, kibibytes(64), {8, 2}, ndr_path(false)));
  // One rank per node: the chain of one, 30 us and the hop; 2 S at the card's 0.96 of 400 GB/s.
  const auto chain =
      in_network_time(hopper, CollectiveKind::all_reduce, megabytes(192), {1, 16}, ndr_path(true));
  REQUIRE(chain);
  CHECK(chain->algorithm == NcclAlgorithm::collnet_chain);
  CHECK(to_microseconds(chain->latency) == Approx(30.3));
  CHECK(to_microseconds(chain->transfer) == Approx(1000 + 0.5 * std::sqrt(30.3 * 1000)));
}

TEST_CASE("a curve measured with SHARP answers alone, one without leaves room for it") {
  Profile profile = shipped_profile("h100-sxm");
  const GroupShape shape{8, 8};
  CollectiveCurve curve{.kind = CollectiveKind::all_reduce,
                        .shape = shape,
                        .domain = gigabytes_per_second(450),
                        .network = gigabytes_per_second(400),
                        .sharp = false,
                        .sizes = {gibibytes(1)},
                        .times = {milliseconds(7.3705)},
                        .provenance = {.evidence = Evidence::measured, .source = "issue 309"}};
  const auto time = [&](bool sharp) {
    return collective_time(profile, curve.kind, gibibytes(1), shape, ndr_path(sharp));
  };
  profile.curves = {curve};
  CHECK(to_microseconds(time(false).total()) == Approx(7370.5));
  CHECK(to_microseconds(time(true).total()) == Approx(5808).epsilon(0.05));
  CHECK(time(true).evidence == Evidence::assumed);
  curve.sharp = true;
  curve.times = {milliseconds(5.808)};
  profile.curves.push_back(curve);
  CHECK(to_microseconds(time(false).total()) == Approx(7370.5));
  CHECK(to_microseconds(time(true).total()) == Approx(5808));
  CHECK(time(true).evidence == Evidence::measured);
  curve.times = {milliseconds(50)};  // a slow fabric: what was measured holds
  profile.curves.back() = curve;
  CHECK(to_microseconds(time(true).total()) == Approx(50000));
}

}  // namespace flopcast
