#include "models/activation_memory.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

// Activation memory against the closed forms of Korthikanti et al. and against the tensors that
// autograd really keeps: tests/data/activations.json.

using namespace flopcast;
using nlohmann::json;

namespace {

json fixture(const char* section) {
  std::ifstream file(std::string(FLOPCAST_TEST_DATA) + "/activations.json");
  return json::parse(file).at(section);
}

struct Case {
  Transformer model;
  Layout layout;
  Training training;
  OperatorContext context() const { return {model, layout, training, 1024}; }
};

Case gpt(std::int64_t hidden, std::int64_t heads, std::int64_t sequence, std::int64_t micro_batch) {
  Case out;
  out.model.layers = 1;
  out.model.hidden = hidden;
  out.model.heads = out.model.kv_heads = heads;
  out.model.head_dim = hidden / heads;
  out.model.ffn = 4 * hidden;
  out.model.gated_mlp = false;
  out.model.dropout = true;
  out.training.framework.fused_attention = false;
  out.training.batch = {.sequence = sequence, .micro_batch = micro_batch, .global_batch = 1};
  return out;
}

/// Norm statistics, which the closed forms leave out: 8 bytes for each token that the norms see.
double statistics(const OperatorContext& context) {
  return 8 * static_cast<double>(context.sharded_tokens());
}

}  // namespace

TEST_CASE("activations of a layer follow Korthikanti's Table 2") {
  for (const json cases = fixture("activation_formulas").at("cases"); const json& row : cases) {
    CAPTURE(row.at("id").get<std::string>());
    Case c = gpt(row.at("hidden"), row.at("heads"), row.at("sequence"), row.at("micro_batch"));
    const json& expected = row.at("per_layer");
    const auto check = [&](const char* key) {
      const double fused_out = saved_by_layer(c.context(), 0, 0).value - statistics(c.context());
      CHECK(fused_out == Approx(expected.at(key).get<double>()).epsilon(1e-9));
    };
    check("serial");
    c.layout.grid.tp = row.at("tp");
    check("tp");
    c.training.recompute.kind = RecomputeKind::selective;
    check("tp_selective");
    c.layout.sequence_parallel = true;
    check("tp_sp_selective");
    c.training.recompute.kind = RecomputeKind::none;
    check("tp_sp");
    c.training.recompute.kind = RecomputeKind::full;
    CHECK(saved_by_layer(c.context(), 0, 0).value ==
          expected.at("full_recompute_sharded").get<double>());
    c.layout.sequence_parallel = false;
    CHECK(saved_by_layer(c.context(), 0, 0).value == expected.at("full_recompute").get<double>());
  }
}

TEST_CASE("activations of a layer are what autograd keeps, to the byte") {
  for (const json cases = fixture("activation_measured").at("cases"); const json& row : cases) {
    const std::string layer = row.at("layer");
    if (layer == "llama_flash_unfused_swiglu") continue;  // no framework modelled here does that
    CAPTURE(row.dump());
    Case c = gpt(row.at("h"), row.at("a"), row.at("s"), row.at("b"));
    c.training.framework.fused_attention = layer != "gpt_eager_dropout";
    if (layer == "llama_flash_fused_swiglu") {
      c.model.dropout = false;
      c.model.gated_mlp = true;
      c.model.kv_heads = row.at("g");
      c.model.ffn = row.at("f");
    }
    CHECK(saved_by_layer(c.context(), 0, 0).value == row.at("measured").get<double>());
  }
}

TEST_CASE("recompute brings back what it dropped") {
  Case c = gpt(1024, 16, 512, 1);
  const Bytes all = saved_by_layer(c.context(), 0, 0);
  for (const auto kind : {RecomputeKind::none, RecomputeKind::selective, RecomputeKind::full}) {
    c.training.recompute.kind = kind;
    CHECK((saved_by_layer(c.context(), 0, 0) + restored_by_recompute(c.context(), 0, 0)).value ==
          Approx(all.value));
  }
}
