#include "models/pipeline_schedule.h"

#include <algorithm>
#include <limits>

#include "models/pipeline_schedule_orders.h"
#include "sim/check.h"

namespace flopcast {

namespace {

struct ScheduleRow {
  ScheduleKind kind;
  std::string_view name;
  Placement placement;
  ChunkRange chunks;
  ScheduleOps (*order)(const ScheduleShape& shape);
};

constexpr int kAny = std::numeric_limits<int>::max();

// In the order of ScheduleKind.
constexpr ScheduleRow kSchedules[] = {
    {ScheduleKind::gpipe, "GPipe", Placement::single, {1, 1}, gpipe_order},
    {ScheduleKind::one_f_one_b, "1F1B", Placement::single, {1, 1}, one_f_one_b_order},
    {ScheduleKind::interleaved, "interleaved 1F1B", Placement::loop, {2, kAny}, interleaved_order},
    {ScheduleKind::looped_bfs, "looped BFS", Placement::loop, {1, kAny}, looped_bfs_order},
    {ScheduleKind::interleaved_zero_bubble,
     "interleaved zero bubble",
     Placement::loop,
     {1, kAny},
     interleaved_zero_bubble_order},
    {ScheduleKind::zb_h1, "ZB-H1", Placement::single, {1, 1}, zb_h1_order},
    {ScheduleKind::zb_h2, "ZB-H2", Placement::single, {1, 1}, zb_h2_order},
    {ScheduleKind::zb_v, "ZB-V", Placement::v, {2, 2}, zb_v_order},
    {ScheduleKind::zb_v_torch, "ZB-V (torch)", Placement::v, {2, 2}, zb_v_torch_order},
    {ScheduleKind::v_half, "V-Half", Placement::v, {2, 2}, v_half_order},
    {ScheduleKind::v_min, "V-Min", Placement::v, {2, 2}, v_min_order},
    {ScheduleKind::one_f_one_b_v, "1F1B-V", Placement::v, {2, 2}, one_f_one_b_v_order},
    {ScheduleKind::dualpipe, "DualPipe", Placement::bidirectional, {2, 2}, dualpipe_order},
    {ScheduleKind::dualpipe_v, "DualPipeV", Placement::v, {2, 2}, dualpipe_v_order},
};

const ScheduleRow& row_of(ScheduleKind kind) {
  const ScheduleRow& row = kSchedules[static_cast<std::size_t>(kind)];
  FLOPCAST_CHECK(row.kind == kind, "the table is in the order of the kinds");
  return row;
}

}  // namespace

std::vector<std::vector<ScheduleOp>> pipeline_schedule(ScheduleKind kind,
                                                       const ScheduleShape& shape) {
  FLOPCAST_CHECK(shape.ranks > 0 && shape.micro_batches > 0 && shape.group >= 0,
                 "layout_violations lets no other shape pass");
  const ScheduleRow& row = row_of(kind);
  FLOPCAST_CHECK(shape.chunks >= row.chunks.least && shape.chunks <= row.chunks.most,
                 "layout_violations lets no other number of chunks pass");
  return row.order(shape);
}

std::string_view schedule_name(ScheduleKind kind) { return row_of(kind).name; }

Placement placement_of(ScheduleKind kind) { return row_of(kind).placement; }

int model_copies(ScheduleKind kind) {
  return placement_of(kind) == Placement::bidirectional ? 2 : 1;
}

ChunkRange chunk_range(ScheduleKind kind) { return row_of(kind).chunks; }

int stage_count(const PipelineShape& shape) {
  switch (shape.placement) {
    case Placement::single:
    case Placement::loop:
    case Placement::v: return shape.ranks * shape.chunks;
    case Placement::bidirectional: return shape.ranks;
  }
  return 0;
}

int stage_of(const PipelineShape& shape, StagePlace place) {
  switch (shape.placement) {
    case Placement::single:
    case Placement::loop: return place.chunk * shape.ranks + place.rank;
    case Placement::v: return place.chunk == 0 ? place.rank : 2 * shape.ranks - 1 - place.rank;
    case Placement::bidirectional:
      return place.chunk == 0 ? place.rank : shape.ranks - 1 - place.rank;
  }
  return 0;
}

namespace {

// Of the same copy of the model as `place`.
StagePlace place_of_stage(const PipelineShape& shape, int stage, StagePlace place) {
  switch (shape.placement) {
    case Placement::single:
    case Placement::loop: return {.rank = stage % shape.ranks, .chunk = stage / shape.ranks};
    case Placement::v:
      return stage < shape.ranks ? StagePlace{.rank = stage, .chunk = 0}
                                 : StagePlace{.rank = 2 * shape.ranks - 1 - stage, .chunk = 1};
    case Placement::bidirectional:
      return {.rank = place.chunk == 0 ? stage : shape.ranks - 1 - stage, .chunk = place.chunk};
  }
  return {};
}

}  // namespace

std::optional<StagePlace> next_place(const PipelineShape& shape, StagePlace place) {
  const int stage = stage_of(shape, place) + 1;
  if (stage == stage_count(shape)) return std::nullopt;
  return place_of_stage(shape, stage, place);
}

std::optional<StagePlace> previous_place(const PipelineShape& shape, StagePlace place) {
  const int stage = stage_of(shape, place) - 1;
  if (stage < 0) return std::nullopt;
  return place_of_stage(shape, stage, place);
}

}  // namespace flopcast
