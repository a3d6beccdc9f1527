#include "models/parameters.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace flopcast {
namespace {

nlohmann::json golden() {
  return nlohmann::json::parse(std::ifstream(std::string(FLOPCAST_TEST_DATA) + "/params.json"));
}

ParameterCount golden_count(const std::string& id) {
  const nlohmann::json file = golden();
  for (const auto& model : file["models"]) {
    if (model["id"] != id) continue;
    const auto& expected = model["expected"];
    return {expected["total"], expected["routed_experts"], expected["active_per_token"],
            expected["embedding_and_head"]};
  }
  throw std::invalid_argument("no golden model " + id);
}

/// A GPT as Megatron trains it: learned positions, biases everywhere, tied ends.
Transformer gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t vocab) {
  Transformer model;
  model.layers = layers;
  model.hidden = hidden;
  model.heads = model.kv_heads = heads;
  model.head_dim = hidden / heads;
  model.ffn = 4 * hidden;
  model.vocab = vocab;
  model.max_positions = 2048;
  model.gated_mlp = false;
  model.tied_embeddings = true;
  model.norm = NormKind::layer_norm;
  model.positions = PositionKind::learned;
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = true;
  return model;
}

Transformer llama3_8b() {
  Transformer model;
  model.layers = 32;
  model.hidden = 4096;
  model.heads = 32;
  model.kv_heads = 8;
  model.head_dim = 128;
  model.ffn = 14336;
  model.vocab = 128256;
  return model;
}

Transformer mixtral_8x7b() {
  Transformer model = llama3_8b();
  model.vocab = 32000;
  model.moe = MixtureOfExperts{.experts = 8, .top_k = 2, .expert_ffn = 14336};
  return model;
}

Transformer deepseek_v3() {
  Transformer model;
  model.layers = 61;
  model.hidden = 7168;
  model.heads = model.kv_heads = 128;
  model.head_dim = 128;
  model.ffn = 18432;
  model.vocab = 129280;
  model.mla = LatentAttention{
      .q_rank = 1536, .kv_rank = 512, .qk_nope_dim = 128, .qk_rope_dim = 64, .v_dim = 128};
  model.moe = MixtureOfExperts{
      .experts = 256, .top_k = 8, .expert_ffn = 2048, .shared_ffn = 2048, .first_dense = 3};
  return model;
}

/// What one rank holds of a tensor, experts over ep, all else over tp.
std::int64_t on_rank(const ParameterTensor& tensor, int tp, int ep) {
  switch (tensor.shard) {
    case Shard::replicated: return tensor.elements;
    case Shard::tensor: return tensor.elements / tp;
    case Shard::expert: return tensor.elements / ep;
  }
  return 0;
}

/// Closes a bucket as soon as it holds `target`, over the tensors from last to first.
std::vector<std::int64_t> buckets(const std::vector<ParameterTensor>& tensors, int tp,
                                  std::int64_t target) {
  std::vector<std::int64_t> sizes{0};
  for (auto tensor = tensors.rbegin(); tensor != tensors.rend(); ++tensor) {
    if (tensor->shard == Shard::expert) continue;
    if (sizes.back() >= target) sizes.push_back(0);
    sizes.back() += on_rank(*tensor, tp, 1);
  }
  return sizes;
}

}  // namespace

TEST_CASE("whole models have the parameters of the modules they describe") {
  struct Row {
    std::string id;
    Transformer model;
  };
  const std::vector<Row> rows{{"gpt3-175b", gpt(96, 12288, 96, 50257)},
                              {"llama-3-8b", llama3_8b()},
                              {"mixtral-8x7b", mixtral_8x7b()},
                              {"deepseek-v3", deepseek_v3()}};
  for (const Row& row : rows) {
    CAPTURE(row.id);
    const ParameterCount expected = golden_count(row.id);
    const ParameterCount count = parameter_count(row.model);
    CHECK(count.total == expected.total);
    CHECK(count.routed_experts == expected.routed_experts);
    CHECK(count.active_per_token == expected.active_per_token);
    CHECK(count.embedding_and_head == expected.embedding_and_head);
  }
}

TEST_CASE("the closed count of Narayanan et al. leaves out the final norm alone") {
  const auto formula = golden()["megatron_formula"];
  for (const auto& row : formula["cases"]) {
    const std::int64_t hidden = row["hidden"];
    const Transformer model = gpt(row["layers"], hidden, row["heads"], row["vocab"]);
    CAPTURE(hidden);
    const std::int64_t total = parameter_count(model).total - 2 * hidden;
    CHECK(static_cast<double>(total) == Approx(row["parameters"].get<double>()).epsilon(1e-9));
  }
}

