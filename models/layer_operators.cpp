#include "models/layer_operators.h"

#include <algorithm>

#include "sim/check.h"

// Operators of one layer as Megatron-Core issues them with its fused kernels.
// A column-parallel linear layer gathers its input (sequence parallel) and splits its output; a
// row-parallel one takes split input and reduces. Backward mirrors: Korthikanti et al., 2205.05198,
// section 4.2.2, and Megatron-LM d98e8a64, megatron/core/tensor_parallel/layers.py:
//   column backward: gather input again beside dgrad; reduce dgrad beside wgrad
//   row backward:    gather the gradient, then dgrad and wgrad

namespace flopcast {
namespace {

/// Appends operators of one rank; knows the splits.
class OperatorList {
 public:
  OperatorList(const OperatorContext& context, OperatorPhase phase)
      : context_(context),
        phase_(phase),
        tp_(context.layout.grid.tp),
        tokens_(context.tokens()),
        element_(element_size(context.training.parameter_dtype)) {}

  std::int64_t tokens() const { return tokens_; }
  std::int64_t tp() const { return tp_; }
  OperatorPhase phase() const { return phase_; }

  void gemm(std::string_view name, GemmShape shape, OperatorPhase phase) {
    list_.push_back({.name = name, .phase = phase, .work = shape});
  }
  void gemm(std::string_view name, GemmShape shape) { gemm(name, shape, phase_); }

  void attention(std::string_view name, AttentionCall call) {
    list_.push_back({.name = name, .phase = phase_, .work = call});
  }

  /// A kernel that moves `per_token` elements of the 16-bit type for each of `tokens`.
  void memory(std::string_view name, MemoryKernel kernel, std::int64_t tokens, double per_token) {
    const Bytes moved = static_cast<double>(tokens) * per_token * element_;
    list_.push_back({.name = name, .phase = phase_, .work = MemoryCall{kernel, moved}});
  }

  /// Full activation over the tensor-parallel group; nothing for a group of one.
  void collective(std::string_view name, CollectiveKind kind, bool beside = false) {
    collective(name, kind, activation_size(), beside);
  }
  void collective(std::string_view name, CollectiveKind kind, Bytes size, bool beside) {
    if (tp_ > 1) {
      list_.push_back({.name = name, .phase = phase_, .work = TensorCall{kind, size, beside}});
    }
  }
  void join() {
    if (tp_ > 1) list_.push_back({.name = "join", .phase = phase_, .work = Join{}});
  }

  /// Before a column-parallel layer, after a row-parallel one.
  void enter_tensor_region(std::string_view name, bool beside = false) {
    if (context_.layout.sequence_parallel) collective(name, CollectiveKind::all_gather, beside);
  }
  void leave_tensor_region(std::string_view name, bool beside = false) {
    collective(name, reduction(), beside);
  }
  CollectiveKind reduction() const {
    return context_.layout.sequence_parallel ? CollectiveKind::reduce_scatter
                                             : CollectiveKind::all_reduce;
  }
  Bytes activation_size() const {
    return static_cast<double>(tokens_ * context_.model.hidden) * element_;
  }

  void column_forward(std::string_view name, GemmShape shape);
  void row_forward(std::string_view name, GemmShape shape);
  void column_backward(std::string_view name, GemmShape forward);
  void row_backward(std::string_view name, GemmShape forward);
  void wgrad(std::string_view name, GemmShape forward);

  std::vector<Operator> take() && { return std::move(list_); }

