#pragma once

// The models that the reference values were counted on, from their published configurations.

#include <stdexcept>
#include <string>

#include "models/transformer.h"

namespace flopcast {

/// A row of shapes that all these models have; heads are 128 wide.
struct ModelRow {
  std::int64_t layers, hidden, heads, kv_heads, ffn, vocab;
};

inline Transformer transformer_of(const ModelRow& row) {
  Transformer model;
  model.layers = row.layers;
  model.hidden = row.hidden;
  model.heads = row.heads;
  model.kv_heads = row.kv_heads;
  model.head_dim = 128;
  model.ffn = row.ffn;
  model.vocab = row.vocab;
  return model;
}

inline Transformer gpt3_175b() {
  Transformer model = transformer_of({96, 12288, 96, 96, 49152, 50257});
  model.max_positions = 2048;
  model.gated_mlp = false;
  model.tied_embeddings = true;
  model.norm = NormKind::layer_norm;
  model.positions = PositionKind::learned;
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = true;
  return model;
}

inline Transformer deepseek_v3_without_mtp() {
  Transformer model = transformer_of({61, 7168, 128, 128, 18432, 129280});
  model.mla = LatentAttention{
      .q_rank = 1536, .kv_rank = 512, .qk_nope_dim = 128, .qk_rope_dim = 64, .v_dim = 128};
  model.moe = MixtureOfExperts{
      .experts = 256, .top_k = 8, .expert_ffn = 2048, .shared_ffn = 2048, .first_dense = 3};
  return model;
}

inline Transformer golden_model(const std::string& name) {
  if (name == "gpt3-175b") return gpt3_175b();
  if (name == "deepseek-v3") return deepseek_v3_without_mtp();
  if (name == "llama3-8b") return transformer_of({32, 4096, 32, 8, 14336, 128256});
  if (name == "llama3-70b") return transformer_of({80, 8192, 64, 8, 28672, 128256});
  if (name == "llama3.1-405b") return transformer_of({126, 16384, 128, 8, 53248, 128256});
  if (name == "mixtral-8x7b") {
    Transformer model = transformer_of({32, 4096, 32, 8, 14336, 32000});
    model.moe = MixtureOfExperts{.experts = 8, .top_k = 2, .expert_ffn = 14336};
    return model;
  }
  if (name == "qwen3-8b") {
    Transformer model = transformer_of({36, 4096, 32, 8, 12288, 151936});
    model.qk_norm = true;
    return model;
  }
  if (name == "qwen3-30b-a3b") {
    Transformer model = transformer_of({48, 2048, 32, 4, 6144, 151936});
    model.qk_norm = true;
    model.moe = MixtureOfExperts{.experts = 128, .top_k = 8, .expert_ffn = 768};
    return model;
  }
  throw std::invalid_argument("no golden model " + name);
}

}  // namespace flopcast
