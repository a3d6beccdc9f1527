#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "close_summaries.h"
#include "fold_grid.h"
#include "generator.h"
#include "random_workload.h"
#include "sim/engine.h"
#include "sim/fold.h"
#include "sim/partition.h"

using namespace flopcast;
using namespace flopcast::test;

namespace {

using flopcast::test::require_equal;

void require_equal(const LinkSummary& one, const LinkSummary& row, SimTime makespan) {
  REQUIRE(one.carried.value == Approx(row.carried.value).epsilon(kTolerance));
  require_close(one.busy, row.busy, makespan);
  REQUIRE(one.peak_use == Approx(row.peak_use).epsilon(kTolerance));
}

/// What ended, in order; within an instant by stream.
using EventOrder = std::vector<std::pair<std::uint16_t, LabelId>>;
std::vector<EventOrder> event_orders(const TimelineBuffer& timeline, std::size_t ranks) {
  std::vector<std::vector<Span>> spans(ranks);
  for (const Span& span : timeline.spans) spans[index_of(span.rank)].push_back(span);
  std::vector<EventOrder> orders(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    std::stable_sort(spans[r].begin(), spans[r].end(), [](const Span& a, const Span& b) {
      return a.end != b.end ? a.end < b.end : a.stream < b.stream;
    });
    for (const Span& span : spans[r]) orders[r].emplace_back(span.stream, span.label);
  }
  return orders;
}

struct Sizes {
  std::uint64_t ranks = 0;
  std::uint64_t classes = 0;
};

/// Runs every rank, then one of each class: the same for each rank and link.
Sizes check_folding(const Workload& workload) {
  const Folding folding = fold(workload);
  TimelineBuffer all_spans;
  TimelineBuffer row_spans;
  const Result all = run(workload, &all_spans);
  const Result rows = run(folding.workload, &row_spans);
  const auto all_orders = event_orders(all_spans, all.ranks.size());
  const auto row_orders = event_orders(row_spans, rows.ranks.size());

  require_close(all.makespan, rows.makespan, all.makespan);
  for (std::size_t r = 0; r < all.ranks.size(); ++r) {
    CAPTURE(r);
    const std::uint32_t row = index_of(folding.rank_class[r]);
    require_equal(all.ranks[r], rows.ranks[row], all.makespan);
    REQUIRE(all_orders[r] == row_orders[row]);
  }
  for (std::size_t l = 0; l < all.links.size(); ++l) {
    CAPTURE(l);
    require_equal(all.links[l], rows.links[index_of(folding.link_class[l])], all.makespan);
  }
  std::uint64_t count = 0;
  for (const Rank& rank : folding.workload.ranks) count += rank.count;
  REQUIRE(count == workload.ranks.size());
  return {count, folding.workload.ranks.size()};
}

/// Whether two lists of classes tell the same apart.
template <class Id>
void require_same_partition(const std::vector<Id>& a, const std::vector<Id>& b,
                            const std::vector<std::uint32_t>& row_in_b) {
  std::map<Id, Id> to_b;
  std::map<Id, Id> to_a;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Id in_b = b[row_in_b[i]];
    REQUIRE(to_b.try_emplace(a[i], in_b).first->second == in_b);
    REQUIRE(to_a.try_emplace(in_b, a[i]).first->second == a[i]);
  }
}

/// Colour refinement the slow way: all signatures anew in each round, as sorted lists.
std::vector<std::uint32_t> reference_partition(std::vector<std::uint32_t> colours,
                                               const Adjacency& adjacency) {
  for (std::size_t classes = 0;;) {
    using Signature =
        std::pair<std::uint32_t, std::multiset<std::pair<std::uint32_t, std::uint32_t>>>;
    std::map<Signature, std::uint32_t> numbers;
    std::vector<std::uint32_t> next;
    for (std::uint32_t node = 0; node < colours.size(); ++node) {
      Signature signature{colours[node], {}};
      for (const HalfEdge& edge : adjacency.of(node)) {
        signature.second.emplace(edge.label, colours[edge.to]);
      }
      const auto number = static_cast<std::uint32_t>(numbers.size());
      next.push_back(numbers.try_emplace(signature, number).first->second);
    }
    colours = next;
    if (numbers.size() == classes) return colours;  // numbered by first nodes
    classes = numbers.size();
  }
}

}  // namespace

