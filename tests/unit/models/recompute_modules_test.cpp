#include <algorithm>
#include <catch2/catch.hpp>

#include "models/activation_memory.h"
#include "models/layer_operators.h"

// Recompute of named modules: what each frees and computes again, by hand.

using namespace flopcast;

namespace {

constexpr std::int64_t kTokens = 128;
constexpr std::int64_t kHidden = 64;
constexpr std::int64_t kDense = 0;  // a layer with a dense MLP, and one with experts
constexpr std::int64_t kExperts = 1;

struct Case {
  Transformer model;
  Layout layout;
  Training training;
  OperatorContext context() const { return {model, layout, training, 1024}; }
  void select(RecomputeModule module) {
    training.recompute.kind = RecomputeKind::selective;
    training.recompute.modules.fill(false);
    training.recompute.modules[static_cast<std::size_t>(module)] = true;
  }
};

/// Latent attention with 4 heads; 4 experts of width 32, 2 per token, and a shared one of width 48.
Case small() {
  Case out;
  out.model.layers = 2;
  out.model.hidden = kHidden;
  out.model.heads = out.model.kv_heads = 4;
  out.model.head_dim = 16;
  out.model.ffn = 96;
  out.model.mla = LatentAttention{
      .q_rank = 48, .kv_rank = 32, .qk_nope_dim = 16, .qk_rope_dim = 8, .v_dim = 16};
  out.model.moe = MixtureOfExperts{
      .experts = 4, .top_k = 2, .expert_ffn = 32, .shared_ffn = 48, .first_dense = 1};
  out.training.batch = {.sequence = kTokens, .micro_batch = 1, .global_batch = 1};
  return out;
}

double freed(Case c, RecomputeModule module, std::int64_t layer) {
  const Bytes all = saved_by_layer(c.context(), layer, layer);
  c.select(module);
  const Bytes rest = saved_by_layer(c.context(), layer, layer);
  CHECK(restored_by_recompute(c.context(), layer, layer) == all - rest);
  return (all - rest).value / static_cast<double>(kTokens);
}

struct Work {
  std::ptrdiff_t products;
  std::ptrdiff_t memory;
  bool operator==(const Work&) const = default;
};

Work again(Case c, RecomputeModule module, std::int64_t layer) {
  c.select(module);
  const auto operators = layer_recompute(c.context(), layer, layer);
  const auto count = [&](auto is) { return std::ranges::count_if(operators, is); };
  return {count([](const Operator& op) { return std::holds_alternative<GemmShape>(op.work); }),
          count([](const Operator& op) { return std::holds_alternative<MemoryCall>(op.work); })};
}

}  // namespace

// Bytes per token; gate and up are kept beside their product.
TEST_CASE("a recomputed module leaves its inputs") {
  using enum RecomputeModule;
  const Case c = small();
  CHECK(freed(c, core_attn, kDense) == 4 * 4);                    // row statistics of each head
  CHECK(freed(c, layernorm, kDense) == 2 * (2 * kHidden + 4));    // outputs and statistics
  CHECK(freed(c, layernorm, kExperts) == 2 * (2 * kHidden + 4));  // read by router and experts
  CHECK(freed(c, mla_up_proj, kDense) == 2 * (4 * (2 * 24 + 16) + 48 + 32) + 2 * 4);
  CHECK(freed(c, mlp, kDense) == 2 * 3 * 96);
  CHECK(freed(c, mlp, kExperts) == 0);
  CHECK(freed(c, moe, kDense) == 0);
  CHECK(freed(c, moe_act, kExperts) == 2 * 2 * 32);
  CHECK(freed(c, shared_experts, kExperts) == 2 * 3 * 48);
  // Scores in fp32, routed inputs, hidden layers, probabilities, and the shared expert's.
  CHECK(freed(c, moe, kExperts) == 4 * 4 + 2 * (2 * kHidden + 2 * 3 * 32 + 4) + 2 * 3 * 48);
}

TEST_CASE("a recomputed module runs again") {
  using enum RecomputeModule;
  const Case c = small();
  CHECK(again(c, layernorm, kDense) == Work{0, 2});
  CHECK(again(c, mla_up_proj, kDense) == Work{2, 3});  // two norms, rotation
  CHECK(again(c, mlp, kDense) == Work{2, 1});
  CHECK(again(c, mlp, kExperts) == Work{0, 0});
  CHECK(again(c, moe_act, kExperts) == Work{0, 1});
  CHECK(again(c, shared_experts, kExperts) == Work{2, 1});
  // Router, two products of the experts and two of the shared one.
  CHECK(again(c, moe, kExperts).products == 5);
  Case both = c;
  both.select(moe);
  const auto alone = layer_recompute(both.context(), kExperts, kExperts).size();
  both.training.recompute.modules[static_cast<std::size_t>(moe_act)] = true;
  CHECK(layer_recompute(both.context(), kExperts, kExperts).size() == alone);
}
