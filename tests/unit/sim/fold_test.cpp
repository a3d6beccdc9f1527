#include "sim/fold.h"

#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "small_workload.h"

using namespace flopcast;
using namespace flopcast::test;

namespace {

constexpr LabelId kLabel{0};

/// Four nodes of two ranks: kernel, collective in the node on a link of its own, kernel, collective
/// across the nodes by position, over one shared link.
struct Nodes {
  SmallWorkload small;
  Workload& w = small.workload;
  std::vector<LinkId> node_links;

  Nodes() {
    const KernelId kernel = small.kernel(microseconds(10));
    const TransferId inner =
        small.transfer({.size = megabytes(1), .solo_rate = gigabytes_per_second(100)});
    const TransferId outer =
        small.transfer({.size = megabytes(1), .solo_rate = gigabytes_per_second(100)});
    const LinkId spine = small.link(gigabytes_per_second(50));
    ProgramBuilder program(1);
    program.compute(kMain, kernel, kCompute, kLabel);
    program.collective(kMain, 0, inner, kCommunication, kLabel);
    program.compute(kMain, kernel, kCompute, kLabel);
    program.collective(kMain, 1, outer, kCommunication, kLabel);
    w.programs.push_back(std::move(program).finish());
    for (std::uint32_t node = 0; node < 4; ++node) {
      node_links.push_back(small.link(gigabytes_per_second(200)));
      const GroupId group =
          small.group({RankId{2 * node}, RankId{2 * node + 1}}, {{node_links.back(), 1}});
      for (int i = 0; i < 2; ++i) w.ranks.push_back({.name = "rank", .groups = {group, kNoGroup}});
    }
    for (std::uint32_t position = 0; position < 2; ++position) {
      std::vector<RankId> members;
      for (std::uint32_t node = 0; node < 4; ++node) members.push_back(RankId{2 * node + position});
      const GroupId group = small.group(members, {{spine, 1}});
      for (const RankId member : members) w.ranks[index_of(member)].groups[1] = group;
    }
  }
};

}  // namespace

TEST_CASE("ranks that nothing tells apart become one row") {
  const Nodes nodes;
  const Folding folding = fold(nodes.w);
  REQUIRE(folding.workload.ranks.size() == 1);
  REQUIRE(folding.workload.groups.size() == 2);
  REQUIRE(folding.workload.links.size() == 2);
  CHECK(folding.workload.ranks[0].count == 8);
  const Group& inner = folding.workload.groups[index_of(folding.group_class[0])];
  const Group& outer = folding.workload.groups[index_of(folding.group_class[4])];
  CHECK(inner.count == 4);
  CHECK(inner.members.size() == 1);
  CHECK(inner.loads[0].at(0).weight == 1);
  // Both collectives across the nodes load the one spine.
  CHECK(outer.count == 2);
  CHECK(outer.loads[0].at(0).weight == 2);
  CHECK(folding.workload.links[index_of(folding.link_class[0])].count == 1);
  CHECK(folding.workload.links[index_of(folding.link_class[1])].count == 4);
  // 10 us, 1 MB at 100 GB/s, 10 us, two times 1 MB over 50 GB/s.
  CHECK(run(folding.workload).makespan == us(10 + 10 + 10 + 40));
}

TEST_CASE("a slow rank splits what it touches") {
  Nodes nodes;
  nodes.w.ranks[5].speed = 0.5;  // node 2, position 1
  const Folding folding = fold(nodes.w);
  const auto& classes = folding.rank_class;
  CHECK(folding.workload.ranks.size() == 4);  // itself, its neighbour, its position, the others
  CHECK(classes[0] == classes[2]);
  CHECK(classes[2] == classes[6]);
  CHECK(classes[1] == classes[3]);
  CHECK(classes[3] == classes[7]);
  CHECK(classes[4] != classes[0]);
  CHECK(classes[5] != classes[1]);
  CHECK(run(folding.workload).makespan == run(nodes.w).makespan);
}

TEST_CASE("a degraded link splits the node behind it") {
  Nodes nodes;
  nodes.w.links[index_of(nodes.node_links[3])].capacity = gigabytes_per_second(20);
  const Folding folding = fold(nodes.w);
  CHECK(folding.workload.ranks.size() == 2);
  CHECK(folding.rank_class[6] == folding.rank_class[7]);
  CHECK(folding.rank_class[6] != folding.rank_class[0]);
  // 10 us, 1 MB at 20 GB/s in the slowest node, 10 us, two times 1 MB over 50 GB/s.
  CHECK(run(folding.workload).makespan == us(10 + 50 + 10 + 40));
}

TEST_CASE("what no program uses tells nothing apart") {
  Nodes nodes;
  const GroupId unused = nodes.small.group({RankId{0}, RankId{3}}, {{nodes.node_links[0], 7}});
  nodes.w.ranks[0].groups.push_back(unused);
  nodes.w.groups[0].loads.push_back({{nodes.node_links[0], 3}});  // a pattern of no transfer
  const Folding folding = fold(nodes.w);
  CHECK(folding.workload.ranks.size() == 1);
  CHECK(folding.group_class[index_of(unused)] == kNoGroup);
}