 private:
  const OperatorContext& context_;
  OperatorPhase phase_;
  std::int64_t tp_;
  std::int64_t tokens_;
  Bytes element_;
  std::vector<Operator> list_;
};

/// With tensor_overlap (Transformer Engine's user buffers) the ring exchange of the input runs
/// under the product: the part on the local shard starts at once.
void OperatorList::column_forward(std::string_view name, GemmShape shape) {
  const bool beside = context_.training.tensor_overlap;
  enter_tensor_region("all-gather input", beside);
  gemm(name, shape);
  if (beside) join();
}

/// With tensor_overlap all but the last of tp pieces of the reduction run under the product.
void OperatorList::row_forward(std::string_view name, GemmShape shape) {
  if (!context_.training.tensor_overlap) {
    gemm(name, shape);
    leave_tensor_region("reduce output");
    return;
  }
  const double tail = 1.0 / static_cast<double>(tp_);
  collective("reduce output", reduction(), (1 - tail) * activation_size(), true);
  gemm(name, shape);
  join();
  collective("reduce output, last piece", reduction(), tail * activation_size(), false);
}

/// dW[n,k] += dY[tokens,n]^T X[tokens,k], added up over micro-batches in the gradient's type: in
/// the product's own output (read and written) or by a kernel of its own.
void OperatorList::wgrad(std::string_view name, GemmShape forward) {
  const Bytes gradient = element_size(context_.training.gradient_dtype);
  const bool fused = context_.training.framework.fused_wgrad_accumulation;
  GemmShape shape{.m = forward.n, .n = forward.k, .k = forward.m, .batch = forward.batch};
  if (fused) shape.result_traffic = 2.0 * gradient;
  gemm(name, shape, OperatorPhase::weight_gradient);
  if (fused) return;
  const double elements = static_cast<double>(shape.m * shape.n * shape.batch);
  list_.push_back(
      {.name = "add weight gradient",
       .phase = OperatorPhase::weight_gradient,
       .work = MemoryCall{MemoryKernel::elementwise, elements * (element_ + 2.0 * gradient)}});
}

void OperatorList::column_backward(std::string_view name, GemmShape forward) {
  const bool regather =
      context_.layout.sequence_parallel && context_.training.framework.regather_in_backward;
  const bool hide = context_.training.framework.overlap_tensor_regather;
  if (regather) collective("all-gather input again", CollectiveKind::all_gather, hide);
  gemm(name, {.m = forward.m, .n = forward.k, .k = forward.n, .batch = forward.batch},
       OperatorPhase::data_gradient);
  if (regather && hide) join();
  leave_tensor_region("reduce input gradient", true);
  wgrad(name, forward);
  join();
}

void OperatorList::row_backward(std::string_view name, GemmShape forward) {
  enter_tensor_region("all-gather output gradient");
  gemm(name, {.m = forward.m, .n = forward.k, .k = forward.n, .batch = forward.batch},
       OperatorPhase::data_gradient);
  wgrad(name, forward);
}

std::int64_t keys_of(const OperatorContext& context, std::int64_t layer) {
  const Transformer& model = context.model;
  const bool slides =
      model.sliding_window > 0 && (model.sliding_every <= 1 || layer % model.sliding_every != 0);
  return slides ? std::min(model.sliding_window, context.training.batch.sequence)
                : context.training.batch.sequence;
}

AttentionShape attention_shape(const OperatorContext& context, std::int64_t layer) {
  const Transformer& model = context.model;
  const std::int64_t sequence = context.training.batch.sequence;
  const std::int64_t keys = keys_of(context, layer);
  AttentionShape shape{.batch = context.training.batch.micro_batch,
                       .heads = model.heads / context.layout.grid.tp,
                       .queries = sequence / context.layout.grid.cp,
                       .keys = keys,
                       .qk_dim = model.head_dim,
                       .v_dim = model.head_dim,
                       .causal = keys == sequence};
  if (model.mla) {
    shape.qk_dim = model.mla->qk_nope_dim + model.mla->qk_rope_dim;
    shape.v_dim = model.mla->v_dim;
  }
  return shape;
}

GemmShape qkv_shape(const OperatorContext& context) {
  const Transformer& model = context.model;
  return {.m = context.tokens(),
          .n = (model.query_width() + 2 * model.kv_width()) / context.layout.grid.tp,
          .k = model.hidden};
}

GemmShape projection_shape(const OperatorContext& context) {
  return {.m = context.tokens(),
          .n = context.model.hidden,
          .k = context.model.query_width() / context.layout.grid.tp};
}

/// Width of the dense MLP on this rank.
std::int64_t ffn_per_rank(const OperatorContext& context) {
  return context.model.ffn / context.layout.grid.tp;
}

GemmShape fc1_shape(const OperatorContext& context) {
  const std::int64_t gates = context.model.gated_mlp ? 2 : 1;
  return {.m = context.tokens(), .n = gates * ffn_per_rank(context), .k = context.model.hidden};
}

GemmShape fc2_shape(const OperatorContext& context) {
  return {.m = context.tokens(), .n = context.model.hidden, .k = ffn_per_rank(context)};
}

/// Scores, softmax, dropout and values as separate kernels: before fused attention. Elements per
/// score: softmax reads and writes one each (backward reads two and writes one); dropout the same
/// and a mask of one byte, which counts half an element.
void unfused_attention(OperatorList& list, const OperatorContext& context, AttentionCall call) {
  const AttentionShape& a = call.shape;
  const std::int64_t batch = a.batch * a.heads;
  const bool forward = call.pass == AttentionPass::forward;
  const double softmax = forward ? 2 : 3;
  const double dropout = context.model.dropout ? 2.5 : 0;
  const GemmShape scores{.m = a.queries, .n = a.keys, .k = a.qk_dim, .batch = batch};
  const GemmShape values{.m = a.queries, .n = a.v_dim, .k = a.keys, .batch = batch};
  const std::int64_t rows = batch * a.queries;
  const double keys = static_cast<double>(a.keys);
  const int products = forward ? 1 : 2;  // backward: a gradient for each of the two inputs
  for (int i = 0; i < products; ++i) list.gemm("attention scores", scores);
  list.memory("attention softmax", MemoryKernel::softmax, rows, softmax * keys);
  if (dropout > 0) {
    list.memory("attention dropout", MemoryKernel::elementwise, rows, dropout * keys);
  }
  for (int i = 0; i < products; ++i) list.gemm("attention values", values);
}

void core_attention(OperatorList& list, const OperatorContext& context, std::int64_t layer,
                    AttentionPass pass) {
  const AttentionCall call{attention_shape(context, layer), pass};
  if (context.training.framework.fused_attention) {
    list.attention("core attention", call);
  } else {
    unfused_attention(list, context, call);
  }
}

/// Bias, dropout and residual in one kernel: two inputs, one output, a byte of mask.
double residual_elements(const OperatorContext& context) {
  const double mask = context.model.dropout ? 0.5 : 0;
  return (3 + mask) * static_cast<double>(context.model.hidden);
}

void norm_forward(OperatorList& list, const OperatorContext& context, std::string_view name) {
  list.memory(name, MemoryKernel::norm_forward, context.sharded_tokens(),
              2 * static_cast<double>(context.model.hidden));
}

/// Reads input and gradient, writes the input's gradient; the residual's gradient is added on top.
void norm_backward(OperatorList& list, const OperatorContext& context, std::string_view name) {
  const double hidden = static_cast<double>(context.model.hidden);
  list.memory(name, MemoryKernel::norm_backward, context.sharded_tokens(), 3 * hidden);
  list.memory("residual gradient", MemoryKernel::elementwise, context.sharded_tokens(), 3 * hidden);
}

/// Elements of queries and keys, read and written.
double rotary_elements(const OperatorContext& context) {
  const Transformer& model = context.model;
  return 2 * static_cast<double>(model.query_width() + model.kv_width()) / context.layout.grid.tp;
}

void attention_forward(OperatorList& list, const OperatorContext& context, std::int64_t layer) {
  norm_forward(list, context, "input norm");
  list.column_forward("qkv", qkv_shape(context));
  if (context.model.positions == PositionKind::rotary) {
    list.memory("rotary", MemoryKernel::rotary, context.tokens(), rotary_elements(context));
  }
  core_attention(list, context, layer, AttentionPass::forward);
  list.row_forward("attention output", projection_shape(context));
  list.memory("residual", MemoryKernel::elementwise, context.sharded_tokens(),
              residual_elements(context));
}

void attention_backward(OperatorList& list, const OperatorContext& context, std::int64_t layer) {
  if (context.model.dropout) {
    list.memory("residual gradient", MemoryKernel::elementwise, context.sharded_tokens(),
                2.5 * static_cast<double>(context.model.hidden));
  }
  list.row_backward("attention output", projection_shape(context));
  core_attention(list, context, layer, AttentionPass::backward);
  if (context.model.positions == PositionKind::rotary) {
    list.memory("rotary", MemoryKernel::rotary, context.tokens(), rotary_elements(context));
  }
  list.column_backward("qkv", qkv_shape(context));
  norm_backward(list, context, "input norm");
}

/// Forward: gate and up read, product written (or one read, one written); backward: those and the
/// gradient read, one gradient for each input written.
double activation_elements(const OperatorContext& context, AttentionPass pass) {
  const double ffn = static_cast<double>(ffn_per_rank(context));
  if (pass == AttentionPass::forward) return (context.model.gated_mlp ? 3 : 2) * ffn;
  return (context.model.gated_mlp ? 5 : 3) * ffn;
}

void mlp_forward(OperatorList& list, const OperatorContext& context) {
  norm_forward(list, context, "MLP norm");
  list.column_forward("fc1", fc1_shape(context));
  list.memory("activation", MemoryKernel::elementwise, context.tokens(),
              activation_elements(context, AttentionPass::forward));
  list.row_forward("fc2", fc2_shape(context));
  list.memory("residual", MemoryKernel::elementwise, context.sharded_tokens(),
              residual_elements(context));
}

void mlp_backward(OperatorList& list, const OperatorContext& context) {
  if (context.model.dropout) {
    list.memory("residual gradient", MemoryKernel::elementwise, context.sharded_tokens(),
                2.5 * static_cast<double>(context.model.hidden));
  }
  list.row_backward("fc2", fc2_shape(context));
  list.memory("activation", MemoryKernel::elementwise, context.tokens(),
              activation_elements(context, AttentionPass::backward));
  list.column_backward("fc1", fc1_shape(context));
  norm_backward(list, context, "MLP norm");
}

GemmShape logits_shape(const OperatorContext& context) {
  return {.m = context.tokens(),
          .n = context.padded_vocab / context.layout.grid.tp,
          .k = context.model.hidden};
}

/// Vocabulary-parallel cross-entropy: all-reduces of one fp32 number per token: maximum, target
/// logit, sum of exponents; fused, the last two travel together. None in the backward pass.
/// Source: Megatron-LM d98e8a64, tensor_parallel/cross_entropy.py, fusions/fused_cross_entropy.py.
void cross_entropy_reductions(OperatorList& list, const OperatorContext& context) {
  const Bytes row = static_cast<double>(context.tokens()) * element_size(DataType::fp32);
  list.collective("loss maximum", CollectiveKind::all_reduce, row, false);
  if (context.training.framework.fused_cross_entropy) {
    list.collective("loss target and sum", CollectiveKind::all_reduce, 2.0 * row, false);
  } else {
    list.collective("loss target", CollectiveKind::all_reduce, row, false);
    list.collective("loss sum", CollectiveKind::all_reduce, row, false);
  }
}

/// Passes over the logits in units of a 16-bit element. Fused: read the logits for maximum, target
/// and sum, write them as fp32 exponents. Unfused: cast to fp32, maximum, subtract, exponent, sum,
/// divide.
double cross_entropy_elements(const OperatorContext& context, AttentionPass pass) {
  const bool fused = context.training.framework.fused_cross_entropy;
  const double width = static_cast<double>(context.padded_vocab) / context.layout.grid.tp;
  if (pass == AttentionPass::forward) return (fused ? 6 : 17) * width;
  return (fused ? 3 : 7) * width;
}

}  // namespace

std::vector<Operator> embedding_forward(const OperatorContext& context) {
  OperatorList list(context, OperatorPhase::forward);
  const double hidden = static_cast<double>(context.model.hidden);
  list.memory("embedding", MemoryKernel::embedding, context.tokens(), 2 * hidden);
  list.leave_tensor_region("reduce embedding");
  if (context.model.dropout) {
    list.memory("embedding dropout", MemoryKernel::elementwise, context.sharded_tokens(),
                2.5 * hidden);
  }
  return std::move(list).take();
}

std::vector<Operator> embedding_backward(const OperatorContext& context) {
  OperatorList list(context, OperatorPhase::weight_gradient);
  list.enter_tensor_region("all-gather embedding gradient");
  // Rows are added into the fp32 gradient: one 16-bit read, one fp32 read and write.
  list.memory("embedding gradient", MemoryKernel::embedding, context.tokens(),
              5 * static_cast<double>(context.model.hidden));
  return std::move(list).take();
}

std::vector<Operator> layer_forward(const OperatorContext& context, std::int64_t layer) {
  FLOPCAST_CHECK(!context.model.has_experts(layer), "experts are lowered apart");
  OperatorList list(context, OperatorPhase::forward);
  attention_forward(list, context, layer);
  mlp_forward(list, context);
  return std::move(list).take();
}

std::vector<Operator> layer_backward(const OperatorContext& context, std::int64_t layer) {
  OperatorList list(context, OperatorPhase::data_gradient);
  mlp_backward(list, context);
  attention_backward(list, context, layer);
  return std::move(list).take();
}

bool fully_recomputed(const Recompute& recompute, std::int64_t layer_in_chunk) {
  return recompute.kind == RecomputeKind::full &&
         layer_in_chunk < recompute.layers.value_or(layer_in_chunk + 1);
}

std::vector<Operator> layer_recompute(const OperatorContext& context, std::int64_t layer,
                                      std::int64_t layer_in_chunk) {
  OperatorList list(context, OperatorPhase::recompute);
  if (fully_recomputed(context.training.recompute, layer_in_chunk)) {
    attention_forward(list, context, layer);
    mlp_forward(list, context);
  } else if (context.training.recompute.kind == RecomputeKind::selective) {
    core_attention(list, context, layer, AttentionPass::forward);
  }
  return std::move(list).take();
}

std::vector<Operator> head_forward(const OperatorContext& context) {
  OperatorList list(context, OperatorPhase::forward);
  norm_forward(list, context, "final norm");
  list.enter_tensor_region("all-gather head input");
  list.gemm("logits", logits_shape(context));
  list.memory("cross-entropy", MemoryKernel::softmax, context.tokens(),
              cross_entropy_elements(context, AttentionPass::forward));
  cross_entropy_reductions(list, context);
  return std::move(list).take();
}

std::vector<Operator> head_backward(const OperatorContext& context) {
  OperatorList list(context, OperatorPhase::data_gradient);
  list.memory("cross-entropy", MemoryKernel::softmax, context.tokens(),
              cross_entropy_elements(context, AttentionPass::backward));
  list.column_backward("logits", logits_shape(context));
  norm_backward(list, context, "final norm");
  return std::move(list).take();
}

Flops executed_flops(const Operator& op) {
  if (const auto* gemm = std::get_if<GemmShape>(&op.work)) {
    return flops(2.0 * static_cast<double>(gemm->m) * static_cast<double>(gemm->n) *
                 static_cast<double>(gemm->k) * static_cast<double>(gemm->batch));
  }
  if (const auto* call = std::get_if<AttentionCall>(&op.work)) {
    return attention_flops(call->shape, call->pass);
  }
  return flops(0);
}

Bytes pipeline_hop_size(const OperatorContext& context) {
  return static_cast<double>(context.sharded_tokens() * context.model.hidden) *
         element_size(context.training.parameter_dtype);
}

}  // namespace flopcast
