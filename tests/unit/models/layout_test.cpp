#include "models/layout.h"

#include <catch2/catch.hpp>

#include "layout_questions.h"

namespace flopcast {

TEST_CASE("the dense grid fills the GPUs") {
  check_rows({
      {"tp divides the GPUs",
       llama_70b,
       [](Question& q) { q.layout.grid.tp = 3; },
       "parallel.tp",
       "tp = 3 does not divide the 64 GPUs",
       {2, 4}},
      {"tp * cp does",
       llama_70b,
       [](Question& q) { q.layout.grid.cp = 5; },
       "parallel.cp",
       "tp * cp = 4 * 5 does not divide the 64 GPUs",
       {4, 2}},
      {"tp * cp * pp does",
       llama_70b,
       [](Question& q) { q.layout.grid.pp = 5; },
       "parallel.pp",
       "tp * cp * pp = 4 * 2 * 5 does not divide the 64 GPUs",
       {4, 2}},
      {"the product is their number",
       llama_70b,
       [](Question& q) { q.layout.grid.dp = 4; },
       "parallel.dp",
       "tp * cp * dp * pp = 4 * 2 * 4 * 4 is not the 64 GPUs",
       {2}},
      {"ZeRO has four stages",
       llama_70b,
       [](Question& q) { q.layout.zero = 4; },
       "parallel.zero",
       "zero = 4",
       {3, 2}},
  });
}

TEST_CASE("tensor parallelism divides heads and widths") {
  check_rows({
      {"heads",
       llama_70b,
       [](Question& q) {
         q.layout.grid.tp = 128;
         q.gpus = 2048;
       },
       "parallel.tp",
       "tp = 128 does not divide the 64 attention heads",
       {64, 32}},
      {"key-value heads",
       llama_70b,
       [](Question& q) { q.model.kv_heads = 6; },
       "parallel.tp",
       "tp = 4 neither divides the 6 key-value heads nor is a multiple of them",
       {2, 1}},
      {"MLP",
       llama_70b,
       [](Question& q) { q.model.ffn = 28670; },
       "parallel.tp",
       "tp = 4 does not divide the MLP width 28670",
       {2, 1}},
      {"shared experts",
       qwen_moe,
       [](Question& q) { q.model.moe->shared_ffn = 1407; },
       "parallel.tp",
       "tp = 2 does not divide the width 1407 of the shared experts",
       {1}},
      {"experts want the sequence split",
       qwen_moe,
       [](Question& q) { q.layout.sequence_parallel = false; },
       "parallel.sequence_parallel",
       "experts with tp = 2 need sequence_parallel",
       {1}},
  });
  // Key-value heads are replicated where there are fewer than ranks: 8 heads, tp 16.
  Question wide = llama_70b();
  wide.layout.grid.tp = 16;
  wide.gpus = 256;
  CHECK(found(ask(wide)).empty());
  // The dense width does not matter where every layer has experts, nor do heads of keys with MLA.
  Question experts = qwen_moe();
  experts.model.ffn = 6143;
  CHECK(found(ask(experts)).empty());
  Question latent = llama_70b();
  latent.model.kv_heads = 3;
  latent.model.mla = LatentAttention{};
  CHECK(found(ask(latent)).empty());
  // Megatron turns sequence parallelism off with one rank; it is no mistake.
  Question alone = llama_70b();
  alone.layout.grid.tp = 1;
  alone.gpus = 16;
  CHECK(found(ask(alone)).empty());
}

TEST_CASE("the sequence splits over tp and cp") {
  check_rows({
      {"zigzag",
       llama_70b,
       [](Question& q) {
         q.layout.sequence_parallel = false;
         q.batch.sequence = 8190;
       },
       "training.sequence",
       "sequence = 8190 does not split into 2 * cp = 4 pieces",
       {8188, 8192}},
      {"sequence parallel",
       llama_70b,
       [](Question& q) {
         q.layout.grid.cp = 1;
         q.gpus = 32;
         q.batch.sequence = 8190;
       },
       "training.sequence",
       "sequence = 8190 is not divided by tp * cp = 4 * 1",
       {8188, 8192}},
      {"learned positions",
       llama_70b,
       [](Question& q) {
         q.model.positions = PositionKind::learned;
         q.model.max_positions = 2048;
       },
       "training.sequence",
       "sequence = 8192 is longer than the 2048 learned positions",
       {2048, 2040}},
  });
  Question odd = llama_70b();
  odd.layout.grid.cp = 1;
  odd.layout.sequence_parallel = false;
  odd.gpus = 32;
  odd.batch.sequence = 8191;
  CHECK(found(ask(odd)).empty());
}

TEST_CASE("the expert grid lies over the ranks of a stage") {
  check_rows({
      {"there are experts",
       llama_70b,
       [](Question& q) { q.layout.grid.ep = 2; },
       "parallel.ep",
       "ep = 2, but the model has no experts",
       {1}},
      {"ep divides them",
       qwen_moe,
       [](Question& q) { q.layout.grid.ep = 6; },
       "parallel.ep",
       "ep = 6 does not divide the 128 experts",
       {4, 8}},
      {"etp divides their width",
       qwen_moe,
       [](Question& q) {
         q.model.moe->expert_ffn = 767;
         q.layout.grid.etp = 2;
       },
       "parallel.etp",
       "etp = 2 does not divide the expert width 767",
       {1}},
      {"etp divides the ranks",
       qwen_moe,
       [](Question& q) { q.layout.grid.etp = 3; },
       "parallel.etp",
       "etp = 3 does not divide the tp * cp * dp = 32 ranks of a stage",
       {2, 4}},
      {"etp * ep does",
       qwen_moe,
       [](Question& q) { q.layout.grid.ep = 64; },
       "parallel.ep",
       "etp * ep = 1 * 64 does not divide the tp * cp * dp = 32 ranks of a stage",
       {32, 16}},
      {"pp is last or both grids agree",
       qwen_moe,
       [](Question& q) {
         q.layout.grid.order = {Dimension::tp, Dimension::cp, Dimension::ep, Dimension::pp,
                                Dimension::dp};
       },
       "parallel.order",
       "dp = 16 and the experts have 32 / (1 * 8)",
       {}},
  });
  // ep need not divide dp: Megatron d98e8a64 builds {0, 1, 2, 3} from tp 2, cp 2, ep 4.
  Question inside = qwen_moe();
  inside.layout.grid = {.tp = 2, .cp = 2, .ep = 4};
  inside.gpus = 4;
  CHECK(found(ask(inside)).empty());
  // Dense models have no expert grid, whatever etp says.
  Question dense = llama_70b();
  dense.layout.grid.etp = 7;
  CHECK(found(ask(dense)).empty());
}

}  // namespace flopcast
