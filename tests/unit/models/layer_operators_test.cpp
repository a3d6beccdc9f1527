#include "models/layer_operators.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

// Calls and bytes of tensor parallelism against Megatron-LM and PyTorch as they ran: fixtures in
// tests/data/tensor_parallel.json, each section with its source.

using namespace flopcast;
using nlohmann::json;

namespace {

json fixture(const char* section) {
  std::ifstream file(std::string(FLOPCAST_TEST_DATA) + "/tensor_parallel.json");
  return json::parse(file).at(section);
}

/// A plain GPT layer; shapes per case.
struct Case {
  Transformer model;
  Layout layout;
  Training training;
  OperatorContext context() const { return {model, layout, training, 1024}; }
};

Case make_case(int tp, bool sequence_parallel, std::int64_t sequence, std::int64_t micro_batch,
               std::int64_t hidden) {
  Case out;
  out.model.layers = 1;
  out.model.hidden = hidden;
  out.model.heads = out.model.kv_heads = 16;
  out.model.head_dim = hidden / 16;
  out.model.ffn = 4 * hidden;
  out.layout.grid.tp = tp;
  out.layout.sequence_parallel = sequence_parallel;
  out.training.batch = {.sequence = sequence, .micro_batch = micro_batch, .global_batch = 1};
  return out;
}

using Calls = std::vector<std::pair<CollectiveKind, double>>;

Calls calls_of(const std::vector<Operator>& operators) {
  Calls calls;
  for (const Operator& op : operators) {
    if (const auto* call = std::get_if<GroupCall>(&op.work)) {
      calls.emplace_back(call->kind, call->size.value);
    }
  }
  return calls;
}

Calls calls_of(const json& listed) {
  static const std::map<std::string, CollectiveKind> kNames{
      {"all_reduce", CollectiveKind::all_reduce},
      {"all_gather_into_tensor", CollectiveKind::all_gather},
      {"reduce_scatter_tensor", CollectiveKind::reduce_scatter}};
  Calls calls;
  for (const json& call : listed) calls.emplace_back(kNames.at(call[0]), call[1].get<double>());
  return calls;
}

/// A layer is two pairs of a column- and a row-parallel linear layer.
Calls twice(const Calls& calls) {
  Calls both = calls;
  both.insert(both.end(), calls.begin(), calls.end());
  return both;
}

/// Order within a pass depends on what overlaps; the multiset of calls does not.
Calls sorted(Calls calls) {
  std::sort(calls.begin(), calls.end());
  return calls;
}

}  // namespace

TEST_CASE("a layer makes Megatron's tensor-parallel calls") {
  const json cases = fixture("megatron_tensor_parallel_calls").at("cases");
  const bool sequence_parallel = GENERATE(false, true);
  const json& pair = cases.at(sequence_parallel ? "pair_sp" : "pair");
  // 8192 bytes of full activation: 64 tokens of 64 16-bit numbers.
  const Case c = make_case(pair.at("tp"), sequence_parallel, 64, 1, 64);
  CHECK(calls_of(layer_forward(c.context(), 0)) == twice(calls_of(pair.at("forward"))));
  CHECK(sorted(calls_of(layer_backward(c.context(), 0))) ==
        sorted(twice(calls_of(pair.at("backward")))));
  const json& embedding = cases.at(sequence_parallel ? "embedding_sp" : "embedding");
  CHECK(calls_of(embedding_forward(c.context())) == calls_of(embedding.at("forward")));
  CHECK(calls_of(embedding_backward(c.context())) == calls_of(embedding.at("backward")));
}

TEST_CASE("cross-entropy reduces one number per token, three times or fused twice") {
  const json cases = fixture("megatron_tensor_parallel_calls").at("cases");
  const bool fused = GENERATE(false, true);
  const json& expected =
      cases.at(fused ? "fused_vocab_parallel_cross_entropy" : "vocab_parallel_cross_entropy");
  Case c = make_case(4, false, 64, 1, 64);
  c.training.framework.cross_entropy = fused ? CrossEntropy::fused : CrossEntropy::unfused;
  CHECK(calls_of(head_forward(c.context())) == calls_of(expected.at("forward")));
}

TEST_CASE("torch's sequence parallel keeps the gathered input") {
  Case c = make_case(8, true, 64, 1, 64);
  c.training.framework.regather_in_backward = false;
  const json expected = fixture("torch_tensor_parallel_calls").at("cases").at("sequence_parallel");
  CHECK(calls_of(layer_backward(c.context(), 0)).size() == expected.at("backward").size());
  CHECK(calls_of(layer_forward(c.context(), 0)).size() == expected.at("forward").size());
}

