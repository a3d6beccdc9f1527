#pragma once

// Sizes of one layer's tensors on one rank. Private to the files that count its memory.

#include <cstdint>

#include "models/layer_operators.h"

namespace flopcast {

struct Widths {
  double sharded_tokens;  // outside the tensor-parallel region
  double tokens;
  double hidden;
  double element;  // bytes
  double tp;
};

Widths widths_of(const OperatorContext& context);

/// Bytes per element of what a linear layer keeps of its input: the quantised copy in fp8 and fp4.
/// Source: Transformer Engine, module/layernorm_linear.py, which saves the fp8 input.
double linear_operand(const OperatorContext& context);

/// Elements that the linear layers put out.
double linear_outputs(const OperatorContext& context, std::int64_t layer);
/// Of them those of routed experts, of which the layer has some.
double routed_outputs(const OperatorContext& context);

}  // namespace flopcast
