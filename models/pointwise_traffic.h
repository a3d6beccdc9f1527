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

/// torch.nn.functional.cross_entropy for each logit, in bytes: cast to fp32 2 + 4, log-softmax
/// 12 + 4 (aten/src/ATen/native/cuda/SoftMax.cu reads rows this long three times); backward a
/// gradient of zeros 4, log-softmax's 16 + 4, cast 4 + 2.
inline constexpr PointwiseTraffic kTorchCrossEntropy{.forward = 22.0 / 2, .backward = 30.0 / 2};

/// Of cross-entropy, for each logit.
PointwiseTraffic cross_entropy_traffic(const Framework& framework);

/// Bytes of a logit that stay from the forward pass to the backward pass, and beside them while
/// the gradient of the logits is made.
struct LogitBytes {
  double saved = 0;
  double workspace = 0;
};
LogitBytes cross_entropy_bytes(const Framework& framework);

}  // namespace flopcast
