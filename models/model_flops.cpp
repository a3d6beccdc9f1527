#include "models/model_flops.h"

#include "models/parameters.h"
#include "sim/check.h"

namespace flopcast {
namespace {

// A multiply-add counts two, and the backward pass has two products for each of the forward pass.
constexpr double kFlopsPerWeight = 6;
constexpr double kFlopsPerFrozenWeight = 4;  // of the two only the input's gradient

/// Multiply-adds of one token in the forward pass.
struct TokenWork {
  double projections = 0;  // by weights
  double attention = 0;    // scores and values over all of the document
};

TokenWork attention_work(const Transformer& model, double sequence) {
  const auto hidden = static_cast<double>(model.hidden);
  const auto query_width = static_cast<double>(model.query_width());
  const auto kv_width = static_cast<double>(model.kv_width());
  return {.projections = hidden * (2 * query_width + 2 * kv_width),
          .attention = sequence * 2 * query_width};
}

// The `+ 1` terms are the norms of the latents: Megatron counts them, and no other norm of a layer.
TokenWork latent_attention_work(const Transformer& model, double sequence) {
  const LatentAttention& mla = *model.mla;
  const auto hidden = static_cast<double>(model.hidden);
  const auto heads = static_cast<double>(model.heads);
  const auto q_rank = static_cast<double>(mla.q_rank);
  const auto kv_rank = static_cast<double>(mla.kv_rank);
  const auto rope = static_cast<double>(mla.qk_rope_dim);
  const auto nope = static_cast<double>(mla.qk_nope_dim);
  const auto value = static_cast<double>(mla.v_dim);
  const double query = mla.q_rank == 0 ? hidden * heads * (nope + rope)
                                       : q_rank * (hidden + heads * (nope + rope) + 1);
  const double key_value = kv_rank * (hidden + heads * (nope + value) + 1) + hidden * rope;
  return {.projections = query + key_value + heads * value * hidden,
          .attention = sequence * heads * (nope + rope + value)};
}

TokenWork attention_of(const Transformer& model, double attended) {
  return model.mla ? latent_attention_work(model, attended) : attention_work(model, attended);
}

double mlp_work(const Transformer& model, std::int64_t layer) {
  const double matrices = model.gated_mlp ? 3 : 2;
  const std::int64_t width = model.has_experts(layer)
                                 ? model.moe->top_k * model.moe->expert_ffn + model.moe->shared_ffn
                                 : model.ffn;
  return matrices * static_cast<double>(model.hidden) * static_cast<double>(width);
}

// Matrix products of one token, as Megatron counts them: attention, MLP or routed and shared
// experts, logits; not the router, the norms of a layer, softmax, rotary embedding. Sliding windows
// are not looked at. A multi-token prediction module is one more layer like the last, the
// projection from twice the width, three norms, and logits once more. Source: Megatron-LM d98e8a64,
// megatron/training/training.py, num_floating_point_operations.
TokenWork megatron_token_work(const Transformer& model, double attended, double vocab) {
  const auto hidden = static_cast<double>(model.hidden);
  const auto mtp = static_cast<double>(model.mtp_layers);
  const TokenWork attention = attention_of(model, attended);
  const double layers = static_cast<double>(model.layers) + mtp;
  TokenWork work{.projections = layers * attention.projections,
                 .attention = layers * attention.attention};
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    work.projections += mlp_work(model, layer);
  }
  work.projections += mtp * (mlp_work(model, model.layers - 1) + 3 * hidden + 2 * hidden * hidden);
  work.projections += (1 + mtp) * hidden * vocab;
  return work;
}

}  // namespace

std::string_view to_text(FlopConvention convention) {
  switch (convention) {
    case FlopConvention::megatron: return "megatron";
    case FlopConvention::megatron_full: return "megatron_full";
    case FlopConvention::palm: return "palm";
    case FlopConvention::six_n: return "six_n";
  }
  FLOPCAST_CHECK(false, "every convention has a name");
}

// Source of 6 N + 12 L H Q T: PaLM, arXiv 2204.02311, appendix B; T tokens of sequence, H heads of
// width Q, attention counted in full. N are the parameters that a token meets, all embeddings
// included; with latent attention 2 Q is the sum of the widths of keys and values.
Flops model_flops(const Transformer& model, const CountedStep& step, FlopConvention convention) {
  TokenWork work{.projections = static_cast<double>(parameter_count(model).active_per_token)};
  switch (convention) {
    case FlopConvention::megatron:
    case FlopConvention::megatron_full:
      work = megatron_token_work(model, step.attended, static_cast<double>(step.padded_vocab));
      if (convention == FlopConvention::megatron) work.attention *= 0.5;
      break;
    case FlopConvention::palm:
      work.attention =
          static_cast<double>(model.layers) * attention_of(model, step.attended).attention;
      break;
    case FlopConvention::six_n: break;
  }
  const double tokens = static_cast<double>(step.sequence) * static_cast<double>(step.global_batch);
  const double by_weights = step.frozen ? kFlopsPerFrozenWeight : kFlopsPerWeight;
  return flops((by_weights * work.projections + kFlopsPerWeight * work.attention) * tokens);
}

Flops model_flops(const Transformer& model, std::int64_t sequence, std::int64_t global_batch,
                  std::int64_t padded_vocab, FlopConvention convention) {
  return model_flops(model,
                     {.sequence = sequence,
                      .global_batch = global_batch,
                      .padded_vocab = padded_vocab,
                      .attended = static_cast<double>(sequence)},
                     convention);
}

}  // namespace flopcast
