#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/layer_operators.h"
#include "models/layout.h"
#include "simple_machine.h"

// Context parallelism: bytes against the closed forms of tests/data/context_expert.json, each with
// its source; time by hand.

using namespace flopcast;
using namespace flopcast::test;
using nlohmann::json;

namespace {

json fixture(const char* section) {
  std::ifstream file(std::string(FLOPCAST_TEST_DATA) + "/context_expert.json");
  return json::parse(file).at(section);
}

Job job_of(const json& row, ContextKind kind) {
  Job job;
  job.model.layers = 1;
  job.model.heads = row.at("heads");
  job.model.kv_heads = row.at("kv_heads");
  job.model.head_dim = row.at("head_dim");
  job.model.hidden = job.model.heads * job.model.head_dim;
  job.model.ffn = 4 * job.model.hidden;
  job.model.vocab = 1024;
  job.layout.grid.cp = row.at("cp");
  job.layout.context = kind;
  job.training.batch = {
      .sequence = row.at("sequence"), .micro_batch = row.at("micro_batch"), .global_batch = 1};
  return job;
}

struct Sent {
  double gathered = 0;
  double reduced = 0;
  double passed = 0;  // send/recv and all-to-all
};

Sent sent_in(const std::vector<Operator>& operators, int cp) {
  Sent sent;
  for (const Operator& op : operators) {
    const auto* call = std::get_if<GroupCall>(&op.work);
    if (call == nullptr) continue;
    CHECK(call->group == StepGroup::context);
    const double size = call->size.value * bus_factor(call->kind, cp);
    if (call->kind == CollectiveKind::all_gather) {
      sent.gathered += size;
    } else if (call->kind == CollectiveKind::reduce_scatter) {
      sent.reduced += size;
    } else {
      sent.passed += size;
    }
  }
  return sent;
}

double attention_flops_of(const std::vector<Operator>& operators) {
  double sum = 0;
  for (const Operator& op : operators) {
    if (std::holds_alternative<AttentionCall>(op.work)) sum += executed_flops(op).value;
  }
  return sum;
}

}  // namespace

TEST_CASE("context parallelism sends the bytes of its closed forms") {
  for (const json cases = fixture("context_parallel_volume").at("cases"); const json& row : cases) {
    CAPTURE(row.dump());
    const json& expected = row.at("expected");
    const int cp = row.at("cp");
    const auto number = [&expected](const char* key) {
      return Approx(expected.at(key).get<double>()).epsilon(1e-12);
    };
    const auto sent = [&row, cp](ContextKind kind, bool forward) {
      const Job job = job_of(row, kind);
      const OperatorContext context{job.model, job.layout, job.training, 1024};
      return sent_in(forward ? layer_forward(context, 0) : layer_backward(context, 0), cp);
    };
    CHECK(sent(ContextKind::ring, true).passed == number("ring_forward_bytes_sent_per_rank"));
    CHECK(sent(ContextKind::ring, false).passed == number("ring_backward_bytes_sent_per_rank"));
    const Sent gathered = sent(ContextKind::all_gather, false);
    CHECK(sent(ContextKind::all_gather, true).gathered ==
          number("all_gather_forward_bytes_received_per_rank"));
    CHECK(gathered.gathered == number("all_gather_backward_regather_bytes"));
    CHECK(gathered.reduced == number("all_gather_backward_reduce_scatter_bytes_sent_per_rank"));
    if (expected.at("all_to_all_forward_bytes_sent_per_rank").is_null()) {
      const Job job = job_of(row, ContextKind::all_to_all);  // more ranks than key-value heads
      CHECK_FALSE(layout_is_legal(job.model, job.layout, job.training.batch, cp));
      continue;
    }
    CHECK(sent(ContextKind::all_to_all, true).passed ==
          number("all_to_all_forward_bytes_sent_per_rank"));
    CHECK(sent(ContextKind::all_to_all, false).passed ==
          number("all_to_all_backward_bytes_sent_per_rank"));
  }
}

