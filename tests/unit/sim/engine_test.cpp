#include "sim/engine.h"

#include <catch2/catch.hpp>

#include "small_workload.h"

using namespace flopcast;
using namespace flopcast::test;

namespace {
constexpr LabelId kLabel{0};
}

TEST_CASE("an empty workload takes no time") {
  const Result result = run(Workload{});
  CHECK(result.makespan == SimTime{});
  CHECK(result.events == 0);
}

TEST_CASE("compute ops of a stream follow one another, scaled by the rank's speed") {
  SmallWorkload small;
  const KernelId short_one = small.kernel(microseconds(3));
  const KernelId long_one = small.kernel(microseconds(5));
  for (const double speed : {1.0, 0.5}) {
    ProgramBuilder program(1);
    program.compute(kMain, short_one, kCompute, kLabel);
    program.compute(kMain, long_one, kOther, kLabel);
    small.rank(std::move(program), {}, speed);
  }
  const Result result = run(small.workload);
  CHECK(result.makespan == us(16));
  CHECK(result.events == 4);
  CHECK(result.ranks[0].end == us(8));
  CHECK(result.ranks[0].idle == us(8));
  CHECK(result.ranks[0].compute_busy == us(8));
  CHECK(time_of(result, 0, kCompute).busy == us(3));
  CHECK(time_of(result, 0, kOther).busy == us(5));
  CHECK(time_of(result, 1, kOther).busy == us(10));
  CHECK(result.ranks[1].idle == SimTime{});
  CHECK(result.ranks[1].slowdown == SimTime{});
  CHECK(result.ranks[1].ops_by_category == std::vector<std::uint64_t>{1, 0, 1});
}

TEST_CASE("a straggler makes the others wait, not transfer longer") {
  // Rank 0 computes 10 us, rank 1 at half speed 20 us. Then 1 MB at 1 TB/s after 2 us of latency.
  SmallWorkload small;
  const KernelId kernel = small.kernel(microseconds(10));
  const TransferId transfer = small.transfer(
      {.latency = microseconds(2), .size = megabytes(1), .solo_rate = gigabytes_per_second(1000)});
  const GroupId group = small.group({RankId{0}, RankId{1}});
  for (const double speed : {1.0, 0.5}) {
    ProgramBuilder program(1);
    program.compute(kMain, kernel, kCompute, kLabel);
    program.collective(kMain, 0, transfer, kCommunication, kLabel);
    small.rank(std::move(program), {group}, speed);
  }
  TimelineBuffer timeline;
  const Result result = run(small.workload, &timeline);
  CHECK(result.makespan == us(23));
  CHECK(time_of(result, 0, kCommunication).waiting == us(10));
  CHECK(time_of(result, 0, kCommunication).exposed == us(3));
  CHECK(time_of(result, 1, kCommunication).waiting == SimTime{});
  CHECK(time_of(result, 1, kCommunication).exposed == us(3));
  CHECK(time_of(result, 1, kCommunication).busy == us(3));
  CHECK(result.ranks[0].bytes_by_category == std::vector<double>{0, 1e6, 0});
  for (const RankSummary& rank : result.ranks) CHECK(accounted(rank) == result.makespan);

  REQUIRE(timeline.spans.size() == 4);
  for (const Span& span : timeline.spans) {
    if (span.kind != OpKind::collective) continue;
    CHECK(span.begin == (span.rank == RankId{0} ? us(10) : us(20)));
    CHECK(span.start == us(20));
    CHECK(span.end == us(23));
  }
}

TEST_CASE("two collectives share a link and the second then has it for itself") {
  // Link 100 GB/s, each alone at up to 80. A: 1 MB from 0 us. B: 0.25 MB from 5 us.
  // 0..5 us: A alone at 80, 0.4 MB. From 5: 50 each; B ends at 5 + 0.25/50 = 10 us, A has then
  // 0.4 + 0.25 = 0.65 MB, 0.35 to go at 80: ends at 14.375 us.
  SmallWorkload small;
  const KernelId kernel = small.kernel(microseconds(5));
  const auto at_80 = gigabytes_per_second(80);
  const TransferId big = small.transfer({.size = megabytes(1), .solo_rate = at_80});
  const TransferId little = small.transfer({.size = megabytes(0.25), .solo_rate = at_80});
  const LinkId link = small.link(gigabytes_per_second(100));
  const GroupId a = small.group({RankId{0}}, {{link, 1}});
  const GroupId b = small.group({RankId{1}}, {{link, 1}});
  ProgramBuilder first(1);
  first.collective(kMain, 0, big, kCommunication, kLabel);
  small.rank(std::move(first), {a});
  ProgramBuilder second(1);
  second.compute(kMain, kernel, kCompute, kLabel);
  second.collective(kMain, 0, little, kCommunication, kLabel);
  small.rank(std::move(second), {b});

  TimelineBuffer timeline;
  const Result result = run(small.workload, &timeline);
  CHECK(result.ranks[1].end == us(10));
  CHECK(result.ranks[0].end == SimTime{14375000});
  CHECK(result.links[0].carried == megabytes(1.25));
  CHECK(result.links[0].busy == SimTime{14375000});
  CHECK(result.links[0].peak_use == Approx(1));
  REQUIRE(timeline.links.size() == 4);  // 80, 100, 80, 0 GB/s
  CHECK(timeline.links[0].rate == Approx(80e9));
  CHECK(timeline.links[1].at == us(5));
  CHECK(timeline.links[1].rate == Approx(100e9));
  CHECK(timeline.links[2].at == us(10));
  CHECK(timeline.links[2].rate == Approx(80e9));
  CHECK(timeline.links[3].rate == 0);
}