// Megatron-LM d98e8a64 on 8 tensor-parallel ranks, first of 8 stages of 12 layers: the buckets of
// 40 M parameters as its own buffers had them, filled from the last tensor to the first.
TEST_CASE("tensors come in the order in which Megatron registers them") {
  const Transformer model = gpt(96, 12288, 96, 51200);
  std::vector<ParameterTensor> stage;
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    const auto tensors = layer_parameters(model, layer);
    stage.insert(stage.end(), tensors.begin(), tensors.end());
  }
  const auto sizes = buckets(stage, 8, 40'000'000);
  REQUIRE(sizes.size() == 7);
  CHECK(sizes[0] == 75509760);  // fc2 with its bias, which every rank holds whole
  CHECK(sizes[1] == 75503616);  // fc1 with its bias, which is split
  CHECK(sizes[2] == 56652288);  // norm and qkv
  CHECK(sizes[3] == 94420992);  // attention output, norm, and fc2 of the layer before
  CHECK(sizes[4] == 75503616);
  CHECK(sizes[5] == 56652288);
  CHECK(sizes[6] == 12288 * 12288 / 8 + 12288 + 2 * 12288);  // attention output, norm
}

TEST_CASE("the last stage of Llama 3 70B fills the buckets that Megatron had") {
  Transformer model = llama3_8b();
  model.layers = 80;
  model.hidden = 8192;
  model.heads = 64;
  model.ffn = 28672;
  std::vector<ParameterTensor> stage = layer_parameters(model, 79);
  const auto head = head_parameters(model, padded_vocab(model.vocab, 128, 8));
  stage.insert(stage.end(), head.begin(), head.end());
  const auto sizes = buckets(stage, 8, 40'000'000);
  REQUIRE(sizes.size() == 3);
  CHECK(sizes[0] == 132120576);                      // output projection of 129,024 words
  CHECK(sizes[1] == 88088576);                       // final norm, fc2, fc1
  CHECK(sizes[2] == 10485760 + 8388608 + 2 * 8192);  // norm, qkv, attention output, norm
}

// Mixtral 8x7B, tp 2, ep 8, second of 4 stages. Megatron-LM d98e8a64.
TEST_CASE("experts are divided apart from the rest") {
  const Transformer model = mixtral_8x7b();
  std::int64_t dense = 0;
  std::int64_t expert = 0;
  for (std::int64_t layer = 8; layer < 16; ++layer) {
    for (const ParameterTensor& tensor : layer_parameters(model, layer)) {
      (tensor.shard == Shard::expert ? expert : dense) += on_rank(tensor, 2, 8);
    }
  }
  CHECK(dense == 168099840);
  CHECK(expert == 1409286144);
}

// deepseek-ai/DeepSeek-V3, README_WEIGHTS.md: the module has 11.5 B parameters of its own, apart
// from the embedding and the output projection that it shares.
TEST_CASE("a multi-token prediction module is one more layer and its entrance") {
  const Transformer model = deepseek_v3();
  std::int64_t own = 0;
  for (const ParameterTensor& tensor : mtp_parameters(model)) own += tensor.elements;
  std::int64_t layer = 0;
  for (const ParameterTensor& tensor : layer_parameters(model, 60)) layer += tensor.elements;
  CHECK(own == layer + 2 * 7168 * 7168 + 3 * 7168);
  CHECK(static_cast<double>(own) == Approx(11.5e9).epsilon(0.01));

  Transformer with_module = model;
  with_module.mtp_layers = 1;
  CHECK(parameter_count(with_module).total == parameter_count(model).total + own);
}

TEST_CASE("experts stand in every n-th layer after the dense ones") {
  Transformer model = mixtral_8x7b();
  model.moe->first_dense = 1;
  model.moe->every = 2;
  std::map<bool, int> layers;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    bool routed = false;
    for (const ParameterTensor& tensor : layer_parameters(model, layer)) {
      routed = routed || tensor.shard == Shard::expert;
    }
    CHECK(routed == (layer % 2 == 1));
    ++layers[routed];
  }
  CHECK(layers[true] == 16);
}

TEST_CASE("the vocabulary is padded to a multiple of divisor and ranks") {
  struct Row {
    std::int64_t vocab;
    int tp;
    std::int64_t expected;
  };
  const auto row = GENERATE(values<Row>({
      {50257, 1, 50304},    // GPT-2 in Megatron: 393 * 128
      {50257, 8, 51200},    // 50 * 1024
      {32000, 1, 32000},    // 250 * 128
      {128256, 1, 128256},  // 1002 * 128
      {128256, 8, 129024},  // 126 * 1024
  }));
  CAPTURE(row.vocab, row.tp);
  CHECK(padded_vocab(row.vocab, 128, row.tp) == row.expected);
}

}  // namespace flopcast