// 2 b a s^2 (d + d) / 2 forward over the causal half, 2.5 times that backward, cp-th part each.
TEST_CASE("context parallelism splits core attention evenly") {
  const json row = fixture("context_parallel_volume").at("cases").at(1);
  const auto kind = GENERATE(ContextKind::ring, ContextKind::all_gather, ContextKind::all_to_all);
  const Job job = job_of(row, kind);
  const OperatorContext context{job.model, job.layout, job.training, 1024};
  const double whole = 2.0 * 32 * 32768 * 32768 * 128;
  CHECK(attention_flops_of(layer_forward(context, 0)) == Approx(whole / 4));
  CHECK(attention_flops_of(layer_backward(context, 0)) == Approx(2.5 * whole / 4));
}

// Four ranks, one layer: attention takes 2 us forward and 5 us backward whatever its block. A hop
// takes a latency of 1 us and 64 tokens x 2 x 16 x 2 B = 4096 B (twice that backward) at 4.096
// GB/s: 2 us and 3 us, hidden behind a block. At a tenth of the bandwidth 11 us and 21 us: three
// hops forward wait 9 us each, three backward 16 us each.
TEST_CASE("the ring hides behind attention as long as a hop is shorter than a block") {
  Job job;
  job.model = small_model(1);
  job.model.kv_heads = 1;
  job.layout.grid.cp = 4;
  job.training.batch = {.sequence = 256, .micro_batch = 1, .global_batch = 1};
  job.training.overlap_grad_reduce = job.training.overlap_param_gather = false;
  job.training.framework.host_per_operator = seconds(0);
  KernelTimes times;
  times.hop_latency = microseconds(1);
  const auto exposed = [&](double bytes_a_second) {
    const Step step = run_step(job, times, bytes_per_second(bytes_a_second));
    const auto category = static_cast<std::size_t>(StepCategory::context);
    return to_seconds(step.rank(0).by_category[category].exposed).value * 1e6;
  };
  CHECK(exposed(4.096e9) == Approx(0).margin(1e-3));
  CHECK(exposed(4.096e8) == Approx(3 * 9 + 3 * 16).epsilon(1e-3));
}

namespace {

/// Pairs of a query and a key that a rank works out in the forward pass of a layer.
double pairs_of(const Job& job, int context_rank, std::int64_t layer = 0) {
  const OperatorContext context{job.model, job.layout, job.training, 1024, context_rank};
  const auto per_pair = static_cast<double>(4 * job.model.heads * job.model.head_dim);
  return attention_flops_of(layer_forward(context, layer)) / per_pair;
}

}  // namespace

// Kernels count half of a square on the diagonal: of its s / cp own pairs half.
TEST_CASE("ranks of either split see the pairs that their positions see") {
  const auto kind = GENERATE(ContextKind::ring, ContextKind::all_gather);
  for (const json cases = fixture("context_parallel_split").at("cases"); const json& row : cases) {
    Job job = job_of(fixture("context_parallel_volume").at("cases").at(1), kind);
    const int cp = job.layout.grid.cp = row.at("cp");
    job.training.batch.sequence = row.at("sequence");
    const double diagonal = static_cast<double>(job.training.batch.sequence) / cp / 2;
    CAPTURE(cp, job.training.batch.sequence);
    const std::vector<double> zigzag = row.at("causal_pairs_zigzag");
    const std::vector<double> contiguous = row.at("causal_pairs_contiguous");
    for (int rank = 0; rank < cp; ++rank) {
      const auto place = static_cast<std::size_t>(rank);
      job.layout.context_split = ContextSplit::zigzag;
      CHECK(pairs_of(job, rank) == zigzag.at(place) - diagonal);
      job.layout.context_split = ContextSplit::contiguous;
      CHECK(pairs_of(job, rank) == contiguous.at(place) - diagonal);
    }
    CHECK(pairs_of(job, -1) == contiguous.back() - diagonal);
  }
}

