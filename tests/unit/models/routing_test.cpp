#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "models/routing_loads.h"
#include "simple_machine.h"

// Where tokens go: closed forms of loads and drops, and what a step makes of them.

using namespace flopcast;
using namespace flopcast::test;

namespace {

constexpr int kRanks = 4;
constexpr std::int64_t kTokens = 1536;
constexpr std::int64_t kHidden = 64;

/// One layer of 8 experts of width 32, one per token, two on each of 4 ranks; 4 micro-batches.
Job small_job() {
  Job job;
  job.model.layers = 1;
  job.model.hidden = kHidden;
  job.model.heads = job.model.kv_heads = 4;
  job.model.head_dim = 16;
  job.model.ffn = 96;
  job.model.vocab = 128;
  job.model.moe = MixtureOfExperts{.experts = 8, .top_k = 1, .expert_ffn = 32};
  job.layout.grid = {.ep = kRanks, .dp = kRanks};
  job.training.batch = {.sequence = kTokens, .micro_batch = 1, .global_batch = 4 * kRanks};
  job.training.framework.host_per_operator = seconds(0);
  return job;
}

Job zipf_job(double exponent) {
  Job job = small_job();
  job.training.routing = {.kind = RoutingKind::zipf, .exponent = exponent};
  return job;
}

RoutingLoads loads_of(const Job& job) { return {job, 4, {}}; }

/// Every rank for itself, on a machine whose products take as long as they are large.
struct AllRanks {
  Plan plan;
  Result result;
};

Profile proportional_profile() {
  Profile profile = simple_profile({.gemm = seconds(0)});
  const auto bf16 = static_cast<std::size_t>(DataType::bf16);
  profile.peak_dense[bf16] = flops_per_second(1e12);
  return profile;
}

AllRanks run_all(const Job& job, bool fold = false) {
  const Cluster cluster(simple_cluster(job.layout.grid.world(), gigabytes_per_second(100)));
  AllRanks out{.plan = lower(job, cluster, proportional_profile(), Ranks::all), .result = {}};
  if (fold) out.plan = folded(std::move(out.plan));
  out.result = run(out.plan.workload);
  return out;
}

}  // namespace

TEST_CASE("demand follows Zipf's law") {
  const std::vector<double> demand = expert_demand(zipf_weights(8, 1), 1);
  const double harmonic = 761.0 / 280;  // 1 + 1/2 + ... + 1/8
  for (std::size_t rank = 0; rank < 8; ++rank) {
    CHECK(demand[rank] == Approx(1 / (static_cast<double>(rank + 1) * harmonic)).epsilon(1e-12));
  }
}

TEST_CASE("no expert is wanted twice by a token") {
  // 2 choices over weights 10, 1, 1: the first one always, the other one of the rest.
  CHECK(expert_demand(std::vector<double>{1, 10, 1}, 2) == std::vector<double>{0.5, 1, 0.5});
}

TEST_CASE("what ranks get adds up to what all send") {
  const RoutingLoads loads = loads_of(zipf_job(1.2));
  REQUIRE(loads.skewed());
  std::uint32_t first = 0;
  bool moves = false;
  for (std::int64_t batch = 0; batch < 4; ++batch) {
    std::uint32_t sum = 0;
    std::uint32_t most = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      sum += loads.at(0, batch, rank).own;
      most = std::max(most, loads.at(0, batch, rank).own);
    }
    CHECK(sum == kRanks * RoutingLoad::kBalanced);
    CHECK(loads.at(0, batch, 0).hottest == most);
    CHECK(loads.at(0, batch, -1).own == most);
    if (batch == 0) first = loads.at(0, batch, 0).own;
    moves |= loads.at(0, batch, 0).own != first;
  }
  CHECK(moves);  // each micro-batch is drawn anew
}

TEST_CASE("the fullest expert is that of the closed form") {
  CHECK(loads_of(zipf_job(1)).summary().expert_load == Approx(8 * 280.0 / 761).epsilon(1e-12));
  CHECK(loads_of(small_job()).summary().expert_load == Approx(1).epsilon(1e-12));
}

// Capacity ceil(1536 / 8 * 1.25) = 240 of 1536 tokens: the first expert is asked for 280/761 of
// them, the second for half of that, the third for 0.1226, which it can hold.
TEST_CASE("what is over capacity is dropped") {
  Job job = zipf_job(1);
  job.training.capacity_factor = 1.25;
  const double first = 280.0 / 761;
  const double dropped = first - 240.0 / 1536 + (first / 2 - 240.0 / 1536);
  for (const bool pads : {false, true}) {
    job.training.pad_to_capacity = pads;
    const RoutingLoads loads = loads_of(job);
    CHECK(loads.summary().dropped == Approx(dropped).epsilon(1e-12));
    CHECK(loads.skewed() == !pads);
    if (!pads) CHECK(loads.at(0, 0, 0).mean == Approx(256 * (1 - dropped)).margin(0.25));
  }
}

