#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "models/activation_memory.h"
#include "models/expert_routing.h"
#include "models/layer_operators.h"
#include "simple_machine.h"

// Experts and latent attention: bytes and capacities against tests/data/context_expert.json, work
// and memory by hand.

using namespace flopcast;
using namespace flopcast::test;
using nlohmann::json;

namespace {

json fixture(const char* section) {
  std::ifstream file(std::string(FLOPCAST_TEST_DATA) + "/context_expert.json");
  return json::parse(file).at(section);
}

/// Two layers, the second with 4 experts of width 32, 2 per token, and a shared one of width 48;
/// hidden 64, 64 tokens.
Job small_job(ParallelGrid grid) {
  Job job;
  job.model = small_model(2);
  job.model.moe = MixtureOfExperts{
      .experts = 4, .top_k = 2, .expert_ffn = 32, .shared_ffn = 48, .first_dense = 1};
  job.layout.grid = grid;
  job.layout.sequence_parallel = grid.tp > 1;
  job.training.batch = {.sequence = 64, .micro_batch = 1, .global_batch = grid.dp};
  job.training.framework.host_per_operator = seconds(0);
  return job;
}

OperatorContext context_of(const Job& job) { return {job.model, job.layout, job.training, 128}; }

struct Call {
  StepGroup group;
  CollectiveKind kind;
  double size;
  bool operator==(const Call&) const = default;
};

std::vector<Call> calls_of(const std::vector<Operator>& operators, StepGroup group) {
  std::vector<Call> calls;
  for (const Operator& op : operators) {
    const auto* call = std::get_if<GroupCall>(&op.work);
    if (call != nullptr && call->group == group) {
      calls.push_back({call->group, call->kind, call->size.value});
    }
  }
  return calls;
}

double all_to_all_bytes(const std::vector<Operator>& operators, int ranks) {
  double sent = 0;
  for (const Call& call : calls_of(operators, StepGroup::expert)) {
    if (call.kind == CollectiveKind::all_to_all) sent += call.size * bus_factor(call.kind, ranks);
  }
  return sent;
}

double work_of(const std::vector<Operator>& operators) {
  double sum = 0;
  for (const Operator& op : operators) sum += executed_flops(op).value;
  return sum;
}

GemmShape gemm_named(const std::vector<Operator>& operators, std::string_view name) {
  for (const Operator& op : operators) {
    if (op.name == name) return std::get<GemmShape>(op.work);
  }
  FAIL("no operator of that name");
  return {};
}

}  // namespace

TEST_CASE("dispatch and combine send every routed token that leaves the rank") {
  for (const json cases = fixture("expert_volume").at("cases"); const json& row : cases) {
    CAPTURE(row.dump());
    const int ep = row.at("ep");
    Job job = small_job({.ep = ep, .dp = ep});
    job.model.hidden = row.at("hidden");
    job.model.moe->experts = 8 * ep;
    job.model.moe->top_k = row.at("top_k");
    job.training.batch.sequence = row.at("tokens_per_rank");
    if (row.at("bytes_per_element") == 1) job.training.parameter_dtype = DataType::fp8;
    const json& expected = row.at("expected");
    const double both = expected.at("all_to_all_dispatch_bytes_sent_per_rank").get<double>() +
                        expected.at("combine_bytes_sent_per_rank").get<double>();
    CHECK(all_to_all_bytes(layer_forward(context_of(job), 1), ep) == Approx(both).epsilon(1e-12));
    CHECK(all_to_all_bytes(layer_backward(context_of(job), 1), ep) == Approx(both).epsilon(1e-12));
  }
}

