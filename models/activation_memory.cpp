#include "models/activation_memory.h"

#include <algorithm>

#include <numeric>

namespace flopcast {
namespace {

constexpr double kNormStatistics = 4;  // bytes per token and norm: mean and inverse deviation
constexpr double kMaskSize = 1;        // bytes per element of a dropout mask

/// Sizes of one layer's tensors on one rank.
struct Widths {
  double sharded_tokens;  // outside the tensor-parallel region
  double tokens;
  double hidden;
  double element;  // bytes
  double tp;
};

Widths widths_of(const OperatorContext& context) {
  return {.sharded_tokens = static_cast<double>(context.sharded_tokens()),
          .tokens = static_cast<double>(context.tokens()),
          .hidden = static_cast<double>(context.model.hidden),
          .element = element_size(context.training.parameter_dtype).value,
          .tp = static_cast<double>(context.layout.grid.tp)};
}

/// Bytes per element of what a linear layer keeps of its input: the quantised copy in fp8 and fp4.
/// Source: Transformer Engine, module/layernorm_linear.py, which saves the fp8 input.
double linear_operand(const OperatorContext& context) {
  return std::min(element_size(context.training.precision).value, widths_of(context).element);
}

/// Fused attention keeps its output itself; the projection after it keeps a quantised copy as well.
Bytes copied_operand(const OperatorContext& context, double elements) {
  const double operand = linear_operand(context);
  return operand < widths_of(context).element ? bytes(elements * operand) : bytes(0);
}

/// What core attention keeps inside: scores without fusion, row statistics with it.
Bytes core_attention_inside(const OperatorContext& context) {
  const Widths w = widths_of(context);
  const double heads = static_cast<double>(context.model.heads) / w.tp;
  const double rows = w.tokens * heads;
  if (context.training.framework.fused_attention) {
    return bytes(rows * element_size(DataType::fp32).value);  // log-sum-exp
  }
  const double keys = static_cast<double>(context.training.batch.sequence);
  // Softmax output; with dropout its mask and result: 5 a s^2 b.
  const double per_score = context.model.dropout ? 2 * w.element + kMaskSize : w.element;
  return bytes(rows * keys * per_score);
}

}  // namespace

std::vector<SavedTensor> saved_tensors(const OperatorContext& context, std::int64_t /*layer*/) {
  const Transformer& model = context.model;
  const Widths w = widths_of(context);
  const Bytes outside = bytes(w.sharded_tokens * w.hidden * w.element);
  // torch's sequence parallel keeps the gathered input, Megatron gathers it again.
  const bool keeps_shard =
      context.layout.sequence_parallel && context.training.framework.regather_in_backward;
  const double operand = linear_operand(context);
  const double input_tokens = keeps_shard ? w.sharded_tokens : w.tokens;
  const Bytes linear_input = bytes(input_tokens * w.hidden * operand);
  const double ffn = w.tokens * static_cast<double>(model.ffn) / w.tp;
  const Bytes mask = model.dropout ? bytes(w.sharded_tokens * w.hidden * kMaskSize) : bytes(0);
  const Bytes statistics = bytes(w.sharded_tokens * kNormStatistics);
  const double query = static_cast<double>(model.query_width()) / w.tp;
  const double kv = static_cast<double>(model.kv_width()) / w.tp;
  return {
      {"input norm input", outside},
      {"input norm statistics", statistics},
      {"qkv input", linear_input},
      {"queries, keys, values", bytes(w.tokens * (query + 2 * kv) * w.element)},
      {"core attention", core_attention_inside(context)},
      {"attention output", bytes(w.tokens * query * w.element)},
      {"attention output input", copied_operand(context, w.tokens * query)},
      {"attention dropout mask", mask},
      {"MLP norm input", outside},
      {"MLP norm statistics", statistics},
      {"fc1 input", linear_input},
      {"activation input", bytes((model.gated_mlp ? 2.0 : 1.0) * ffn * w.element)},
      {"fc2 input", bytes(ffn * operand)},
      {"MLP dropout mask", mask},
  };
}

namespace {

Bytes all_saved(const OperatorContext& context, std::int64_t layer) {
  Bytes sum;
  for (const SavedTensor& tensor : saved_tensors(context, layer)) sum += tensor.size;
  return sum;
}

Bytes layer_input(const OperatorContext& context) {
  const Widths w = widths_of(context);
  return bytes(w.sharded_tokens * w.hidden * w.element);
}

}  // namespace

Bytes saved_by_layer(const OperatorContext& context, std::int64_t layer,
                     std::int64_t layer_in_chunk) {
  if (fully_recomputed(context.training.recompute, layer_in_chunk)) return layer_input(context);
  if (context.training.recompute.kind == RecomputeKind::selective) {
    return all_saved(context, layer) - core_attention_inside(context);
  }
  return all_saved(context, layer);
}

Bytes restored_by_recompute(const OperatorContext& context, std::int64_t layer,
                            std::int64_t layer_in_chunk) {
  return all_saved(context, layer) - saved_by_layer(context, layer, layer_in_chunk);
}

/// Logits in the 16-bit type and the fp32 exponents that cross-entropy keeps; the final norm's
/// input and, gathered or not, its output.
Bytes saved_by_head(const OperatorContext& context) {
  const Widths w = widths_of(context);
  const double vocab = static_cast<double>(context.padded_vocab) / w.tp;
  const double logits = w.tokens * vocab * (w.element + element_size(DataType::fp32).value);
  return bytes(logits + 2 * w.sharded_tokens * w.hidden * w.element);
}

Bytes saved_by_embedding(const OperatorContext& context) {
  if (!context.model.dropout) return bytes(0);
  const Widths w = widths_of(context);
  return bytes(w.sharded_tokens * w.hidden * kMaskSize);
}

}  // namespace flopcast
