#include <catch2/catch.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "llama_8b.h"
#include "models/activation_memory.h"
#include "models/layer_operators.h"
#include "models/model_flops.h"
#include "models/stage_parameters.h"
#include "simple_machine.h"

// Low-rank adapters and packed documents against closed forms worked out here.

using namespace flopcast;
using namespace flopcast::test;

namespace {

// Of one of its layers' linear weights: 4096 x 6144, 4096 x 4096, 4096 x 28672, 14336 x 4096.
constexpr double kLayerWeights = 218103808;
// Rank 16 beside each: 16 (4096 + 6144) + 16 (4096 + 4096) + 16 (4096 + 28672) + 16 (14336 + 4096).
constexpr double kLayerAdapters = 1114112;
constexpr double kAdapters = 32 * kLayerAdapters;

Job with_adapters(Job job, bool separate = false) {
  job.training.adapters = LowRankAdapters{.rank = 16, .separate = separate};
  return job;
}

OperatorContext context_of(const Job& job) {
  return {job.model, job.layout, job.training, job.model.vocab};
}

double peak(const Step& step, MemoryPool pool) { return static_cast<double>(step.peak(0, pool)); }

Flops products(const std::vector<Operator>& operators) {
  Flops sum;
  for (const Operator& op : operators) {
    if (std::holds_alternative<GemmShape>(op.work)) sum += executed_flops(op);
  }
  return sum;
}

Flops attention(const std::vector<Operator>& operators) {
  Flops sum;
  for (const Operator& op : operators) {
    if (std::holds_alternative<AttentionCall>(op.work)) sum += executed_flops(op);
  }
  return sum;
}

}  // namespace

TEST_CASE("adapters are counted as PEFT counts them") {
  // print_trainable_parameters() of Llama 3 8B, r = 16 on q, k, v, o, gate, up and down:
  // "trainable params: 41,943,040".
  const Job job = with_adapters(llama_8b(1), true);
  const StageContent all{.first_layer = 0, .layers = 32, .embedding = true, .head = true};
  const StageTensors tensors =
      adapter_tensors(job.model, *job.training.adapters, all, job.layout.grid);
  CHECK(total_elements(tensors.dense) == 41943040);
}

TEST_CASE("a frozen model has weights alone; adapters have gradients and states") {
  const Step full = run_step(llama_8b(2));
  const Step tuned = run_step(with_adapters(llama_8b(2)));
  CHECK(peak(full, MemoryPool::parameters) == 2 * kLlama8B);
  CHECK(peak(full, MemoryPool::gradients) == 4 * kLlama8B);
  CHECK(peak(full, MemoryPool::optimizer) == 12 * kLlama8B / 2);
  CHECK(peak(tuned, MemoryPool::parameters) == 2 * (kLlama8B + kAdapters));
  CHECK(peak(tuned, MemoryPool::gradients) == 4 * kAdapters);
  CHECK(peak(tuned, MemoryPool::optimizer) == 12 * kAdapters / 2);
}

TEST_CASE("frozen weights may be stored in fewer bits") {
  Job job = with_adapters(llama_8b(1));
  job.training.adapters->frozen_dtype = DataType::fp8;
  CHECK(peak(run_step(job), MemoryPool::parameters) == kLlama8B + 2 * kAdapters);
}

TEST_CASE("only adapters are reduced and gathered between data-parallel ranks") {
  const Step full = run_step(llama_8b(2));
  const Step tuned = run_step(with_adapters(llama_8b(2)));
  // Half of a buffer leaves each of two ranks. All tensors of adapters fill whole pads.
  CHECK(tuned.sent(0, StepCategory::gradient) == Approx(4 * kAdapters / 2));
  CHECK(tuned.sent(0, StepCategory::parameter) == Approx(2 * kAdapters / 2));
  CHECK(full.sent(0, StepCategory::gradient) == Approx(4 * kLlama8B / 2).epsilon(1e-6));
}

TEST_CASE("a frozen layer has one product in the backward pass, an adapter two") {
  constexpr double kTokens = 1024;
  const Job plain = llama_8b(1);
  const Job tuned = with_adapters(llama_8b(1));
  const double forward = 2 * kTokens * kLayerWeights;
  const double thin = 2 * kTokens * kLayerAdapters;
  CHECK(products(layer_forward(context_of(plain), 0)).value == forward);
  CHECK(products(layer_backward(context_of(plain), 0)).value == 2 * forward);
  CHECK(products(layer_forward(context_of(tuned), 0)).value == forward + thin);
  CHECK(products(layer_backward(context_of(tuned), 0)).value == forward + 2 * thin);
  CHECK(attention(layer_backward(context_of(tuned), 0)) ==
        attention(layer_backward(context_of(plain), 0)));
  CHECK(products(head_backward(context_of(tuned))).value == 2 * kTokens * 4096 * 128256);
  CHECK(embedding_backward(context_of(tuned)).empty());
}

