#pragma once

// Questions about layouts that have a legal answer, to be spoilt in one place.

#include <catch2/catch.hpp>
#include <vector>

#include "golden_models.h"
#include "models/layout.h"

namespace flopcast {

struct Question {
  Transformer model;
  Layout layout;
  BatchShape batch;
  int gpus = 0;
};

inline Question llama_70b() {
  return {.model = golden_model("llama3-70b"),
          .layout = {.grid = {.tp = 4, .cp = 2, .dp = 2, .pp = 4}, .sequence_parallel = true},
          .batch = {.sequence = 8192, .micro_batch = 1, .global_batch = 64},
          .gpus = 64};
}

inline Question interleaved() {
  Question q = llama_70b();
  q.layout.schedule = ScheduleKind::interleaved;
  q.layout.vpp = 5;
  return q;
}

inline Question dualpipe() {
  Question q = llama_70b();
  q.layout.schedule = ScheduleKind::dualpipe;
  q.layout.vpp = 2;
  return q;
}

inline Question dualpipe_v() {
  Question q = dualpipe();
  q.layout.schedule = ScheduleKind::dualpipe_v;
  return q;
}

inline Question interleaved_zero_bubble() {
  Question q = interleaved();
  q.layout.schedule = ScheduleKind::interleaved_zero_bubble;
  return q;
}

inline Question zb_v() {
  Question q = dualpipe();
  q.layout.schedule = ScheduleKind::zb_v;
  return q;
}

inline Question qwen_moe() {
  return {.model = golden_model("qwen3-30b-a3b"),
          .layout = {.grid = {.tp = 2, .ep = 8, .dp = 16, .pp = 2}, .sequence_parallel = true},
          .batch = {.sequence = 4096, .micro_batch = 1, .global_batch = 256},
          .gpus = 64};
}

/// The violations; the quick answer has to agree.
inline std::vector<LayoutViolation> ask(const Question& q) {
  const auto violations = layout_violations(q.model, q.layout, q.batch, q.gpus);
  CHECK(layout_is_legal(q.model, q.layout, q.batch, q.gpus) == violations.empty());
  return violations;
}

}  // namespace flopcast