TEST_CASE("padded, a step does not depend on routing") {
  Job balanced = small_job();
  Job skewed = zipf_job(1.5);
  balanced.training.capacity_factor = skewed.training.capacity_factor = 1.25;
  CHECK(run_all(skewed).result.makespan == run_all(balanced).result.makespan);
}

TEST_CASE("an even law is balanced routing") {
  CHECK_FALSE(loads_of(zipf_job(0)).skewed());
  CHECK(run_all(zipf_job(0)).result.makespan == run_all(small_job()).result.makespan);
}

TEST_CASE("a router that collapses comes to its last exponent") {
  TokenRouting routing{.kind = RoutingKind::zipf, .exponent = 0.2};
  CHECK(exponent_now(routing) == 0.2);
  routing.final_exponent = 1.2;
  routing.drift_steps = 1000;
  routing.step = 500;
  CHECK(exponent_now(routing) == Approx(0.7));
  routing.step = 2000;
  CHECK(exponent_now(routing) == Approx(1.2));
}

// Half of the tokens go to the first rank, which so gets twice its share. Every micro-batch has
// four all-to-alls of which 3/4 leave the rank, at 100 GB/s.
TEST_CASE("an exchange waits for the hot rank and moves no more bytes") {
  Job job = small_job();
  const AllRanks balanced = run_all(job);
  job.training.routing.kind = RoutingKind::measured;
  job.training.routing.counts = {{3, 3, 1, 1, 1, 1, 1, 1}};
  const AllRanks skewed = run_all(job);
  const auto expert = static_cast<std::size_t>(StepCategory::expert);
  const double exchange = 4 * 4 * kTokens * kHidden * 2 * 0.75 / 100e9;
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    const RankSummary& before = balanced.result.ranks[rank];
    const RankSummary& after = skewed.result.ranks[rank];
    CHECK(after.bytes_by_category[expert] == Approx(before.bytes_by_category[expert]));
    CHECK(to_seconds(after.by_category[expert].busy - before.by_category[expert].busy).value ==
          Approx(exchange).epsilon(1e-6));
  }
  // The first rank's products take twice as long, the others' less.
  const auto forward = static_cast<std::size_t>(StepCategory::forward);
  const auto busy = [&](const AllRanks& run, std::size_t rank) {
    return to_seconds(run.result.ranks[rank].by_category[forward].busy).value;
  };
  const double products = 4 * 2.0 * kTokens * 3 * kHidden * 32 / 1e12;
  CHECK(busy(skewed, 0) - busy(balanced, 0) == Approx(products).epsilon(0.01));
  CHECK(busy(balanced, 1) > busy(skewed, 1));
  CHECK(skewed.plan.routing->hottest_rank == 0);
  CHECK(skewed.plan.routing->hottest_rank_load == Approx(2));
  CHECK(skewed.result.makespan > balanced.result.makespan);
}

TEST_CASE("folding splits the ranks of a group of experts and nothing else") {
  Job job = zipf_job(1);
  job.layout.grid.dp = 3 * kRanks;  // three groups of experts
  job.training.batch.global_batch *= 3;
  const AllRanks all = run_all(job);
  const AllRanks classes = run_all(job, true);
  CHECK(classes.result.makespan == all.result.makespan);
  REQUIRE(classes.plan.workload.ranks.size() == kRanks);
  for (const Rank& rank : classes.plan.workload.ranks) CHECK(rank.count == 3);
  job.training.routing.kind = RoutingKind::balanced;
  CHECK(run_all(job, true).plan.workload.ranks.size() == 1);
}

TEST_CASE("activations follow what a rank's experts get") {
  Job job = small_job();
  job.training.batch.global_batch = kRanks;
  const AllRanks balanced = run_all(job);
  job.training.routing.kind = RoutingKind::measured;
  job.training.routing.counts = {{3, 3, 1, 1, 1, 1, 1, 1}};
  const AllRanks skewed = run_all(job);
  const auto peak = [](const AllRanks& run, std::size_t rank) {
    const auto pool = static_cast<std::size_t>(MemoryPool::activations);
    return static_cast<double>(run.result.ranks[rank].memory.pool_peak[pool]);
  };
  const double routed = kTokens * (2 * (kHidden + 3 * 32) + 4);  // inputs, gate, up, product
  CHECK(peak(skewed, 0) - peak(balanced, 0) == Approx(routed));
}

