#include "models/stage_parameters.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "golden_models.h"

namespace flopcast {
namespace {

using nlohmann::json;

Layout layout_of(const json& c) {
  return {.grid = {.tp = c["tp"],
                   .cp = c["cp"],
                   .ep = c["ep"],
                   .dp = c["dp"],
                   .pp = c["pp"],
                   .etp = c["etp"]},
          .vpp = c["vpp"].is_null() ? 1 : c["vpp"].get<int>()};
}

struct RankParameters {
  std::int64_t dense = 0;
  std::int64_t expert = 0;
};

RankParameters rank_parameters(const Transformer& model, const Layout& layout, int rank,
                               std::int64_t vocab) {
  const auto stages = split_layers(model, layout);
  RankParameters sum;
  for (int chunk = 0; chunk < layout.vpp; ++chunk) {
    const auto& stage = stages[static_cast<std::size_t>(chunk * layout.grid.pp + rank)];
    const StageTensors tensors = rank_tensors(model, stage, layout.grid, vocab);
    sum.dense += total_elements(tensors.dense);
    sum.expert += total_elements(tensors.expert);
  }
  return sum;
}

}  // namespace

TEST_CASE("each pipeline stage has the parameters that Megatron's modules have") {
  const json file =
      json::parse(std::ifstream(std::string(FLOPCAST_TEST_DATA) + "/stage_parameters.json"));
  for (const json& c : file["cases"]) {
    CAPTURE(c["id"].get<std::string>());
    const Transformer model = golden_model(c["model"]);
    const Layout layout = layout_of(c);
    const double dp_cp = layout.grid.dp * layout.grid.cp;
    const double expert_dp = layout.grid.edp();
    CHECK(layout.grid.edp() == c["expert_dp"].get<int>());
    for (int rank = 0; rank < layout.grid.pp; ++rank) {
      CAPTURE(rank);
      const json& expected = c["stages"][static_cast<std::size_t>(rank)];
      const auto count = rank_parameters(model, layout, rank, c["padded_vocab"]);
      CHECK(count.dense + count.expert == expected["parameters"].get<std::int64_t>());
      CHECK(count.expert == expected["expert_parameters"].get<std::int64_t>());
      // bf16 weights and fp32 gradients, then fp32 weights and two Adam moments, sharded or not.
      const double whole = 18.0 * static_cast<double>(count.dense + count.expert);
      const double sharded = (6 + 12 / dp_cp) * static_cast<double>(count.dense) +
                             (6 + 12 / expert_dp) * static_cast<double>(count.expert);
      CHECK(whole == Approx(expected["bytes_plain_bf16_adam"].get<double>()).epsilon(1e-9));
      CHECK(sharded == Approx(expected["bytes_distributed_optimizer"].get<double>()).epsilon(1e-9));
    }
  }
}

TEST_CASE("the layers of the chunks are those of Megatron") {
  const json file =
      json::parse(std::ifstream(std::string(FLOPCAST_TEST_DATA) + "/stage_parameters.json"));
  for (const json& c : file["cases"]) {
    CAPTURE(c["id"].get<std::string>());
    const Layout layout = layout_of(c);
    const auto stages = split_layers(golden_model(c["model"]), layout);
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const auto pp = static_cast<std::size_t>(layout.grid.pp);
      CHECK(stages[s].layers ==
            c["stages"][s % pp]["layers_per_chunk"][s / pp].get<std::int64_t>());
    }
  }
}

TEST_CASE("a weight that two stages hold is marked on both") {
  const Transformer gpt = golden_model("gpt3-175b");
  const ParallelGrid grid{.tp = 8, .pp = 2};
  const std::int64_t share = 51200 * 12288 / 8;
  const auto first = rank_tensors(gpt, {0, 1, true, false}, grid, 51200);
  CHECK(first.dense.front().shared_embedding);
  CHECK(first.dense.front().elements == share);
  CHECK_FALSE(first.dense[1].shared_embedding);  // positions are not copied
  const auto last = rank_tensors(gpt, {1, 1, false, true}, grid, 51200);
  CHECK(last.dense.back().shared_embedding);
  CHECK(last.dense.back().elements == share);
  const auto only = rank_tensors(gpt, {0, 2, true, true}, {.tp = 8}, 51200);
  CHECK_FALSE(only.dense.front().shared_embedding);
  const auto untied =
      rank_tensors(golden_model("llama3-8b"), {0, 1, true, false}, {.pp = 2}, 128256);
  CHECK_FALSE(untied.dense.front().shared_embedding);
}

// Megatron-LM, gpt_model.py: the stage that predicts more tokens embeds them, and keeps its own
// output projection unless the ends are tied.
TEST_CASE("multi-token prediction brings a copy of the embedding to the last stage") {
  Transformer model = golden_model("deepseek-v3");
  model.mtp_layers = 1;
  const StageContent stage{60, 1, false, true};
  const ParallelGrid grid{.ep = 64, .dp = 64, .pp = 2};
  const auto with = rank_tensors(model, stage, grid, 129280);
  model.mtp_layers = 0;
  const auto without = rank_tensors(model, stage, grid, 129280);
  CHECK(with.dense.front().shared_embedding);
  CHECK(with.dense.back().name == "output_layer.weight");
  // One more layer of 4 local experts, fc1 and fc2 each.
  CHECK(without.expert.size() == 8);
  CHECK(with.expert.size() == 16);
}

TEST_CASE("experts of a grouped GEMM are tensors of their own") {
  const Transformer model = golden_model("qwen3-30b-a3b");
  const auto tensors =
      rank_tensors(model, {1, 1, false, false}, {.tp = 2, .ep = 8, .dp = 16, .etp = 1}, 152064);
  REQUIRE(tensors.expert.size() == 32);  // 16 local experts, two layers each
  CHECK(tensors.expert.front().elements == 2048 * 2 * 768);
  CHECK(tensors.expert.back().elements == 768 * 2048);
  // Neither ep nor etp differs from the dense grid: nothing is reduced apart.
  const auto plain = rank_tensors(model, {1, 1, false, false}, {.tp = 2, .etp = 2}, 152064);
  CHECK(plain.expert.empty());
}

}  // namespace flopcast
