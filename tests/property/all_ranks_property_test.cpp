#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "close_summaries.h"
#include "models/step_report.h"
#include "random_job.h"
#include "sim/engine.h"
#include "sim/fold.h"

// A step of every rank, of one rank of each class, and of one rank of each stage where stages are
// alike: the same times.

using namespace flopcast;
using namespace flopcast::test;

namespace {

using flopcast::test::require_equal;

void require_equal(const StepReport& a, const StepReport& b) {
  const double step = a.step.value;
  const auto close = [step](Seconds x, Seconds y) {
    return std::abs(x.value - y.value) <= kTolerance * step + kPicoseconds * 1e-12;
  };
  REQUIRE(close(a.step, b.step));
  REQUIRE(a.mfu == Approx(b.mfu).epsilon(kTolerance));
  REQUIRE(a.hfu == Approx(b.hfu).epsilon(kTolerance));
  REQUIRE(a.represented_ranks == b.represented_ranks);
  REQUIRE(a.breakdown.size() == b.breakdown.size());
  for (std::size_t i = 0; i < a.breakdown.size(); ++i) {
    REQUIRE(a.breakdown[i].name == b.breakdown[i].name);
    REQUIRE(close(a.breakdown[i].time, b.breakdown[i].time));
  }
  REQUIRE(a.communication.size() == b.communication.size());
  for (std::size_t i = 0; i < a.communication.size(); ++i) {
    REQUIRE(a.communication[i].calls == b.communication[i].calls);
    REQUIRE(a.communication[i].sent.value == Approx(b.communication[i].sent.value));
    REQUIRE(a.communication[i].shape == b.communication[i].shape);
    REQUIRE(a.communication[i].slowest_link == b.communication[i].slowest_link);
  }
  REQUIRE(a.memory.size() == b.memory.size());
  for (std::size_t i = 0; i < a.memory.size(); ++i) {
    REQUIRE(a.memory[i].stage == b.memory[i].stage);
    REQUIRE(a.memory[i].layers == b.memory[i].layers);
    REQUIRE(a.memory[i].reserved() == b.memory[i].reserved());
  }
  REQUIRE(a.fullest_stage == b.fullest_stage);
}

/// Fabrics small enough that groups cross leaves and spines, and nodes that groups do not fill.
void vary_cluster(Generator& random, RandomJob& c) {
  System& system = c.cluster.system;
  system.gpu.peak_dense[static_cast<std::size_t>(DataType::bf16)] = teraflops_per_second(1000);
  if (random.chance(0.2)) {
    system.gpus_per_node = system.nvlink_domain = system.nics = one_of(random, std::array{3, 6});
    const int gpus = c.job.layout.grid.world();
    c.cluster.nodes = (gpus + system.gpus_per_node - 1) / system.gpus_per_node;
  }
  if (random.chance(0.3)) system.nics = 1;
  c.cluster.fabric.switch_ports = one_of(random, std::array{4, 8, 16, 64});
  c.cluster.fabric.oversubscription = one_of(random, std::array{1.0, 1.0, 2.0, 7.0});
  complete_fabric(random, c.cluster);
}

void add_irregularity(Generator& random, RandomJob& c) {
  const auto gpus = static_cast<std::size_t>(c.job.layout.grid.world());
  const auto place = [&](int count) {
    return static_cast<int>(random.below(static_cast<std::size_t>(count)));
  };
  if (random.chance(0.5)) {
    const int gpu = static_cast<int>(random.below(gpus));
    c.cluster.slow.push_back({.first = gpu, .last = gpu, .speed = 0.5 + 0.5 * random.unit()});
  }
  for (const LinkKind kind : kLinkKinds) {
    const int places = count_of_places(c.cluster, kind);
    if (places == 0 || random.chance(0.7)) continue;
    const int first = place(places);
    c.cluster.degraded.push_back(
        {.kind = kind, .first = first, .last = first, .factor = 0.2 + 0.8 * random.unit()});
  }
}

/// One or two kinds whose kernels take longer, each of them in its own ratio, with more or less
/// memory.
void add_other_nodes(Generator& random, RandomJob& c) {
  const int kinds = random.chance(0.5) ? 1 : 2;
  for (int kind = 0; kind < kinds && kind < c.cluster.nodes; ++kind) {
    OtherNodes other{.system = c.cluster.system};
    other.system.gpu.memory = gigabytes(20 + 100 * random.unit());
    other.nodes.push_back({kind, kind});
    c.cluster.others.push_back(std::move(other));
    Profile& profile = c.others.emplace_back(c.profile);
    for (auto& curve : profile.gemm) {
      if (curve) curve->t0 = (1 + random.unit()) * curve->t0;
    }
    for (AttentionCurve& curve : profile.attention) curve.t0 = (1 + random.unit()) * curve.t0;
  }
}

Plan plan_of(const RandomJob& c, const Cluster& cluster, Ranks ranks) {
  return lower(c.job, cluster, c.profile, ranks, c.others);
}

struct Run {
  Plan plan;
  Result result;
  StepReport report;
};

Run run_plan(const RandomJob& c, const Cluster& cluster, Plan plan) {
  Run out{.plan = std::move(plan), .result = {}, .report = {}};
  out.result = run(out.plan.workload);
  out.report = step_report(c.job, cluster, out.plan, out.result);
  return out;
}

/// Every rank against its class.
Run check_folding(const RandomJob& c, const Cluster& cluster, const Run& all) {
  const Folding folding = fold(all.plan.workload);
  Run rows = run_plan(c, cluster, folded(all.plan));
  REQUIRE(rows.result.ranks.size() == folding.workload.ranks.size());
  require_close(all.result.makespan, rows.result.makespan, all.result.makespan);
  for (std::size_t r = 0; r < all.result.ranks.size(); ++r) {
    CAPTURE(r);
    require_equal(all.result.ranks[r], rows.result.ranks[index_of(folding.rank_class[r])],
                  all.result.makespan);
  }
  require_equal(all.report, rows.report);
  // The same classes, found without rows of all ranks.
  const Plan classes = plan_of(c, cluster, Ranks::by_class);
  REQUIRE(classes.workload.ranks.size() == rows.result.ranks.size());
  REQUIRE(classes.workload.groups.size() == folding.workload.groups.size());
  REQUIRE(classes.workload.links.size() == folding.workload.links.size());
  REQUIRE(run(classes.workload).makespan == rows.result.makespan);
  return rows;
}

}  // namespace

