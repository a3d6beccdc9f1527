#include "models/activation_memory.h"

#include <algorithm>
#include <utility>

#include "models/expert_routing.h"
#include "models/layer_widths.h"
#include "models/pointwise_traffic.h"

namespace flopcast {
namespace {

constexpr double kNormStatistics = 4;  // bytes per token and norm: mean and inverse deviation

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

/// Tensors of a layer, one after another.
class SavedTensors {
 public:
  explicit SavedTensors(const OperatorContext& context)
      : context_(context), w_(widths_of(context)), operand_(linear_operand(context)) {}

  void attention();
  void latent_attention();
  void dense_mlp();
  void experts();
  void prediction();

  std::vector<SavedTensor> take() && { return std::move(list_); }

 private:
  using Modules = std::vector<RecomputeModule>;

  void add(std::string_view name, double size, Modules inside = {}) {
    list_.push_back({name, bytes(size), false, std::move(inside)});
  }
  void add_input(std::string_view name, double size, Modules inside = {}) {
    list_.push_back({name, bytes(size), true, std::move(inside)});
  }
  void norm(std::string_view input, std::string_view statistics) {
    add(input, w_.sharded_tokens * w_.hidden * w_.element);
    add(statistics, w_.sharded_tokens * kNormStatistics, {RecomputeModule::layernorm});
  }
  /// torch's sequence parallel keeps the gathered input, Megatron gathers it again. Frozen layers
  /// keep none.
  double linear_input(double width) const {
    if (context_.training.adapters) return 0;
    const bool keeps_shard =
        context_.layout.sequence_parallel && context_.training.framework.regather_in_backward;
    return (keeps_shard ? w_.sharded_tokens : w_.tokens) * width * operand_;
  }
  void adapter(AdapterTarget target) {
    for (SavedTensor& tensor : saved_by_adapter(context_, target)) {
      list_.push_back(std::move(tensor));
    }
  }
  void core_attention(double output) {
    add("core attention", core_attention_inside(context_).value, {RecomputeModule::core_attn});
    const bool frozen = context_.training.adapters.has_value();
    const double copied = frozen ? 0 : copied_operand(context_, output).value;
    const bool shared = copied == 0 && !context_.training.attention_dtype;
    list_.push_back({"attention output", bytes(output * attention_element()), shared});
    add_input("attention output input", copied);
    adapter(AdapterTarget::linear_proj);
    dropout_mask("attention dropout mask");
  }
  double attention_element() const {
    const auto& type = context_.training.attention_dtype;
    return type ? element_size(*type).value : w_.element;
  }
  /// The input of the activation that was added last, in a type of its own.
  void keep_activation_input_in(std::optional<DataType> type) {
    SavedTensor& input = list_[list_.size() - 2];
    if (type) input.size = input.size * (element_size(*type).value / w_.element);
  }
  void dropout_mask(std::string_view name) {
    add(name, context_.model.dropout ? w_.sharded_tokens * w_.hidden * kMaskSize : 0);
  }
  /// What lies between the two products of an MLP; `elements` are tokens times width.
  void mlp_inside(std::string_view activation, std::string_view fc2, double elements,
                  const Modules& inside) {
    add(activation, (context_.model.gated_mlp ? 2 : 1) * elements * w_.element, inside);
    add_input(fc2, context_.training.adapters ? 0 : elements * operand_, inside);
  }

