#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "layout_questions.h"
#include "models/layout.h"

namespace flopcast {

using nlohmann::json;

TEST_CASE("the verdicts of Megatron and DualPipe on schedules") {
  const json file = json::parse(std::ifstream(std::string(FLOPCAST_TEST_DATA) + "/schedules.json"));
  for (const json& c : file["legality"]) {
    CAPTURE(c.dump());
    const std::string schedule = c["schedule"];
    const char* verdict = c.contains("legal") ? "legal" : "legal_in_megatron";
    Question q = schedule == "interleaved-1f1b" ? interleaved() : llama_70b();
    if (schedule == "dualpipe") q.layout.schedule = ScheduleKind::dualpipe;
    if (schedule == "dualpipe-v") q.layout.schedule = ScheduleKind::dualpipe_v;
    q.layout.grid = {.dp = 2, .pp = c["ranks"]};
    q.layout.vpp = c["chunks_per_rank"];
    q.gpus = 2 * q.layout.grid.pp;
    q.batch.global_batch = 2 * c["micro_batches"].get<std::int64_t>();
    q.layout.micro_batch_group = c.value("micro_batch_group_size", 0);
    CHECK(ask(q).empty() == c[verdict].get<bool>());
    // Group size 0 means pp, the size in most of the cases.
    if (q.layout.micro_batch_group == q.layout.grid.pp) {
      q.layout.micro_batch_group = 0;
      CHECK(ask(q).empty() == c[verdict].get<bool>());
    }
    // torch takes what it can cut into equal rounds of M / max(1, M / P): where a round is no
    // smaller than the pipeline, Megatron takes the same rounds if they are asked for by name.
    if (schedule == "interleaved-1f1b" && c.value("legal_in_torch", false)) {
      const int count = c["micro_batches"];
      const int ranks = q.layout.grid.pp;
      q.layout.micro_batch_group = count / std::max(1, count / ranks);
      CHECK(ask(q).empty() == (q.layout.micro_batch_group >= ranks));
    }
  }
}

TEST_CASE("no number is too absurd to be asked about") {
  const auto huge = std::int64_t{1} << 40;
  const int largest = std::numeric_limits<int>::max();
  for (const std::int64_t value :
       {std::int64_t{0}, std::int64_t{-1}, -huge, huge, std::numeric_limits<std::int64_t>::max(),
        std::numeric_limits<std::int64_t>::min()}) {
    CAPTURE(value);
    for (auto field :
         {&BatchShape::sequence, &BatchShape::micro_batch, &BatchShape::global_batch}) {
      for (Question q : {llama_70b(), interleaved(), qwen_moe()}) {
        q.batch.*field = value;
        const auto violations = ask(q);
        if (value < 1) CHECK_FALSE(violations.empty());
      }
    }
  }
  for (const int value : {0, -1, largest, std::numeric_limits<int>::min()}) {
    CAPTURE(value);
    for (auto field : {&ParallelGrid::tp, &ParallelGrid::cp, &ParallelGrid::ep, &ParallelGrid::dp,
                       &ParallelGrid::pp, &ParallelGrid::etp}) {
      Question q = qwen_moe();
      q.layout.grid.*field = value;
      CHECK_FALSE(ask(q).empty());
    }
    for (auto field : {&Layout::vpp, &Layout::micro_batch_group, &Layout::zero}) {
      Question q = interleaved();
      q.layout.*field = value;
      if (field != &Layout::zero && !(field == &Layout::micro_batch_group && value == 0)) {
        CHECK_FALSE(ask(q).empty());
      }
    }
    Question q = llama_70b();
    q.gpus = value;
    CHECK_FALSE(ask(q).empty());
  }
  Question all = interleaved();
  all.layout.grid = {largest, largest, largest, largest, largest, largest};
  all.layout.vpp = largest;
  all.layout.layers_per_stage = {largest, largest};
  all.batch = {huge, huge, huge};
  all.gpus = largest;
  CHECK_FALSE(ask(all).empty());
}

TEST_CASE("layers are split in the order of the global stages") {
  const Transformer model = golden_model("llama3-70b");
  const auto even = split_layers(model, {.grid = {.pp = 4}, .vpp = 5});
  REQUIRE(even.size() == 20);
  for (std::size_t s = 0; s < even.size(); ++s) {
    CHECK(even[s].first_layer == static_cast<std::int64_t>(4 * s));
    CHECK(even[s].layers == 4);
    CHECK(even[s].embedding == (s == 0));
    CHECK(even[s].head == (s == 19));
  }
  const auto given = split_layers(model, {.grid = {.pp = 4}, .layers_per_stage = {19, 21, 21, 19}});
  CHECK(given[2].first_layer == 40);
  CHECK(given[3].layers == 19);
}

TEST_CASE("both copies of a model under DualPipe are cut into one stage per rank") {
  const auto stages =
      split_layers(golden_model("llama3-70b"),
                   {.grid = {.pp = 8}, .vpp = 2, .schedule = ScheduleKind::dualpipe});
  REQUIRE(stages.size() == 8);
  CHECK(stages[7].layers == 10);
  CHECK(stages[7].head);
}

// Llama 3 405B, arXiv 2407.21783, section 3.3: 126 layers on 16 stages of 8, one layer less on the
// first and on the last.
TEST_CASE("embedding and loss take the place of a layer") {
  const Transformer model = golden_model("llama3.1-405b");
  const auto stages = split_layers(
      model,
      {.grid = {.pp = 16}, .account_embedding_in_split = true, .account_loss_in_split = true});
  CHECK(stages.front().layers == 7);
  CHECK(stages[1].first_layer == 7);
  CHECK(stages[1].layers == 8);
  CHECK(stages.back().layers == 7);
  CHECK(stages.back().first_layer == 119);
  const auto only =
      split_layers(model, {.account_embedding_in_split = true, .account_loss_in_split = true});
  CHECK(only.front().layers == 126);
}

TEST_CASE("micro-batches are what a rank runs in a step") {
  const Question q = llama_70b();
  CHECK(micro_batches(q.layout, q.batch) == 32);
  CHECK(micro_batches(q.layout, {.micro_batch = 4, .global_batch = 64}) == 8);
}

}  // namespace flopcast
