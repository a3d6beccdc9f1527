#include "models/layer_widths.h"

#include <algorithm>

#include "models/expert_routing.h"

namespace flopcast {

Widths widths_of(const OperatorContext& context) {
  return {.sharded_tokens = static_cast<double>(context.sharded_tokens()),
          .tokens = static_cast<double>(context.tokens()),
          .hidden = static_cast<double>(context.model.hidden),
          .element = element_size(context.training.parameter_dtype).value,
          .tp = static_cast<double>(context.layout.grid.tp)};
}

double linear_operand(const OperatorContext& context) {
  return std::min(element_size(context.training.precision).value, widths_of(context).element);
}

double routed_outputs(const OperatorContext& context) {
  const MixtureOfExperts& moe = *context.model.moe;
  const RoutedTokens routed = routed_tokens(context);
  const auto held = static_cast<double>(routed.per_expert * routed.experts);
  const double gates = context.model.gated_mlp ? 2 : 1;
  const double width = static_cast<double>(moe.expert_ffn) / context.layout.grid.etp;
  return held * (gates * width + widths_of(context).hidden);
}

namespace {

double attention_outputs(const OperatorContext& context) {
  const Transformer& model = context.model;
  const Widths w = widths_of(context);
  const double heads = static_cast<double>(model.heads) / w.tp;
  const double query = w.tokens * heads * static_cast<double>(model.qk_dim());
  const double projected = w.tokens * w.hidden;
  if (!model.mla) {
    return query + 2 * w.tokens * static_cast<double>(model.kv_width()) / w.tp + projected;
  }
  const LatentAttention& mla = *model.mla;
  const auto latent = static_cast<double>(mla.q_rank + mla.kv_rank + mla.qk_rope_dim);
  const double key_value = w.tokens * heads * static_cast<double>(mla.qk_nope_dim + mla.v_dim);
  return w.sharded_tokens * latent + query + key_value + projected;
}

double mlp_outputs(const OperatorContext& context, std::int64_t layer) {
  const Widths w = widths_of(context);
  const double gates = context.model.gated_mlp ? 2 : 1;
  const auto dense = [&](std::int64_t ffn) {
    return w.tokens * (gates * static_cast<double>(ffn) / w.tp + w.hidden);
  };
  if (!context.model.has_experts(layer)) return dense(context.model.ffn);
  const MixtureOfExperts& moe = *context.model.moe;
  return w.sharded_tokens * static_cast<double>(moe.experts) + routed_outputs(context) +
         (moe.shared_ffn > 0 ? dense(moe.shared_ffn) : 0);
}

}  // namespace

double linear_outputs(const OperatorContext& context, std::int64_t layer) {
  return attention_outputs(context) + mlp_outputs(context, layer);
}

}  // namespace flopcast
