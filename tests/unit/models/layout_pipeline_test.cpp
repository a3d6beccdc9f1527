#include "models/layout.h"

#include <catch2/catch.hpp>

#include "layout_questions.h"

namespace flopcast {

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
