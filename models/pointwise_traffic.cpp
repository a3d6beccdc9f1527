#include "models/pointwise_traffic.h"

namespace flopcast {
namespace {

/// PyTorch 2.1, aten/src/ATen/native/cuda/layer_norm_kernel.cu. Forward: the input for its moments
/// and again to be scaled, the output. Backward: input and gradient for two sums and again for the
/// input's gradient, which is written, and once more for the gradients of weight and bias.
constexpr PointwiseTraffic kEagerLayerNorm{.forward = 3, .backward = 7};

/// PyTorch 2.5, aten/src/ATen/native/layer_norm.cpp, rms_norm: a chain of operators in fp32, in
/// bytes of an element
///   forward: cast 2 + 4, square 4 + 4, mean 4, scale 4 + 4, cast 4 + 2, weight 2 + 2
///   backward: gradients of weight (6 and a sum 2) and input (4), cast 6, of the scale (12 and a
///   sum 4) and the scaled input (8), of the mean 4, of the square (power 8, factor 8, product 12),
///   their sum 12, cast 6
constexpr PointwiseTraffic kEagerRmsNorm{.forward = 36.0 / 2, .backward = 92.0 / 2};

/// torchtitan, models/llama3/model.py, apply_rotary_emb: cast to fp32 6 bytes, complex product 8,
/// cast back 6; the same for gradients.
constexpr double kEagerRotary = 20.0 / 2;

/// Backward of silu(gate) * up: two products of three operands each, and that of silu.
constexpr PointwiseTraffic kEagerGated{.forward = 5, .backward = 9};

}  // namespace

PointwiseTraffic norm_traffic(const Transformer& model, const Framework& framework) {
  if (!framework.eager_kernels) return {.forward = 2, .backward = 3};
  return model.norm == NormKind::rms_norm ? kEagerRmsNorm : kEagerLayerNorm;
}

double rotary_traffic(const Framework& framework) {
  return framework.eager_kernels ? kEagerRotary : 2;
}

/// Forward: gate and up read, product written (or one read, one written); backward: those and the
/// gradient read, one gradient for each input written.
PointwiseTraffic activation_traffic(const Transformer& model, const Framework& framework) {
  if (!model.gated_mlp) return {.forward = 2, .backward = 3};
  if (framework.eager_kernels) return kEagerGated;
  return {.forward = 3, .backward = 5};
}

/// Fused: the logits are read for maximum, target and sum, and written as fp32 exponents. Unfused:
/// cast to fp32, maximum, subtract, exponent, sum, divide.
PointwiseTraffic cross_entropy_traffic(const Framework& framework) {
  switch (framework.cross_entropy) {
    case CrossEntropy::unfused: return {.forward = 17, .backward = 7};
    case CrossEntropy::fused: return {.forward = 6, .backward = 3};
    case CrossEntropy::torch: return kTorchCrossEntropy;
    case CrossEntropy::one_kernel: return {.forward = 2, .backward = 2};
  }
  return {};
}

/// Megatron keeps the 16-bit logits and fp32 exponents, whose place the gradient takes. torch keeps
/// the fp32 log-softmax alone, and makes an fp32 gradient of its output and one of its input; where
/// the 16-bit logits were, its allocator has room for nothing so large (c10/cuda,
/// CUDACachingAllocator.cpp). One kernel keeps the logits and makes their gradient.
LogitBytes cross_entropy_bytes(const Framework& framework) {
  switch (framework.cross_entropy) {
    case CrossEntropy::unfused:
    case CrossEntropy::fused: return {.saved = 2 + 4, .workspace = 0};
    case CrossEntropy::torch: return {.saved = 4, .workspace = 4 + 4 + 2};
    case CrossEntropy::one_kernel: return {.saved = 2, .workspace = 2};
  }
  return {};
}

}  // namespace flopcast
