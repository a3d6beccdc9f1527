#pragma once

// The parameter tensors that one rank of one pipeline stage holds.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/layout.h"
#include "models/low_rank_adapters.h"
#include "models/transformer.h"

namespace flopcast {

struct RankTensor {
  std::string name;
  std::int64_t elements = 0;      // on this rank
  bool shared_embedding = false;  // a copy of a weight that lives on another stage as well
  bool linear = false;            // as of ParameterTensor
};

/// Elements of some tensors.
struct ElementCount {
  std::int64_t all = 0;
  std::int64_t linear = 0;  // of them weights of linear layers, which may be in 8 or 4 bits

  ElementCount& operator+=(const ElementCount& other) {
    all += other.all;
    linear += other.linear;
    return *this;
  }
  ElementCount& operator-=(const ElementCount& other) {
    all -= other.all;
    linear -= other.linear;
    return *this;
  }
};

/// In the order in which Megatron registers them.
struct StageTensors {
  std::vector<RankTensor> dense;   // gradients are reduced over dp * cp
  std::vector<RankTensor> expert;  // over the expert data-parallel group
};

/// Of one global stage, that is one model chunk. `vocab` is the padded vocabulary. The layout must
/// be legal, so that every tensor divides.
StageTensors rank_tensors(const Transformer& model, const StageContent& stage,
                          const ParallelGrid& grid, std::int64_t vocab);

/// The same of adapters, which are all dense; beside the tensors of the model, in the order of
/// their layers. A is split over tensor-parallel ranks as B is: models/adapter_operators.cpp.
StageTensors adapter_tensors(const Transformer& model, const LowRankAdapters& adapters,
                             const StageContent& stage, const ParallelGrid& grid);

ElementCount count_elements(std::span<const RankTensor> tensors);
std::int64_t total_elements(std::span<const RankTensor> tensors);

}  // namespace flopcast