namespace {

/// A layer of which only core attention takes time: 1e12 FLOP/s.
struct AttentionAlone {
  Job job;
  Profile profile;

  AttentionAlone(int cp, ContextKind kind, ContextSplit split) {
    job.model.layers = 1;
    job.model.hidden = 64;
    job.model.heads = job.model.kv_heads = 4;
    job.model.head_dim = 16;
    job.model.ffn = 96;
    job.model.vocab = 128;
    job.layout.grid.cp = cp;
    job.layout.context = kind;
    job.layout.context_split = split;
    job.training.batch = {.sequence = 65536, .micro_batch = 1, .global_batch = 1};
    job.training.framework.host_per_operator = seconds(0);
    const Seconds none{};
    profile = simple_profile({none, none, none, none, none, none, none, none, none, none});
    for (AttentionCurve& curve : profile.attention) curve.eff_inf = 1e12 / kEndless;
  }
  double time(Ranks ranks, bool fold = false) const {
    const Cluster cluster(simple_cluster(job.layout.grid.world(), bytes_per_second(kEndless)));
    Plan plan = lower(job, cluster, profile, ranks);
    if (ranks == Ranks::by_stage) CHECK(plan.alike == !context_differs(job.layout));
    if (fold) plan = folded(std::move(plan));
    return to_seconds(run(plan.workload).makespan).value;
  }
};

}  // namespace

// A square of s / cp queries and keys takes 4 h d (s / cp)^2 FLOPs forward and 2.5 times that
// backward. The last rank of a contiguous split has cp - 1/2 of them and all others wait for it;
// by zigzag each has cp / 2. Which makes (2 cp - 1) / cp: 1.5, 1.75 and 1.875 for 2, 4 and 8.
TEST_CASE("zigzag removes the causal imbalance by the closed form") {
  const int cp = GENERATE(2, 4, 8);
  const auto kind = GENERATE(ContextKind::ring, ContextKind::all_gather);
  CAPTURE(cp);
  const double side = 65536.0 / cp;
  const double square = 3.5 * 4 * 4 * 16 * side * side / 1e12;
  const AttentionAlone zigzag(cp, kind, ContextSplit::zigzag);
  const AttentionAlone contiguous(cp, kind, ContextSplit::contiguous);
  CHECK(zigzag.time(Ranks::by_stage) == Approx(cp / 2.0 * square).epsilon(1e-6));
  CHECK(contiguous.time(Ranks::all) == Approx((cp - 0.5) * square).epsilon(1e-6));
  CHECK(contiguous.time(Ranks::all, true) == contiguous.time(Ranks::all));
  CHECK(contiguous.time(Ranks::by_stage) == contiguous.time(Ranks::all));
}

TEST_CASE("all heads of the whole sequence are on each rank in turn, however it is split") {
  const AttentionAlone zigzag(4, ContextKind::all_to_all, ContextSplit::zigzag);
  const AttentionAlone contiguous(4, ContextKind::all_to_all, ContextSplit::contiguous);
  CHECK(contiguous.time(Ranks::all) == zigzag.time(Ranks::all));
}

