#pragma once

// One generator per family of schedules; pipeline_schedule.cpp lists which kind uses which. Private
// to the pipeline_schedule files.

#include <vector>

#include "models/pipeline_schedule.h"

namespace flopcast {

using RankOps = std::vector<ScheduleOp>;
using ScheduleOps = std::vector<RankOps>;  // by rank

inline ScheduleOp forward_op(int micro_batch, int chunk) {
  return {.pass = Pass::forward, .micro_batch = micro_batch, .chunk = chunk};
}
inline ScheduleOp backward_op(int micro_batch, int chunk) {
  return {.pass = Pass::backward, .micro_batch = micro_batch, .chunk = chunk};
}
inline ScheduleOp input_gradient_op(int micro_batch, int chunk) {
  return {.pass = Pass::input_gradient, .micro_batch = micro_batch, .chunk = chunk};
}
inline ScheduleOp weight_gradient_op(int micro_batch, int chunk) {
  return {.pass = Pass::weight_gradient, .micro_batch = micro_batch, .chunk = chunk};
}

// pipeline_schedule_breadth_first.cpp
ScheduleOps gpipe_order(const ScheduleShape& shape);
ScheduleOps looped_bfs_order(const ScheduleShape& shape);

// pipeline_schedule_1f1b.cpp
ScheduleOps one_f_one_b_order(const ScheduleShape& shape);
ScheduleOps interleaved_order(const ScheduleShape& shape);
ScheduleOps interleaved_zero_bubble_order(const ScheduleShape& shape);

// pipeline_schedule_zero_bubble.cpp
ScheduleOps zb_h1_order(const ScheduleShape& shape);
ScheduleOps zb_h2_order(const ScheduleShape& shape);

// pipeline_schedule_zero_bubble_v.cpp
ScheduleOps zb_v_order(const ScheduleShape& shape);

// pipeline_schedule_zero_bubble_v_torch.cpp
ScheduleOps zb_v_torch_order(const ScheduleShape& shape);

// pipeline_schedule_v_pattern.cpp
ScheduleOps v_half_order(const ScheduleShape& shape);
ScheduleOps v_min_order(const ScheduleShape& shape);

// pipeline_schedule_1f1b_v.cpp
ScheduleOps one_f_one_b_v_order(const ScheduleShape& shape);

// pipeline_schedule_dualpipe.cpp
ScheduleOps dualpipe_order(const ScheduleShape& shape);
ScheduleOps dualpipe_v_order(const ScheduleShape& shape);

}  // namespace flopcast
