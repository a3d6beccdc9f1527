#include <catch2/catch.hpp>

#include "sim/engine.h"
#include "small_workload.h"

using namespace flopcast;
using namespace flopcast::test;

namespace {

constexpr LabelId kLabel{0};

/// A pair of ranks with one message of 4 us (1 us latency, 3 us transfer).
struct Pair {
  SmallWorkload small;
  GroupId group = small.group({RankId{0}, RankId{1}});
  TransferId transfer = small.transfer(
      {.latency = microseconds(1), .size = megabytes(0.3), .solo_rate = gigabytes_per_second(100)});
};

}  // namespace

TEST_CASE("a receiver that is early waits for the sender, then for the transfer") {
  Pair pair;
  ProgramBuilder sender(1);
  sender.compute(kMain, pair.small.kernel(microseconds(5)), kCompute, kLabel);
  sender.send(kMain, 0, 7, pair.transfer, kCommunication, kLabel);
  pair.small.rank(std::move(sender), {pair.group});
  ProgramBuilder receiver(1);
  receiver.recv(kMain, 0, 7, kCommunication, kLabel);
  pair.small.rank(std::move(receiver), {pair.group});

  TimelineBuffer timeline;
  const Result result = run(pair.small.workload, &timeline);
  CHECK(result.makespan == us(9));
  CHECK(time_of(result, 1, kCommunication).waiting == us(5));
  CHECK(time_of(result, 1, kCommunication).exposed == us(4));
  CHECK(time_of(result, 0, kCommunication).exposed == us(4));
  CHECK(result.ranks[0].bytes_by_category[1] == 0.3e6);
  CHECK(result.ranks[1].bytes_by_category[1] == 0);
  for (const RankSummary& rank : result.ranks) CHECK(accounted(rank) == result.makespan);
  const auto recv = timeline.spans.back().kind == OpKind::recv
                        ? timeline.spans.back()
                        : timeline.spans[timeline.spans.size() - 2];
  CHECK(recv.begin == us(0));
  CHECK(recv.start == us(5));
  CHECK(recv.end == us(9));
}

TEST_CASE("a send does not wait for its receiver") {
  // The message goes at 0..4 us. Receivers that come at 2 us wait 2 us; those at 6 us none.
  struct Row {
    Seconds before;
    SimTime exposed;
    SimTime end;
  };
  const auto row = GENERATE(values<Row>({{microseconds(2), us(2), us(4)},
                                         {microseconds(4), us(0), us(4)},
                                         {microseconds(6), us(0), us(6)}}));
  Pair pair;
  ProgramBuilder sender(1);
  sender.send(kMain, 0, 0, pair.transfer, kCommunication, kLabel);
  pair.small.rank(std::move(sender), {pair.group});
  ProgramBuilder receiver(1);
  receiver.compute(kMain, pair.small.kernel(row.before), kCompute, kLabel);
  receiver.recv(kMain, 0, 0, kCommunication, kLabel);
  pair.small.rank(std::move(receiver), {pair.group});
  const Result result = run(pair.small.workload);
  CHECK(result.ranks[0].end == us(4));
  CHECK(result.ranks[1].end == row.end);
  CHECK(time_of(result, 1, kCommunication).waiting == SimTime{});
  CHECK(time_of(result, 1, kCommunication).exposed == row.exposed);
  CHECK(time_of(result, 1, kCommunication).busy == row.exposed);
}

TEST_CASE("messages of a pair match by tag, those of one tag in order") {
  // Sent: tag 1 (0..4), tag 2 (4..8), tag 1 again (8..12). Received: 2, then 1, then 1.
  Pair pair;
  ProgramBuilder sender(1);
  for (const std::uint32_t tag : {1u, 2u, 1u}) {
    sender.send(kMain, 0, tag, pair.transfer, kCommunication, kLabel);
  }
  pair.small.rank(std::move(sender), {pair.group});
  ProgramBuilder receiver(1);
  for (const std::uint32_t tag : {2u, 1u, 1u}) {
    receiver.recv(kMain, 0, tag, kCommunication, kLabel);
  }
  pair.small.rank(std::move(receiver), {pair.group});
  TimelineBuffer timeline;
  const Result result = run(pair.small.workload, &timeline);
  CHECK(result.makespan == us(12));
  std::vector<SimTime> received;
  for (const Span& span : timeline.spans) {
    if (span.kind == OpKind::recv) received.push_back(span.end);
  }
  CHECK(received == std::vector<SimTime>{us(8), us(8), us(12)});
  CHECK(time_of(result, 1, kCommunication).waiting == us(4));  // tag 2 is not sent before 4 us
  CHECK(time_of(result, 1, kCommunication).exposed == us(8));
}

TEST_CASE("a message takes its share of compute at both ends, received yet or not") {
  // Message 0..4 us with share 0.5; the receiver computes 10 us first: 4 us at half speed.
  Pair pair;
  pair.small.workload.transfers[0].compute_share = 0.5;
  ProgramBuilder sender(1);
  sender.send(kMain, 0, 0, pair.transfer, kCommunication, kLabel);
  pair.small.rank(std::move(sender), {pair.group});
  ProgramBuilder receiver(1);
  receiver.compute(kMain, pair.small.kernel(microseconds(10)), kCompute, kLabel);
  receiver.recv(kMain, 0, 0, kCommunication, kLabel);
  pair.small.rank(std::move(receiver), {pair.group});
  const Result result = run(pair.small.workload);
  CHECK(result.ranks[1].end == us(12));
  CHECK(result.ranks[1].slowdown == us(2));
}

TEST_CASE("one row may stand for both ends of a pair") {
  // A folded ring: every rank sends to the next and receives from the one before.
  SmallWorkload small;
  const TransferId transfer =
      small.transfer({.size = megabytes(0.3), .solo_rate = gigabytes_per_second(100)});
  const GroupId pair = small.group({RankId{0}, RankId{0}});
  ProgramBuilder program(2);
  program.send(kSide, 0, 0, transfer, kCommunication, kLabel);
  program.recv(kMain, 0, 0, kCommunication, kLabel);
  small.rank(std::move(program), {pair});
  const Result result = run(small.workload);
  CHECK(result.makespan == us(3));
  CHECK(time_of(result, 0, kCommunication).exposed == us(3));
}

TEST_CASE("a pipeline of two stages with three micro-batches has the textbook bubble") {
  // Forward 1 us on each stage, messages without cost: makespan (M + P - 1) * 1 us = 4 us.
  SmallWorkload small;
  const KernelId forward = small.kernel(microseconds(1));
  const TransferId transfer = small.transfer({.size = bytes(0)});
  const GroupId pair = small.group({RankId{0}, RankId{1}});
  ProgramBuilder first(2);
  ProgramBuilder second(2);
  for (std::uint32_t batch = 0; batch < 3; ++batch) {
    first.compute(kMain, forward, kCompute, kLabel);
    first.order(kMain, kSide);
    first.send(kSide, 0, batch, transfer, kCommunication, kLabel);
    second.recv(kSide, 0, batch, kCommunication, kLabel);
    second.order(kSide, kMain);
    second.compute(kMain, forward, kCompute, kLabel);
  }
  small.rank(std::move(first), {pair});
  small.rank(std::move(second), {pair});
  const Result result = run(small.workload);
  CHECK(result.makespan == us(4));
  CHECK(time_of(result, 1, kCommunication).waiting == us(1));
  CHECK(result.ranks[0].idle == us(1));
}
