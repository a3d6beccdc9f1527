#include "models/parameters.h"

#include <utility>

#include "sim/check.h"

namespace flopcast {
namespace {

/// Collects tensors in the order of registration.
class Tensors {
 public:
  void add(const std::string& name, std::int64_t elements, Shard shard) {
    list_.push_back({name, elements, shard});
  }
  /// Of a linear layer, but for router and output projection.
  void weight(const std::string& name, std::int64_t elements, Shard shard) {
    list_.push_back({name + ".weight", elements, shard, true});
  }
  void norm(const Transformer& model, const std::string& name, std::int64_t width) {
    add(name + ".weight", width, Shard::replicated);
    if (model.norm == NormKind::layer_norm && model.norm_bias) {
      add(name + ".bias", width, Shard::replicated);
    }
  }
  // The output of a column-parallel layer is split, so its bias is too.
  void column(const std::string& name, std::int64_t in, std::int64_t out, bool bias) {
    weight(name, in * out, Shard::tensor);
    if (bias) add(name + ".bias", out, Shard::tensor);
  }
  // The bias of a row-parallel layer is added after the reduction, by every rank.
  void row(const std::string& name, std::int64_t in, std::int64_t out, bool bias) {
    weight(name, in * out, Shard::tensor);
    if (bias) add(name + ".bias", out, Shard::replicated);
  }
  std::vector<ParameterTensor> take() { return std::move(list_); }

 private:
  std::vector<ParameterTensor> list_;
};

std::int64_t fc1_width(const Transformer& model, std::int64_t ffn) {
  return model.gated_mlp ? 2 * ffn : ffn;
}

// Megatron builds the output projection in the base class of attention, before the projections of
// queries, keys and values. Source: Megatron-LM d98e8a64, megatron/core/transformer/attention.py.
void add_attention(const Transformer& model, Tensors& tensors) {
  const std::string at = "self_attention.";
  if (model.attention_sinks) {
    tensors.add(at + "core_attention.softmax_offset", model.heads, Shard::tensor);
  }
  tensors.row(at + "linear_proj", model.query_width(), model.hidden, model.attention_output_bias);
  tensors.column(at + "linear_qkv", model.hidden, model.query_width() + 2 * model.kv_width(),
                 model.qkv_bias);
  if (model.qk_norm) {
    tensors.norm(model, at + "q_layernorm", model.head_dim);
    tensors.norm(model, at + "k_layernorm", model.head_dim);
  }
}

// The two down projections and the norms of the latents are on every tensor-parallel rank.
// Source: Megatron-LM d98e8a64, megatron/core/transformer/multi_latent_attention.py.
void add_latent_attention(const Transformer& model, Tensors& tensors) {
  const LatentAttention& mla = *model.mla;
  const std::string at = "self_attention.";
  const std::int64_t q_width = model.heads * (mla.qk_nope_dim + mla.qk_rope_dim);
  tensors.row(at + "linear_proj", model.heads * mla.v_dim, model.hidden,
              model.attention_output_bias);
  if (mla.q_rank == 0) {
    tensors.column(at + "linear_q_proj", model.hidden, q_width, false);
  } else {
    tensors.weight(at + "linear_q_down_proj", model.hidden * mla.q_rank, Shard::replicated);
    tensors.column(at + "linear_q_up_proj", mla.q_rank, q_width, false);
  }
  tensors.weight(at + "linear_kv_down_proj", model.hidden * (mla.kv_rank + mla.qk_rope_dim),
                 Shard::replicated);
  tensors.column(at + "linear_kv_up_proj", mla.kv_rank, model.heads * (mla.qk_nope_dim + mla.v_dim),
                 false);
  if (mla.q_rank > 0) tensors.norm(model, at + "q_layernorm", mla.q_rank);
  tensors.norm(model, at + "kv_layernorm", mla.kv_rank);
}

// Source: Megatron-LM d98e8a64, megatron/core/transformer/moe/moe_layer.py, shared_experts.py.
void add_experts(const Transformer& model, Tensors& tensors) {
  const MixtureOfExperts& moe = *model.moe;
  const std::int64_t fc1 = fc1_width(model, moe.expert_ffn);
  tensors.add("mlp.router.weight", model.hidden * moe.experts, Shard::replicated);
  if (moe.router_bias) tensors.add("mlp.router.bias", moe.experts, Shard::replicated);
  tensors.weight("mlp.experts.linear_fc1", moe.experts * model.hidden * fc1, Shard::expert);
  if (moe.expert_bias) {
    tensors.add("mlp.experts.linear_fc1.bias", moe.experts * fc1, Shard::expert);
  }
  tensors.weight("mlp.experts.linear_fc2", moe.experts * moe.expert_ffn * model.hidden,
                 Shard::expert);
  if (moe.expert_bias) {
    tensors.add("mlp.experts.linear_fc2.bias", moe.experts * model.hidden, Shard::expert);
  }
  if (moe.shared_ffn == 0) return;
  if (moe.shared_gate) {
    tensors.add("mlp.shared_experts.gate_weight", model.hidden, Shard::replicated);
  }
  tensors.column("mlp.shared_experts.linear_fc1", model.hidden, fc1_width(model, moe.shared_ffn),
                 model.mlp_bias);
  tensors.row("mlp.shared_experts.linear_fc2", moe.shared_ffn, model.hidden, model.mlp_bias);
}

void add_layer(const Transformer& model, bool experts, Tensors& tensors) {
  FLOPCAST_CHECK(
      model.norms_per_layer == 1 || model.norms_per_layer == 2 || model.norms_per_layer == 4,
      "a layer has one norm for both halves, one before each, or one on each side");
  tensors.norm(model, "input_layernorm", model.hidden);
  if (model.mla) {
    add_latent_attention(model, tensors);
  } else {
    add_attention(model, tensors);
  }
  if (model.norms_per_layer == 4) {
    tensors.norm(model, "post_self_attn_layernorm", model.hidden);
  }
  if (model.norms_per_layer > 1) tensors.norm(model, "pre_mlp_layernorm", model.hidden);
  if (experts) {
    add_experts(model, tensors);
  } else {
    tensors.column("mlp.linear_fc1", model.hidden, fc1_width(model, model.ffn), model.mlp_bias);
    tensors.row("mlp.linear_fc2", model.ffn, model.hidden, model.mlp_bias);
  }
  if (model.norms_per_layer == 4) tensors.norm(model, "post_mlp_layernorm", model.hidden);
}

struct Sum {
  std::int64_t all = 0;
  std::int64_t routed = 0;