TEST_CASE("a folded grid of ranks runs as the whole") {
  Sizes sum;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    const GridCase grid = random_grid(seed);
    CAPTURE(seed, grid.tensor, grid.data, grid.pipeline);
    const Sizes sizes = check_folding(grid.workload);
    sum.ranks += sizes.ranks;
    sum.classes += sizes.classes;
  }
  CAPTURE(sum.classes, sum.ranks);
  CHECK(sum.classes * 2 < sum.ranks);  // the cases do fold
}

TEST_CASE("copies of any workload that share links run as one") {
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    CAPTURE(seed);
    const Case one = random_case(seed);
    Generator random(seed + 1000000);
    std::vector<bool> shared;
    for (std::size_t l = 0; l < one.workload.links.size(); ++l)
      shared.push_back(random.chance(0.3));
    const auto copies = static_cast<std::uint32_t>(random.between(2, 5));
    const Sizes sizes = check_folding(replicated(one.workload, copies, shared));
    REQUIRE(sizes.classes <= one.workload.ranks.size());
  }
}

TEST_CASE("the order of rows changes no class") {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    CAPTURE(seed);
    const GridCase grid = random_grid(seed);
    const Folding folding = fold(grid.workload);
    const Relabelled other = relabelled(grid.workload, seed);
    const Folding refolded = fold(other.workload);
    require_same_partition(folding.rank_class, refolded.rank_class, other.ranks);
    require_same_partition(folding.group_class, refolded.group_class, other.groups);
    require_same_partition(folding.link_class, refolded.link_class, other.links);
    const SimTime makespan = run(folding.workload).makespan;
    require_close(makespan, run(refolded.workload).makespan, makespan);
  }
}

TEST_CASE("folding is deterministic, and folds all at once") {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    CAPTURE(seed);
    const GridCase grid = random_grid(seed);
    const Folding once = fold(grid.workload);
    const Folding again = fold(grid.workload);
    REQUIRE(once.rank_class == again.rank_class);
    REQUIRE(once.group_class == again.group_class);
    REQUIRE(once.link_class == again.link_class);
    const Folding twice = fold(once.workload);
    REQUIRE(twice.workload.ranks.size() == once.workload.ranks.size());
    REQUIRE(twice.workload.groups.size() == once.workload.groups.size());
    REQUIRE(run(twice.workload).makespan == run(once.workload).makespan);
  }
}

TEST_CASE("a regular grid has one class of ranks per stage") {
  int seen = 0;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    CAPTURE(seed);
    const GridCase grid = random_grid(seed);
    if (!grid.regular || grid.tensor * grid.data * grid.pipeline == 1) continue;
    // One node: no group can lie otherwise than its copies.
    Workload workload = grid.workload;
    for (Group& group : workload.groups) group.loads.clear();
    REQUIRE(fold(workload).workload.ranks.size() <= grid.pipeline);
    ++seen;
  }
  CHECK(seen > 50);
}

TEST_CASE("the partition is the one that the slow way finds") {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    CAPTURE(seed);
    Generator random(seed);
    const auto nodes = static_cast<std::uint32_t>(random.between(1, 40));
    std::vector<LabelledEdge> edges;
    const std::size_t count = random.below(2 * std::size_t{nodes});
    // A circle now and then: refined step by step from where it is broken.
    const bool circle = random.chance(0.3);
    for (std::uint32_t i = 0; circle && i < nodes; ++i) edges.push_back({i, (i + 1) % nodes, 0});
    for (std::size_t i = 0; i < (circle ? count / 8 : count); ++i) {
      edges.push_back({static_cast<std::uint32_t>(random.below(nodes)),
                       static_cast<std::uint32_t>(random.below(nodes)),
                       static_cast<std::uint32_t>(random.below(2))});
    }
    std::vector<std::uint32_t> colours(nodes, 0);
    if (random.chance(0.5)) colours[random.below(nodes)] = nodes - 1;
    const Adjacency adjacency(nodes, edges);
    REQUIRE(equitable_partition(colours, adjacency) == reference_partition(colours, adjacency));
  }
}
