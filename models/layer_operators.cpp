#include "models/layer_operators.h"

#include "models/operator_list.h"
#include "models/pointwise_traffic.h"

// Operators of one layer as Megatron-Core issues them with its fused kernels.

namespace flopcast {

namespace {

OperatorList::Shapes fc1_shapes(const OperatorContext& context, std::int64_t ffn) {
  const std::int64_t gates = context.model.gated_mlp ? 2 : 1;
  GemmShape shape{
      .m = context.tokens(), .n = gates * ffn / context.layout.grid.tp, .k = context.model.hidden};
  if (gates == 1 || !context.training.framework.separate_projections) return {shape};
  shape.n /= 2;
  return {shape, shape};
}

GemmShape fc2_shape(const OperatorContext& context, std::int64_t ffn) {
  return {.m = context.tokens(), .n = context.model.hidden, .k = ffn / context.layout.grid.tp};
}

}  // namespace

double activation_elements(const OperatorContext& context, std::int64_t width, AttentionPass pass) {
  const PointwiseTraffic moved = activation_traffic(context.model, context.training.framework);
  return (pass == AttentionPass::forward ? moved.forward : moved.backward) *
         static_cast<double>(width);
}

namespace {

void first_product_and_activation(OperatorList& list, const OperatorContext& context,
                                  std::int64_t ffn) {
  list.column_forward("fc1", fc1_shapes(context, ffn),
                      adapter_shares_input(context, AdapterTarget::linear_fc1));
  adapter_forward(list, context, AdapterTarget::linear_fc1);
  list.memory("activation", MemoryKernel::elementwise, context.tokens(),
              activation_elements(context, ffn / context.layout.grid.tp, AttentionPass::forward));
}

}  // namespace

void dense_mlp_forward(OperatorList& list, const OperatorContext& context, std::int64_t ffn) {
  first_product_and_activation(list, context, ffn);
  list.row_forward("fc2", fc2_shape(context, ffn));
  adapter_forward(list, context, AdapterTarget::linear_fc2);
}

void dense_mlp_backward(OperatorList& list, const OperatorContext& context, std::int64_t ffn) {
  adapter_backward(list, context, AdapterTarget::linear_fc2);
  list.row_backward("fc2", fc2_shape(context, ffn));
  list.memory("activation", MemoryKernel::elementwise, context.tokens(),
              activation_elements(context, ffn / context.layout.grid.tp, AttentionPass::backward));
  adapter_backward(list, context, AdapterTarget::linear_fc1);
  list.column_backward("fc1", fc1_shapes(context, ffn));
}

namespace {

void mlp_forward(OperatorList& list, const OperatorContext& context, std::int64_t layer) {
  if (context.model.has_experts(layer)) {
    experts_forward(list, context);
    return;
  }
  list.norm_forward("MLP norm", context.model.hidden);
  dense_mlp_forward(list, context, context.model.ffn);
  list.residual();
}

void mlp_backward(OperatorList& list, const OperatorContext& context, std::int64_t layer) {
  if (context.model.has_experts(layer)) {
    experts_backward(list, context);
    return;
  }
  list.residual_dropout_backward();
  dense_mlp_backward(list, context, context.model.ffn);
  list.norm_backward("MLP norm", context.model.hidden);
  list.residual_gradient();
}

void embed(OperatorList& list, const OperatorContext& context) {
  const double hidden = static_cast<double>(context.model.hidden);
  list.memory("embedding", MemoryKernel::embedding, context.tokens(), 2 * hidden);
  list.leave_tensor_region("reduce embedding", list.activation_size(context.model.hidden));
  if (context.model.dropout) {
    list.memory("embedding dropout", MemoryKernel::elementwise, context.sharded_tokens(),
                2.5 * hidden);
  }
}

void embed_backward(OperatorList& list, const OperatorContext& context) {
  list.enter_tensor_region("all-gather embedding gradient",
                           list.activation_size(context.model.hidden));
  // Rows are added into the fp32 gradient: one 16-bit read, one fp32 read and write.
  list.memory("embedding gradient", MemoryKernel::embedding, context.tokens(),
              5 * static_cast<double>(context.model.hidden));
}

GemmShape prediction_shape(const OperatorContext& context) {
  const std::int64_t hidden = context.model.hidden;
  return {.m = context.tokens(), .n = hidden / context.layout.grid.tp, .k = 2 * hidden};
}

/// Joining both halves reads and writes each; the output is gathered, and every rank goes on with
/// its part of the sequence.
void project_prediction(OperatorList& list, const OperatorContext& context) {
  const std::int64_t hidden = context.model.hidden;
  embed(list, context);
  list.norm_forward("embedding norm", hidden);
  list.norm_forward("hidden norm", hidden);
  list.memory("join halves", MemoryKernel::elementwise, context.sharded_tokens(),
              4 * static_cast<double>(hidden));
  list.column_forward("prediction projection", prediction_shape(context));
  list.collective("all-gather projection",
                  {CollectiveKind::all_gather, list.activation_size(hidden)});
}

void project_prediction_backward(OperatorList& list, const OperatorContext& context) {
  const std::int64_t hidden = context.model.hidden;
  list.enter_tensor_region("all-gather projection gradient", list.activation_size(hidden));
  list.column_backward("prediction projection", prediction_shape(context));
  list.memory("part halves", MemoryKernel::elementwise, context.sharded_tokens(),
              4 * static_cast<double>(hidden));
  list.norm_backward("hidden norm", hidden);
  list.norm_backward("embedding norm", hidden);
  embed_backward(list, context);
}

}  // namespace

std::vector<Operator> embedding_forward(const OperatorContext& context) {
  OperatorList list(context, OperatorPhase::forward);
  embed(list, context);
  return std::move(list).take();
}

std::vector<Operator> embedding_backward(const OperatorContext& context) {
  OperatorList list(context, OperatorPhase::weight_gradient);
  if (!context.training.adapters) embed_backward(list, context);
  return std::move(list).take();
}

std::vector<Operator> layer_forward(const OperatorContext& context, std::int64_t layer) {
  OperatorList list(context, OperatorPhase::forward);
  attention_forward(list, context, layer);
  mlp_forward(list, context, layer);
  return std::move(list).take();
}

std::vector<Operator> layer_backward(const OperatorContext& context, std::int64_t layer) {
  OperatorList list(context, OperatorPhase::data_gradient);
  mlp_backward(list, context, layer);
  attention_backward(list, context, layer);
  return std::move(list).take();
}

BackwardHalves halves_of(const std::vector<Operator>& backward) {
  BackwardHalves halves;
  for (Operator op : backward) {
    auto* const call = std::get_if<GroupCall>(&op.work);
    const bool gathers = call != nullptr && call->for_weight_gradient;
    if (gathers) call->beside = false;  // the product beside which it ran is in the other half
    const bool later = gathers || op.phase == OperatorPhase::weight_gradient;
    (later ? halves.weight_gradient : halves.input_gradient).push_back(op);
  }
  return halves;
}

bool fully_recomputed(const Recompute& recompute, std::int64_t layer_in_chunk) {
  return recompute.kind == RecomputeKind::full &&
         layer_in_chunk < recompute.layers.value_or(layer_in_chunk + 1);
}

namespace {

/// A module inside another that is recomputed as a whole runs once.
void recompute_modules(OperatorList& list, const OperatorContext& context, std::int64_t layer) {
  const Transformer& model = context.model;
  const auto selected = [&](RecomputeModule module) {
    return context.training.recompute.selects(module);
  };
  const bool norms = selected(RecomputeModule::layernorm);
  if (norms) list.norm_forward("input norm", model.hidden);
  if (model.mla && selected(RecomputeModule::mla_up_proj)) latent_up_forward(list, context);
  if (selected(RecomputeModule::core_attn)) {
    core_attention(list, context, layer, AttentionPass::forward);
  }
  if (norms) list.norm_forward("MLP norm", model.hidden);
  if (!model.has_experts(layer)) {
    if (selected(RecomputeModule::mlp)) dense_mlp_forward(list, context, model.ffn);
    return;
  }
  if (selected(RecomputeModule::moe)) {
    experts_inside(list, context);
    return;
  }
  if (selected(RecomputeModule::moe_act)) expert_activation(list, context);
  if (model.moe->shared_ffn > 0 && selected(RecomputeModule::shared_experts)) {
    dense_mlp_forward(list, context, model.moe->shared_ffn);
  }
}

}  // namespace

namespace {

/// Of a dense MLP what its backward pass needs: the input of the second product is the last.
void up_to_second_product(OperatorList& list, const OperatorContext& context) {
  list.norm_forward("MLP norm", context.model.hidden);
  first_product_and_activation(list, context, context.model.ffn);
}

}  // namespace

std::vector<Operator> layer_recompute(const OperatorContext& context, std::int64_t layer,
                                      std::int64_t layer_in_chunk) {
  OperatorList list(context, OperatorPhase::recompute);
  if (fully_recomputed(context.training.recompute, layer_in_chunk)) {
    attention_forward(list, context, layer);
    if (context.training.framework.recompute_stops_early && !context.model.has_experts(layer)) {
      up_to_second_product(list, context);
    } else {
      mlp_forward(list, context, layer);
    }
  } else if (context.training.recompute.kind == RecomputeKind::every_other_matmul) {
    all_but_every_other_matmul(list, context);
  } else {
    recompute_modules(list, context, layer);
  }
  return std::move(list).take();
}

std::vector<Operator> prediction_forward(const OperatorContext& context) {
  const std::int64_t last = context.model.layers - 1;
  OperatorList list(context, OperatorPhase::forward);
  project_prediction(list, context);
  attention_forward(list, context, last);
  mlp_forward(list, context, last);
  predict(list, context);
  return std::move(list).take();
}

std::vector<Operator> prediction_backward(const OperatorContext& context) {
  const std::int64_t last = context.model.layers - 1;
  OperatorList list(context, OperatorPhase::data_gradient);
  predict_backward(list, context);
  mlp_backward(list, context, last);
  attention_backward(list, context, last);
  project_prediction_backward(list, context);
  return std::move(list).take();
}

std::vector<Operator> prediction_recompute(const OperatorContext& context,
                                           std::int64_t layer_in_chunk) {
  const std::int64_t last = context.model.layers - 1;
  if (!fully_recomputed(context.training.recompute, layer_in_chunk)) {
    return layer_recompute(context, last, layer_in_chunk);
  }
  OperatorList list(context, OperatorPhase::recompute);
  project_prediction(list, context);
  attention_forward(list, context, last);
  mlp_forward(list, context, last);
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
         element_size(context.training.pipeline_dtype.value_or(context.training.parameter_dtype));
}

}  // namespace flopcast