  const OperatorContext& context_;
  Widths w_;
  double operand_;
  std::vector<SavedTensor> list_;
};

void SavedTensors::attention() {
  const Transformer& model = context_.model;
  const double query = static_cast<double>(model.query_width()) / w_.tp;
  const double kv = static_cast<double>(model.kv_width()) / w_.tp;
  norm("input norm input", "input norm statistics");
  add_input("qkv input", linear_input(w_.hidden), {RecomputeModule::layernorm});
  adapter(AdapterTarget::linear_qkv);
  add("queries, keys, values", w_.tokens * (query + 2 * kv) * attention_element());
  core_attention(w_.tokens * query);
}

/// The latents are kept before and after their norms; keys and values of all heads are kept, not
/// expanded again. Source: Megatron-LM d98e8a64, megatron/core/transformer/
/// multi_latent_attention.py, without recomputation of the up projections.
void SavedTensors::latent_attention() {
  const Transformer& model = context_.model;
  const LatentAttention& mla = *model.mla;
  const double heads = static_cast<double>(model.heads) / w_.tp;
  const auto qk_dim = static_cast<double>(model.qk_dim());
  const auto v_dim = static_cast<double>(model.v_dim());
  const auto q_rank = static_cast<double>(mla.q_rank);
  const auto kv_rank = static_cast<double>(mla.kv_rank);
  const double norms = mla.q_rank > 0 ? 2 : 1;
  norm("input norm input", "input norm statistics");
  add_input("down projections input", w_.sharded_tokens * w_.hidden * operand_,
            {RecomputeModule::layernorm});
  if (mla.q_rank == 0 && w_.tokens > w_.sharded_tokens &&
      !context_.training.framework.regather_in_backward) {
    add_input("q input", linear_input(w_.hidden), {RecomputeModule::layernorm});
  }
  add("latents", w_.sharded_tokens * (q_rank + kv_rank) * w_.element);
  const Modules up{RecomputeModule::mla_up_proj};
  add("latent norm statistics", norms * w_.sharded_tokens * kNormStatistics, up);
  add_input("up projections input", linear_input(q_rank + kv_rank), up);
  add("queries, keys, values", w_.tokens * heads * (2 * qk_dim + v_dim) * attention_element(), up);
  core_attention(w_.tokens * heads * v_dim);
}

void SavedTensors::dense_mlp() {
  norm("MLP norm input", "MLP norm statistics");
  add_input("fc1 input", linear_input(w_.hidden), {RecomputeModule::layernorm});
  adapter(AdapterTarget::linear_fc1);
  mlp_inside("activation input", "fc2 input",
             w_.tokens * static_cast<double>(context_.model.ffn) / w_.tp, {RecomputeModule::mlp});
  keep_activation_input_in(context_.training.kept_mlp_dtype);
  adapter(AdapterTarget::linear_fc2);
  dropout_mask("MLP dropout mask");
}

/// Routed tokens are kept where the products need them, once for each expert that they go to; what
/// is sent is not kept. Probabilities multiply the hidden layer of an expert, so that its output
/// is not kept either. Source: Megatron-LM d98e8a64, megatron/core/transformer/moe/experts.py.
void SavedTensors::experts() {
  const MixtureOfExperts& moe = *context_.model.moe;
  const RoutedTokens routed = routed_tokens(context_);
  const auto held = static_cast<double>(routed.per_expert * routed.experts);
  const double width =
      static_cast<double>(moe.expert_ffn) / static_cast<double>(context_.layout.grid.etp);
  const double fp32 = element_size(DataType::fp32).value;
  norm("MLP norm input", "MLP norm statistics");
  const Modules all{RecomputeModule::moe};
  const bool frozen = context_.training.adapters.has_value();
  add_input("router input", frozen ? 0 : w_.sharded_tokens * w_.hidden * w_.element,
            {RecomputeModule::layernorm});
  add("router scores", w_.sharded_tokens * static_cast<double>(moe.experts) * fp32, all);
  const std::size_t routed_begin = list_.size();
  add_input("expert fc1 input", frozen ? 0 : held * w_.hidden * operand_, all);
  mlp_inside("expert activation input", "expert fc2 input", held * width, all);
  keep_activation_input_in(context_.training.kept_expert_dtype);
  list_.back().inside.push_back(RecomputeModule::moe_act);
  add("expert probabilities", held * fp32, all);
  for (std::size_t i = routed_begin; i < list_.size(); ++i) list_[i].routed = true;
  if (moe.shared_ffn > 0) {
    mlp_inside("shared activation input", "shared fc2 input",
               w_.tokens * static_cast<double>(moe.shared_ffn) / w_.tp,
               {RecomputeModule::moe, RecomputeModule::shared_experts});
  }
  dropout_mask("MLP dropout mask");
}

/// In front of the layer of a multi-token prediction module.
void SavedTensors::prediction() {
  norm("embedding norm input", "embedding norm statistics");
  norm("hidden norm input", "hidden norm statistics");
  add_input("prediction projection input", linear_input(2 * w_.hidden));
}

}  // namespace

std::vector<SavedTensor> saved_tensors(const OperatorContext& context, std::int64_t layer) {
  SavedTensors saved(context);
  if (context.model.mla) {
    saved.latent_attention();
  } else {
    saved.attention();
  }
  if (context.model.has_experts(layer)) {
    saved.experts();
  } else {
    saved.dense_mlp();
  }
  return std::move(saved).take();
}

namespace {

Bytes all_saved(const OperatorContext& context, std::int64_t layer) {
  Bytes sum;
  for (const SavedTensor& tensor : saved_tensors(context, layer)) sum += tensor.size;
  return sum;
}

/// Input of the layer, queries, values, output of attention, first product of the MLP and its
/// output: recompute_operators.cpp.
Bytes saved_products(const OperatorContext& context) {
  const Widths w = widths_of(context);
  const Transformer& model = context.model;
  const double outside = 2 * w.sharded_tokens * w.hidden;
  const double heads = static_cast<double>(2 * model.query_width() + model.kv_width());
  const double inside = w.tokens * (heads + static_cast<double>(model.ffn)) / w.tp;
  return bytes((outside + inside) * w.element) + core_attention_inside(context);
}

bool comes_back(const Recompute& recompute, const SavedTensor& tensor) {
  return std::ranges::any_of(tensor.inside,
                             [&](RecomputeModule module) { return recompute.selects(module); });
}

Bytes layer_input(const OperatorContext& context) {
  const Widths w = widths_of(context);
  return bytes(w.sharded_tokens * w.hidden * w.element);
}

}  // namespace

Bytes saved_by_layer(const OperatorContext& context, std::int64_t layer,
                     std::int64_t layer_in_chunk) {
  if (fully_recomputed(context.training.recompute, layer_in_chunk)) return layer_input(context);
  if (context.training.recompute.kind == RecomputeKind::every_other_matmul) {
    return saved_products(context);
  }
  Bytes sum;
  for (const SavedTensor& tensor : saved_tensors(context, layer)) {
    if (!comes_back(context.training.recompute, tensor)) sum += tensor.size;
  }
  return sum;
}

Bytes restored_by_recompute(const OperatorContext& context, std::int64_t layer,
                            std::int64_t layer_in_chunk) {
  return all_saved(context, layer) - saved_by_layer(context, layer, layer_in_chunk);
}

WeightOperands weight_operands(const OperatorContext& context, std::int64_t layer) {
  WeightOperands out;
  for (const SavedTensor& tensor : saved_tensors(context, layer)) {
    if (tensor.linear_input) out.inputs += tensor.size;
  }
  out.output_gradients = bytes(linear_outputs(context, layer) * linear_operand(context));
  return out;
}

RoutedBytes routed_bytes(const OperatorContext& context, std::int64_t layer,
                         std::int64_t layer_in_chunk) {
  RoutedBytes out;
  if (!context.model.has_experts(layer)) return out;
  const Recompute& recompute = context.training.recompute;
  const bool full = fully_recomputed(recompute, layer_in_chunk);
  for (const SavedTensor& tensor : saved_tensors(context, layer)) {
    if (!tensor.routed) continue;
    (full || comes_back(recompute, tensor) ? out.restored : out.saved) += tensor.size;
    if (tensor.linear_input) out.weights.inputs += tensor.size;
  }
  out.weights.output_gradients = bytes(routed_outputs(context) * linear_operand(context));
  return out;
}

WeightOperands head_weight_operands(const OperatorContext& context) {
  const Widths w = widths_of(context);
  const double vocab = static_cast<double>(context.padded_vocab) / w.tp;
  return {.inputs = bytes(w.sharded_tokens * w.hidden * w.element),
          .output_gradients = bytes(w.tokens * vocab * w.element)};
}

/// What cross-entropy keeps of the logits; the final norm's input and, gathered or not, its output,
/// which only the weight gradient needs.
Bytes saved_by_head(const OperatorContext& context) {
  const Widths w = widths_of(context);
  const double vocab = static_cast<double>(context.padded_vocab) / w.tp;
  // In pieces their logits are made again.
  const double saved =
      context.training.loss_chunks > 1 ? 0 : cross_entropy_bytes(context.training.framework).saved;
  const double logits = w.tokens * vocab * saved;
  const double kept = context.training.adapters ? 1 : 2;
  return bytes(logits + kept * w.sharded_tokens * w.hidden * w.element);
}

Bytes loss_workspace(const OperatorContext& context) {
  const Widths w = widths_of(context);
  const double vocab = static_cast<double>(context.padded_vocab) / w.tp;
  const LogitBytes logit = cross_entropy_bytes(context.training.framework);
  const int pieces = context.training.loss_chunks;
  if (pieces == 1) return bytes(w.tokens * vocab * logit.workspace);
  return bytes(w.tokens * vocab * (logit.saved + logit.workspace) / pieces);
}

namespace {

std::vector<SavedTensor> projection_tensors(const OperatorContext& context) {
  SavedTensors saved(context);
  saved.prediction();
  return std::move(saved).take();
}

}  // namespace

/// Recomputed in full it keeps its two inputs.
Bytes saved_by_prediction(const OperatorContext& context, std::int64_t layer_in_chunk) {
  Bytes sum = saved_by_head(context);
  if (fully_recomputed(context.training.recompute, layer_in_chunk)) {
    return sum + 2.0 * layer_input(context);
  }
  for (const SavedTensor& tensor : projection_tensors(context)) sum += tensor.size;
  return sum + saved_by_layer(context, context.model.layers - 1, layer_in_chunk);
}

Bytes restored_for_prediction(const OperatorContext& context, std::int64_t layer_in_chunk) {
  Bytes sum = saved_by_head(context) + all_saved(context, context.model.layers - 1);
  for (const SavedTensor& tensor : projection_tensors(context)) sum += tensor.size;
  return sum - saved_by_prediction(context, layer_in_chunk);
}

WeightOperands prediction_weight_operands(const OperatorContext& context) {
  const WeightOperands layer = weight_operands(context, context.model.layers - 1);
  const WeightOperands head = head_weight_operands(context);
  WeightOperands out{.inputs = layer.inputs + head.inputs,
                     .output_gradients = layer.output_gradients + head.output_gradients};
  for (const SavedTensor& tensor : projection_tensors(context)) {
    if (tensor.linear_input) out.inputs += tensor.size;
  }
  const Widths w = widths_of(context);
  out.output_gradients += bytes(w.tokens * w.hidden / w.tp * linear_operand(context));
  return out;
}

Bytes saved_by_embedding(const OperatorContext& context) {
  if (!context.model.dropout) return bytes(0);
  const Widths w = widths_of(context);
  return bytes(w.sharded_tokens * w.hidden * kMaskSize);
}

}  // namespace flopcast
