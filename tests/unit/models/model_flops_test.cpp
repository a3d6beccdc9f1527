#include "models/model_flops.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace flopcast {
namespace {

using nlohmann::json;

json golden(const char* section) {
  return json::parse(std::ifstream(std::string(FLOPCAST_TEST_DATA) + "/flops.json"))[section];
}

// The arguments of Megatron-LM under their own names.
Transformer from_megatron(const json& shape) {
  const auto or_zero = [&](const char* key) {
    const auto found = shape.find(key);
    return found == shape.end() || found->is_null() ? std::int64_t{0} : found->get<std::int64_t>();
  };
  Transformer model;
  model.layers = shape["num_layers"];
  model.hidden = shape["hidden_size"];
  model.ffn = shape["ffn_hidden_size"];
  model.heads = shape["num_attention_heads"];
  model.kv_heads = shape.value("num_query_groups", model.heads);
  model.head_dim = shape.value("kv_channels", model.hidden / model.heads);
  model.vocab = shape["padded_vocab_size"];
  model.gated_mlp = shape.value("swiglu", false);
  model.mtp_layers = or_zero("mtp_num_layers");
  if (shape.contains("num_experts")) {
    model.moe = MixtureOfExperts{.experts = shape["num_experts"],
                                 .top_k = shape["moe_router_topk"],
                                 .expert_ffn = shape["moe_ffn_hidden_size"],
                                 .shared_ffn = or_zero("moe_shared_expert_intermediate_size")};
    if (shape["moe_layer_freq"].is_object()) {
      model.moe->first_dense = shape["moe_layer_freq"]["dense"];
    }
  }
  if (shape.value("multi_latent_attention", false)) {
    model.mla = LatentAttention{.q_rank = or_zero("q_lora_rank"),
                                .kv_rank = shape["kv_lora_rank"],
                                .qk_nope_dim = shape["qk_head_dim"],
                                .qk_rope_dim = shape["qk_pos_emb_head_dim"],
                                .v_dim = shape["v_head_dim"]};
  }
  return model;
}

/// A plain GPT: four times the width in the MLP, no gate.
Transformer gpt(const json& row) {
  Transformer model;
  model.layers = row["layers"];
  model.hidden = row["hidden"];
  model.heads = model.kv_heads = 1;  // the closed forms know no heads
  model.head_dim = model.hidden;
  model.ffn = 4 * model.hidden;
  model.vocab = row["vocab"];
  model.gated_mlp = false;
  return model;
}

double full(const Transformer& model, std::int64_t sequence, std::int64_t batch) {
  return model_flops(model, sequence, batch, model.vocab, FlopConvention::megatron_full).value;
}

}  // namespace

TEST_CASE("model FLOPs are those of Megatron's own function") {
  const auto section = golden("megatron");
  for (const json& row : section["cases"]) {
    CAPTURE(row["id"].get<std::string>());
    const Transformer model = from_megatron(row["shape"]);
    const std::int64_t sequence = row["sequence"];
    const std::int64_t batch = row["global_batch"];
    const json& expected = row["expected"];
    const double causal =
        model_flops(model, sequence, batch, model.vocab, FlopConvention::megatron).value;
    CHECK(causal == Approx(expected["model_flops_causal"].get<double>()).epsilon(1e-12));
    CHECK(full(model, sequence, batch) ==
          Approx(expected["model_flops_full_attention"].get<double>()).epsilon(1e-12));
    // The difference of two large numbers: fewer digits.
    CHECK(full(model, sequence, batch) - causal ==
          Approx(expected["core_attention_causal"].get<double>()).epsilon(1e-9));
  }
}

TEST_CASE("closed forms of Narayanan et al. and Korthikanti et al. are met") {
  const json narayanan = golden("narayanan");
  for (const json& row : narayanan["cases"]) {
    CAPTURE(row["hidden"].get<int>());
    CHECK(full(gpt(row), row["sequence"], row["global_batch"]) ==
          Approx(row["flops_per_iteration_model"].get<double>()).epsilon(1e-9));
  }
  const json korthikanti = golden("korthikanti");
  for (const json& row : korthikanti["cases"]) {
    CAPTURE(row["id"].get<std::string>());
    const double model = full(gpt(row), row["sequence"], row["global_batch"]);
    CHECK(model == Approx(row["model_flops"].get<double>()).epsilon(1e-9));
    // The published utilisation at the published seconds; three digits are printed.
    const double available = row["iteration_seconds"].get<double>() * row["gpus"].get<double>() *
                             row["peak"].get<double>();
    CHECK(100 * model / available ==
          Approx(row["published_mfu_percent"].get<double>()).epsilon(0.005));
  }
}

// PaLM 540B, arXiv 2204.02311, Table 1 and section 2: parallel blocks, one key-value head, SwiGLU,
// tied embeddings, no biases.
TEST_CASE("PaLM's convention gives PaLM's published utilisation") {
  Transformer palm;
  palm.layers = 118;
  palm.hidden = 18432;
  palm.heads = 48;
  palm.kv_heads = 1;
  palm.head_dim = 256;
  palm.ffn = 4 * 18432;
  palm.vocab = 256000;
  palm.tied_embeddings = true;
  palm.norms_per_layer = 1;
  palm.parallel_block = true;
  const json section = golden("palm");
  const json& row = section["cases"][0];
  const std::int64_t sequence = row["sequence"];
  const double peak = row["chips"].get<double>() * row["peak_flops_per_chip"].get<double>();
  const double sequences_per_second =
      row["tokens_per_second"].get<double>() / static_cast<double>(sequence);
  const auto mfu = [&](FlopConvention convention) {
    return model_flops(palm, sequence, 1, palm.vocab, convention).value * sequences_per_second /
           peak;
  };
  CHECK(mfu(FlopConvention::palm) == Approx(row["published_with"].get<double>()).epsilon(1e-3));
  CHECK(mfu(FlopConvention::six_n) == Approx(row["published_without"].get<double>()).epsilon(1e-3));
}

TEST_CASE("work grows in proportion to the batch") {
  const json section = golden("megatron");
  const Transformer model = from_megatron(section["cases"][0]["shape"]);
  for (const auto convention : {FlopConvention::megatron, FlopConvention::megatron_full,
                                FlopConvention::palm, FlopConvention::six_n}) {
    CAPTURE(std::string(to_text(convention)));
    const Flops one = model_flops(model, 2048, 1, model.vocab, convention);
    CHECK(model_flops(model, 2048, 64, model.vocab, convention) / one == Approx(64));
  }
}

}  // namespace flopcast
