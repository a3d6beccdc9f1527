#pragma once

// Parameters that are gathered together, and whose gradients are reduced together, when every rank
// keeps a shard of them (ZeRO-3): the wrapped modules of FSDP, one for each layer and for the ends.

#include <cstdint>
#include <optional>
#include <vector>

#include "models/model_chunk.h"
#include "models/operator_timing.h"
#include "models/training.h"

namespace flopcast {

/// Tensors of a unit that one data-parallel group shards: the dense ones, or those of its experts.
struct UnitPart {
  StepGroup group = StepGroup::data;
  bool gathered = false;    // the group is more than this rank
  bool replicated = false;  // other groups hold copies
  TransferId gather{};      // over the group
  TransferId regather{};    // over the few ranks that hold the parameters meanwhile
  TransferId reduce{};      // reduce-scatter over the group
  TransferId all_reduce{};  // of one shard over the replicas, if there are any
};

struct ShardUnit {
  std::int64_t elements = 0;  // of a rank, all shards together
  Bytes gathered;             // parameters of the parts that are gathered
  std::int64_t shard = 0;     // kept by the rank
  std::vector<UnitPart> parts;
};

/// Units of one model chunk in the order of its forward pass.
struct ChunkUnits {
  std::vector<ShardUnit> units;
  std::size_t first_layer = 0;
  /// Units of the ends, which are one where the framework leaves them to the root module or the
  /// embedding is tied.
  std::optional<std::size_t> embedding;
  std::optional<std::size_t> head;
};

ChunkUnits shard_units(const OperatorContext& context, const StageContent& content,
                       const RankGroups& groups, CostTables& tables);

}  // namespace flopcast
