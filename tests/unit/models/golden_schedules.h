#pragma once

// Orders and times of tests/data/schedules.json.

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "models/pipeline_schedule.h"

namespace flopcast::test {

inline const nlohmann::json& golden_schedules() {
  static const auto file =
      nlohmann::json::parse(std::ifstream(std::string(FLOPCAST_TEST_DATA) + "/schedules.json"));
  return file;
}

inline ScheduleKind schedule_kind(const nlohmann::json& c) {
  static const std::map<std::string, ScheduleKind> kinds = {
      {"gpipe", ScheduleKind::gpipe},
      {"1f1b", ScheduleKind::one_f_one_b},
      {"interleaved-1f1b", ScheduleKind::interleaved},
      {"interleaved-1f1b-flexible", ScheduleKind::interleaved},
      {"looped-bfs", ScheduleKind::looped_bfs},
      {"interleaved-zero-bubble", ScheduleKind::interleaved_zero_bubble},
      {"zb-h1", ScheduleKind::zb_h1},
      {"zb-h2", ScheduleKind::zb_h2},
      {"zb-v", ScheduleKind::zb_v},
      {"v-half", ScheduleKind::v_half},
      {"v-min", ScheduleKind::v_min},
      {"1f1b-v", ScheduleKind::one_f_one_b_v},
      {"dualpipe", ScheduleKind::dualpipe},
      {"dualpipe-v", ScheduleKind::dualpipe_v},
  };
  const ScheduleKind kind = kinds.at(c["schedule"]);
  // Two implementations differ in their order.
  return kind == ScheduleKind::zb_v && c["source"].contains("package") ? ScheduleKind::zb_v_torch
                                                                       : kind;
}

inline ScheduleShape schedule_shape(const nlohmann::json& c) {
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

}  // namespace flopcast::test