// Of 4 ranks on two nodes of 2, two of three peers are behind a card of 10 GB/s; in one node all
// are behind NVLink of 100 GB/s.
TEST_CASE("experts inside a node beat experts across nodes") {
  const Job job = small_job();
  const auto busy = [&](int gpus) {
    ClusterSpec spec = simple_cluster(gpus, gigabytes_per_second(100));
    spec.system.gpu.pcie = gigabytes_per_second(50);
    spec.system.nics = gpus;
    spec.system.nic_bandwidth = gigabytes_per_second(10);
    spec.nodes = kRanks / gpus;
    spec.fabric.kind = FabricKind::single_switch;
    spec.fabric.hop_latency = seconds(0);
    const Result result = run(lower(job, Cluster(spec), simple_profile({})).workload);
    const auto expert = static_cast<std::size_t>(StepCategory::expert);
    return to_seconds(result.ranks[0].by_category[expert].busy);
  };
  CHECK(busy(2) / busy(4) == Approx(2.0 / 3 / 10 * 100).epsilon(0.01));
}

TEST_CASE("capacity trades drops for bytes") {
  double dropped = 1;
  double sent = 0;
  for (const double factor : {0.5, 1.0, 2.0, 4.0}) {
    Job job = zipf_job(1);
    job.training.capacity_factor = factor;
    const AllRanks run = run_all(job);
    const double bytes =
        run.result.ranks[0].bytes_by_category[static_cast<std::size_t>(StepCategory::expert)];
    CHECK(run.plan.routing->dropped < dropped);
    CHECK(bytes > sent);
    dropped = run.plan.routing->dropped;
    sent = bytes;
  }
  CHECK(dropped == 0);
}

// Odds of 2 to 1, 1 and 1 over pairs of 4 experts: of 9 parts ab, ac and ad have two each, bc, bd
// and cd one each. So a is chosen by 6/9, the others by 4/9. With a and b on one place and c and d
// on another, cd misses the first and ab the second. With one place at most ab has two parts of
// three. Half of a's copies dropped, ac and ad reach the first place by half, ab still by b.
TEST_CASE("a place gets a token once, by the odds that give each expert its demand") {
  const std::vector<double> demand{6.0 / 9, 4.0 / 9, 4.0 / 9, 4.0 / 9};
  const std::vector<ExpertOdds> odds = expert_odds(demand);
  CHECK(odds[0].with / odds[1].with == Approx(2).epsilon(1e-8));
  CHECK(odds[2].with / odds[1].with == Approx(1).epsilon(1e-8));
  const auto visited = [&odds](std::vector<double> kept, std::int64_t limit) {
    return visited_places(odds, kept, 2, {.experts_each = 2, .limit = limit});
  };
  const std::vector<double> all{1, 1, 1, 1};
  for (const std::int64_t limit : {0, 2}) {
    CHECK(visited(all, limit)[0] == Approx(8.0 / 9).epsilon(1e-8));
    CHECK(visited(all, limit)[1] == Approx(7.0 / 9).epsilon(1e-8));
  }
  CHECK(visited(all, 1)[0] == Approx(2.0 / 3).epsilon(1e-8));
  CHECK(visited(all, 1)[1] == Approx(1.0 / 3).epsilon(1e-8));
  CHECK(visited({0.5, 1, 1, 1}, 0)[0] == Approx(6.0 / 9).epsilon(1e-8));
  CHECK(visited({0.5, 1, 1, 1}, 0)[1] == Approx(7.0 / 9).epsilon(1e-8));
}

// Always a, and of the other three each by a third: a's place has it always.
TEST_CASE("an expert of every token is on its place for every token") {
  const std::vector<ExpertOdds> odds =
      expert_odds(std::vector<double>{1, 1.0 / 3, 1.0 / 3, 1.0 / 3});
  const std::vector<double> all{1, 1, 1, 1};
  CHECK(visited_places(odds, all, 2, {.experts_each = 2})[0] == 1);
  CHECK(visited_places(odds, all, 2, {.experts_each = 2})[1] == Approx(2.0 / 3));
  // With one place at most the second expert is b; of two such experts on two places none is left
  // out.
  CHECK(visited_places(odds, all, 2, {.experts_each = 2, .limit = 1})[1] ==
        Approx(0).margin(1e-12));
  const std::vector<ExpertOdds> both = expert_odds(std::vector<double>{1, 0, 1, 0});
  CHECK(visited_places(both, all, 2, {.experts_each = 2, .limit = 1}) == std::vector<double>{1, 1});
}