// 8 ranks with 16384 tokens each of 64 heads and 8 key-value heads of 128, in bf16: queries and
// output are 16384 x 64 x 128 x 2 B = 268435456 B, keys and values 16384 x 2 x 8 x 128 x 2 B =
// 67108864 B. Of 4 neighbours each keeps a quarter of what it exchanges: forward queries, keys,
// values and output, backward output, its gradient and the gradients of the other three. Of two
// such groups each passes its keys and values once, backward with their gradients.
TEST_CASE("two levels send what the exchange inside and the ring outside send") {
  Job job =
      job_of(fixture("context_parallel_volume").at("cases").at(2), ContextKind::exchange_and_ring);
  job.layout.context_exchange = 4;
  const OperatorContext context{job.model, job.layout, job.training, 1024};
  const auto sent = [](const std::vector<Operator>& operators) {
    std::pair<double, double> sums;
    for (const Operator& op : operators) {
      const auto* call = std::get_if<GroupCall>(&op.work);
      if (call == nullptr) continue;
      const bool exchange = call->group == StepGroup::context_exchange;
      CHECK(call->kind == (exchange ? CollectiveKind::all_to_all : CollectiveKind::send_recv));
      (exchange ? sums.first : sums.second) +=
          call->size.value * bus_factor(call->kind, exchange ? 4 : 2);
    }
    return sums;
  };
  const auto forward = sent(layer_forward(context, 0));
  const auto backward = sent(layer_backward(context, 0));
  CHECK(forward.first == 0.75 * (2 * 268435456.0 + 67108864));
  CHECK(forward.second == 67108864);
  CHECK(backward.first == 0.75 * (3 * 268435456.0 + 67108864));
  CHECK(backward.second == 2 * 67108864);
  const double whole = 2.0 * 64 * 131072 * 131072 * 128;
  CHECK(attention_flops_of(layer_forward(context, 0)) == Approx(whole / 8));
}

// As Megatron's create_hierarchical_groups says of sizes 2, 2 and 4: [g0, g1], [g2, g3], ... and
// then [g0, g2], [g1, g3], ...
TEST_CASE("neighbours are the inner level") {
  AttentionAlone c(4, ContextKind::exchange_and_ring, ContextSplit::zigzag);
  c.job.layout.context_exchange = 2;
  const Cluster cluster(simple_cluster(4, gigabytes_per_second(100)));
  const Plan plan = lower(c.job, cluster, c.profile, Ranks::all);
  std::vector<std::vector<std::uint32_t>> groups;
  for (const Group& group : plan.workload.groups) {
    if (group.members.size() != 2) continue;
    groups.push_back({index_of(group.members[0]), index_of(group.members[1])});
  }
  const std::vector<std::vector<std::uint32_t>> expected{{0, 1}, {2, 3}, {0, 2}, {1, 3}};
  CHECK(groups == expected);
}

// Of two groups of two: 3/2 of a square of half the sequence and half the heads, not 2 by 2.
TEST_CASE("a ring of groups has the imbalance of its length") {
  AttentionAlone c(4, ContextKind::exchange_and_ring, ContextSplit::contiguous);
  c.job.layout.context_exchange = 2;
  const double half = 65536.0 / 2;
  const double square = 3.5 * 4 * 2 * 16 * half * half / 1e12;
  CHECK(c.time(Ranks::all) == Approx(1.5 * square).epsilon(1e-6));
  c.job.layout.context_split = ContextSplit::zigzag;
  CHECK(c.time(Ranks::all) == Approx(square).epsilon(1e-6));
}

// Each of 65536 queries sees half of all keys in layers without a window; with one of 4096 it sees
// 4096 - 4096^2 / (2 x 65536) = 3968 in the mean, for the first ones find less before them. All
// keys and values are gathered either way; heads are exchanged either way.
TEST_CASE("layers with and without a window under context parallelism") {
  const auto kind = GENERATE(ContextKind::all_gather, ContextKind::all_to_all);
  AttentionAlone c(4, kind, ContextSplit::zigzag);
  c.job.model.layers = 2;
  c.job.model.sliding_window = 4096;
  c.job.model.sliding_every = 2;  // layer 0 sees all, layer 1 has the window
  CHECK(pairs_of(c.job, -1, 0) == 65536.0 * 65536 / 2 / 4);
  CHECK(pairs_of(c.job, -1, 1) == 65536.0 * 3968 / 4);
  const OperatorContext context{c.job.model, c.job.layout, c.job.training, 1024};
  const Sent full = sent_in(layer_backward(context, 0), 4);
  const Sent window = sent_in(layer_backward(context, 1), 4);
  CHECK(window.gathered == full.gathered);
  CHECK(window.reduced == full.reduced);
  CHECK(window.passed == full.passed);
  // 4 h d FLOPs a pair, 3.5 times in all.
  const double pairs = 65536.0 * 65536 / 2 / 4 + 65536.0 * 3968 / 4;
  CHECK(c.time(Ranks::all) == Approx(3.5 * 4 * 4 * 16 * pairs / 1e12).epsilon(1e-6));
}