TEST_CASE("programs count by what they do") {
  Nodes nodes;
  nodes.small.kernel(microseconds(10));  // as kernel 0
  Program copy = nodes.w.programs[0];
  copy.streams[kMain][2].row = 1;
  nodes.w.programs.push_back(copy);
  copy.streams[kMain][2].row = 0;
  copy.streams[kMain].pop_back();
  nodes.w.ranks[3].program = ProgramId{1};
  CHECK(fold(nodes.w).workload.ranks.size() == 1);
}

TEST_CASE("class-mates may meet in one group by different slots") {
  // A circle: each rank meets the next through slot 0 at 10 us, and the one before through slot 1
  // at 30 us. So every meeting starts at 30 us and takes 5 us.
  SmallWorkload small;
  const KernelId early = small.kernel(microseconds(10));
  const KernelId late = small.kernel(microseconds(30));
  const TransferId meeting = small.transfer({.latency = microseconds(5)});
  ProgramBuilder program(3);
  program.compute(kSide, early, kCompute, kLabel);
  program.collective(kSide, 0, meeting, kCommunication, kLabel);
  program.compute(kThird, late, kCompute, kLabel);
  program.collective(kThird, 1, meeting, kCommunication, kLabel);
  small.workload.programs.push_back(std::move(program).finish());
  constexpr std::uint32_t kRanks = 5;
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    small.group({RankId{r}, RankId{(r + 1) % kRanks}});
    small.workload.ranks.push_back(
        {.name = "rank", .groups = {GroupId{r}, GroupId{(r + kRanks - 1) % kRanks}}});
  }
  const Folding folding = fold(small.workload);
  REQUIRE(folding.workload.ranks.size() == 1);
  REQUIRE(folding.workload.groups.size() == 1);
  CHECK(folding.workload.groups[0].arrivals == 2);
  CHECK(run(small.workload).makespan == us(35));
  CHECK(run(folding.workload).makespan == us(35));
  CHECK(run(fold(folding.workload).workload).makespan == us(35));
}

TEST_CASE("a circle of senders becomes a rank that sends to itself") {
  SmallWorkload small;
  const KernelId kernel = small.kernel(microseconds(10));
  const TransferId message =
      small.transfer({.size = megabytes(1), .solo_rate = gigabytes_per_second(100)});
  ProgramBuilder program(3);
  program.compute(kMain, kernel, kCompute, kLabel);
  program.order(kMain, kSide);
  program.send(kSide, 0, 0, message, kCommunication, kLabel);
  program.recv(kThird, 1, 0, kCommunication, kLabel);
  program.order(kThird, kMain);
  program.compute(kMain, kernel, kCompute, kLabel);
  small.workload.programs.push_back(std::move(program).finish());
  constexpr std::uint32_t kRanks = 4;
  const LinkId shared = small.link(gigabytes_per_second(100));
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    small.group({RankId{r}, RankId{(r + 1) % kRanks}}, {{shared, 1}});
    small.workload.ranks.push_back(
        {.name = "rank", .groups = {GroupId{r}, GroupId{(r + kRanks - 1) % kRanks}}});
  }
  const Folding folding = fold(small.workload);
  REQUIRE(folding.workload.ranks.size() == 1);
  CHECK(folding.workload.groups.at(0).loads[0].at(0).weight == 4);
  // Four times 1 MB over 100 GB/s.
  CHECK(run(small.workload).makespan == us(10 + 40 + 10));
  CHECK(run(folding.workload).makespan == us(10 + 40 + 10));
}

TEST_CASE("an unequal receiver is told from an equal one") {
  // 0 sends to 1 and 2 to 3; 3 is slow to start. Only the pair of 3 differs.
  SmallWorkload small;
  const KernelId kernel = small.kernel(microseconds(10));
  const TransferId message = small.transfer({.latency = microseconds(1)});
  for (std::uint32_t r = 0; r < 4; ++r) {
    ProgramBuilder program(1);
    program.compute(kMain, kernel, kCompute, kLabel);
    if (r % 2 == 0) {
      program.send(kMain, 0, 0, message, kCommunication, kLabel);
    } else {
      program.recv(kMain, 0, 0, kCommunication, kLabel);
    }
    small.rank(std::move(program), {GroupId{r / 2}}, r == 3 ? 0.5 : 1);
  }
  small.group({RankId{0}, RankId{1}});
  small.group({RankId{2}, RankId{3}});
  const Folding folding = fold(small.workload);
  CHECK(folding.workload.ranks.size() == 4);
  small.workload.ranks[3].speed = 1;
  CHECK(fold(small.workload).workload.ranks.size() == 2);
}