TEST_CASE("by stage, folded and rank by rank a step takes the same time") {
  Generator random(20240701);
  int jobs = 0;
  int alike = 0;
  while (jobs < 1000) {
    auto c = random_job(random);
    if (!c) continue;
    vary_cluster(random, *c);
    if (problem_of(c->cluster)) continue;
    ++jobs;
    CAPTURE(jobs);
    const Cluster cluster(c->cluster);
    const Run all = run_plan(*c, cluster, lower(c->job, cluster, c->profile, Ranks::all));
    REQUIRE(all.report.simulated_ranks == static_cast<std::uint64_t>(c->job.layout.grid.world()));
    const Run rows = check_folding(*c, cluster, all);
    const Run stages = run_plan(*c, cluster, lower(c->job, cluster, c->profile));
    REQUIRE(stages.report.simulated_ranks == static_cast<std::uint64_t>(c->job.layout.grid.pp));
    if (!stages.plan.alike) continue;
    ++alike;
    REQUIRE(rows.report.simulated_ranks == stages.report.simulated_ranks);
    for (std::size_t r = 0; r < all.result.ranks.size(); ++r) {
      const int stage = all.plan.stage_of[index_of(all.plan.workload.ranks[r].program)];
      require_equal(all.result.ranks[r], stages.result.ranks[static_cast<std::size_t>(stage)],
                    all.result.makespan);
    }
    require_equal(all.report, stages.report);
  }
  CAPTURE(alike);
  CHECK(alike > jobs / 2);
  CHECK(alike < jobs * 9 / 10);
}

TEST_CASE("with slow GPUs and degraded links a folded step is that of all ranks") {
  Generator random(20240702);
  for (int jobs = 0; jobs < 1000;) {
    auto c = random_job(random);
    if (!c) continue;
    vary_cluster(random, *c);
    if (problem_of(c->cluster)) continue;
    add_irregularity(random, *c);
    ++jobs;
    CAPTURE(jobs);
    const Cluster cluster(c->cluster);
    const Run all = run_plan(*c, cluster, lower(c->job, cluster, c->profile, Ranks::all));
    const Run rows = check_folding(*c, cluster, all);
    const bool one_slow = c->cluster.slow.size() == 1 && c->cluster.slow[0].speed < 1;
    if (!one_slow) continue;
    const auto slow = std::ranges::count_if(rows.plan.workload.ranks,
                                            [](const Rank& rank) { return rank.speed < 1; });
    REQUIRE(slow == 1);  // by itself
  }
}

