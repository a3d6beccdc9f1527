#include <fmt/format.h>

#include "scenarios/fields.h"
#include "scenarios/hf_config.h"
#include "scenarios/scenario_parts.h"

namespace flopcast {
namespace {

// Far beyond any model; keep products of sizes within their types.
constexpr std::int64_t kWidest = 1 << 24;
constexpr std::int64_t kMostHeads = 1 << 16;
constexpr std::int64_t kMostPositions = 1 << 30;
constexpr double kMostParameters = 1e17;

constexpr Choice<NormKind> kNorms[] = {{"layer_norm", NormKind::layer_norm},
                                       {"rms_norm", NormKind::rms_norm}};
constexpr Choice<PositionKind> kPositions[] = {{"rotary", PositionKind::rotary},
                                               {"learned", PositionKind::learned},
                                               {"alibi", PositionKind::alibi},
                                               {"none", PositionKind::none}};

LatentAttention read_latent_attention(const Node& node,
                                      const std::optional<LatentAttention>& base) {
  LatentAttention mla = base.value_or(LatentAttention{});
  const Fields fields(node, base.has_value());
  fields.count("q_rank", mla.q_rank, 0, kWidest);
  fields.needed_count("kv_rank", mla.kv_rank, kWidest);
  fields.needed_count("qk_nope_dim", mla.qk_nope_dim, kWidest);
  fields.needed_count("qk_rope_dim", mla.qk_rope_dim, kWidest);
  fields.needed_count("v_dim", mla.v_dim, kWidest);
  return mla;
}

MixtureOfExperts read_experts(const Node& node, const std::optional<MixtureOfExperts>& base) {
  MixtureOfExperts moe = base.value_or(MixtureOfExperts{});
  const Fields fields(node, base.has_value());
  fields.needed_count("experts", moe.experts, kMostHeads);
  fields.needed_count("top_k", moe.top_k, kMostHeads);
  fields.needed_count("expert_ffn", moe.expert_ffn, kWidest);
  fields.count("shared_ffn", moe.shared_ffn, 0, kWidest);
  fields.flag("shared_gate", moe.shared_gate);
  fields.count("first_dense", moe.first_dense, 0, kMostLayers);
  fields.count("every", moe.every, 1, kMostLayers);
  fields.count("node_limit", moe.node_limit, 0, kMostHeads);
  fields.flag("router_bias", moe.router_bias);
  fields.flag("expert_bias", moe.expert_bias);
  if (moe.top_k > moe.experts) {
    node.fail(fmt::format("top_k = {} is more than the {} experts", moe.top_k, moe.experts));
  }
  return moe;
}

void read_sizes(const Fields& fields, bool has_base, Transformer& model) {
  fields.needed_count("layers", model.layers, kMostLayers);
  fields.needed_count("hidden", model.hidden, kWidest);
  fields.needed_count("heads", model.heads, kMostHeads);
  if (!has_base) {
    model.kv_heads = model.heads;
    model.head_dim = model.hidden / model.heads;
  }
  fields.count("kv_heads", model.kv_heads, 1, kMostHeads);
  fields.count("head_dim", model.head_dim, 1, kWidest);
  fields.needed_count("ffn", model.ffn, kWidest);
  fields.needed_count("vocab", model.vocab, kMostPositions);
  fields.count("max_positions", model.max_positions, 0, kMostPositions);
  fields.count("norms_per_layer", model.norms_per_layer, 0, 8);
  fields.count("sliding_window", model.sliding_window, 0, kMostPositions);
  fields.count("sliding_every", model.sliding_every, 1, kMostLayers);
  fields.count("mtp_layers", model.mtp_layers, 0, kMostLayers);
}

void read_flags(const Fields& fields, Transformer& model) {
  fields.kind("norm", model.norm, kNorms);
  fields.kind("positions", model.positions, kPositions);
  fields.flag("gated_mlp", model.gated_mlp);
  fields.flag("tied_embeddings", model.tied_embeddings);
  fields.flag("norm_bias", model.norm_bias);
  fields.flag("qkv_bias", model.qkv_bias);
  fields.flag("attention_output_bias", model.attention_output_bias);
  fields.flag("mlp_bias", model.mlp_bias);
  fields.flag("qk_norm", model.qk_norm);
  fields.flag("attention_sinks", model.attention_sinks);
  fields.flag("embedding_norm", model.embedding_norm);
  fields.flag("final_norm", model.final_norm);
  fields.flag("parallel_block", model.parallel_block);
  fields.flag("dropout", model.dropout);
}

/// Roughly, and from above: each field is in range, their product need not be.
double most_parameters(const Transformer& model) {
  const auto layers = static_cast<double>(model.layers);
  const auto hidden = static_cast<double>(model.hidden);
  const auto width = static_cast<double>(model.heads * model.head_dim);
  double per_layer = hidden * (4 * width + 3 * static_cast<double>(model.ffn));
  if (model.moe) {
    per_layer += 3 * hidden * static_cast<double>(model.moe->experts * model.moe->expert_ffn);
  }
  return layers * per_layer + 2 * hidden * static_cast<double>(model.vocab + model.max_positions);
}

void check_shape(const Node& node, const Transformer& model) {
  if (model.heads % model.kv_heads != 0) {
    node.fail(fmt::format("the {} heads are not a multiple of the {} kv_heads", model.heads,
                          model.kv_heads));
  }
  if (model.head_dim == 0) {
    node.fail(fmt::format("{} heads on a hidden size of {}; give \"head_dim\"", model.heads,
                          model.hidden));
  }
  if (model.positions == PositionKind::learned && model.max_positions == 0) {
    node.fail("learned positions need \"max_positions\"");
  }
  if (most_parameters(model) > kMostParameters) {
    node.fail("the sizes make a model of more than 10^17 parameters");
  }
}

Transformer read_config_file(const Node& node) {
  auto file = node.folder() / node.text();
  if (std::filesystem::is_directory(file)) file /= "config.json";
  if (!std::filesystem::exists(file)) {
    node.fail(fmt::format("no such file: {}", file.string()));
  }
  const Document config = Document::read(file);
  Transformer model = transformer_from_hf(config.root());
  if (model.name.empty()) model.name = file.parent_path().filename().string();
  if (model.name.empty()) model.name = file.stem().string();
  return model;
}

}  // namespace

bool is_file_path(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".json");
}

Transformer read_model(const Node& node, Catalogue& catalogue) {
  if (node.is_text() && is_file_path(node.text())) return read_config_file(node);
  if (node.is_text()) return catalogue.model(node);
  const auto base = node.find("base");
  Transformer model = base ? read_model(*base, catalogue) : Transformer{};
  const Fields fields(node, base.has_value());
  fields.text("name", model.name);
  read_sizes(fields, base.has_value(), model);
  read_flags(fields, model);
  if (const auto mla = node.find("mla")) model.mla = read_latent_attention(*mla, model.mla);
  if (const auto moe = node.find("moe")) model.moe = read_experts(*moe, model.moe);
  const auto sources = read_sources(node);
  if (!sources.empty()) model.sources = sources;
  if (model.name.empty()) model.name = "custom";
  node.finish();
  check_shape(node, model);
  return model;
}

}  // namespace flopcast
