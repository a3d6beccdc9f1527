#pragma once

// Questions about layouts that have a legal answer, to be spoilt in one place.

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
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

/// A rule, what breaks it and what is said then.
struct Row {
  std::string rule;
  Question (*legal)();
  void (*spoil)(Question& q);
  std::string key;
  std::string problem;  // a part of it
  std::vector<std::int64_t> nearest;
};

inline std::string found(const std::vector<LayoutViolation>& violations) {
  std::string text;
  for (const LayoutViolation& violation : violations) {
    text += violation.key + ": " + violation.problem + " ->";
    for (const std::int64_t value : violation.nearest) text += ' ' + std::to_string(value);
    text += '\n';
  }
  return text;
}

inline void check_rows(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    CAPTURE(row.rule);
    Question q = row.legal();
    CHECK(found(ask(q)).empty());
    row.spoil(q);
    const auto violations = ask(q);
    INFO(found(violations));
    const auto match = std::ranges::find_if(violations, [&](const LayoutViolation& violation) {
      return violation.key == row.key && violation.problem.find(row.problem) != std::string::npos;
    });
    REQUIRE(match != violations.end());
    CHECK(match->nearest == row.nearest);
  }
}

}  // namespace flopcast