TEST_CASE("gathered, every rank receives the tokens of all others") {
  for (const json cases = fixture("expert_volume").at("cases"); const json& row : cases) {
    CAPTURE(row.dump());
    const int ep = row.at("ep");
    Job job = small_job({.ep = ep, .dp = ep});
    job.layout.dispatcher = TokenDispatcher::all_gather;
    job.model.hidden = row.at("hidden");
    job.model.moe->experts = 8 * ep;
    job.model.moe->top_k = row.at("top_k");
    job.training.batch.sequence = row.at("tokens_per_rank");
    if (row.at("bytes_per_element") == 1) job.training.parameter_dtype = DataType::fp8;
    const auto calls = calls_of(layer_forward(context_of(job), 1), StepGroup::expert);
    REQUIRE(calls.size() == 3);  // choices, tokens, and back
    CHECK(calls[1].kind == CollectiveKind::all_gather);
    CHECK(calls[1].size * bus_factor(calls[1].kind, ep) ==
          row.at("expected").at("all_gather_dispatcher_bytes_received_per_rank").get<double>());
    CHECK(calls[2].kind == CollectiveKind::reduce_scatter);
    CHECK(calls[2].size * bus_factor(calls[2].kind, ep) ==
          row.at("expected")
              .at("all_gather_dispatcher_reduce_scatter_bytes_sent_per_rank")
              .get<double>());
  }
}

// What leaves the node is what leaves it without levels, in as many fewer messages as a node has
// ranks. Inside it all but a rank's own line moves: 7 of 8 parts.
TEST_CASE("exchanges of two levels send the bytes of their closed form") {
  std::ifstream file(std::string(FLOPCAST_TEST_DATA) + "/nccl/collectives.json");
  const json golden = json::parse(file).at("hierarchical_all_to_all");
  for (const json& row : golden.at("cases")) {
    CAPTURE(row.dump());
    const int inner = row.at("ranks_per_node");
    const int nodes = row.at("nodes");
    const double size = row.at("bytes_per_rank");
    Job job = small_job({.ep = inner * nodes, .dp = inner * nodes});
    job.layout.dispatcher = TokenDispatcher::hierarchical;
    job.layout.expert_inner = inner;
    job.model.moe->experts = inner * nodes;
    job.training.batch.sequence = static_cast<std::int64_t>(size) / (2 * 64 * 2);  // two copies
    CHECK(layout_is_legal(job.model, job.layout, job.training.batch, inner * nodes));
    const json& expected = row.at("expected");
    for (const auto& pass :
         {layer_forward(context_of(job), 1), layer_backward(context_of(job), 1)}) {
      const auto inside = calls_of(pass, StepGroup::expert_inside);
      const auto across = calls_of(pass, StepGroup::expert_across);
      REQUIRE(inside.size() == 2);
      REQUIRE(across.size() == 2);
      for (const Call& call : across) {
        const double sent = call.size * bus_factor(call.kind, nodes);
        CHECK(call.kind == CollectiveKind::all_to_all);
        CHECK(sent == expected.at("bytes_to_other_nodes_per_rank").get<double>());
        CHECK(sent / (nodes - 1) == expected.at("message_bytes_same_rail").get<double>());
      }
      for (const Call& call : inside) {
        CHECK(call.kind == CollectiveKind::all_to_all);
        CHECK(call.size * bus_factor(call.kind, inner) == Approx(size * 7 / 8));
      }
    }
  }
}

// Two nodes of two ranks: neighbours {0, 1} and {2, 3}, lines {0, 2} and {1, 3}. 64 tokens to two
// experts each of 64 numbers of 2 B: half of 16384 B at each level, four times.
TEST_CASE("neighbours exchange first, then ranks in line") {
  Job job = small_job({.ep = 4, .dp = 4});
  job.layout.dispatcher = TokenDispatcher::hierarchical;
  job.layout.expert_inner = 2;
  const Step step = run_step(job);
  CHECK(step.sent(0, StepCategory::expert) ==
        Approx(2 * 4 * 16384 / 2 + 3 * 4 * 8));  // and token counts: to 3 others, 4 of 8 B
  const Cluster cluster(simple_cluster(4, gigabytes_per_second(100)));
  const Plan plan = lower(job, cluster, simple_profile({}), Ranks::all);
  std::vector<std::vector<std::uint32_t>> pairs;
  for (const Group& group : plan.workload.groups) {
    if (group.members.size() != 2) continue;
    pairs.push_back({index_of(group.members[0]), index_of(group.members[1])});
  }
  CHECK(pairs == std::vector<std::vector<std::uint32_t>>{{0, 1}, {2, 3}, {0, 2}, {1, 3}});
  // Way there: neighbours, then lines; way back the other way round.
  std::vector<StepGroup> order;
  for (const Operator& op : layer_forward(context_of(job), 1)) {
    const auto* call = std::get_if<GroupCall>(&op.work);
    if (call != nullptr && call->exchanges_tokens) order.push_back(call->group);
  }
  CHECK(order == std::vector<StepGroup>{StepGroup::expert_inside, StepGroup::expert_across,
                                        StepGroup::expert_across, StepGroup::expert_inside});
  job.layout.expert_inner = 3;
  const auto broken = layout_violations(job.model, job.layout, job.training.batch, 4);
  REQUIRE(broken.size() == 1);
  CHECK(broken[0].key == "parallel.ep_inner");
  CHECK(broken[0].nearest == std::vector<std::int64_t>{2});
  job.training.routing.kind = RoutingKind::zipf;
  CHECK(lowering_gap(job).has_value());
}