TEST_CASE("latency uses no bandwidth") {
  // A: 4 us latency, then 0.1 MB alone at 100 GB/s. B transfers 0.4 MB from 0 to 4 us undisturbed.
  SmallWorkload small;
  const auto full = gigabytes_per_second(100);
  const TransferId late =
      small.transfer({.latency = microseconds(4), .size = megabytes(0.1), .solo_rate = full});
  const TransferId early = small.transfer({.size = megabytes(0.4), .solo_rate = full});
  const LinkId link = small.link(full);
  for (const TransferId transfer : {late, early}) {
    const GroupId group =
        small.group({RankId{static_cast<std::uint32_t>(small.workload.ranks.size())}}, {{link, 1}});
    ProgramBuilder program(1);
    program.collective(kMain, 0, transfer, kCommunication, kLabel);
    small.rank(std::move(program), {group});
  }
  const Result result = run(small.workload);
  CHECK(result.ranks[0].end == us(5));
  CHECK(result.ranks[1].end == us(4));
}

TEST_CASE("communication slows compute on all of its members while it runs") {
  // Kernel 10 us on stream 0; a collective on stream 1 from 2 us on: latency 1 us + 3 us, share
  // 0.5. Until 2: 2 us done. 2..6: 2 us done. 6 us to go: ends at 12 us, 2 us slower.
  SmallWorkload small;
  const KernelId kernel = small.kernel(microseconds(10));
  const KernelId before = small.kernel(microseconds(2));
  const TransferId transfer = small.transfer({.latency = microseconds(1),
                                              .size = megabytes(0.3),
                                              .solo_rate = gigabytes_per_second(100),
                                              .compute_share = 0.5});
  const GroupId group = small.group({RankId{0}, RankId{1}});
  ProgramBuilder program(2);
  program.compute(kMain, kernel, kCompute, kLabel);
  program.compute(kSide, before, kOther, kLabel);
  program.collective(kSide, 0, transfer, kCommunication, kLabel);
  small.rank(program, {group});
  small.rank(program, {group});
  const Result result = run(small.workload);
  for (const RankSummary& rank : result.ranks) {
    CHECK(rank.end == us(12));
    CHECK(rank.slowdown == us(2));
    CHECK(rank.compute_busy == us(12));
  }
  CHECK(time_of(result, 0, kCommunication).busy == us(4));
  CHECK(time_of(result, 0, kCommunication).exposed == SimTime{});
}

TEST_CASE("kernels in a row are each slowed by what runs beside them, and by no more") {
  // Three kernels of 4 us; a collective of 1 + 3 us, share 0.5, from 6 us on. The first ends at 4.
  // The second has done 2 us at 6 and the other 2 at 10, as the collective ends; the third takes
  // 10..14 undisturbed.
  SmallWorkload small;
  const KernelId kernel = small.kernel(microseconds(4));
  const KernelId before = small.kernel(microseconds(6));
  const TransferId transfer = small.transfer({.latency = microseconds(1),
                                              .size = megabytes(0.3),
                                              .solo_rate = gigabytes_per_second(100),
                                              .compute_share = 0.5});
  const LinkId link = small.link(gigabytes_per_second(100));
  const GroupId group = small.group({RankId{0}, RankId{1}}, {{link, 1}});
  ProgramBuilder program(2);
  for (const CategoryId category : {kCompute, kOther, kCompute}) {
    program.compute(kMain, kernel, category, kLabel);
  }
  program.compute(kSide, before, kCommunication, kLabel);
  program.collective(kSide, 0, transfer, kCommunication, kLabel);
  small.rank(program, {group});
  small.rank(program, {group});
  const Result result = run(small.workload);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(result.ranks[rank].end == us(14));
    CHECK(result.ranks[rank].compute_busy == us(14));
    CHECK(result.ranks[rank].slowdown == us(2));
    CHECK(time_of(result, rank, kCompute).busy == us(8));
    CHECK(time_of(result, rank, kOther).busy == us(6));
    CHECK(time_of(result, rank, kCommunication).busy == us(6 + 4));
    CHECK(result.ranks[rank].ops_by_category == std::vector<std::uint64_t>{2, 2, 1});
  }
  CHECK(result.events == 2 * 4 + 2);
  CHECK(result.links[0].carried == megabytes(0.3));
  CHECK(result.links[0].busy == us(3));
  CHECK(result.links[0].peak_use == 1);
}