TEST_CASE("an input of a frozen layer is kept where an adapter reads it") {
  constexpr double kTokens = 1024;
  Job job = with_adapters(llama_8b(1));
  const Job plain = llama_8b(1);
  const double all = saved_by_layer(context_of(plain), 0, 0).value;
  SECTION("beside all layers") {
    // Every input is kept as before, and 16 elements between the products of four adapters.
    CHECK(saved_by_layer(context_of(job), 0, 0).value == all + kTokens * 4 * 16 * 2);
  }
  SECTION("beside attention alone") {
    // The MLP's inputs, 4096 and 14336 wide, are gone.
    job.training.adapters->targets = {true, true, false, false};
    CHECK(saved_by_layer(context_of(job), 0, 0).value ==
          all - kTokens * (4096 + 14336) * 2 + kTokens * 2 * 16 * 2);
  }
  SECTION("beside an MLP that is recomputed") {
    // Its input stays; the gate's and up's outputs, the activation's and two ranks come back.
    const double kept = saved_by_layer(context_of(job), 0, 0).value;
    job.training.recompute.kind = RecomputeKind::selective;
    job.training.recompute.modules.fill(false);
    job.training.recompute.modules[static_cast<std::size_t>(RecomputeModule::mlp)] = true;
    CHECK(saved_by_layer(context_of(job), 0, 0).value == kept - kTokens * (3 * 14336 + 2 * 16) * 2);
  }
  SECTION("with dropout, which makes an input of its own") {
    // The attention's output is kept by attention itself.
    job.training.adapters->targets = {false, true, false, false};
    job.training.adapters->dropout = true;
    CHECK(saved_by_layer(context_of(job), 0, 0).value ==
          all - kTokens * (2 * 4096 + 14336) * 2 + kTokens * (4096 * 3 + 16 * 2));
  }
}

TEST_CASE("a step of adapters executes what the closed form counts") {
  constexpr double kTokens = 1024;
  const Step step = run_step(with_adapters(llama_8b(1)));
  const double weights = 32 * kLayerWeights + 4096.0 * 128256;
  // Scores and values under the mask, and 2.5 times that backward.
  const double core = 32 * 3.5 * (32.0 * 1024 * 1024 * 256);
  CHECK(step.plan.executed.value ==
        Approx(kTokens * (4 * weights + 6 * kAdapters) + core).epsilon(1e-12));
}

TEST_CASE("what adapters cannot do yet is said") {
  const Job job = with_adapters(llama_8b(2));
  CHECK_FALSE(lowering_gap(job));
  Job sharded = job;
  sharded.layout.zero = 3;
  sharded.training.framework = *framework_preset("fsdp2");
  CHECK(lowering_gap(sharded));
  Job experts = job;
  experts.model = golden_model("mixtral-8x7b");
  CHECK(lowering_gap(experts));
  Job split = job;
  split.layout.grid.pp = 2;
  split.layout.schedule = ScheduleKind::zb_h1;
  CHECK(lowering_gap(split));
}

// Megatron-Bridge, peft/utils.py, ParallelLinearAdapter: the calls of linear_in and linear_out
// beside a column- and a row-parallel layer, tp 2, sequence parallel.
TEST_CASE("adapters are split over tensor-parallel ranks as the layers beside them") {
  Job job = with_adapters(llama_8b(1));
  job.layout.grid.tp = 2;
  job.layout.sequence_parallel = true;
  job.training.adapters->targets = {true, true, false, false};
  const auto calls = [](const std::vector<Operator>& operators) {
    std::vector<std::pair<CollectiveKind, double>> out;
    for (const Operator& op : operators) {
      const auto* call = std::get_if<GroupCall>(&op.work);
      if (call != nullptr && op.name.find("adapter") != std::string_view::npos) {
        out.emplace_back(call->kind, call->size.value);
      }
    }
    return out;
  };
  using enum CollectiveKind;
  constexpr double kRow = 1024 * 2;  // bytes of one element of all tokens
  const auto forward = calls(layer_forward(context_of(job), 0));
  CHECK(forward == std::vector<std::pair<CollectiveKind, double>>{{all_gather, 16 * kRow},
                                                                  {all_reduce, 16 * kRow},
                                                                  {all_gather, 4096 * kRow}});
  const auto backward = calls(layer_backward(context_of(job), 0));
  CHECK(backward == std::vector<std::pair<CollectiveKind, double>>{{all_gather, 4096 * kRow},
                                                                   {all_reduce, 16 * kRow},
                                                                   {all_reduce, 16 * kRow}});
  const StageContent one{.first_layer = 0, .layers = 1};
  CHECK(total_elements(
            adapter_tensors(job.model, *job.training.adapters, one, job.layout.grid).dense) ==
        (16 * (4096 + 6144) + 16 * (4096 + 4096)) / 2);
}