TEST_CASE("rings take no windows") {
  Job job = job_of(fixture("context_parallel_volume").at("cases").at(1), ContextKind::ring);
  job.model.sliding_window = 1024;
  const auto problem = [&job] {
    const auto broken = layout_violations(job.model, job.layout, job.training.batch, 4);
    return broken.size() == 1 ? broken.front().key + ": " + broken.front().problem : "";
  };
  CHECK_THAT(problem(), Catch::StartsWith("parallel.cp: ") && Catch::Contains("sliding window") &&
                            Catch::Contains("cp_kind all_gather or a2a"));
  job.layout.context = ContextKind::exchange_and_ring;
  job.layout.context_exchange = 2;
  CHECK_THAT(problem(), Catch::Contains("sliding window"));
  job.layout.context = ContextKind::all_gather;
  CHECK(problem().empty());
  job.layout.context = ContextKind::all_to_all;
  CHECK(problem().empty());
}

TEST_CASE("neighbours that exchange heads cut the ranks evenly and have heads for each") {
  Job job =
      job_of(fixture("context_parallel_volume").at("cases").at(2), ContextKind::exchange_and_ring);
  const auto broken = [&job](int inner, int tp = 1) {
    job.layout.context_exchange = inner;
    job.layout.grid.tp = tp;
    return layout_violations(job.model, job.layout, job.training.batch, 8 * tp);
  };
  CHECK(broken(2).empty());
  CHECK(broken(4).empty());
  CHECK(broken(2, 4).empty());
  const auto uneven = broken(3);
  REQUIRE(uneven.size() == 2);  // nor does 3 divide the 8 heads
  CHECK(uneven[0].key == "parallel.cp_a2a");
  CHECK_THAT(uneven[0].problem, Catch::Contains("cp_a2a = 3 does not cut cp = 8"));
  CHECK(uneven[0].nearest == std::vector<std::int64_t>{2, 4});
  CHECK(broken(1).size() == 1);
  CHECK(broken(8).size() == 1);
  const auto heads = broken(4, 4);
  REQUIRE(heads.size() == 1);
  CHECK_THAT(heads[0].problem, Catch::Contains("4 * 4 does not divide the 8 key-value heads"));
}

TEST_CASE("a contiguous split needs cp pieces, zigzag twice as many") {
  Job job = job_of(fixture("context_parallel_volume").at("cases").at(1), ContextKind::ring);
  job.training.batch.sequence = 20;
  CHECK_FALSE(layout_is_legal(job.model, job.layout, job.training.batch, 4));
  job.layout.context_split = ContextSplit::contiguous;
  CHECK(layout_is_legal(job.model, job.layout, job.training.batch, 4));
}

TEST_CASE("gradients are reduced over data and context ranks") {
  Job job;
  job.model = small_model(1);
  job.layout.grid.cp = 2;
  job.layout.grid.dp = 2;
  job.training.batch = {.sequence = 256, .micro_batch = 1, .global_batch = 2};
  const Step step = run_step(job);
  const double parameters = 2 * 64 + 64 * 192 + 64 * 64 + 64 * 192 + 96 * 64 + 64 + 2 * 128 * 64;
  CHECK(step.sent(0, StepCategory::gradient) == Approx(2.0 * 3 / 4 * 4 * parameters));
}

TEST_CASE("heads cannot be exchanged over more ranks than there are") {
  Job job = job_of(fixture("context_parallel_volume").at("cases").at(0), ContextKind::all_to_all);
  const auto legal = [&job](int cp) {
    job.layout.grid.cp = cp;
    return layout_is_legal(job.model, job.layout, job.training.batch, cp);
  };
  CHECK(legal(8));
  CHECK_FALSE(legal(16));  // of 8 key-value heads
  job.layout.context = ContextKind::ring;
  CHECK(legal(16));
}