TEST_CASE("ring bytes of a layer's tensor-parallel calls") {
  for (const json cases = fixture("tensor_parallel_volume").at("cases"); const json& row : cases) {
    const int tp = row.at("tp");
    const auto volume = [&](bool sequence_parallel, bool regather) {
      Case c = make_case(tp, sequence_parallel, row.at("sequence"), row.at("micro_batch"),
                         row.at("hidden"));
      c.training.framework.regather_in_backward = regather;
      double sum = 0;
      for (const auto& operators :
           {layer_forward(c.context(), 0), layer_backward(c.context(), 0)}) {
        for (const auto& [kind, size] : calls_of(operators)) sum += bus_factor(kind, tp) * size;
      }
      return sum;
    };
    const json& expected = row.at("expected");
    CAPTURE(row.dump());
    CHECK(volume(false, true) ==
          Approx(expected.at("plain_ring_bytes_per_rank_per_layer").get<double>()).epsilon(1e-12));
    CHECK(volume(true, true) ==
          Approx(expected.at("sp_megatron").at("ring_bytes_per_rank_per_layer").get<double>())
              .epsilon(1e-12));
    CHECK(volume(true, false) == Approx(expected.at("sp_saving_gathered_input")
                                            .at("ring_bytes_per_rank_per_layer")
                                            .get<double>())
                                     .epsilon(1e-12));
  }
}

TEST_CASE("a pipeline hop carries the activation between stages") {
  for (const json cases = fixture("pipeline_hop").at("cases"); const json& row : cases) {
    Case c = make_case(row.at("tp"), row.at("sequence_parallel"), row.at("sequence"),
                       row.at("micro_batch"), row.at("hidden"));
    c.layout.grid.cp = row.at("cp");
    CAPTURE(row.dump());
    CHECK(pipeline_hop_size(c.context()) == bytes(row.at("expected_bytes_per_hop").get<double>()));
  }
}

TEST_CASE("matrix products of a GPT layer add up to 24 b s h^2 forward and twice that backward") {
  // Narayanan et al., arXiv 2104.04473, appendix: without attention scores 24 B s h^2.
  const Case c = make_case(4, true, 512, 2, 1024);
  Case gpt = c;
  gpt.model.gated_mlp = false;
  const auto products = [](const std::vector<Operator>& operators) {
    Flops sum;
    for (const Operator& op : operators) {
      if (std::holds_alternative<GemmShape>(op.work)) sum += executed_flops(op);
    }
    return sum;
  };
  const double forward = 24.0 * 2 * 512 * 1024.0 * 1024.0 / 4;  // one of 4 ranks
  CHECK(products(layer_forward(gpt.context(), 0)).value == Approx(forward).epsilon(1e-12));
  CHECK(products(layer_backward(gpt.context(), 0)).value == Approx(2 * forward).epsilon(1e-12));
}

TEST_CASE("projections of their own are as much work, and their gradients are added up") {
  Case c = make_case(2, false, 256, 1, 512);
  const auto flops_of = [](const std::vector<Operator>& operators) {
    double sum = 0;
    for (const Operator& op : operators) sum += executed_flops(op).value;
    return sum;
  };
  const double forward = flops_of(layer_forward(c.context(), 0));
  const double backward = flops_of(layer_backward(c.context(), 0));
  c.training.framework.separate_projections = true;
  CHECK(flops_of(layer_forward(c.context(), 0)) == forward);
  CHECK(flops_of(layer_backward(c.context(), 0)) == backward);
  double added = 0;
  int products = 0;
  for (const Operator& op : layer_backward(c.context(), 0)) {
    if (op.name == "add input gradient") added += std::get<MemoryCall>(op.work).moved.value;
    products += op.name == "qkv" || op.name == "fc1" ? 1 : 0;
  }
  // Two sums for queries, keys and values, one for gate and up: three operands of 16 bits each.
  CHECK(added == 3 * 3 * 2.0 * 256 * 512);
  CHECK(products == 2 * (3 + 2));
}

// 24 b s h^2 in the products of a layer's forward pass, of which the last has 8; attention 4 b s^2
// h without a mask.
TEST_CASE("recompute that stops early leaves out the last product of a layer") {
  Case c = make_case(1, false, 256, 1, 512);
  c.model.gated_mlp = false;
  c.training.recompute.kind = RecomputeKind::full;
  const auto recomputed = [&c] {
    double sum = 0;
    for (const Operator& op : layer_recompute(c.context(), 0, 0)) sum += executed_flops(op).value;
    return sum;
  };
  const double whole = recomputed();
  c.training.framework.recompute_stops_early = true;
  CHECK(whole - recomputed() == 8.0 * 256 * 512 * 512);
  CHECK(layer_recompute(c.context(), 0, 0).back().name == "activation");
}

TEST_CASE("full recompute repeats the forward pass of the layers that it names") {
  Case c = make_case(4, true, 512, 1, 1024);
  c.training.recompute = {.kind = RecomputeKind::full, .layers = 2};
  CHECK(layer_recompute(c.context(), 0, 1).size() == layer_forward(c.context(), 0).size());
  CHECK(layer_recompute(c.context(), 0, 2).empty());
  c.training.recompute = {.kind = RecomputeKind::selective, .layers = {}};
  CHECK(layer_recompute(c.context(), 0, 0).size() == 1);
}