  Sum& operator+=(const Sum& other) {
    all += other.all;
    routed += other.routed;
    return *this;
  }
};

Sum sum(const std::vector<ParameterTensor>& tensors) {
  Sum result;
  for (const ParameterTensor& tensor : tensors) {
    result.all += tensor.elements;
    if (tensor.shard == Shard::expert) result.routed += tensor.elements;
  }
  return result;
}

}  // namespace

std::vector<ParameterTensor> layer_parameters(const Transformer& model, std::int64_t layer) {
  FLOPCAST_CHECK(layer >= 0 && layer < model.layers, "a layer of the stack");
  Tensors tensors;
  add_layer(model, model.has_experts(layer), tensors);
  return tensors.take();
}

// A norm on the embedding of the next token and on the hidden state, their projection from twice
// the width, one layer like the last of the stack, and a norm before the shared output projection.
// Source: DeepSeek-V3, arXiv 2412.19437, section 2.2; Megatron-LM d98e8a64,
// megatron/core/transformer/multi_token_prediction.py.
std::vector<ParameterTensor> mtp_parameters(const Transformer& model) {
  Tensors tensors;
  tensors.norm(model, "enorm", model.hidden);
  tensors.norm(model, "hnorm", model.hidden);
  tensors.column("eh_proj", 2 * model.hidden, model.hidden, false);
  add_layer(model, model.has_experts(model.layers - 1), tensors);
  tensors.norm(model, "final_layernorm", model.hidden);
  return tensors.take();
}

std::vector<ParameterTensor> embedding_parameters(const Transformer& model, std::int64_t vocab) {
  Tensors tensors;
  tensors.add("embedding.word_embeddings.weight", vocab * model.hidden, Shard::tensor);
  if (model.positions == PositionKind::learned) {
    tensors.add("embedding.position_embeddings.weight", model.max_positions * model.hidden,
                Shard::replicated);
  }
  if (model.embedding_norm) tensors.norm(model, "embedding.norm", model.hidden);
  return tensors.take();
}

std::vector<ParameterTensor> head_parameters(const Transformer& model, std::int64_t vocab) {
  Tensors tensors;
  if (model.final_norm) tensors.norm(model, "decoder.final_layernorm", model.hidden);
  if (!model.tied_embeddings) {
    tensors.add("output_layer.weight", vocab * model.hidden, Shard::tensor);
  }
  return tensors.take();
}

ParameterCount parameter_count(const Transformer& model) {
  const Sum embedding = sum(embedding_parameters(model, model.vocab));
  const Sum head = sum(head_parameters(model, model.vocab));
  const std::int64_t output_projection = model.tied_embeddings ? 0 : model.vocab * model.hidden;
  Sum layers;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    layers += sum(layer_parameters(model, layer));
  }
  for (std::int64_t module = 0; module < model.mtp_layers; ++module) {
    layers += sum(mtp_parameters(model));
  }
  ParameterCount count;
  count.total = embedding.all + layers.all + head.all;
  count.routed_experts = layers.routed;
  count.active_per_token = count.total;
  if (model.moe) {
    // Exact: the routed parameters are `experts` equal parts.
    count.active_per_token -=
        layers.routed / model.moe->experts * (model.moe->experts - model.moe->top_k);
  }
  count.embedding_and_head = embedding.all + output_projection;
  return count;
}

std::int64_t padded_vocab(std::int64_t vocab, std::int64_t divisor, int tp) {
  FLOPCAST_CHECK(vocab > 0 && divisor > 0 && tp > 0, "sizes are positive");
  const std::int64_t multiple = divisor * tp;
  return (vocab + multiple - 1) / multiple * multiple;
}

}  // namespace flopcast
