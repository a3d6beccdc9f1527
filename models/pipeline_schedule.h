#pragma once

// The order in which each pipeline rank runs its passes, and where the stages of a model lie.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "models/layout.h"

namespace flopcast {

enum class Pass : std::uint8_t {
  forward,
  backward,         // both gradients
  input_gradient,   // what the stage before waits for
  weight_gradient,  // what nobody waits for
  overlapped,       // a forward beside the backward of another micro-batch and chunk
};

struct ScheduleOp {
  Pass pass = Pass::forward;
  std::int32_t micro_batch = 0;
  std::int32_t chunk = 0;  // local chunk of the rank; its global stage: stage_of
  // Overlapped: the backward beside the forward that is named above.
  std::int32_t beside_micro_batch = 0;
  std::int32_t beside_chunk = 0;

  friend bool operator==(const ScheduleOp&, const ScheduleOp&) = default;
};

struct ScheduleShape {
  int ranks = 1;
  int micro_batches = 1;
  int chunks = 1;  // per rank
  int group = 0;   // interleaved: micro-batches per virtual stage before the next; 0 means ranks
  bool side_by_side = false;  // 1F1B and interleaved: forward and backward of a turn are one op
};

/// By rank, the ops in order. The shape must be legal (layout_violations).
std::vector<std::vector<ScheduleOp>> pipeline_schedule(ScheduleKind kind,
                                                       const ScheduleShape& shape);

/// For people: "1F1B", "ZB-H1".
std::string_view schedule_name(ScheduleKind kind);

enum class Placement : std::uint8_t {
  single,         // stage = rank
  loop,           // stage = chunk * ranks + rank
  v,              // two chunks; down the ranks with the first, up again with the second
  bidirectional,  // two copies of the model, one down the ranks and one up
};

Placement placement_of(ScheduleKind kind);

/// How often a pipeline holds the parameters: each stage of a bidirectional one lies on two ranks,
/// which share its gradients.
int model_copies(ScheduleKind kind);

/// How many chunks per rank a schedule takes.
struct ChunkRange {
  int least = 1;
  int most = 1;
};
ChunkRange chunk_range(ScheduleKind kind);

/// Where a part of the model lies.
struct StagePlace {
  int rank = 0;
  int chunk = 0;

  friend bool operator==(const StagePlace&, const StagePlace&) = default;
};

/// A pipeline that a model is cut for. Stages count from 0, the one with the embedding.
struct PipelineShape {
  Placement placement = Placement::single;
  int ranks = 1;
  int chunks = 1;  // per rank
};

int stage_count(const PipelineShape& shape);
int stage_of(const PipelineShape& shape, StagePlace place);

/// Where a micro-batch on `place` goes next in its forward pass, and whence it came; on the same
/// rank at the turn of a V. Backward passes go the other way.
std::optional<StagePlace> next_place(const PipelineShape& shape, StagePlace place);
std::optional<StagePlace> previous_place(const PipelineShape& shape, StagePlace place);

}  // namespace flopcast
