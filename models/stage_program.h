#pragma once

// The program of one pipeline rank for one training step: the pipeline schedule with all that each
// of its passes does, then the end of the step.
//
//   parameter gather (distributed optimizer) beside the first forward passes
//   forward and backward passes in schedule order, sends and receives between stages
//   gradient reduction by buckets, beside the last backward passes or after them
//   gradients of replicated and shared tensors, gradient norm, optimizer step

#include <cstdint>
#include <vector>

#include "models/gradient_buckets.h"
#include "models/layout.h"
#include "models/model_chunk.h"
#include "models/operator_timing.h"
#include "models/pipeline_schedule.h"
#include "models/routing_loads.h"
#include "models/training.h"
#include "sim/program.h"

namespace flopcast {

/// What all stages of a job have in common.
struct StageInputs {
  const Job& job;
  std::int64_t padded_vocab = 0;
  std::vector<StageContent> stages;               // by global stage
  std::vector<std::vector<ScheduleOp>> schedule;  // by pipeline rank
  const RoutingLoads& routing;
};

/// Chunks of a pipeline rank, which ranks that hold different experts have in common.
using StageChunks = std::vector<ModelChunk>;
StageChunks stage_chunks(const StageInputs& inputs, const RankRole& role, CostTables& tables);

/// A role, and where the amounts go that follow the experts of its ranks.
struct RoleProgram {
  const RankRole& role;
  Amounts amounts = Amounts::in_ops;
};

/// What a rank keeps in the memory of its host.
struct HostBytes {
  std::int64_t optimizer = 0;    // states, and the gradients that they are stepped with
  std::int64_t activations = 0;  // of a micro-batch

  std::int64_t total() const { return optimizer + activations; }
};

struct StageProgram {
  Program program;  // without ops where amounts are alone
  Variant variant;
  Flops executed;               // matrix products and attention of one rank over the step
  Flops recomputed;             // the part of it that is recompute
  std::int64_t parameters = 0;  // elements on one rank
  HostBytes host;
};

StageProgram stage_program(const StageInputs& inputs, const RoleProgram& role,
                           const StageChunks& chunks, CostTables& tables);

}  // namespace flopcast
