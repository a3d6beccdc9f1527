#pragma once

// Bytes that one micro-batch leaves on a rank between its forward and its backward pass.

#include <string_view>
#include <vector>

#include "models/layer_operators.h"
#include "sim/units.h"

namespace flopcast {

struct SavedTensor {
  std::string_view name;
  Bytes size;                 // on one rank
  bool linear_input = false;  // of a product with weights
  /// Recompute of any of these modules brings it back.
  std::vector<RecomputeModule> inside{};
  bool routed = false;  // follows what the rank's experts get
};

inline constexpr double kMaskSize = 1;  // bytes per element of a dropout mask

/// What the backward pass of an adapter needs beside that of its layer; nothing where there is none
/// (adapter_memory.cpp).
std::vector<SavedTensor> saved_by_adapter(const OperatorContext& context, AdapterTarget target);

/// Tensors that the backward pass of a layer needs, one rank, without recompute.
/// Their sum is sbh(10 + 24/t) + 5 a s^2 b / t for a GPT layer with dropout, 34 sbh / t with
/// sequence parallel, sbh(12 + 4g/a) + 6 sbf for Llama with fused attention and SwiGLU, plus the
/// statistics of the two norms (8 bytes a token) and fused attention (4 a bytes a token). Source:
/// Korthikanti et al., arXiv 2205.05198, section 4; checked against tensors autograd keeps.
std::vector<SavedTensor> saved_tensors(const OperatorContext& context, std::int64_t layer);

/// What stays from forward to backward with the scenario's recompute.
Bytes saved_by_layer(const OperatorContext& context, std::int64_t layer,
                     std::int64_t layer_in_chunk);

/// What recompute brings back while the backward of the layer runs.
Bytes restored_by_recompute(const OperatorContext& context, std::int64_t layer,
                            std::int64_t layer_in_chunk);

/// What the weight gradients need if they run apart from the rest of the backward pass: inputs of
/// the linear layers, which are kept or recomputed anyway, and gradients of their outputs, as large
/// as what the products read. 14 and 18 sbh for a GPT layer: Qi et al., arXiv 2401.10241, section
/// 2.2, 32 sbh.
struct WeightOperands {
  Bytes inputs;
  Bytes output_gradients;
};
WeightOperands weight_operands(const OperatorContext& context, std::int64_t layer);

/// The part of a layer's memory that follows what the rank's experts get.
struct RoutedBytes {
  Bytes saved;
  Bytes restored;
  WeightOperands weights;
};
RoutedBytes routed_bytes(const OperatorContext& context, std::int64_t layer,
                         std::int64_t layer_in_chunk);
/// Of the output projection, last stage.
WeightOperands head_weight_operands(const OperatorContext& context);

/// What cross-entropy keeps of the logits, and the final norm, last stage.
Bytes saved_by_head(const OperatorContext& context);
/// Beside it while the gradient of the logits is made.
Bytes loss_workspace(const OperatorContext& context);
/// A multi-token prediction module, its head included: what stays from forward to backward, what
/// recompute brings back, what weight gradients need.
Bytes saved_by_prediction(const OperatorContext& context, std::int64_t layer_in_chunk);
Bytes restored_for_prediction(const OperatorContext& context, std::int64_t layer_in_chunk);
WeightOperands prediction_weight_operands(const OperatorContext& context);
/// Mask of the embedding dropout, first stage.
Bytes saved_by_embedding(const OperatorContext& context);

}  // namespace flopcast
