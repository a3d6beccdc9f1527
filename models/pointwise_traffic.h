#pragma once

// What kernels that are bound by memory move: elements of 16 bits read and written for each element
// of their operand, with fused (or compiled) kernels and with those of PyTorch's own operators.

#include "models/training.h"
#include "models/transformer.h"

namespace flopcast {

struct PointwiseTraffic {
  double forward = 0;
  double backward = 0;
};

/// Of a norm, for each element of its input.
PointwiseTraffic norm_traffic(const Transformer& model, const Framework& framework);

/// Of the rotary embedding, for each element of queries and keys, in either direction.
double rotary_traffic(const Framework& framework);

/// Of an MLP's activation, for each element of its output.
PointwiseTraffic activation_traffic(const Transformer& model, const Framework& framework);

}  // namespace flopcast