TEST_CASE("tokens may travel to experts in fewer bits than back") {
  Job job = small_job({.ep = 2, .dp = 2});
  job.training.dispatch_dtype = DataType::fp8;
  const auto calls = calls_of(layer_forward(context_of(job), 1), StepGroup::expert);
  REQUIRE(calls.size() == 3);
  CHECK(calls[1].size == 128 * 64);
  CHECK(calls[2].size == 128 * 64 * 2);
}

TEST_CASE("capacity is that of Megatron") {
  for (const json cases = fixture("expert_capacity").at("cases"); const json& row : cases) {
    CAPTURE(row.dump());
    const MixtureOfExperts moe{.experts = row.at("experts"), .top_k = row.at("top_k")};
    CHECK(expert_capacity(row.at("tokens"), moe, row.at("capacity_factor")) ==
          row.at("capacity").get<std::int64_t>());
  }
}

TEST_CASE("a token's experts lie on as many nodes as chance puts them") {
  for (const json cases = fixture("expert_node_fan_out").at("cases"); const json& row : cases) {
    CAPTURE(row.dump());
    CHECK(distinct_places(row.at("experts"), row.at("nodes"), row.at("top_k")) ==
          Approx(row.at("expected_distinct_nodes").get<double>()).epsilon(1e-12));
  }
}

// Two experts of 4 on 2 ranks: the second is on the first one's rank with probability 1/3, so that
// 5/3 copies travel instead of 2. Limited to one of two nodes, one copy does.
TEST_CASE("copies for one place travel as one") {
  MixtureOfExperts moe{.experts = 4, .top_k = 2};
  CHECK(merged_copies(moe, {.ranks_per_node = 2, .nodes = 1}) == Approx(5.0 / 6));
  CHECK(merged_copies(moe, {.ranks_per_node = 1, .nodes = 2}) == Approx(5.0 / 6));
  moe.node_limit = 1;
  CHECK(merged_copies(moe, {.ranks_per_node = 1, .nodes = 2}) == Approx(1.0 / 2));
  Job job = small_job({.ep = 2, .dp = 2});
  job.layout.dispatcher = TokenDispatcher::once_per_node;
  const Step step = run_step(job);
  CHECK(step.calls(0, StepCategory::expert) == 4);
  CHECK(step.sent(0, StepCategory::expert) == Approx(4 * 128 * 64 * 2 / 2 * 5.0 / 6));
}

TEST_CASE("each expert computes its share of what all ranks send") {
  // 64 tokens to 2 experts each: 128 sent and received; 2 local experts compute 64 each.
  Job job = small_job({.ep = 2, .dp = 2});
  RoutedTokens tokens = routed_tokens(context_of(job));
  CHECK(tokens.sent == 128);
  CHECK(tokens.held == 128);
  CHECK(tokens.experts == 2);
  CHECK(tokens.per_expert == 64);
  const auto forward = layer_forward(context_of(job), 1);
  const GemmShape fc1 = gemm_named(forward, "expert fc1");
  CHECK(fc1.m == 64);
  CHECK(fc1.n == 64);
  CHECK(fc1.k == 64);
  CHECK(fc1.batch == 2);
  // Capacity ceil(64 * 2 / 4 * 1.3) = 42 for each of 4 experts; two ranks fill each expert.
  job.training.capacity_factor = 1.3;
  tokens = routed_tokens(context_of(job));
  CHECK(tokens.sent == 168);
  CHECK(tokens.per_expert == 84);
}

