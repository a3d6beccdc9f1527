#include "models/layout.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "layout_questions.h"

namespace flopcast {
namespace {

struct Row {
  std::string rule;
  Question (*legal)();
  void (*spoil)(Question& q);
  std::string key;
  std::string problem;  // a part of it
  std::vector<std::int64_t> nearest;
};

std::string found(const std::vector<LayoutViolation>& violations) {
  std::string text;
  for (const LayoutViolation& violation : violations) {
    text += violation.key + ": " + violation.problem + " ->";
    for (const std::int64_t value : violation.nearest) text += ' ' + std::to_string(value);
    text += '\n';
  }
  return text;
}

void check_rows(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    CAPTURE(row.rule);
    Question q = row.legal();
    CHECK(found(ask(q)).empty());
    row.spoil(q);
    const auto violations = ask(q);
    INFO(found(violations));
    const auto match = std::ranges::find_if(violations, [&](const LayoutViolation& violation) {
      return violation.key == row.key && violation.problem.find(row.problem) != std::string::npos;
    });
    REQUIRE(match != violations.end());
    CHECK(match->nearest == row.nearest);
  }
}

}  // namespace

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

TEST_CASE("layers fill the stages") {
  check_rows({
      {"pp divides the layers",
       llama_70b,
       [](Question& q) { q.model.layers = 126; },
       "parallel.pp",
       "pp = 4 does not divide the 126 layers",
       {2, 1}},
      {"embedding and loss count",
       llama_70b,
       [](Question& q) {
         q.layout.account_embedding_in_split = q.layout.account_loss_in_split = true;
       },
       "parallel.pp",
       "pp = 4 does not divide the 82 layers",
       {2, 1}},
      {"vpp divides the layers of a rank",
       interleaved,
       [](Question& q) { q.layout.vpp = 3; },
       "parallel.vpp",
       "vpp = 3 does not divide the 20 layers of a pipeline rank",
       {2, 4}},
      {"one entry per stage",
       llama_70b,
       [](Question& q) {
         q.layout.layers_per_stage = {40, 40};
       },
       "parallel.layers_per_stage",
       "has 2 entries, but there are 4 stages",
       {}},
      {"entries add up",
       llama_70b,
       [](Question& q) {
         q.layout.layers_per_stage = {20, 20, 20, 19};
       },
       "parallel.layers_per_stage",
       "adds up to 79, but the model has 80 layers",
       {}},
      {"no stage is empty",
       llama_70b,
       [](Question& q) {
         q.layout.layers_per_stage = {30, 0, 30, 20};
       },
       "parallel.layers_per_stage",
       "a stage between the ends without a layer",
       {}},
      {"no stage is negative",
       llama_70b,
       [](Question& q) {
         q.layout.layers_per_stage = {90, -10, 0, 0};
       },
       "parallel.layers_per_stage",
       "without a layer",
       {}},
      {"an explicit split accounts for nothing",
       llama_70b,
       [](Question& q) {
         q.layout.layers_per_stage = {20, 20, 20, 20};
         q.layout.account_loss_in_split = true;
       },
       "parallel.layers_per_stage",
       "embedding and loss cannot be accounted for",
       {}},
  });
  Question uneven = llama_70b();
  uneven.layout.layers_per_stage = {0, 40, 40, 0};
  CHECK(found(ask(uneven)).empty());
}