namespace {

void skew_routing(Generator& random, RandomJob& c) {
  Training& training = c.job.training;
  const MixtureOfExperts& moe = *c.job.model.moe;
  TokenRouting& routing = training.routing;
  routing.kind = random.chance(0.5) ? RoutingKind::zipf : RoutingKind::measured;
  routing.exponent = 2 * random.unit();
  routing.seed = random.below(1000);
  for (std::int64_t layer = 0; layer < c.job.model.layers; ++layer) {
    std::vector<double> counts;
    for (std::int64_t i = 0; i < moe.experts; ++i) counts.push_back(1 + random.unit());
    routing.counts.push_back(std::move(counts));
  }
  c.job.layout.dispatcher =
      one_of(random, std::array{TokenDispatcher::all_to_all, TokenDispatcher::once_per_node,
                                TokenDispatcher::all_gather});
  if (random.chance(0.5)) training.capacity_factor = 0.5 + 2 * random.unit();
  training.pad_to_capacity = random.chance(0.3);
}

}  // namespace

TEST_CASE("with nodes of other kinds a folded step is that of all ranks") {
  Generator random(20240705);
  for (int jobs = 0; jobs < 500;) {
    auto c = random_job(random);
    if (!c) continue;
    vary_cluster(random, *c);
    if (problem_of(c->cluster) || c->cluster.nodes == 1) continue;
    add_other_nodes(random, *c);
    if (random.chance(0.3)) add_irregularity(random, *c);
    ++jobs;
    CAPTURE(jobs);
    const Cluster cluster(c->cluster);
    const Run all = run_plan(*c, cluster, plan_of(*c, cluster, Ranks::all));
    const Run rows = check_folding(*c, cluster, all);
    const Plan stages = plan_of(*c, cluster, Ranks::by_stage);
    if (!stages.alike) continue;
    require_equal(all.report, run_plan(*c, cluster, stages).report);
  }
}

// And over its ranks nothing is lost of what balanced routing computes.
TEST_CASE("with uneven routing a folded step is that of all ranks") {
  Generator random(20240703);
  for (int jobs = 0; jobs < 300;) {
    auto c = random_job(random);
    if (!c || !c->job.model.moe || !is_tree(c->cluster.fabric.kind)) continue;
    vary_cluster(random, *c);
    if (problem_of(c->cluster)) continue;
    ++jobs;
    CAPTURE(jobs);
    const Cluster cluster(c->cluster);
    const Flops balanced = lower(c->job, cluster, c->profile, Ranks::all).executed;
    skew_routing(random, *c);
    const Run all = run_plan(*c, cluster, lower(c->job, cluster, c->profile, Ranks::all));
    check_folding(*c, cluster, all);
    if (!c->job.training.capacity_factor) {
      REQUIRE(all.plan.executed.value == Approx(balanced.value).epsilon(1e-9));
    }
  }
}

// The last rank of a ring does most; over all ranks it is the work of an even split.
TEST_CASE("with a contiguous split a folded step is that of all ranks") {
  Generator random(20240704);
  for (int jobs = 0; jobs < 200;) {
    auto c = random_job(random);
    if (!c || c->job.layout.grid.cp == 1) continue;
    vary_cluster(random, *c);
    if (problem_of(c->cluster)) continue;
    Layout& layout = c->job.layout;
    const bool rings =
        layout.context == ContextKind::ring || layout.context == ContextKind::exchange_and_ring;
    if (!rings && random.chance(0.5)) {
      c->job.model.sliding_window = 128;
      c->job.model.sliding_every = one_of(random, std::array{1, 2});
    }
    ++jobs;
    CAPTURE(jobs);
    const Cluster cluster(c->cluster);
    const Flops even = lower(c->job, cluster, c->profile, Ranks::all).executed;
    layout.context_split = ContextSplit::contiguous;
    const Run all = run_plan(*c, cluster, lower(c->job, cluster, c->profile, Ranks::all));
    check_folding(*c, cluster, all);
    REQUIRE(all.plan.executed.value == Approx(even.value).epsilon(1e-9));
  }
}