TEST_CASE("attention of packed documents works by their squares, all else by tokens") {
  Job job = llama_8b(1);
  const auto whole = layer_forward(context_of(job), 0);
  job.training.document = 256;  // four documents fill the sequence
  const auto packed = layer_forward(context_of(job), 0);
  // 2 heads tokens keys (128 + 128), half of it under the mask.
  CHECK(attention(whole).value == 32.0 * 1024 * 1024 * 256);
  CHECK(attention(packed).value == 4 * (32.0 * 256 * 256 * 256));
  CHECK(products(packed) == products(whole));
}

TEST_CASE("a ring of context-parallel ranks cuts every document") {
  Job job = llama_8b(1);
  job.layout.grid.cp = 4;
  job.training.batch.sequence = 4096;
  const auto whole = layer_forward(context_of(job), 0);
  job.training.document = 1024;
  const auto packed = layer_forward(context_of(job), 0);
  CHECK(attention(packed) / attention(whole) == Approx(0.25));
}

TEST_CASE("FLOPs of adapters' runs are counted as Megatron-Bridge counts them") {
  // 2/3 of the weights' work and all of attention's: training/utils/flop_utils.py. Llama 3 70B,
  // 4096 tokens: L h^2 (12 + 12 g / a + 18 f / h + 6 v / (L h)) = 417.010e9 a token, of which
  // 278.007e9; attention of documents of 206 tokens, in full: 12 L h 206 = 1.620e9.
  const Transformer model = golden_model("llama3-70b");
  const CountedStep step{
      .sequence = 4096, .global_batch = 1, .padded_vocab = 128256, .attended = 206, .frozen = true};
  const double counted = model_flops(model, step, FlopConvention::megatron_full).value;
  CHECK(counted / 4096 == Approx(278.007e9 + 1.620e9).epsilon(1e-5));
}

// Hidden 64, four experts of 32 with gates, two for each token; adapters of rank 4 on attention.
TEST_CASE("experts are frozen where adapters stand beside attention") {
  constexpr double kTokens = 64;
  Job plain;
  plain.model = small_model(2);
  plain.model.moe = MixtureOfExperts{.experts = 4, .top_k = 2, .expert_ffn = 32};
  plain.training.batch = {.sequence = 64, .micro_batch = 1, .global_batch = 2};
  plain.layout.grid.dp = plain.layout.grid.ep = 2;
  plain.layout.zero = 1;
  Job tuned = plain;
  tuned.training.adapters = LowRankAdapters{.rank = 4, .targets = {true, true, false, false}};
  constexpr double kAttention = 64 * (3 * 64) + 64 * 64;
  constexpr double kRouter = 64 * 4;
  constexpr double kExpert = 64 * (2 * 32) + 32 * 64;
  constexpr double kThin = 4 * (64 + 3 * 64) + 4 * (64 + 64);
  SECTION("no product for their weights") {
    const double forward = 2 * kTokens * (kAttention + kRouter + 2 * kExpert);
    CHECK(products(layer_backward(context_of(plain), 0)).value == 2 * forward);
    CHECK(products(layer_backward(context_of(tuned), 0)).value ==
          forward + 2 * 2 * kTokens * kThin);
  }
  SECTION("no input of theirs, nor of the router") {
    const double inputs = kTokens * (64 + 2 * (64 + 32)) * 2;
    const double ranks = kTokens * 2 * 4 * 2;
    CHECK(saved_by_layer(context_of(tuned), 0, 0).value ==
          saved_by_layer(context_of(plain), 0, 0).value - inputs + ranks);
  }
  SECTION("only adapters are reduced; half of the experts are on a rank, with two norms a layer") {
    const Step step = run_step(tuned);
    const double frozen = 2 * (kAttention + kRouter + 2 * kExpert + 2 * 64) + 2 * 128 * 64 + 64;
    CHECK(peak(step, MemoryPool::parameters) == 2 * (frozen + 2 * kThin));
    CHECK(peak(step, MemoryPool::gradients) == 4 * 2 * kThin);
    CHECK(step.sent(0, StepCategory::gradient) == Approx(4 * 2 * kThin / 2));
  }
}
