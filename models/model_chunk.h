#pragma once

// One model chunk of a pipeline rank, ready to be appended to a program: its operators with their
// times, what it keeps in memory, its gradient buckets.

#include <cstdint>
#include <optional>
#include <vector>

#include "models/gradient_buckets.h"
#include "models/operator_timing.h"
#include "models/stage_parameters.h"
#include "models/training.h"

namespace flopcast {

/// Bytes of a layer and micro-batch.
struct LayerBytes {
  std::int64_t saved = 0;     // from forward to backward
  std::int64_t restored = 0;  // that recompute brings back meanwhile
  // That stay from one half of the backward to the other: of those above, and of gradients.
  std::int64_t weight_inputs = 0;
  std::int64_t output_gradients = 0;

  friend bool operator==(const LayerBytes&, const LayerBytes&) = default;
};

struct ChunkLayer {
  std::int64_t number = 0;  // of the model; prediction modules come after its last
  TimedOperators forward;
  TimedOperators recompute;
  TimedOperators backward;
  TimedOperators input_gradient{};  // the halves of backward, where the schedule has any
  TimedOperators weight_gradient{};
  LayerBytes kept{};
  LayerBytes routed{};           // the part of it that follows what the rank's experts get
  std::size_t first_tensor = 0;  // in registration order of the dense tensors
  std::size_t end_tensor = 0;    // the forward pass needs none from here on
};

struct ChunkBucket {
  TransferId reduce{};                // gradients
  TransferId gather{};                // parameters; only with the distributed optimizer
  std::size_t first_tensor = 0;       // complete when the gradient of this one is there
  StepGroup group = StepGroup::data;  // or that of the experts
  Bytes gradients;                    // of all its ranks
  std::optional<TransferId>
      over_replicas{};  // all-reduce of the rank's shard, where others have it
};

struct ModelChunk {
  StageContent content;
  std::vector<ChunkLayer> layers;  // and multi-token prediction modules
  TimedOperators embedding_forward;
  TimedOperators embedding_backward;
  TimedOperators head_forward;
  TimedOperators head_backward;
  TimedOperators head_input_gradient;
  TimedOperators head_weight_gradient;
  std::int64_t saved_by_ends = 0;      // bytes: logits, masks
  std::int64_t loss_workspace = 0;     // bytes beside those while the backward pass begins
  std::int64_t kept_by_ends = 0;       // bytes from one half of the backward to the other
  std::int64_t parameters = 0;         // elements on one rank that are trained
  std::int64_t linear = 0;             // of them weights of linear layers
  ElementCount frozen;                 // and beside them those that are not
  std::int64_t expert_parameters = 0;  // of them reduced over the experts' own data group
  std::int64_t replicated = 0;         // of them on every tensor-parallel rank
  std::int64_t tied_embedding = 0;     // of them shared by first and last stage
  std::size_t head_tensor = 0;         // first tensor of the head
  std::vector<ChunkBucket> buckets;    // in the order in which backward fills them
};

/// Which chunk of which rank: Megatron cuts the gradients of the first chunk of the first stage
/// only. Two copies of a stage are cut alike.
struct ChunkPlace {
  int chunk = 0;
  int pipeline_rank = 0;
  bool splits_backward = false;
  bool shares_embedding = false;  // the rank holds it in another chunk, gradients included
};

/// There are no buckets to reduce without data parallelism, nor under ZeRO-3 (shard_units.h).
ModelChunk build_chunk(const OperatorContext& context, const StageContent& content,
                       ChunkPlace place, const RankGroups& groups, CostTables& tables);

}  // namespace flopcast