// tp 2 with sequence parallelism: 32 tokens per rank, 64 routed. Expert tensor parallelism gathers
// what both ranks received: 128 tokens of 64 16-bit numbers.
TEST_CASE("expert tensor parallelism gathers tokens and reduces outputs") {
  const Job job = small_job({.tp = 2, .etp = 2});
  const auto forward = layer_forward(context_of(job), 1);
  CHECK(
      calls_of(forward, StepGroup::expert_tensor) ==
      std::vector<Call>{{StepGroup::expert_tensor, CollectiveKind::all_gather, 128 * 64 * 2},
                        {StepGroup::expert_tensor, CollectiveKind::reduce_scatter, 128 * 64 * 2}});
  CHECK(calls_of(forward, StepGroup::expert).empty());
  const GemmShape fc2 = gemm_named(forward, "expert fc2");
  CHECK(fc2.m == 32);
  CHECK(fc2.k == 16);
  CHECK(fc2.batch == 4);
}

// Per token: attention 4 x 64 x 64 weights, router 64 x 4, two experts of 3 x 64 x 32, the shared
// one of 3 x 64 x 48; scores and values over the causal half.
TEST_CASE("a layer with experts does the work of its active weights") {
  const double weights = 4 * 64 * 64 + 64 * 4 + 2 * 3 * 64 * 32 + 3 * 64 * 48;
  const double attention = 0.5 * 2 * 2 * 64 * 64 * 64;
  for (const auto& grid : {ParallelGrid{}, ParallelGrid{.ep = 2, .dp = 2}, ParallelGrid{.tp = 2},
                           ParallelGrid{.tp = 2, .etp = 2}, ParallelGrid{.tp = 2, .ep = 2}}) {
    const Job job = small_job(grid);
    CAPTURE(grid.tp, grid.ep, grid.etp);
    CHECK(work_of(layer_forward(context_of(job), 1)) ==
          Approx((2 * 64 * weights + attention) / grid.tp));
    CHECK(work_of(layer_backward(context_of(job), 1)) ==
          Approx((4 * 64 * weights + 2.5 * attention) / grid.tp));
  }
}

// Norm input 64 x 64 x 2 B and 4 B of statistics a token, router input the same size, scores 4 x 4
// B; 128 routed tokens: fc1 input 64, gate and up 64, fc2 input 32, each 2 B, and 4 B of
// probability; shared: 64 tokens x (96 + 48) x 2 B.
TEST_CASE("a layer with experts keeps routed tokens once for each expert they go to") {
  const Job job = small_job({});
  const auto saved = saved_tensors(context_of(job), 1);
  double experts = 0;
  bool inside = false;
  for (const SavedTensor& tensor : saved) {
    inside |= tensor.name == "MLP norm input";
    if (inside) experts += tensor.size.value;
  }
  CHECK(experts ==
        64 * (64 * 2 + 4 + 64 * 2 + 4 * 4) + 128 * (2 * (64 + 64 + 32) + 4) + 64 * (96 + 48) * 2);
}

// Dense parameters (attention, dense MLP, shared expert, router, ends) are reduced over 4 ranks;
// a rank holds 2 of 4 experts of 3 x 64 x 32 with one copy on another rank.
TEST_CASE("expert gradients are reduced over the ranks that hold the same experts") {
  Job job = small_job({.ep = 2, .dp = 4});
  const double attention = 4 * 64 * 64 + 2 * 64;
  const double dense = 2 * attention + 3 * 64 * 96 + 64 * 4 + 3 * 64 * 48 + 64 + 2 * 128 * 64;
  const double experts = 2 * 3 * 64 * 32;
  for (const int zero : {0, 1}) {
    job.layout.zero = zero;
    const Step step = run_step(job);
    CAPTURE(zero);
    const double factor = zero == 0 ? 2 : 1;
    // At most 63 elements of padding before a tensor and 127 at the end of each of two buckets.
    const double sent = factor * 4 * (3.0 / 4 * dense + 1.0 / 2 * experts);
    CHECK(step.sent(0, StepCategory::gradient) >= Approx(sent));
    CHECK(step.sent(0, StepCategory::gradient) <= sent + factor * 4 * 63 * 30);
    CHECK(step.peak(0, MemoryPool::parameters) == static_cast<std::int64_t>(2 * (dense + experts)));
    const double own = zero == 0 ? dense + experts : dense / 4 + experts / 2;
    CHECK(step.peak(0, MemoryPool::optimizer) == static_cast<std::int64_t>(12 * own));
    CHECK(step.calls(0, StepCategory::gradient) == 2);
  }
}

