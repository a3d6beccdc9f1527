#include "models/pipeline_schedule.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "schedule_replay.h"
#include "sim/engine.h"

namespace flopcast {
namespace {

using nlohmann::json;

const json& golden() {
  static const json file =
      json::parse(std::ifstream(std::string(FLOPCAST_TEST_DATA) + "/schedules.json"));
  return file;
}

const json& golden_case(const std::string& id) {
  for (const json& c : golden()["cases"]) {
    if (c["id"] == id) return c;
  }
  throw std::invalid_argument("no golden schedule " + id);
}

ScheduleKind kind_of(const json& c) {
  const std::string schedule = c["schedule"];
  if (schedule == "gpipe") return ScheduleKind::gpipe;
  if (schedule == "1f1b") return ScheduleKind::one_f_one_b;
  return ScheduleKind::interleaved;
}

ScheduleShape shape_of(const json& c) {
  ScheduleShape shape{.ranks = c["ranks"],
                      .micro_batches = c["micro_batches"],
                      .chunks = c["chunks_per_rank"],
                      .group = c.value("micro_batch_group_size", 0)};
  // torch makes rounds of M / max(1, M / P) micro-batches, which is a group size.
  // Source: PyTorch 2.14.1, torch/distributed/pipelining/schedules.py, ScheduleInterleaved1F1B.
  if (c["schedule"] == "interleaved-1f1b-flexible") {
    shape.group = shape.micro_batches / std::max(1, shape.micro_batches / shape.ranks);
  }
  return shape;
}

// "F3.1" is the forward of micro-batch 3 on chunk 1; one chunk is not named.
std::string text(const std::vector<ScheduleOp>& ops, bool name_chunk) {
  std::ostringstream out;
  for (const ScheduleOp& op : ops) {
    if (out.tellp() > 0) out << ' ';
    out << (op.pass == Pass::forward ? 'F' : 'B') << op.micro_batch;
    if (name_chunk) out << '.' << op.chunk;
  }
  return out.str();
}

SimTime units(double count) { return after({}, seconds(count)); }

ReplayCosts equal_costs(const ScheduleShape& shape, double hop) {
  const auto stages = static_cast<std::size_t>(shape.ranks * shape.chunks);
  return {.forward = std::vector<Seconds>(stages, seconds(1)),
          .backward = std::vector<Seconds>(stages, seconds(2)),
          .hop = seconds(hop)};
}

struct ComputeTimes {
  SimTime start = kNever;
  SimTime end;
  SimTime busy;
};

std::vector<ComputeTimes> compute_times(const TimelineBuffer& timeline, std::size_t ranks) {
  std::vector<ComputeTimes> times(ranks);
  for (const Span& span : timeline.spans) {
    if (span.kind != OpKind::compute) continue;
    ComputeTimes& rank = times[index_of(span.rank)];
    rank.start = std::min(rank.start, span.start);
    rank.end = std::max(rank.end, span.end);
    rank.busy += span.end - span.start;
  }
  return times;
}

}  // namespace

TEST_CASE("every rank runs its ops in the order of the frameworks") {
  for (const json& c : golden()["cases"]) {
    CAPTURE(c["id"].get<std::string>());
    const ScheduleShape shape = shape_of(c);
    const auto schedule = pipeline_schedule(kind_of(c), shape);
    REQUIRE(schedule.size() == c["ops"].size());
    for (std::size_t r = 0; r < schedule.size(); ++r) {
      CHECK(text(schedule[r], shape.chunks > 1) == c["ops"][r].get<std::string>());
    }
  }
}

TEST_CASE("a replayed schedule takes the time and the activations of the reference") {
  for (const json& c : golden()["cases"]) {
    CAPTURE(c["id"].get<std::string>());
    const ScheduleShape shape = shape_of(c);
    const json& expected = c["expected"];
    TimelineBuffer timeline;
    const Result result =
        run(schedule_workload(kind_of(c), shape, equal_costs(shape, 0)), &timeline);
    CHECK(result.makespan == units(expected["makespan"]));
    const auto times = compute_times(timeline, result.ranks.size());
    for (std::size_t r = 0; r < times.size(); ++r) {
      CAPTURE(r);
      CHECK(times[r].start == units(expected["rank_first_start"][r]));
      CHECK(times[r].end == units(expected["rank_end"][r]));
      CHECK(times[r].end - times[r].start == units(expected["rank_span"][r]));
      CHECK(times[r].busy == units(expected["work_per_rank"]));
      CHECK(result.ranks[r].memory.total == expected["peak_activations"][r].get<std::int64_t>());
    }
  }
}

TEST_CASE("a hop of one unit costs what the schedule cannot hide") {
  for (const json& c : golden()["cases"]) {
    CAPTURE(c["id"].get<std::string>());
    const ScheduleShape shape = shape_of(c);
    const Result result = run(schedule_workload(kind_of(c), shape, equal_costs(shape, 1)));
    CHECK(result.makespan == units(c["expected"]["makespan_with_hop_latency_1"]));
  }
}

TEST_CASE("uneven stages and short hops shift every rank's end as in the reference") {
  for (const json& uneven : golden()["uneven_stage_costs"]) {
    CAPTURE(uneven["id"].get<std::string>());
    const json& c = golden_case(uneven["order_of"]);
    ReplayCosts costs{.hop = seconds(uneven["hop_latency"].get<double>())};
    for (const double time : uneven["forward"]) costs.forward.push_back(seconds(time));
    for (const double time : uneven["backward"]) costs.backward.push_back(seconds(time));
    TimelineBuffer timeline;
    const Result result = run(schedule_workload(kind_of(c), shape_of(c), costs), &timeline);
    CHECK(result.makespan == units(uneven["makespan"]));
    const auto times = compute_times(timeline, result.ranks.size());
    for (std::size_t r = 0; r < times.size(); ++r) {
      CAPTURE(r);
      CHECK(times[r].end == units(uneven["rank_end"][r]));
      CHECK(times[r].busy == units(uneven["work"][r]));
    }
  }
}

TEST_CASE("blocking messages cost nothing where stages are equal and hops free") {
  for (const json& c : golden()["blocking_point_to_point"]["cases"]) {
    const ScheduleShape shape{
        .ranks = c["ranks"], .micro_batches = c["micro_batches"], .chunks = c["chunks_per_rank"]};
    CAPTURE(shape.ranks, shape.micro_batches, shape.chunks);
    const ScheduleKind kind =
        shape.chunks > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
    ReplayCosts costs = equal_costs(shape, 0);
    CHECK(run(schedule_workload(kind, shape, costs)).makespan == units(c["dependency_only"]));
    costs.blocking = true;
    CHECK(run(schedule_workload(kind, shape, costs)).makespan == units(c["eager"]));
  }
}

// Closed forms of Narayanan et al., arXiv 2104.04473, section 2.2, where the reference has no case.
TEST_CASE("the bubble is (P - 1)(tF + tB) whatever the group size") {
  const auto shape = GENERATE(values<ScheduleShape>({
      {.ranks = 3, .micro_batches = 7},
      {.ranks = 3, .micro_batches = 12, .chunks = 3, .group = 4},
      {.ranks = 5, .micro_batches = 11, .chunks = 2, .group = 6},  // last group of 5
      {.ranks = 2, .micro_batches = 2, .chunks = 4},
  }));
  CAPTURE(shape.ranks, shape.micro_batches, shape.chunks, shape.group);
  const ScheduleKind kind =
      shape.chunks > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
  const Result result = run(schedule_workload(kind, shape, equal_costs(shape, 0)));
  CHECK(result.makespan == units(3 * (shape.micro_batches * shape.chunks + shape.ranks - 1)));
}

}  // namespace flopcast
