#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>

#include "models/parameters.h"
#include "scenarios/catalogue.h"

namespace flopcast {
namespace {

const std::vector<Transformer>& models() {
  static const std::vector<Transformer> all =
      Catalogue(std::string(FLOPCAST_SOURCE_DIR) + "/scenarios/catalogue").models();
  return all;
}

const Transformer& model(const std::string& name) {
  for (const Transformer& row : models()) {
    if (row.name == name) return row;
  }
  throw std::invalid_argument("no model " + name);
}

nlohmann::json golden() {
  return nlohmann::json::parse(std::ifstream(std::string(FLOPCAST_TEST_DATA) + "/params.json"));
}

/// The catalogue's name for a model of the fixtures.
std::string name_of(const std::string& id) {
  static const std::map<std::string, std::string> names{{"gemma-2-9b", "gemma2-9b"},
                                                        {"gemma-2-27b", "gemma2-27b"},
                                                        {"gemma-3-1b", "gemma3-1b"},
                                                        {"mistral-7b-v0.1", "mistral-7b"},
                                                        {"mixtral-8x22b-v0.1", "mixtral-8x22b"}};
  if (const auto found = names.find(id); found != names.end()) return found->second;
  return id.starts_with("llama-") ? "llama" + id.substr(6) : id;
}

double billions(std::int64_t parameters) { return static_cast<double>(parameters) / 1e9; }

}  // namespace

TEST_CASE("rows of the model catalogue have names of their own and sources") {
  std::set<std::string> names;
  for (const Transformer& row : models()) {
    CAPTURE(row.name);
    CHECK(names.insert(row.name).second);
    CHECK_FALSE(row.sources.empty());
    CHECK(row.heads % row.kv_heads == 0);
  }
}

TEST_CASE("rows of the model catalogue have the parameters of the modules") {
  const nlohmann::json file = golden();
  for (const auto& reference : file["models"]) {
    const std::string name = name_of(reference["id"]);
    CAPTURE(name);
    const ParameterCount count = parameter_count(model(name));
    const auto& expected = reference["expected"];
    CHECK(count.total == expected["total"].get<std::int64_t>());
    CHECK(count.active_per_token == expected["active_per_token"].get<std::int64_t>());
    CHECK(count.routed_experts == expected["routed_experts"].get<std::int64_t>());
    CHECK(count.embedding_and_head == expected["embedding_and_head"].get<std::int64_t>());
  }
}

TEST_CASE("the GPTs of Narayanan et al. have the published sizes") {
  const std::vector<std::string> names{
      "megatron-1.7b", "megatron-3.6b", "megatron-7.5b", "megatron-18b",  "megatron-39b",
      "megatron-76b",  "megatron-145b", "megatron-310b", "megatron-530b", "megatron-1t"};
  const nlohmann::json file = golden();
  const auto& rows = file["megatron_formula"]["cases"];
  REQUIRE(rows.size() == names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    CAPTURE(names[i]);
    const Transformer& row = model(names[i]);
    CHECK(row.heads == rows[i]["heads"].get<std::int64_t>());
    CHECK(static_cast<double>(parameter_count(row).total - 2 * row.hidden) ==
          Approx(rows[i]["parameters"].get<double>()).epsilon(1e-9));
  }
}

// Exact counts: the table of mosaicml/llm-foundry 8c8dd48f, scripts/train/benchmarking/README.md,
// at 2048 tokens; the model card of bigscience/bloom-7b1.
TEST_CASE("rows with an exactly published count meet it") {
  struct Row {
    const char* name;
    std::int64_t parameters;
  };
  const auto row = GENERATE(values<Row>({{"mpt-70b", 64'862'437'376},
                                         {"mpt-30b", 29'975'214'080},
                                         {"mpt-13b", 12'853'954'560},
                                         {"mpt-7b", 6'658'859'008},
                                         {"mpt-3b", 2'651'837'440},
                                         {"mpt-1b", 1'315'950'592},
                                         {"bloom-7b1", 7'069'016'064}}));
  CAPTURE(row.name);
  CHECK(parameter_count(model(row.name)).total == row.parameters);
}

// Half a unit of the last digit printed, where nothing else is said.
TEST_CASE("rows meet the rounded sizes of papers and model cards") {
  struct Row {
    const char* name;
    double billions;
    double within;
  };
  const auto row = GENERATE(values<Row>({
      {"llama-7b", 6.7, 0.05},  // LLaMA, Table 2
      {"llama-13b", 13.0, 0.05},
      {"llama-33b", 32.5, 0.05},
      {"llama-65b", 65.2, 0.1},  // 65.29
      {"llama2-34b", 34, 0.5},
      {"palm-540b", 540.35, 0.01},    // PaLM, appendix B
      {"qwen2.5-0.5b", 0.49, 0.005},  // model cards of Qwen2.5
      {"qwen2.5-1.5b", 1.54, 0.005},
      {"qwen2.5-3b", 3.09, 0.005},
      {"qwen2.5-7b", 7.61, 0.01},
      {"qwen2.5-72b", 72.7, 0.05},
      {"qwen3-1.7b", 1.7, 0.05},  // model cards of Qwen3
      {"qwen3-4b", 4.0, 0.05},
      {"qwen3-14b", 14.8, 0.05},
      {"deepseek-67b", 67, 0.5},
      {"deepseek-moe-16b", 16.4, 0.05},
      {"llama4-scout", 109, 1.5},  // with the vision tower, which is not in the row
      {"llama4-maverick", 400, 2},
      {"dbrx", 132, 0.5},
      {"grok-1", 314, 2.5},  // the weights hold 316 B
      {"phi3-mini", 3.8, 0.05},
      {"phi3-medium", 14, 0.5},
      {"kimi-k2", 1000, 30},
      {"megatron-h100-1.7b", 1.7, 0.05},  // Megatron-LM README
      {"megatron-h100-7.1b", 7.1, 0.05},
      {"megatron-h100-16b", 16, 0.5},
      {"megatron-h100-32b", 32, 0.6},
      {"megatron-h100-70b", 70, 0.5},
      {"megatron-h100-119b", 119, 0.6},
      {"megatron-h100-177b", 177, 0.5},
      {"megatron-h100-314b", 314, 0.6},
      {"megatron-h100-462b", 462, 0.6},
      {"zero-bubble-1.5b", 1.5, 0.05},
      {"zero-bubble-6.2b", 6.2, 0.06},
      {"zero-bubble-14.6b", 14.6, 0.15},
      {"zero-bubble-28.3b", 28.3, 0.12},
  }));
  CAPTURE(row.name);
  CHECK(billions(parameter_count(model(row.name)).total) ==
        Approx(row.billions).margin(row.within).epsilon(0));
}

// Nemotron-4 15B, arXiv 2402.16819, and 340B, arXiv 2406.11704: embeddings apart from the rest.
TEST_CASE("Nemotron-4 has the published parameters in and outside its embeddings") {
  struct Row {
    const char* name;
    double embedding;
    double rest;
  };
  const auto row =
      GENERATE(values<Row>({{"nemotron4-15b", 3.2, 12.5}, {"nemotron4-340b", 9.4, 331.6}}));
  CAPTURE(row.name);
  const ParameterCount count = parameter_count(model(row.name));
  CHECK(billions(count.embedding_and_head) == Approx(row.embedding).margin(0.06).epsilon(0));
  CHECK(billions(count.total - count.embedding_and_head) ==
        Approx(row.rest).margin(0.06).epsilon(0));
}

// Model cards: parameters that one token meets.
TEST_CASE("mixtures of experts have the published active parameters") {
  struct Row {
    const char* name;
    double billions;
    double within;
  };
  const auto row = GENERATE(values<Row>({{"dbrx", 36, 0.6},
                                         {"kimi-k2", 32, 1.0},
                                         {"llama4-scout", 17, 0.5},
                                         {"llama4-maverick", 17, 0.5},
                                         {"deepseek-moe-16b", 2.8, 0.05}}));
  CAPTURE(row.name);
  CHECK(billions(parameter_count(model(row.name)).active_per_token) ==
        Approx(row.billions).margin(row.within).epsilon(0));
}

}  // namespace flopcast
