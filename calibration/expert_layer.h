#pragma once

// A whole fused layer of gated experts (router's choice known, permutation, both products and the
// activation between them), as inference engines time it.

#include <cstdint>

#include "sim/data_type.h"
#include "sim/units.h"

namespace flopcast {

/// One rank of a group: `tokens` are those of all ranks, each sent to `chosen` of `experts`,
/// evenly.
struct ExpertLayerShape {
  std::int64_t tokens = 0;
  std::int64_t hidden = 0;
  std::int64_t inner = 0;   // of one expert
  std::int64_t chosen = 1;  // experts per token
  std::int64_t experts = 1;
  std::int64_t tp = 1;
  std::int64_t ep = 1;
};

/// Rows of each expert are padded to whole tiles; the activations move apart from the products:
///   R = row_tile * ceil(tokens * chosen / experts / row_tile), E = experts / ep, i = inner / tp
///   time = max(6 E R h i / (peak * eff_inf), 3 E h i weights / (bandwidth * eff_bw))
///          + rows / (bandwidth * eff_gather) + streams / (bandwidth * eff_activations) + t0
/// rows: tokens * chosen / ep rows of width h, gathered from the tokens and added to them.
/// streams: 3 times as many rows of width i, and all tokens of the group, read and written by each
/// rank at width h. All in 16 bits.
struct ExpertLayerCurve {
  double row_tile = 64;
  double eff_inf = 0;
  double eff_bw = 0;
  double eff_gather = 0;
  double eff_activations = 0;
  Seconds t0;
};

/// What the curve's efficiencies are shares of.
struct ExpertLayerMachine {
  DataType type{};
  FlopsPerSecond peak;
  BytesPerSecond bandwidth;
};

Seconds expert_layer_time(const ExpertLayerCurve& curve, const ExpertLayerMachine& machine,
                          const ExpertLayerShape& shape);

}  // namespace flopcast
