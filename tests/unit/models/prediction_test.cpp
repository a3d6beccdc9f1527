#include <catch2/catch.hpp>

#include "models/parameters.h"
#include "simple_machine.h"

// Multi-token prediction: what one module adds to the last stage, by hand.

using namespace flopcast;
using namespace flopcast::test;

namespace {

constexpr std::int64_t kHidden = 64;
constexpr std::int64_t kTokens = 64;
constexpr std::int64_t kVocab = 128;

/// Matrix products take 1 us, all else nothing.
KernelTimes only_products() {
  KernelTimes times;
  times.gemm = microseconds(1);
  times.attention_forward = times.attention_backward = seconds(0);
  times.elementwise = times.norm_forward = times.norm_backward = times.rotary = seconds(0);
  times.softmax = times.embedding = times.optimizer = seconds(0);
  return times;
}

Job small_job(int pp, std::int64_t modules) {
  Job job;
  job.model.layers = 2;
  job.model.hidden = kHidden;
  job.model.heads = job.model.kv_heads = 4;
  job.model.head_dim = 16;
  job.model.ffn = 96;
  job.model.vocab = kVocab;
  job.model.mtp_layers = modules;
  job.layout.grid.pp = pp;
  job.training.batch = {.sequence = kTokens, .micro_batch = 1, .global_batch = 3};
  job.training.framework.host_per_operator = seconds(0);
  return job;
}

constexpr std::int64_t kLayerProducts = 64 * 192 + 64 * 64 + 64 * 192 + 96 * 64;
constexpr std::int64_t kProjection = 2 * kHidden * kHidden;

}  // namespace

// Forward: projection, a layer of four products, logits; backward twice that.
TEST_CASE("a module takes the time of its layer, its projection and its head") {
  const auto time = [](int pp, std::int64_t modules) {
    return to_seconds(run_step(small_job(pp, modules), only_products(), bytes_per_second(1e30))
                          .result.makespan)
        .value;
  };
  CHECK(time(1, 0) == Approx(3 * 3 * (2 * 4 + 1) * 1e-6).epsilon(1e-4));
  CHECK(time(1, 1) == Approx(3 * 3 * (2 * 4 + 1 + 6) * 1e-6).epsilon(1e-4));
  CHECK(time(1, 2) == Approx(3 * 3 * (2 * 4 + 1 + 12) * 1e-6).epsilon(1e-4));
  // 1F1B on two stages: a first stage that is faster waits for the last.
  CHECK(time(2, 1) == Approx((3 * 3 * (4 + 1 + 6) + 3 * 4) * 1e-6).epsilon(1e-4));
}

TEST_CASE("a module executes what it is counted") {
  Job with = small_job(1, 1);
  Job without = small_job(1, 0);
  with.training.framework.fused_attention = without.training.framework.fused_attention = false;
  const double more = run_step(with).plan.executed.value - run_step(without).plan.executed.value;
  const double attention = 2.0 * 2 * kTokens * kTokens * kHidden;  // scores and values in full
  const double weights = 2.0 * kTokens * (kLayerProducts + kProjection + kVocab * kHidden);
  CHECK(more == 3 * 3 * (weights + attention));
}

// The last of two stages gets the module, a copy of the embedding, and what both leave in memory:
// inputs of three norms with their statistics, of the projection and of the head, logits twice; a
// layer. First and last stage add up the gradients of the embedding.
TEST_CASE("a module lies on the last stage") {
  const Step with = run_step(small_job(2, 1));
  const Step without = run_step(small_job(2, 0));
  const std::int64_t module = kLayerProducts + 2 * kHidden + kProjection + 3 * kHidden;
  const auto more = [&](int rank, MemoryPool pool) {
    return with.peak(rank, pool) - without.peak(rank, pool);
  };
  CHECK(more(0, MemoryPool::parameters) == 0);
  CHECK(more(1, MemoryPool::parameters) == 2 * (module + kVocab * kHidden));
  CHECK(more(0, MemoryPool::activations) == 0);
  const std::int64_t activation = 2 * kTokens * kHidden;
  const std::int64_t logits = (2 + 4) * kTokens * kVocab;
  const std::int64_t layer = without.peak(1, MemoryPool::activations) - 2 * activation - logits;
  CHECK(more(1, MemoryPool::activations) ==
        layer + (2 + 2) * activation + 2 * 4 * kTokens + 2 * activation + logits);
  const double reduced = static_cast<double>(kVocab * kHidden) * 4;  // 2 (n-1)/n of fp32
  CHECK(with.sent(0, StepCategory::synchronize) - without.sent(0, StepCategory::synchronize) ==
        Approx(reduced));
}
