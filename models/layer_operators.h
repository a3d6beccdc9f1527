#pragma once

// The work of one micro-batch on one rank, operator by operator, with the shapes that remain after
// tensor, sequence, context and expert parallel splitting. Order is the order of issue on the GPU.

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "calibration/profile.h"
#include "models/communicators.h"
#include "models/training.h"
#include "models/transformer.h"

namespace flopcast {

struct AttentionCall {
  AttentionShape shape;
  AttentionPass pass = AttentionPass::forward;
  AttentionKernel kernel = AttentionKernel::newest;
};

struct MemoryCall {
  MemoryKernel kernel = MemoryKernel::elementwise;
  Bytes moved;  // read and written
};

/// A collective inside the layer: of the tensor, context, expert or expert-tensor group. `size` is
/// the whole buffer as nccl-tests counts it.
struct GroupCall {
  CollectiveKind kind{};
  Bytes size;
  bool beside = false;  // runs beside the compute that follows, up to the next Join of the group
  StepGroup group = StepGroup::tensor;
  /// All-to-all of routed tokens: copies for one node, or for one rank where all are in one node,
  /// travel as one.
  bool once_per_node = false;
  /// Nothing but the weight gradient after it needs the result.
  bool for_weight_gradient = false;
  bool exchanges_tokens = false;  // to experts or back
};

/// Compute goes on only when the collectives of the group that run beside it have ended.
struct Join {
  StepGroup group = StepGroup::tensor;
};

enum class OperatorPhase : std::uint8_t { forward, data_gradient, weight_gradient, recompute };

struct Operator {
  std::string_view name;
  OperatorPhase phase = OperatorPhase::forward;
  std::variant<GemmShape, AttentionCall, MemoryCall, GroupCall, Join> work;
  /// Its size is that of balanced routing and follows what the rank's experts get, or, of an
  /// exchange, the fullest of them.
  bool routed = false;
  bool host_waits = false;  // for its result, before it issues what follows
  int host_calls = 1;       // how many operators' time the host takes to issue it
  /// A product that stays in 16 bits where linear layers have 8 or 4.
  bool unquantised = false;
};

/// What the operators of a rank depend on.
struct OperatorContext {
  const Transformer& model;
  const Layout& layout;
  const Training& training;
  std::int64_t padded_vocab = 0;
  /// Its place in its context-parallel ring, where what they see differs; negative: the last.
  int context_rank = -1;

  std::int64_t tokens() const {  // of one micro-batch on one rank inside a tensor-parallel region
    return training.batch.sequence * training.batch.micro_batch / layout.grid.cp;
  }
  std::int64_t sharded_tokens() const {  // outside it: norms, residuals
    return layout.sequence_parallel ? tokens() / layout.grid.tp : tokens();
  }
};

std::vector<Operator> embedding_forward(const OperatorContext& context);
std::vector<Operator> embedding_backward(const OperatorContext& context);
std::vector<Operator> layer_forward(const OperatorContext& context, std::int64_t layer);
/// Without what recompute adds in front of it.
std::vector<Operator> layer_backward(const OperatorContext& context, std::int64_t layer);
/// A backward pass whose halves run apart (Qi et al., arXiv 2401.10241, section 2): first what the
/// stage before waits for, with all that autograd does on the way; later the products for the
/// weights, in the same order, each with the gather of its input if it has one. Norms, embedding
/// and attention leave nothing for later.
struct BackwardHalves {
  std::vector<Operator> input_gradient;
  std::vector<Operator> weight_gradient;
};
BackwardHalves halves_of(const std::vector<Operator>& backward);
/// Forward work done again in the backward pass; empty where nothing is recomputed.
/// `layer_in_chunk` decides under full recompute of a number of layers.
std::vector<Operator> layer_recompute(const OperatorContext& context, std::int64_t layer,
                                      std::int64_t layer_in_chunk);
/// Final norm, logits, cross-entropy.
std::vector<Operator> head_forward(const OperatorContext& context);
std::vector<Operator> head_backward(const OperatorContext& context);

/// A multi-token prediction module: embedding of a later token and hidden state, a norm each, their
/// projection from twice the width, a layer like the last one, and the head once more. Source:
/// DeepSeek-V3, arXiv 2412.19437, section 2.2; Megatron-LM d98e8a64,
/// megatron/core/transformer/multi_token_prediction.py, which checkpoints all but the head.
std::vector<Operator> prediction_forward(const OperatorContext& context);
std::vector<Operator> prediction_backward(const OperatorContext& context);
std::vector<Operator> prediction_recompute(const OperatorContext& context,
                                           std::int64_t layer_in_chunk);

/// Whether full recompute applies to a layer by its place in the chunk.
bool fully_recomputed(const Recompute& recompute, std::int64_t layer_in_chunk);

/// Matrix products and attention of an operator, as executed on this rank.
Flops executed_flops(const Operator& op);

/// Whether adapters beside column-parallel layers gather their input by themselves.
bool gathers_adapter_input(const OperatorContext& context);

/// What a rank sends to the next pipeline stage per micro-batch.
Bytes pipeline_hop_size(const OperatorContext& context);

}  // namespace flopcast
