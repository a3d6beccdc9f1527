#include "models/pipeline_schedule.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>

#include "golden_schedules.h"
#include "schedule_replay.h"
#include "sim/engine.h"

namespace flopcast {
namespace {

using nlohmann::json;
using test::golden_schedules;
using test::schedule_kind;
using test::schedule_shape;

const json& golden_case(const std::string& id) {
  for (const json& c : golden_schedules()["cases"]) {
    if (c["id"] == id) return c;
  }
  throw std::invalid_argument("no golden schedule " + id);
}

Placement placement_named(const std::string& name) {
  static const std::map<std::string, Placement> placements = {
      {"single", Placement::single},
      {"loop", Placement::loop},
      {"v", Placement::v},
      {"bidirectional", Placement::bidirectional},
  };
  return placements.at(name);
}

// "F3.1" is the forward of micro-batch 3 on chunk 1; one chunk is not named.
std::string text(const std::vector<ScheduleOp>& ops, bool name_chunk) {
  constexpr std::string_view kLetters = "FBIWF";  // by Pass
  std::ostringstream out;
  const auto write = [&](char letter, std::int32_t micro_batch, std::int32_t chunk) {
    out << letter << micro_batch;
    if (name_chunk) out << '.' << chunk;
  };
  for (const ScheduleOp& op : ops) {
    if (out.tellp() > 0) out << ' ';
    write(kLetters[static_cast<std::size_t>(op.pass)], op.micro_batch, op.chunk);
    if (op.pass != Pass::overlapped) continue;
    out << '&';
    write('B', op.beside_micro_batch, op.beside_chunk);
  }
  return out.str();
}

SimTime units(double count) { return after({}, seconds(count)); }

ReplayCosts equal_costs(ScheduleKind kind, const ScheduleShape& shape, double hop) {
  const auto stages =
      static_cast<std::size_t>(stage_count({placement_of(kind), shape.ranks, shape.chunks}));
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
  for (const json& c : golden_schedules()["cases"]) {
    CAPTURE(c["id"].get<std::string>());
    const ScheduleShape shape = schedule_shape(c);
    const auto schedule = pipeline_schedule(schedule_kind(c), shape);
    REQUIRE(schedule.size() == c["ops"].size());
    for (std::size_t r = 0; r < schedule.size(); ++r) {
      CHECK(text(schedule[r], shape.chunks > 1) == c["ops"][r].get<std::string>());
    }
  }
}

TEST_CASE("a replayed schedule takes the time and the activations of the reference") {
  for (const json& c : golden_schedules()["cases"]) {
    CAPTURE(c["id"].get<std::string>());
    const ScheduleShape shape = schedule_shape(c);
    const json& expected = c["expected"];
    TimelineBuffer timeline;
    const Result result =
        run(schedule_workload(schedule_kind(c), shape, equal_costs(schedule_kind(c), shape, 0)),
            &timeline);
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

TEST_CASE("activations freed by the input gradient peak as in the reference") {
  for (const json& c : golden_schedules()["cases"]) {
    const std::string key = "peak_activations_freed_at_input_gradient";
    if (!c["expected"].contains(key)) continue;
    CAPTURE(c["id"].get<std::string>());
    const ScheduleShape shape = schedule_shape(c);
    ReplayCosts costs = equal_costs(schedule_kind(c), shape, 0);
    costs.free_at_input_gradient = true;
    const Result result = run(schedule_workload(schedule_kind(c), shape, costs));
    for (std::size_t r = 0; r < result.ranks.size(); ++r) {
      CAPTURE(r);
      CHECK(result.ranks[r].memory.total == c["expected"][key][r].get<std::int64_t>());
    }
  }
}

// By hand, after combined_1f1b.py: one forward more to warm up, then pairs, then what is left.
TEST_CASE("side by side, a turn is one op") {
  const auto alone = pipeline_schedule(ScheduleKind::one_f_one_b,
                                       {.ranks = 1, .micro_batches = 3, .side_by_side = true});
  const auto pair = [](int ahead, int chunk, int back, int beside) {
    return ScheduleOp{.pass = Pass::overlapped,
                      .micro_batch = ahead,
                      .chunk = chunk,
                      .beside_micro_batch = back,
                      .beside_chunk = beside};
  };
  const auto single = [](Pass pass, int micro_batch, int chunk) {
    return ScheduleOp{.pass = pass, .micro_batch = micro_batch, .chunk = chunk};
  };
  using Ops = std::vector<ScheduleOp>;
  CHECK(alone[0] == Ops{single(Pass::forward, 0, 0), pair(1, 0, 0, 0), pair(2, 0, 1, 0),
                        single(Pass::backward, 2, 0)});
  // Two ranks, two chunks, two micro-batches: the last rank warms up with both on chunk 0 and one
  // more.
  const auto two =
      pipeline_schedule(ScheduleKind::interleaved,
                        {.ranks = 2, .micro_batches = 2, .chunks = 2, .side_by_side = true});
  CHECK(two[1] == Ops{single(Pass::forward, 0, 0), single(Pass::forward, 1, 0),
                      single(Pass::forward, 0, 1), pair(1, 1, 0, 1), single(Pass::backward, 1, 1),
                      single(Pass::backward, 0, 0), single(Pass::backward, 1, 0)});
}

TEST_CASE("overlapped pairs that start and end together take the time of the reference") {
  for (const json& c : golden_schedules()["cases"]) {
    const json& expected = c["expected"];
    if (!expected.contains("makespan_overlap_atomic")) continue;
    CAPTURE(c["id"].get<std::string>());
    const ScheduleShape shape = schedule_shape(c);
    ReplayCosts costs = equal_costs(schedule_kind(c), shape, 0);
    costs.pairs_at_once = true;
    const Result result = run(schedule_workload(schedule_kind(c), shape, costs));
    CHECK(result.makespan == units(expected["makespan_overlap_atomic"]));
    for (std::size_t r = 0; r < result.ranks.size(); ++r) {
      CAPTURE(r);
      CHECK(result.ranks[r].memory.total ==
            expected["peak_activations_overlap_atomic"][r].get<std::int64_t>());
    }
  }
}

TEST_CASE("a hop of one unit costs what the schedule cannot hide") {
  for (const json& c : golden_schedules()["cases"]) {
    CAPTURE(c["id"].get<std::string>());
    const ScheduleShape shape = schedule_shape(c);
    const Result result =
        run(schedule_workload(schedule_kind(c), shape, equal_costs(schedule_kind(c), shape, 1)));
    CHECK(result.makespan == units(c["expected"]["makespan_with_hop_latency_1"]));
  }
}

TEST_CASE("uneven stages and short hops shift every rank's end as in the reference") {
  for (const json& uneven : golden_schedules()["uneven_stage_costs"]) {
    CAPTURE(uneven["id"].get<std::string>());
    const json& c = golden_case(uneven["order_of"]);
    ReplayCosts costs{.hop = seconds(uneven["hop_latency"].get<double>())};
    for (const double time : uneven["forward"]) costs.forward.push_back(seconds(time));
    for (const double time : uneven["backward"]) costs.backward.push_back(seconds(time));
    TimelineBuffer timeline;
    const Result result =
        run(schedule_workload(schedule_kind(c), schedule_shape(c), costs), &timeline);
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
  for (const json& c : golden_schedules()["blocking_point_to_point"]["cases"]) {
    const ScheduleShape shape{
        .ranks = c["ranks"], .micro_batches = c["micro_batches"], .chunks = c["chunks_per_rank"]};
    CAPTURE(shape.ranks, shape.micro_batches, shape.chunks);
    const ScheduleKind kind =
        shape.chunks > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
    ReplayCosts costs = equal_costs(kind, shape, 0);
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
  const Result result = run(schedule_workload(kind, shape, equal_costs(kind, shape, 0)));
  CHECK(result.makespan == units(3 * (shape.micro_batches * shape.chunks + shape.ranks - 1)));
}

TEST_CASE("every schedule runs, and does all work once, where the reference has no case") {
  struct Row {
    int ranks;
    int micro_batches;
  };
  const auto row = GENERATE(values<Row>({{2, 6}, {4, 12}, {6, 14}, {6, 40}}));
  for (int k = 0; k <= static_cast<int>(ScheduleKind::dualpipe_v); ++k) {
    const auto kind = static_cast<ScheduleKind>(k);
    if (kind == ScheduleKind::interleaved && row.micro_batches % row.ranks != 0) continue;
    CAPTURE(schedule_name(kind), row.ranks, row.micro_batches);
    const ScheduleShape shape{
        .ranks = row.ranks, .micro_batches = row.micro_batches, .chunks = chunk_range(kind).least};
    const PipelineShape pipeline{placement_of(kind), shape.ranks, shape.chunks};
    TimelineBuffer timeline;
    run(schedule_workload(kind, shape, equal_costs(kind, shape, 0.5)), &timeline);
    const int stages_of_rank = stage_count(pipeline) / shape.ranks;
    for (const ComputeTimes& rank :
         compute_times(timeline, static_cast<std::size_t>(shape.ranks))) {
      CHECK(rank.busy == units(3 * stages_of_rank * shape.micro_batches));
    }
  }
}

// Rules of the reference: loop: stage = chunk * P + rank; v: rank, then 2P - 1 - rank;
// bidirectional: rank, and P - 1 - rank for the other copy.
TEST_CASE("the stages of a model lie where the schedule has them") {
  for (const json& c : golden_schedules()["cases"]) {
    CAPTURE(c["id"].get<std::string>());
    const Placement placement = placement_of(schedule_kind(c));
    const bool one_loop = c["chunks_per_rank"] == 1 && placement == Placement::loop;
    CHECK((one_loop ? Placement::single : placement) == placement_named(c["placement"]));
  }
  struct Row {
    PipelineShape shape;
    int stages;
    StagePlace place;
    int stage;
    std::optional<StagePlace> previous;
    std::optional<StagePlace> next;
  };
  using Place = StagePlace;
  const PipelineShape single{Placement::single, 4, 1};
  const PipelineShape loop{Placement::loop, 4, 3};
  const PipelineShape v{Placement::v, 4, 2};
  const PipelineShape both{Placement::bidirectional, 4, 2};
  for (const Row& row : std::vector<Row>{
           {single, 4, {0, 0}, 0, {}, Place{1, 0}},
           {single, 4, {3, 0}, 3, Place{2, 0}, {}},
           {loop, 12, {3, 0}, 3, Place{2, 0}, Place{0, 1}},
           {loop, 12, {0, 2}, 8, Place{3, 1}, Place{1, 2}},
           {loop, 12, {3, 2}, 11, Place{2, 2}, {}},
           {v, 8, {3, 0}, 3, Place{2, 0}, Place{3, 1}},
           {v, 8, {3, 1}, 4, Place{3, 0}, Place{2, 1}},
           {v, 8, {0, 1}, 7, Place{1, 1}, {}},
           {both, 4, {1, 0}, 1, Place{0, 0}, Place{2, 0}},
           {both, 4, {3, 0}, 3, Place{2, 0}, {}},
           {both, 4, {3, 1}, 0, {}, Place{2, 1}},
           {both, 4, {0, 1}, 3, Place{1, 1}, {}},
       }) {
    CAPTURE(static_cast<int>(row.shape.placement), row.place.rank, row.place.chunk);
    CHECK(stage_count(row.shape) == row.stages);
    CHECK(stage_of(row.shape, row.place) == row.stage);
    CHECK(previous_place(row.shape, row.place) == row.previous);
    CHECK(next_place(row.shape, row.place) == row.next);
  }
}

}  // namespace flopcast