TEST_CASE("the largest share of the running transfers counts, and a whole share stops compute") {
  // Kernel 10 us. Share 0.25 during 0..8 us, share 1 during 0..4 us.
  // 0..4: nothing done. 4..8: 3 us done. 7 us to go: ends at 15 us.
  SmallWorkload small;
  const KernelId kernel = small.kernel(microseconds(10));
  const auto rate = gigabytes_per_second(100);
  const TransferId quarter =
      small.transfer({.size = megabytes(0.8), .solo_rate = rate, .compute_share = 0.25});
  const TransferId whole =
      small.transfer({.size = megabytes(0.4), .solo_rate = rate, .compute_share = 1});
  const GroupId one = small.group({RankId{0}});
  const GroupId two = small.group({RankId{0}});
  ProgramBuilder program(3);
  program.compute(kMain, kernel, kCompute, kLabel);
  program.collective(kSide, 0, quarter, kCommunication, kLabel);
  program.collective(kThird, 1, whole, kCommunication, kLabel);
  small.rank(std::move(program), {one, two});
  const Result result = run(small.workload);
  CHECK(result.makespan == us(15));
  CHECK(result.ranks[0].slowdown == us(5));
}

TEST_CASE("links are loaded by weight and each transfer is capped by its own rate") {
  // Capacity 90. A: weight 2, cap 100; B: weight 1, cap 20. B is held at 20, A at (90-20)/2 = 35.
  SmallWorkload small;
  const LinkId link = small.link(gigabytes_per_second(90));
  const TransferId a =
      small.transfer({.size = megabytes(0.35), .solo_rate = gigabytes_per_second(100)});
  const TransferId b =
      small.transfer({.size = megabytes(0.2), .solo_rate = gigabytes_per_second(20)});
  ProgramBuilder first(1);
  first.collective(kMain, 0, a, kCommunication, kLabel);
  ProgramBuilder second(1);
  second.collective(kMain, 0, b, kCommunication, kLabel);
  small.rank(std::move(first), {small.group({RankId{0}}, {{link, 2}})});
  small.rank(std::move(second), {small.group({RankId{1}}, {{link, 1}})});
  const Result result = run(small.workload);
  CHECK(result.ranks[0].end == us(10));
  CHECK(result.ranks[1].end == us(10));
  CHECK(result.links[0].carried == megabytes(0.9));
}

TEST_CASE("a wait is charged to what the awaited stream does at the time") {
  // Stream 0: 2 us, then waits for stream 1, which computes 3 us and joins a collective that rank 1
  // reaches at 7 us and that takes 4 us. Then 1 us more on stream 0.
  SmallWorkload small;
  const TransferId transfer =
      small.transfer({.size = megabytes(0.4), .solo_rate = gigabytes_per_second(100)});
  const GroupId group = small.group({RankId{0}, RankId{1}});
  ProgramBuilder program(2);
  program.compute(kMain, small.kernel(microseconds(2)), kCompute, kLabel);
  program.compute(kSide, small.kernel(microseconds(3)), kOther, kLabel);
  program.collective(kSide, 0, transfer, kCommunication, kLabel);
  program.order(kSide, kMain);
  program.compute(kMain, small.kernel(microseconds(1)), kCompute, kLabel);
  small.rank(std::move(program), {group});
  ProgramBuilder late(2);
  late.compute(kMain, small.kernel(microseconds(7)), kCompute, kLabel);
  late.order(kMain, kSide);
  late.collective(kSide, 0, transfer, kCommunication, kLabel);
  small.rank(std::move(late), {group});

  const Result result = run(small.workload);
  CHECK(result.makespan == us(12));
  CHECK(result.ranks[0].compute_busy == us(3));
  CHECK(time_of(result, 0, kOther).exposed == us(1));          // 2..3
  CHECK(time_of(result, 0, kCommunication).waiting == us(4));  // 3..7
  CHECK(time_of(result, 0, kCommunication).exposed == us(4));  // 7..11
  // Rank 1's compute stream has ended: what the rank still does counts as exposed.
  CHECK(time_of(result, 1, kCommunication).exposed == us(4));
  CHECK(result.ranks[1].end == us(11));
  CHECK(result.ranks[1].idle == us(1));
  for (const RankSummary& rank : result.ranks) CHECK(accounted(rank) == result.makespan);
}

TEST_CASE("a wait for a stream that waits for a third is charged to the third") {
  SmallWorkload small;
  const TransferId transfer = small.transfer({.latency = microseconds(5), .size = bytes(0)});
  const GroupId group = small.group({RankId{0}});
  ProgramBuilder program(3);
  program.collective(kThird, 0, transfer, kCommunication, kLabel);
  program.order(kThird, kSide);
  program.compute(kSide, small.kernel(microseconds(2)), kOther, kLabel);
  program.order(kSide, kMain);
  small.rank(std::move(program), {group});
  const Result result = run(small.workload);
  CHECK(result.makespan == us(7));
  CHECK(time_of(result, 0, kCommunication).exposed == us(5));
  CHECK(time_of(result, 0, kOther).exposed == us(2));
}
