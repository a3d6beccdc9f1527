#include "scenarios/hf_config.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "models/model_flops.h"
#include "models/parameters.h"
#include "sim/errors.h"

namespace flopcast {
namespace {

using nlohmann::json;

json fixture(const char* name) {
  return json::parse(std::ifstream(std::string(FLOPCAST_TEST_DATA) + "/" + name));
}

// The fixtures name the class that reads a configuration, a file names its type.
std::string model_type(const std::string& config_class) {
  static const std::map<std::string, std::string> types{{"BloomConfig", "bloom"},
                                                        {"DeepseekV2Config", "deepseek_v2"},
                                                        {"DeepseekV3Config", "deepseek_v3"},
                                                        {"FalconConfig", "falcon"},
                                                        {"GPT2Config", "gpt2"},
                                                        {"GPTNeoXConfig", "gpt_neox"},
                                                        {"Gemma2Config", "gemma2"},
                                                        {"Gemma3TextConfig", "gemma3_text"},
                                                        {"GemmaConfig", "gemma"},
                                                        {"GptOssConfig", "gpt_oss"},
                                                        {"LlamaConfig", "llama"},
                                                        {"MistralConfig", "mistral"},
                                                        {"MixtralConfig", "mixtral"},
                                                        {"OPTConfig", "opt"},
                                                        {"Qwen2Config", "qwen2"},
                                                        {"Qwen2MoeConfig", "qwen2_moe"},
                                                        {"Qwen3Config", "qwen3"},
                                                        {"Qwen3MoeConfig", "qwen3_moe"}};
  return types.at(config_class);
}

Transformer read(const json& model) {
  json config = model["config"];
  config["model_type"] = model_type(model["config_class"]);
  return transformer_from_hf(config.dump(), model["id"].get<std::string>() + "/config.json");
}

Transformer read(const json& models, const std::string& id) {
  for (const json& model : models) {
    if (model["id"] == id) return read(model);
  }
  throw std::invalid_argument("no model " + id);
}

// What the modules of transformers call the tensors that have these names in Megatron's list. The
// first part that a module's name contains decides.
const std::vector<std::pair<std::string, std::string>> kNames{
    {"attn.sinks", "softmax_offset"},
    {"layernorm_embedding", "embedding.norm"},
    {"word_embeddings_layernorm", "embedding.norm"},
    {"wte.", "word_embeddings"},
    {"embed_in.", "word_embeddings"},
    {"embed_tokens.", "word_embeddings"},
    {"word_embeddings.", "word_embeddings"},
    {"wpe.", "position_embeddings"},
    {"embed_positions.", "position_embeddings"},
    {"lm_head.", "output_layer"},
    {"embed_out.", "output_layer"},
    {"q_a_layernorm.", "q_layernorm"},
    {"kv_a_layernorm.", "kv_layernorm"},
    {"q_norm.", "q_layernorm"},
    {"k_norm.", "k_layernorm"},
    {"q_a_proj.", "q_down"},
    {"q_b_proj.", "q_up"},
    {"kv_a_proj_with_mqa.", "kv_down"},
    {"kv_b_proj.", "kv_up"},
    {"q_proj.", "qkv"},
    {"k_proj.", "qkv"},
    {"v_proj.", "qkv"},
    {"c_attn.", "qkv"},
    {"query_key_value.", "qkv"},
    {"o_proj.", "attention_output"},
    {"out_proj.", "attention_output"},
    {"attn.c_proj.", "attention_output"},
    {"attention.dense.", "attention_output"},
    {"shared_expert_gate", "shared_gate"},
    {"shared_expert.down", "shared_fc2"},
    {"shared_experts.down", "shared_fc2"},
    {"shared_expert", "shared_fc1"},
    {"experts.gate_up_proj", "experts_fc1"},
    {"experts.down_proj", "experts_fc2"},
    {"mlp.gate.", "router"},
    {"mlp.router.", "router"},
    {"down_proj.", "fc2"},
    {"mlp.c_proj.", "fc2"},
    {"dense_4h_to_h.", "fc2"},
    {"fc2.", "fc2"},
    {"gate_proj.", "fc1"},
    {"up_proj.", "fc1"},
    {"c_fc.", "fc1"},
    {"dense_h_to_4h.", "fc1"},
    {"fc1.", "fc1"},
    {"", "norm"}};

const std::vector<std::pair<std::string, std::string>> kOurNames{
    {"softmax_offset", "softmax_offset"},
    {"embedding.norm", "embedding.norm"},
    {"word_embeddings", "word_embeddings"},
    {"position_embeddings", "position_embeddings"},
    {"output_layer", "output_layer"},
    {"kv_layernorm", "kv_layernorm"},
    {"attention.q_layernorm", "q_layernorm"},
    {"attention.k_layernorm", "k_layernorm"},
    {"q_down_proj", "q_down"},
    {"q_up_proj", "q_up"},
    {"kv_down_proj", "kv_down"},
    {"kv_up_proj", "kv_up"},
    {"linear_q", "qkv"},
    {"linear_proj", "attention_output"},
    {"shared_experts.gate", "shared_gate"},
    {"shared_experts.linear_fc2", "shared_fc2"},
    {"shared_experts.linear_fc1", "shared_fc1"},
    {"mlp.experts.linear_fc1", "experts_fc1"},
    {"mlp.experts.linear_fc2", "experts_fc2"},
    {"router", "router"},
    {"linear_fc2", "fc2"},
    {"linear_fc1", "fc1"},
    {"", "norm"}};

using Sizes = std::map<std::string, std::int64_t>;

void add(const std::vector<std::pair<std::string, std::string>>& names, const std::string& tensor,
         std::int64_t elements, Sizes& sizes) {
  const bool bias = tensor.ends_with("bias");
  for (const auto& [part, common] : names) {
    if (tensor.find(part) == std::string::npos) continue;
    sizes[common + (bias ? ".bias" : "")] += elements;
    return;
  }
}

Sizes sizes_of(const Transformer& model) {
  Sizes sizes;
  const auto add_all = [&](const std::vector<ParameterTensor>& tensors) {
    for (const ParameterTensor& tensor : tensors) {
      add(kOurNames, tensor.name, tensor.elements, sizes);
    }
  };
  add_all(embedding_parameters(model, model.vocab));
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    add_all(layer_parameters(model, layer));
  }
  add_all(head_parameters(model, model.vocab));
  return sizes;
}

std::string error_of(const std::string& text) {
  try {
    transformer_from_hf(text, "model/config.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("every configuration gives the parameters of the module built from it") {
  const json file = fixture("params.json");
  for (const json& model : file["models"]) {
    CAPTURE(model["id"].get<std::string>());
    const json& expected = model["expected"];
    const Transformer shape = read(model);
    const ParameterCount count = parameter_count(shape);
    CHECK(count.total == expected["total"].get<std::int64_t>());
    CHECK(count.routed_experts == expected["routed_experts"].get<std::int64_t>());
    CHECK(count.active_per_token == expected["active_per_token"].get<std::int64_t>());
    CHECK(count.embedding_and_head == expected["embedding_and_head"].get<std::int64_t>());

    Sizes module;
    for (const auto& [name, elements] : expected["by_name"].items()) {
      add(kNames, name, elements, module);
    }
    CHECK(sizes_of(shape) == module);
  }
}

// torch counts what the modules really multiply, full attention. Of the rest it counts the rotary
// embedding's angles, head_dim times the positions, in the forward pass alone. Megatron counts the
// norms of latent attention besides: 2e-6.
TEST_CASE("model FLOPs are what the modules issue") {
  const json file = fixture("flops.json");
  const json models = fixture("params.json")["models"];
  for (const json& row : file["counted"]["cases"]) {
    CAPTURE(row["id"].get<std::string>());
    Transformer model = read(models, row["model"]);
    if (!row["layers_override"].is_null()) model.layers = row["layers_override"];
    const std::int64_t sequence = row["sequence"];
    const std::int64_t batch = row["batch"];
    const double counted = row["expected"]["total"];
    const double flops =
        model_flops(model, sequence, batch, model.vocab, FlopConvention::megatron_full).value;
    const bool rotary = model.positions == PositionKind::rotary;
    const double width = static_cast<double>(model.mla ? model.mla->qk_rope_dim : model.head_dim);
    const double angles = rotary ? width * static_cast<double>(sequence * batch) : 0;
    CHECK(flops == Approx(counted - angles).epsilon(model.mla ? 3e-6 : 1e-15));
  }
}

TEST_CASE("PaLM's convention counts all parameters and full attention") {
  const json file = fixture("flops.json");
  const json models = fixture("params.json")["models"];
  const std::map<std::string, std::string> ids{{"gpt3-175b", "gpt3-175b"},
                                               {"llama-3-8b", "llama-3-8b"},
                                               {"llama-3-70b", "llama-3-70b"},
                                               {"llama-3.1-405b", "llama-3.1-405b"},
                                               {"llama-2-7b", "llama-2-7b"}};
  for (const json& row : file["palm"]["per_token"]) {
    CAPTURE(row["model"].get<std::string>());
    const Transformer model = read(models, ids.at(row["model"]));
    const std::int64_t sequence = row["sequence"];
    const auto per_token = [&](FlopConvention convention) {
      return model_flops(model, sequence, 1, model.vocab, convention).value /
             static_cast<double>(sequence);
    };
    CHECK(per_token(FlopConvention::palm) == Approx(row["palm_per_token"].get<double>()));
    CHECK(per_token(FlopConvention::six_n) == Approx(row["six_n"].get<double>()));
  }
}

TEST_CASE("an unknown type names the file, the key and the nearest known type") {
  const std::string error = error_of(R"({"model_type": "quen3", "hidden_size": 8})");
  CAPTURE(error);
  CHECK(error.find("model/config.json:1:") == 0);
  CHECK(error.find("/model_type") != std::string::npos);
  CHECK(error.find("qwen3") != std::string::npos);
}

TEST_CASE("a missing size names its key") {
  CHECK(error_of(R"({"hidden_size": 8})").find("model_type") != std::string::npos);
  CHECK(error_of(R"({"model_type": "llama", "num_hidden_layers": 1})").find("hidden_size") !=
        std::string::npos);
  CHECK(error_of(R"({"model_type": "mixtral", "num_hidden_layers": 1, "hidden_size": 8,
                     "num_attention_heads": 2, "vocab_size": 16})")
            .find("num_local_experts") != std::string::npos);
}

TEST_CASE("a variant that no field of the shape tells is refused at its key") {
  const std::string sizes = R"("num_hidden_layers": 4, "hidden_size": 8, "num_attention_heads": 2,
                               "vocab_size": 16, "max_position_embeddings": 32)";
  struct Row {
    const char* settings;
    const char* key;
  };
  const auto row = GENERATE(values<Row>({
      {R"("model_type": "opt", "word_embed_proj_dim": 4)", "/word_embed_proj_dim"},
      {R"("model_type": "opt", "do_layer_norm_before": false)", "/do_layer_norm_before"},
      {R"("model_type": "qwen2", "use_sliding_window": true, "max_window_layers": 2)",
       "/max_window_layers"},
      {R"("model_type": "llama", "num_key_value_heads": 3)", "/num_key_value_heads"},
      {R"("model_type": "mixtral", "num_local_experts": 2, "num_experts_per_tok": 3)",
       "/num_experts_per_tok"},
      {R"("model_type": "qwen3_moe", "num_experts": 4, "num_experts_per_tok": 2,
          "moe_intermediate_size": 4, "mlp_only_layers": [2])",
       "/mlp_only_layers/0"},
  }));
  const std::string error = error_of("{" + sizes + ", " + row.settings + "}");
  CAPTURE(row.settings, error);
  CHECK(error.find(row.key) != std::string::npos);
}

