#pragma once

// The shape of a transformer: every number that decides its parameters, its operations and its
// activations, and nothing about how it is trained or split.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace flopcast {

enum class NormKind : std::uint8_t { layer_norm, rms_norm };
enum class PositionKind : std::uint8_t { rotary, learned, alibi, none };

/// Multi-head latent attention. Source: DeepSeek-V2, arXiv 2405.04434, section 2.1.
struct LatentAttention {
  std::int64_t q_rank = 0;  // 0: queries are not compressed
  std::int64_t kv_rank = 0;
  std::int64_t qk_nope_dim = 0;  // per head, without position
  std::int64_t qk_rope_dim = 0;  // per head for queries, one shared head for keys
  std::int64_t v_dim = 0;
};

struct MixtureOfExperts {
  std::int64_t experts = 0;  // routed experts per layer
  std::int64_t top_k = 0;
  std::int64_t expert_ffn = 0;   // width of one routed expert
  std::int64_t shared_ffn = 0;   // width of all shared experts together, 0 without
  bool shared_gate = false;      // a gate on the shared expert (Qwen2-MoE): hidden parameters
  std::int64_t first_dense = 0;  // leading layers with the dense MLP
  std::int64_t every = 1;        // of the others, every n-th layer has experts
  std::int64_t node_limit = 0;   // a token's experts lie on so many nodes at most; 0: on any
  bool router_bias = false;      // a bias parameter per expert, as in a plain linear layer
  bool expert_bias = false;      // biases of the routed experts' matrices (gpt-oss)
};

struct Transformer {
  std::string name;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // equal to heads: multi-head; 1: multi-query
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;            // width of the dense MLP
  std::int64_t vocab = 0;          // of the tokenizer, not padded
  std::int64_t max_positions = 0;  // rows of a learned position table
  bool gated_mlp = true;           // SwiGLU, GeGLU: gate and up projections
  bool tied_embeddings = false;
  NormKind norm = NormKind::rms_norm;
  bool norm_bias = true;  // of layer_norm; rms_norm has none
  PositionKind positions = PositionKind::rotary;
  bool qkv_bias = false;
  bool attention_output_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;          // a norm of head_dim on queries and keys
  bool attention_sinks = false;  // one learned logit per head (gpt-oss)
  bool embedding_norm = false;   // a norm after the embedding (BLOOM)
  bool final_norm = true;
  std::int64_t norms_per_layer = 2;  // 1: parallel attention and MLP (Falcon-7B), 4: Gemma 2
  bool parallel_block = false;       // attention and MLP from the same input
  std::int64_t sliding_window = 0;   // 0: full attention
  std::int64_t sliding_every = 1;    // 1: all layers slide; n: of n, all but one (Gemma 2: 2)
  bool dropout = false;  // attention and hidden dropout are active in training (GPT-3 era)
  std::optional<LatentAttention> mla;
  std::optional<MixtureOfExperts> moe;
  std::int64_t mtp_layers = 0;  // multi-token prediction modules (DeepSeek-V3)
  std::vector<std::string> sources;

  bool has_experts(std::int64_t layer) const {
    return moe && layer >= moe->first_dense && (layer - moe->first_dense) % moe->every == 0;
  }
  std::int64_t query_width() const { return heads * head_dim; }
  std::int64_t kv_width() const { return kv_heads * head_dim; }
  /// Of one head in core attention.
  std::int64_t qk_dim() const { return mla ? mla->qk_nope_dim + mla->qk_rope_dim : head_dim; }
  std::int64_t v_dim() const { return mla ? mla->v_dim : head_dim; }
};

}  // namespace flopcast
