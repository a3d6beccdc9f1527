#include "topology/process_groups.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace flopcast;

namespace {

nlohmann::json fixture() {
  std::ifstream file(FLOPCAST_TEST_DATA "/process_groups.json");
  return nlohmann::json::parse(file);
}

// Megatron's names in the fixture.
const std::map<std::string, GroupKind> kKinds{
    {"tp", GroupKind::tp},       {"pp", GroupKind::pp},    {"dp", GroupKind::dp},
    {"cp", GroupKind::cp},       {"ep", GroupKind::ep},    {"etp", GroupKind::etp},
    {"edp", GroupKind::edp},     {"mp", GroupKind::tp_pp}, {"tp_ep", GroupKind::etp_ep},
    {"dp_cp", GroupKind::dp_cp},
};

}  // namespace

TEST_CASE("process groups are Megatron's, rank by rank") {
  const nlohmann::json data = fixture();
  int compared = 0;
  for (const nlohmann::json& row : data.at("cases")) {
    const ParallelGrid grid{.tp = row.at("tp"),
                            .cp = row.at("cp"),
                            .ep = row.at("ep"),
                            .dp = row.at("dp"),
                            .pp = row.at("pp"),
                            .etp = row.at("etp"),
                            .order = parse_rank_order(row.at("order").get<std::string>()).value()};
    CAPTURE(row.dump());
    REQUIRE(grid.world() == row.at("world").get<int>());
    REQUIRE(grids_agree(grid));
    for (const auto& [name, expected] : row.at("groups").items()) {
      CAPTURE(name);
      CHECK(process_groups(grid, kKinds.at(name)) == expected.get<std::vector<std::vector<int>>>());
      ++compared;
    }
  }
  CHECK(compared == 80);  // ten kinds in eight cases
}

TEST_CASE("groups over several dimensions, by hand") {
  // tp 2, cp 2, dp 2, pp 2: rank = tp + 2 cp + 4 dp + 8 pp.
  const ParallelGrid grid{.tp = 2, .cp = 2, .dp = 2, .pp = 2, .etp = 1};
  using Groups = std::vector<std::vector<int>>;
  CHECK(process_groups(grid, GroupKind::tp_cp) ==
        Groups{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}});
  CHECK(process_groups(grid, GroupKind::tp_dp_cp) ==
        Groups{{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}});
  CHECK(process_groups(ParallelGrid{.tp = 2, .cp = 2, .ep = 4, .dp = 2, .pp = 2},
                       GroupKind::etp_ep_pp) ==
        Groups{{0, 1, 2, 3, 8, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15}});
}

TEST_CASE("every kind of group splits the world into equal parts") {
  const ParallelGrid grid{.tp = 4, .cp = 2, .ep = 8, .dp = 6, .pp = 3, .etp = 2};
  for (int kind = 0; kind <= static_cast<int>(GroupKind::etp_ep_pp); ++kind) {
    CAPTURE(kind);
    const auto groups = process_groups(grid, static_cast<GroupKind>(kind));
    std::set<int> seen;
    for (const auto& group : groups) {
      CHECK(group.size() == groups.front().size());
      CHECK(std::ranges::is_sorted(group));
      seen.insert(group.begin(), group.end());
    }
    CHECK(seen.size() == 144);
    CHECK(groups.size() * groups.front().size() == 144);
    CHECK(std::ranges::is_sorted(groups));  // by first rank
  }
}

TEST_CASE("a million ranks") {
  const ParallelGrid grid{.tp = 8, .ep = 64, .dp = 8192, .pp = 16};
  CHECK(grid.world() == 1048576);
  const auto stages = process_groups(grid, GroupKind::tp_dp_cp);
  REQUIRE(stages.size() == 16);
  CHECK(stages[15].back() == 1048575);
  CHECK(process_groups(grid, GroupKind::pp).size() == 65536);
}

TEST_CASE("rank orders as text") {
  CHECK(to_text(kDefaultOrder) == "tp-cp-ep-dp-pp");
  CHECK(parse_rank_order("tp-cp-ep-dp-pp") == kDefaultOrder);
  CHECK(to_text(parse_rank_order("tp-pp-dp").value()) == "tp-pp-dp-cp-ep");  // the rest follows
  CHECK_FALSE(parse_rank_order("tp-tp-dp"));
  CHECK_FALSE(parse_rank_order("tp-xp"));
  CHECK_FALSE(parse_rank_order("tp--dp"));
}

TEST_CASE("the expert grid must cover the same pipeline stages") {
  CHECK(grids_agree({.tp = 2, .cp = 2, .ep = 4, .dp = 2, .pp = 2}));        // ep through tp and cp
  CHECK_FALSE(grids_agree({.tp = 2, .cp = 1, .ep = 3, .dp = 4, .pp = 2}));  // 3 divides no stage
  const RankOrder pp_inside = parse_rank_order("tp-cp-ep-pp-dp").value();
  CHECK(grids_agree({.tp = 2, .dp = 4, .pp = 2, .etp = 2, .order = pp_inside}));  // dp = edp
  CHECK_FALSE(grids_agree({.tp = 2, .ep = 4, .dp = 4, .pp = 2, .order = pp_inside}));
  CHECK(grids_agree({.tp = 2, .ep = 4, .dp = 4, .pp = 1, .order = pp_inside}));
}