// Values of the released files that the fixtures leave out.
TEST_CASE("families keep their own habits") {
  const std::string sizes = R"("num_hidden_layers": 4, "hidden_size": 8, "num_attention_heads": 2,
                               "intermediate_size": 16, "vocab_size": 16)";
  const auto read_with = [&](const char* settings) {
    return transformer_from_hf("{" + sizes + ", " + settings + "}", "config.json");
  };
  CHECK(read_with(R"("model_type": "mistral")").sliding_window == 4096);  // class default
  CHECK(read_with(R"("model_type": "mistral", "sliding_window": null)").sliding_window == 0);
  CHECK(read_with(R"("model_type": "gemma2", "head_dim": 4)").sliding_every == 2);
  CHECK(read_with(R"("model_type": "nemotron")").norm == NormKind::layer_norm);
  CHECK_FALSE(read_with(R"("model_type": "nemotron")").gated_mlp);
  CHECK(read_with(R"("model_type": "mpt")").positions == PositionKind::alibi);
  CHECK(read_with(R"("model_type": "starcoder2")").mlp_bias);
  CHECK(read_with(R"("model_type": "phi3", "_name_or_path": "mini")").name == "mini");

  const Transformer sparse = read_with(R"("model_type": "qwen3_moe", "num_experts": 4,
      "num_experts_per_tok": 2, "moe_intermediate_size": 4, "decoder_sparse_step": 2)");
  CHECK_FALSE(sparse.has_experts(0));
  CHECK(sparse.has_experts(1));
  CHECK(sparse.has_experts(3));
}

// databricks/dbrx-base: "132B total parameters of which 36B are active".
TEST_CASE("DBRX has the parameters that its card tells") {
  const Transformer model = transformer_from_hf(R"({"model_type": "dbrx", "d_model": 6144,
      "n_heads": 48, "n_layers": 40, "max_seq_len": 32768, "vocab_size": 100352,
      "attn_config": {"kv_n_heads": 8, "clip_qkv": 8},
      "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4}})",
                                                "config.json");
  const ParameterCount count = parameter_count(model);
  CHECK(static_cast<double>(count.total) == Approx(132e9).epsilon(0.005));
  CHECK(static_cast<double>(count.active_per_token) == Approx(36e9).epsilon(0.02));
}

}  // namespace flopcast
