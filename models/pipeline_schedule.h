#pragma once

// The order in which each pipeline rank runs its forward and backward passes.

#include <cstdint>
#include <vector>

#include "models/layout.h"

namespace flopcast {

enum class Pass : std::uint8_t { forward, backward };

struct ScheduleOp {
  Pass pass = Pass::forward;
  std::int32_t micro_batch = 0;
  std::int32_t chunk = 0;  // local chunk of the rank; its global stage is chunk * pp + rank

  friend bool operator==(const ScheduleOp&, const ScheduleOp&) = default;
};

struct ScheduleShape {
  int ranks = 1;
  int micro_batches = 1;
  int chunks = 1;  // per rank
  int group = 0;   // interleaved: micro-batches per virtual stage before the next; 0 means ranks
};

/// By rank, the ops in order. The shape must be legal (layout_violations).
std::vector<std::vector<ScheduleOp>> pipeline_schedule(ScheduleKind kind,
                                                       const ScheduleShape& shape);

}  // namespace flopcast
