#include "models/model_flops.h"

#include "models/parameters.h"
#include "sim/check.h"

namespace flopcast {
namespace {

// A multiply-add counts two, and the backward pass has two products for each of the forward pass.
constexpr double kFlopsPerWeight = 6;

/// Multiply-adds of one token in the forward pass.
struct TokenWork {
  double projections = 0;  // by weights, of one layer
  double attention = 0;    // scores and values over the full sequence, of one layer
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
double megatron_token_work(const Transformer& model, double sequence, double vocab,
                           double attention_share) {
  const auto hidden = static_cast<double>(model.hidden);
  const auto mtp = static_cast<double>(model.mtp_layers);
  const TokenWork attention =
      model.mla ? latent_attention_work(model, sequence) : attention_work(model, sequence);
  const double layers = static_cast<double>(model.layers) + mtp;
  double work = layers * (attention.projections + attention_share * attention.attention);
  for (std::int64_t layer = 0; layer < model.layers; ++layer) work += mlp_work(model, layer);
  work += mtp * (mlp_work(model, model.layers - 1) + 3 * hidden + 2 * hidden * hidden);
  return work + (1 + mtp) * hidden * vocab;
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
Flops model_flops(const Transformer& model, std::int64_t sequence, std::int64_t global_batch,
                  std::int64_t padded_vocab, FlopConvention convention) {
  const auto tokens_in_sequence = static_cast<double>(sequence);
  const double tokens = tokens_in_sequence * static_cast<double>(global_batch);
  const auto vocab = static_cast<double>(padded_vocab);
  double per_token = 0;
  switch (convention) {
    case FlopConvention::megatron:
      per_token = megatron_token_work(model, tokens_in_sequence, vocab, 0.5);
      break;
    case FlopConvention::megatron_full:
      per_token = megatron_token_work(model, tokens_in_sequence, vocab, 1);
      break;
    case FlopConvention::palm: {
      const TokenWork attention = model.mla ? latent_attention_work(model, tokens_in_sequence)
                                            : attention_work(model, tokens_in_sequence);
      per_token = static_cast<double>(parameter_count(model).active_per_token) +
                  static_cast<double>(model.layers) * attention.attention;
      break;
    }
    case FlopConvention::six_n:
      per_token = static_cast<double>(parameter_count(model).active_per_token);
      break;
  }
  return flops(kFlopsPerWeight * per_token * tokens);
}

}  // namespace flopcast