TEST_CASE("equal odds visit places by the hypergeometric law") {
  std::ifstream file(std::string(FLOPCAST_TEST_DATA) + "/context_expert.json");
  const nlohmann::json golden = nlohmann::json::parse(file).at("expert_node_fan_out");
  for (const nlohmann::json& row : golden.at("cases")) {
    const std::int64_t experts = row.at("experts");
    const std::int64_t nodes = row.at("nodes");
    const std::int64_t top_k = row.at("top_k");
    const std::vector<double> demand(static_cast<std::size_t>(experts),
                                     static_cast<double>(top_k) / static_cast<double>(experts));
    const std::vector<double> all(demand.size(), 1);
    const std::vector<ExpertOdds> odds = expert_odds(demand);
    const auto places_of = [&](std::int64_t each, std::int64_t limit) {
      const auto visited = visited_places(odds, all, top_k, {each, limit});
      return std::accumulate(visited.begin(), visited.end(), 0.0);
    };
    const double expected = row.at("expected_distinct_nodes");
    CHECK(places_of(experts / nodes, 0) == Approx(expected).epsilon(1e-9));
    CHECK(places_of(experts / nodes, nodes - 1) <= static_cast<double>(nodes - 1));
  }
  // DeepSeek-V3: 256 experts on 8 nodes, 8 of a token on 4 nodes at most. Of the 128 experts on the
  // nodes that it picks C(96, 8) of C(128, 8) choices miss a given one: 4 (1 - 0.092747) = 3.6290.
  const std::vector<double> demand(256, 8.0 / 256);
  const std::vector<double> all(256, 1);
  const auto visited = visited_places(expert_odds(demand), all, 8, {32, 4});
  CHECK(std::accumulate(visited.begin(), visited.end(), 0.0) == Approx(3.6290).epsilon(1e-4));
}

// 8 experts on 4 ranks of two nodes, two of a token, measured so that the four of the first node
// are wanted twice as often as the others: of pairs of two there, of one each and of two in the
// other node. Their odds are r to 1 with r (3 r + 4) = 2 (4 r + 3), so r = 2.23014. All pairs:
// 6 r^2 + 16 r + 6 = 71.523; 6 miss the first node, 6 r^2 = 29.841 the second, so that nodes get
// 0.91611 + 0.58278 = 1.49889 copies of a token instead of two. One of two nodes at most: 35.841
// in all, 0.83259 and 0.16741.
TEST_CASE("nodes get each token once, the hot one more of them") {
  Job job = small_job();
  job.model.moe->top_k = 2;
  job.layout.dispatcher = TokenDispatcher::once_per_node;
  job.training.routing.kind = RoutingKind::measured;
  job.training.routing.counts = {{2, 2, 2, 2, 1, 1, 1, 1}};
  ClusterSpec spec = simple_cluster(2, gigabytes_per_second(100));
  spec.system.gpu.pcie = gigabytes_per_second(50);
  spec.system.nics = 2;
  spec.system.nic_bandwidth = gigabytes_per_second(10);
  spec.nodes = 2;
  spec.fabric.kind = FabricKind::single_switch;
  const auto expert = static_cast<std::size_t>(StepCategory::expert);
  const auto step = [&] {
    const Plan plan = lower(job, Cluster(spec), simple_profile({}), Ranks::all);
    return std::pair(run(plan.workload).ranks[0].bytes_by_category[expert],
                     plan.routing->exchange_load);
  };
  // Four exchanges in each of four micro-batches; of what is sent 3/4 leaves the rank.
  const double token = 4.0 * 4 * kTokens * kHidden * 2 * 0.75;
  CHECK(step().first == Approx(1.49889 * token).epsilon(1e-4));
  CHECK(step().second == Approx(0.91611 / 1.49889 * 2).epsilon(3e-3));
  job.model.moe->node_limit = 1;
  CHECK(step().first == Approx(token).epsilon(1e-6));
  CHECK(step().second == Approx(0.83259 * 2).epsilon(3e-3));
}

// Kernels that take no time: two groups of 8 products forward, four backward, 10 us each.
TEST_CASE("the host launches each expert's product") {
  Job job = small_job();
  job.layout.grid = {};
  job.training.batch.global_batch = 1;
  const KernelTimes none = no_kernel_times();
  const auto waits = [&](const KernelTimes& times) {
    const Step step = run_step(job, times);
    const auto overhead = static_cast<std::size_t>(StepCategory::overhead);
    return to_seconds(step.rank(0).by_category[overhead].busy).value;
  };
  CHECK(waits(none) == 0);
  job.training.framework.host_per_expert_product = microseconds(10);
  CHECK(waits(none) == Approx(6 * 8 * 10e-6));
  // Scores and values of all heads are one launch each.
  job.training.framework.fused_attention = false;
  CHECK(waits(none) == Approx(6 * 8 * 10e-6));
  job.training.framework.fused_attention = true;

  // Attention gives the host time to get ahead, unless it must wait for the counts after it.
  KernelTimes busy = none;
  busy.attention_forward = busy.attention_backward = milliseconds(1);
  CHECK(waits(busy) == 0);
  job.training.framework.waits_for_token_counts = true;
  CHECK(waits(busy) == Approx(2 * 8 * 10e-6));
  job.training.capacity_factor = 1;  // padded: the host knows
  CHECK(waits(busy) == 0);
}