// With etp 1 the experts of both tensor-parallel ranks are copies: their gradients are reduced
// although nothing else is.
TEST_CASE("experts that tensor-parallel ranks copy are reduced between them") {
  const Step step = run_step(small_job({.tp = 2}));
  CHECK(step.sent(0, StepCategory::gradient) == 2.0 / 2 * 4 * (4 * 3 * 64 * 32));
}

// One micro-batch: two all-to-alls forward and two backward of 128 tokens x 64 x 2 B, of which half
// leave, and an all-gather of 2 x 4 counts of 8 B.
TEST_CASE("tokens travel four times a layer") {
  const Step step = run_step(small_job({.ep = 2, .dp = 2}));
  CHECK(step.calls(0, StepCategory::expert) == 5);
  CHECK(step.sent(0, StepCategory::expert) == 4 * 128 * 64 * 2 / 2 + 64 / 2);
}

namespace {

/// Query latent 24, key-value latent 20, heads of 12 + 8 and 16 for values; 64 tokens.
Job latent_job(ParallelGrid grid) {
  Job job = small_job(grid);
  job.model.moe.reset();
  job.model.mla = LatentAttention{
      .q_rank = 24, .kv_rank = 20, .qk_nope_dim = 12, .qk_rope_dim = 8, .v_dim = 16};
  return job;
}

}  // namespace

TEST_CASE("latent attention does the work of its projections") {
  const double weights =
      64 * 24 + 24 * 4 * 20 + 64 * 28 + 20 * 4 * (12 + 16) + 4 * 16 * 64 + 3 * 64 * 96;
  const double attention = 0.5 * 2 * 64 * 64 * 4 * (20 + 16);
  for (const int tp : {1, 2}) {
    const Job job = latent_job({.tp = tp});
    CHECK(work_of(layer_forward(context_of(job), 0)) ==
          Approx((2 * 64 * weights + attention) / tp));
    CHECK(work_of(layer_backward(context_of(job), 0)) ==
          Approx((4 * 64 * weights + 2.5 * attention) / tp));
  }
}

TEST_CASE("latents are gathered over the tensor-parallel ranks, not the hidden state") {
  const auto kind = CollectiveKind::all_gather;
  std::vector<Call> calls =
      calls_of(layer_forward(context_of(latent_job({.tp = 2})), 0), StepGroup::tensor);
  REQUIRE(calls.size() == 6);  // and a pair for the MLP
  CHECK(calls[0] == Call{StepGroup::tensor, kind, 64 * 24 * 2});
  CHECK(calls[1] == Call{StepGroup::tensor, kind, 64 * 8 * 2});
  CHECK(calls[2] == Call{StepGroup::tensor, kind, 64 * 20 * 2});
  CHECK(calls[3] == Call{StepGroup::tensor, CollectiveKind::reduce_scatter, 64 * 64 * 2});
}

// Down projections on all tokens of every rank without sequence parallelism.
TEST_CASE("down projections are repeated on tensor-parallel ranks without sequence parallelism") {
  Job job = latent_job({.tp = 2});
  CHECK(gemm_named(layer_forward(context_of(job), 0), "kv down").m == 32);
  job.layout.sequence_parallel = false;
  CHECK(gemm_named(layer_forward(context_of(job), 0), "kv down").m == 64);
}

// Per token: norm input and down input 64 each, latents before and after their norm 2 x 44, queries
// and keys 4 x 20, values and output 4 x 16, each 2 B; statistics 4 B of three norms; 4 heads x 4
// B.
TEST_CASE("latent attention keeps latents, queries, keys and values") {
  const Job job = latent_job({});
  double attention = 0;
  for (const SavedTensor& tensor : saved_tensors(context_of(job), 0)) {
    if (tensor.name == "MLP norm input") break;
    attention += tensor.size.value;
  }
  CHECK(attention == 64 * (2 * (64 + 64 + 2 * 44 + 2 * 80 + 2 * 64) + 3 * 4 + 4 * 4));
}
