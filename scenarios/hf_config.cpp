#include "scenarios/hf_config.h"

#include <array>
#include <cmath>
#include <optional>

#include "scenarios/hf_settings.h"

namespace flopcast {
namespace {

// Numbers that all families have, under one of a few names.
Transformer common_sizes(const HfSettings& config) {
  Transformer model;
  model.layers = config.size({"num_hidden_layers", "n_layer", "n_layers"});
  model.hidden = config.size({"hidden_size", "n_embd", "n_embed", "d_model"});
  model.heads = config.size({"num_attention_heads", "n_head", "n_heads"});
  model.kv_heads = config.size_or({"num_key_value_heads", "num_kv_heads"}, model.heads);
  model.head_dim = config.size_or({"head_dim"}, model.hidden / model.heads);
  model.ffn = config.size_or({"intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size"},
                             4 * model.hidden);
  model.vocab = config.size({"vocab_size"});
  config.refuse(!config.find({"head_dim"}) && model.hidden % model.heads != 0, "hidden_size",
                "the hidden size is not a multiple of the heads, and head_dim is not given");
  config.refuse(model.heads % model.kv_heads != 0, "num_key_value_heads",
                "the heads are not a multiple of the key-value heads");
  return model;
}

// LayerNorm, GELU and, unless told otherwise, biases everywhere: the GPT-2 line.
void gpt_style(const HfSettings& config, Transformer& model, bool bias, bool tied) {
  model.gated_mlp = false;
  model.norm = NormKind::layer_norm;
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = bias;
  model.tied_embeddings = config.flag_or("tie_word_embeddings", tied);
}

// RMS norm and a gated MLP; biases only where the file says so.
void llama_style(const HfSettings& config, Transformer& model, bool tied) {
  model.qkv_bias = model.attention_output_bias = config.flag_or("attention_bias", false);
  model.mlp_bias = config.flag_or("mlp_bias", false);
  model.tied_embeddings = config.flag_or("tie_word_embeddings", tied);
}

void learned_positions(Transformer& model, std::int64_t rows) {
  model.positions = PositionKind::learned;
  model.max_positions = rows;
}

void read_gpt2(const HfSettings& config, Transformer& model) {
  gpt_style(config, model, true, true);
  learned_positions(model, config.size({"n_positions", "max_position_embeddings", "n_ctx"}));
  model.dropout =
      config.number_or("attn_pdrop", 0.1) > 0 || config.number_or("resid_pdrop", 0.1) > 0;
}

// Both halves read the same input, each through a norm of its own.
void read_gpt_neox(const HfSettings& config, Transformer& model) {
  gpt_style(config, model, true, false);
  model.qkv_bias = model.attention_output_bias = config.flag_or("attention_bias", true);
  model.parallel_block = config.flag_or("use_parallel_residual", true);
  model.dropout =
      config.number_or("attention_dropout", 0) > 0 || config.number_or("hidden_dropout", 0) > 0;
}

// The position table has two rows in front that no token uses.
void read_opt(const HfSettings& config, Transformer& model) {
  gpt_style(config, model, config.flag_or("enable_bias", true), true);
  learned_positions(model, config.size({"max_position_embeddings"}) + 2);
  model.dropout = config.number_or("dropout", 0.1) > 0;
  config.refuse(config.size_or({"word_embed_proj_dim"}, model.hidden) != model.hidden,
                "word_embed_proj_dim", "an embedding narrower than the layers is not supported");
  config.refuse(!config.flag_or("do_layer_norm_before", true), "do_layer_norm_before",
                "norms after the halves are not supported");
}

void read_bloom(const HfSettings& config, Transformer& model) {
  gpt_style(config, model, true, true);
  model.positions = PositionKind::alibi;
  model.embedding_norm = true;
  model.dropout =
      config.number_or("attention_dropout", 0) > 0 || config.number_or("hidden_dropout", 0) > 0;
}

void read_falcon(const HfSettings& config, Transformer& model) {
  const bool grouped = config.flag_or("new_decoder_architecture", false);
  const bool multi_query = config.flag_or("multi_query", true);
  gpt_style(config, model, config.flag_or("bias", false), true);
  if (!grouped) model.kv_heads = multi_query ? 1 : model.heads;
  model.parallel_block = grouped || config.flag_or("parallel_attn", true);
  if (model.parallel_block) {
    model.norms_per_layer = config.size_or({"num_ln_in_parallel_attn"}, grouped ? 2 : 1);
  }
  if (config.flag_or("alibi", false)) model.positions = PositionKind::alibi;
}

// MosaicML's own modules place ALiBi, rotary or learned positions by attn_config. Norms and linear
// layers have no biases, whatever `no_bias` says: the modules drop them to fit the
// released weights.
void read_mpt(const HfSettings& config, Transformer& model) {
  gpt_style(config, model, false, true);
  model.norm_bias = false;
  model.ffn =
      std::llround(config.number_or("expansion_ratio", 4) * static_cast<double>(model.hidden));
  const auto attention = config.find_group("attn_config");
  if (attention) model.kv_heads = attention->size_or({"kv_n_heads"}, model.heads);
  if (!attention || attention->flag_or("alibi", true)) {
    model.positions = PositionKind::alibi;
  } else if (!attention->flag_or("rope", false)) {
    learned_positions(model, config.size({"max_seq_len"}));
  }
}

// Squared ReLU without a gate, LayerNorm with a bias.
void read_nemotron(const HfSettings& config, Transformer& model) {
  gpt_style(config, model, config.flag_or("attention_bias", false), false);
  model.mlp_bias = config.flag_or("mlp_bias", false);
}

void read_starcoder2(const HfSettings& config, Transformer& model) {
  gpt_style(config, model, config.flag_or("use_bias", true), true);
  model.sliding_window = config.count_or("sliding_window", 0);
}

void read_mistral(const HfSettings& config, Transformer& model) {
  llama_style(config, model, false);
  model.sliding_window = config.count_or_none("sliding_window", 4096);
}

void read_qwen_window(const HfSettings& config, Transformer& model) {
  if (!config.flag_or("use_sliding_window", false)) return;
  config.refuse(config.count_or("max_window_layers", 0) != 0, "max_window_layers",
                "a sliding window in the last layers alone is not supported");
  model.sliding_window = config.size({"sliding_window"});
}

void read_qwen2(const HfSettings& config, Transformer& model) {
  llama_style(config, model, false);
  model.qkv_bias = config.flag_or("qkv_bias", true);
  model.attention_output_bias = false;
  read_qwen_window(config, model);
}

void read_qwen3(const HfSettings& config, Transformer& model) {
  llama_style(config, model, false);
  model.head_dim = config.size_or({"head_dim"}, 128);
  model.qk_norm = true;
  read_qwen_window(config, model);
}

// Every n-th layer has experts, counted from 1, but for those of a list, which may name the first.
void read_qwen_experts(const HfSettings& config, Transformer& model, MixtureOfExperts moe) {
  moe.expert_ffn = config.size({"moe_intermediate_size"});
  moe.every = config.size_or({"decoder_sparse_step"}, 1);
  moe.first_dense = moe.every - 1;
  if (const auto dense = config.find({"mlp_only_layers"}); dense && !dense->items().empty()) {
    std::int64_t expected = 0;
    for (const Node& layer : dense->items()) {
      if (moe.every != 1 || layer.integer() != expected++) {
        layer.fail("dense layers among those with experts are not supported");
      }
    }
    moe.first_dense = expected;
  }
  model.moe = moe;
}

void read_qwen2_moe(const HfSettings& config, Transformer& model) {
  read_qwen2(config, model);
  read_qwen_experts(config, model,
                    {.experts = config.size({"num_experts"}),
                     .top_k = config.size({"num_experts_per_tok"}),
                     .shared_ffn = config.size({"shared_expert_intermediate_size"}),
                     .shared_gate = true});
}

void read_qwen3_moe(const HfSettings& config, Transformer& model) {
  read_qwen3(config, model);
  model.head_dim = config.size_or({"head_dim"}, model.hidden / model.heads);
  read_qwen_experts(
      config, model,
      {.experts = config.size({"num_experts"}), .top_k = config.size({"num_experts_per_tok"})});
}

void read_mixtral(const HfSettings& config, Transformer& model) {
  llama_style(config, model, false);
  model.sliding_window = config.count_or("sliding_window", 0);
  model.moe = MixtureOfExperts{.experts = config.size({"num_local_experts"}),
                               .top_k = config.size({"num_experts_per_tok"}),
                               .expert_ffn = model.ffn};
}

// The router has a correction bias per expert, which is a buffer and not a parameter.
void read_deepseek(const HfSettings& config, Transformer& model) {
  llama_style(config, model, false);
  model.qkv_bias = false;
  config.refuse(config.flag_or("attention_bias", false), "attention_bias",
                "biases of the latent projections are not supported");
  model.mla = LatentAttention{.q_rank = config.count_or("q_lora_rank", 0),
                              .kv_rank = config.size({"kv_lora_rank"}),
                              .qk_nope_dim = config.size({"qk_nope_head_dim"}),
                              .qk_rope_dim = config.size({"qk_rope_head_dim"}),
                              .v_dim = config.size({"v_head_dim"})};
  const std::int64_t expert_ffn = config.size({"moe_intermediate_size"});
  model.moe = MixtureOfExperts{.experts = config.size({"n_routed_experts"}),
                               .top_k = config.size({"num_experts_per_tok"}),
                               .expert_ffn = expert_ffn,
                               .shared_ffn = config.count_or("n_shared_experts", 0) * expert_ffn,
                               .first_dense = config.count_or("first_k_dense_replace", 0),
                               .every = config.size_or({"moe_layer_freq"}, 1)};
  model.head_dim = model.mla->v_dim;
  model.mtp_layers = config.count_or("num_nextn_predict_layers", 0);
}

void read_gemma(const HfSettings& config, Transformer& model) {
  llama_style(config, model, true);
  model.head_dim = config.size_or({"head_dim"}, 256);
}

void read_gemma2(const HfSettings& config, Transformer& model) {
  read_gemma(config, model);
  model.norms_per_layer = 4;
  model.sliding_window = config.count_or_none("sliding_window", 4096);
  model.sliding_every = 2;
}

void read_gemma3(const HfSettings& config, Transformer& model) {
  read_gemma2(config, model);
  model.qk_norm = true;
  model.sliding_every = config.size_or({"sliding_window_pattern"}, 6);
}

void read_phi3(const HfSettings& config, Transformer& model) {
  llama_style(config, model, false);
  model.sliding_window = config.count_or("sliding_window", 0);
}

void read_gpt_oss(const HfSettings& config, Transformer& model) {
  llama_style(config, model, false);
  model.qkv_bias = model.attention_output_bias = config.flag_or("attention_bias", true);
  model.head_dim = config.size_or({"head_dim"}, 64);
  model.attention_sinks = true;
  model.sliding_window = config.count_or_none("sliding_window", 128);
  model.sliding_every = 2;
  model.moe = MixtureOfExperts{.experts = config.size({"num_local_experts"}),
                               .top_k = config.size({"num_experts_per_tok", "experts_per_token"}),
                               .expert_ffn = model.ffn,
                               .router_bias = true,
                               .expert_bias = true};
}

void read_llama4(const HfSettings& config, Transformer& model) {
  llama_style(config, model, false);
  const std::int64_t step = config.size_or({"interleave_moe_layer_step"}, 1);
  model.moe = MixtureOfExperts{.experts = config.size({"num_local_experts"}),
                               .top_k = config.size({"num_experts_per_tok"}),
                               .expert_ffn = model.ffn,
                               .shared_ffn = model.ffn,
                               .first_dense = step - 1,
                               .every = step};
  model.ffn = config.size({"intermediate_size_mlp"});
  model.sliding_window = config.count_or("attention_chunk_size", 0);
  model.sliding_every = 4;
}

// Norms without biases, a gated MLP in experts alone.
void read_dbrx(const HfSettings& config, Transformer& model) {
  const HfSettings attention = config.group("attn_config");
  const HfSettings mlp = config.group("ffn_config");
  model.norm = NormKind::layer_norm;
  model.norm_bias = false;
  model.tied_embeddings = config.flag_or("tie_word_embeddings", false);
  model.kv_heads = attention.size({"kv_n_heads"});
  model.ffn = mlp.size({"ffn_hidden_size"});
  model.moe = MixtureOfExperts{.experts = mlp.size({"moe_num_experts"}),
                               .top_k = mlp.size({"moe_top_k"}),
                               .expert_ffn = model.ffn};
}

void read_llama(const HfSettings& config, Transformer& model) { llama_style(config, model, false); }

struct Family {
  std::string_view model_type;
  void (*read)(const HfSettings&, Transformer&);
};

// Defaults: transformers 5.12.1, the configuration class of each type.
constexpr std::array<Family, 25> kFamilies{{
    {"bloom", read_bloom},
    {"dbrx", read_dbrx},
    {"deepseek_v2", read_deepseek},
    {"deepseek_v3", read_deepseek},
    {"falcon", read_falcon},
    {"gemma", read_gemma},
    {"gemma2", read_gemma2},
    {"gemma3_text", read_gemma3},
    {"gpt2", read_gpt2},
    {"gpt_neox", read_gpt_neox},
    {"gpt_oss", read_gpt_oss},
    {"kimi_k2", read_deepseek},
    {"llama", read_llama},
    {"llama4_text", read_llama4},
    {"mistral", read_mistral},
    {"mixtral", read_mixtral},
    {"mpt", read_mpt},
    {"nemotron", read_nemotron},
    {"opt", read_opt},
    {"phi3", read_phi3},
    {"qwen2", read_qwen2},
    {"qwen2_moe", read_qwen2_moe},
    {"qwen3", read_qwen3},
    {"qwen3_moe", read_qwen3_moe},
    {"starcoder2", read_starcoder2},
}};

constexpr auto kModelTypes = [] {
  std::array<std::string_view, kFamilies.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kFamilies[i].model_type;
  return names;
}();

}  // namespace

std::span<const std::string_view> hf_model_types() { return kModelTypes; }

Transformer transformer_from_hf(const Node& config) {
  const Node type = config.at("model_type");
  const Family& family = kFamilies[type.index_among(kModelTypes)];
  const HfSettings settings(config);
  Transformer model = common_sizes(settings);
  family.read(settings, model);
  settings.refuse(model.moe && model.moe->top_k > model.moe->experts, "num_experts_per_tok",
                  "a token cannot go to more experts than there are");
  if (const auto path = settings.find({"_name_or_path"})) model.name = path->text();
  return model;
}

Transformer transformer_from_hf(std::string_view json_text, const std::string& origin) {
  const Document document = Document::parse(std::string(json_text), origin);
  return transformer_from_hf(document.root());
}

}  // namespace flopcast