TEST_CASE("a schedule takes so many chunks per rank, and a pipeline") {
  check_rows({
      {"vpp needs interleaving",
       llama_70b,
       [](Question& q) { q.layout.vpp = 2; },
       "parallel.vpp",
       "vpp = 2, but the 1F1B schedule takes at most 1",
       {1}},
      {"interleaving needs vpp",
       interleaved,
       [](Question& q) { q.layout.vpp = 1; },
       "parallel.vpp",
       "the interleaved 1F1B schedule needs vpp of at least 2",
       {2, 4}},
      {"interleaving needs pp",
       interleaved,
       [](Question& q) {
         q.layout.grid.pp = 1;
         q.gpus = 16;
       },
       "parallel.pp",
       "the interleaved 1F1B schedule needs pp of at least 2",
       {2}},
      {"a V has two chunks",
       zb_v,
       [](Question& q) { q.layout.vpp = 1; },
       "parallel.vpp",
       "the ZB-V schedule needs vpp of at least 2",
       {2}},
      {"and no more",
       zb_v,
       [](Question& q) { q.layout.vpp = 5; },
       "parallel.vpp",
       "vpp = 5, but the ZB-V schedule takes at most 2",
       {2}},
      {"zero bubble needs pp",
       zb_v,
       [](Question& q) {
         q.layout.grid.pp = 1;
         q.gpus = 16;
       },
       "parallel.pp",
       "the ZB-V schedule needs pp of at least 2",
       {2}},
      {"DualPipe mirrors half of the ranks",
       dualpipe,
       [](Question& q) {
         q.layout.grid.pp = 5;
         q.gpus = 80;
       },
       "parallel.pp",
       "pp = 5 is odd, but DualPipe needs an even one",
       {10}},  // pp = 4 leaves dp = 10, which does not divide the batch
  });
}

TEST_CASE("the batch splits into micro-batches that the schedule takes") {
  check_rows({
      {"a multiple of micro-batch and dp",
       llama_70b,
       [](Question& q) { q.batch.global_batch = 63; },
       "training.global_batch",
       "global_batch = 63 is not a multiple of micro_batch * dp = 1 * 2",
       {62, 64}},
      {"interleaved: at least pp",
       interleaved,
       [](Question& q) { q.batch.global_batch = 6; },
       "training.global_batch",
       "3 micro-batches are fewer than the pp = 4",
       {8, 16}},
      {"interleaved: a multiple of pp",
       interleaved,
       [](Question& q) { q.batch.global_batch = 20; },
       "training.global_batch",
       "10 micro-batches are not a multiple of pp = 4",
       {16, 24}},
      {"a group is at least pp",
       interleaved,
       [](Question& q) { q.layout.micro_batch_group = 3; },
       "parallel.micro_batch_group",
       "micro_batch_group = 3 is not between pp = 4 and the 32",
       {4, 7}},
      {"a group is at most all",
       interleaved,
       [](Question& q) { q.layout.micro_batch_group = 40; },
       "parallel.micro_batch_group",
       "micro_batch_group = 40 is not between",
       {32, 28}},
      {"the last group is at least pp",
       interleaved,
       [](Question& q) { q.layout.micro_batch_group = 5; },
       "parallel.micro_batch_group",
       "leaves a last group of 2 of the 32 micro-batches, fewer than pp = 4",
       {4, 7}},
      {"interleaved zero bubble: equal rounds",
       interleaved_zero_bubble,
       [](Question& q) { q.batch.global_batch = 22; },
       "training.global_batch",
       "11 micro-batches do not split into 2 equal rounds of at least pp = 4",
       {20, 24}},
      {"DualPipe: as many from each end",
       dualpipe,
       [](Question& q) { q.batch.global_batch = 18; },
       "training.global_batch",
       "9 micro-batches are odd",
       {16, 20}},
      {"DualPipe: at least 2 * pp",
       dualpipe,
       [](Question& q) { q.batch.global_batch = 12; },
       "training.global_batch",
       "6 micro-batches are fewer than 2 * pp = 8 of the DualPipe schedule",
       {16, 20}},
      {"DualPipeV: at least 2 * pp, even or odd",
       dualpipe_v,
       [](Question& q) { q.batch.global_batch = 14; },
       "training.global_batch",
       "7 micro-batches are fewer than 2 * pp = 8 of the DualPipeV schedule",
       {16, 18}},
  });
  Question few = llama_70b();  // fewer micro-batches than stages: plain 1F1B takes them
  few.batch.global_batch = 2;
  CHECK(found(ask(few)).empty());
}

}  // namespace flopcast
