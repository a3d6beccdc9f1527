#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "random_workload.h"
#include "sim/engine.h"

using namespace flopcast;
using namespace flopcast::test;

namespace {

SimTime accounted(const RankSummary& rank) {
  SimTime sum = rank.compute_busy + rank.idle;
  for (const CategoryTime& time : rank.by_category) sum += time.exposed + time.waiting;
  return sum;
}

void check_accounting(const Case& c, const Result& result) {
  for (std::size_t r = 0; r < result.ranks.size(); ++r) {
    const RankSummary& rank = result.ranks[r];
    REQUIRE(accounted(rank).picoseconds == result.makespan.picoseconds);
    REQUIRE((rank.end + rank.idle).picoseconds == result.makespan.picoseconds);
    const double moved =
        std::accumulate(rank.bytes_by_category.begin(), rank.bytes_by_category.end(), 0.0);
    REQUIRE(moved == Approx(c.moved[r]));
    const auto& by_pool = rank.memory.by_pool;
    REQUIRE(std::accumulate(by_pool.begin(), by_pool.end(), std::int64_t{0}) == rank.memory.total);
  }
  for (std::size_t l = 0; l < result.links.size(); ++l) {
    REQUIRE(result.links[l].carried.value == Approx(c.carried[l]));
    REQUIRE(result.links[l].peak_use <= 1 + 1e-9);
    REQUIRE(result.links[l].busy <= result.makespan);
  }
}

/// What the load curve of each link integrates to is what its transfers carried.
void check_load_curves(const Case& c, const TimelineBuffer& timeline) {
  std::vector<double> integral(c.carried.size(), 0);
  std::vector<LinkSample> last(c.carried.size());
  for (const LinkSample& sample : timeline.links) {
    LinkSample& before = last[index_of(sample.link)];
    integral[index_of(sample.link)] += before.rate * to_seconds(sample.at - before.at).value;
    before = sample;
  }
  for (std::size_t l = 0; l < last.size(); ++l) {
    REQUIRE(last[l].rate == 0);
    // An end is rounded up to the next picosecond: less than a byte each at these rates.
    REQUIRE(integral[l] == Approx(c.carried[l]).margin(20));
  }
}

void check_spans(const Case& c, const TimelineBuffer& timeline) {
  std::vector<SimTime> stream_end(c.workload.ranks.size() * kStreams);
  SimTime last;
  for (const Span& span : timeline.spans) {
    REQUIRE(last <= span.end);
    last = span.end;
    SimTime& before = stream_end[index_of(span.rank) * kStreams + span.stream];
    REQUIRE(before <= span.begin);
    REQUIRE(span.begin <= span.start);
    REQUIRE(span.start <= span.end);
    before = span.end;
  }
}

/// All ends of a communication see the same transfer, which starts with the last member of a
/// collective or with the sender, and is no faster than alone.
void check_communication(const Case& c, const TimelineBuffer& timeline) {
  constexpr SimTime kPicosecond{1};
  std::vector<SimTime> arrived(c.notes.size());  // last member, or the sender
  std::vector<SimTime> ended(c.notes.size());
  for (const Span& span : timeline.spans) {
    if (span.kind == OpKind::compute || span.kind == OpKind::recv) continue;
    SimTime& last = arrived[index_of(span.label)];
    last = std::max(last, span.begin);
    ended[index_of(span.label)] = span.end;
  }
  for (const Span& span : timeline.spans) {
    if (span.kind == OpKind::compute) continue;
    const std::size_t note = index_of(span.label);
    if (span.kind == OpKind::recv) {
      REQUIRE(span.start == std::min(span.end, std::max(span.begin, arrived[note])));
      REQUIRE(span.end == std::max(span.begin, ended[note]));
    } else {
      REQUIRE(span.start == arrived[note]);
      REQUIRE(span.end == ended[note]);
      REQUIRE(span.end + kPicosecond >= after(span.start, c.notes[note].alone));
    }
  }
}

/// Each kernel did its work: the integral of what communication left of its GPU.
void check_kernels(const Case& c, const TimelineBuffer& timeline) {
  struct Use {
    SimTime begin;
    SimTime end;
    double share;
  };
  std::vector<std::vector<Use>> uses(c.workload.ranks.size());
  for (const Span& span : timeline.spans) {
    const Note& note = c.notes[index_of(span.label)];
    const Use use{span.start, span.end, note.compute_share};
    if (span.kind == OpKind::collective) uses[index_of(span.rank)].push_back(use);
    if (span.kind != OpKind::send) continue;
    for (const RankId member : note.members) uses[index_of(member)].push_back(use);
  }
  for (const Span& span : timeline.spans) {
    if (span.kind != OpKind::compute) continue;
    std::vector<SimTime> cuts{span.begin, span.end};
    for (const Use& use : uses[index_of(span.rank)]) {
      cuts.push_back(std::clamp(use.begin, span.begin, span.end));
      cuts.push_back(std::clamp(use.end, span.begin, span.end));
    }
    std::sort(cuts.begin(), cuts.end());
    double done = 0;
    for (std::size_t i = 1; i < cuts.size(); ++i) {
      double share = 0;
      for (const Use& use : uses[index_of(span.rank)]) {
        if (use.begin <= cuts[i - 1] && cuts[i] <= use.end) share = std::max(share, use.share);
      }
      done += to_seconds(cuts[i] - cuts[i - 1]).value * (1 - share);
    }
    REQUIRE(done == Approx(c.notes[index_of(span.label)].alone.value).epsilon(1e-9).margin(2e-12));
  }
}

void check_equal(const Result& a, const Result& b) {
  REQUIRE(a.makespan == b.makespan);
  REQUIRE(a.events == b.events);
  for (std::size_t r = 0; r < a.ranks.size(); ++r) {
    REQUIRE(a.ranks[r].end == b.ranks[r].end);
    REQUIRE(a.ranks[r].slowdown == b.ranks[r].slowdown);
    REQUIRE(a.ranks[r].memory.at == b.ranks[r].memory.at);
    REQUIRE(a.ranks[r].compute_busy == b.ranks[r].compute_busy);
    REQUIRE(a.ranks[r].memory.by_pool == b.ranks[r].memory.by_pool);
    REQUIRE(a.ranks[r].memory.pool_peak == b.ranks[r].memory.pool_peak);
    REQUIRE(a.ranks[r].ops_by_category == b.ranks[r].ops_by_category);
    REQUIRE(a.ranks[r].bytes_by_category == b.ranks[r].bytes_by_category);
    for (std::size_t i = 0; i < kCategories; ++i) {
      REQUIRE(a.ranks[r].by_category[i].busy == b.ranks[r].by_category[i].busy);
      REQUIRE(a.ranks[r].by_category[i].exposed == b.ranks[r].by_category[i].exposed);
      REQUIRE(a.ranks[r].by_category[i].waiting == b.ranks[r].by_category[i].waiting);
    }
  }
  for (std::size_t l = 0; l < a.links.size(); ++l) {
    REQUIRE(a.links[l].busy == b.links[l].busy);
    REQUIRE(a.links[l].peak_use == b.links[l].peak_use);
    REQUIRE(a.links[l].carried == b.links[l].carried);
  }
}

/// The same workload with ranks, groups and links in the opposite order.
Workload reversed(const Workload& from) {
  Workload to = from;
  const auto mirror = [](std::uint32_t row, std::size_t size) {
    return static_cast<std::uint32_t>(size) - 1 - row;
  };
  std::reverse(to.ranks.begin(), to.ranks.end());
  std::reverse(to.groups.begin(), to.groups.end());
  std::reverse(to.links.begin(), to.links.end());
  for (Rank& rank : to.ranks) {
    for (GroupId& group : rank.groups) {
      if (group != kNoGroup) group = GroupId{mirror(index_of(group), from.groups.size())};
    }
  }
  for (Group& group : to.groups) {
    for (RankId& member : group.members) {
      member = RankId{mirror(index_of(member), from.ranks.size())};
    }
    for (auto& list : group.loads) {
      for (LinkLoad& load : list) {
        load.link = LinkId{mirror(index_of(load.link), from.links.size())};
      }
    }
  }
  return to;
}

}  // namespace

TEST_CASE("time, bytes and spans add up on generated workloads") {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    CAPTURE(seed);
    const Case c = random_case(seed);
    TimelineBuffer timeline;
    const Result result = run(c.workload, &timeline);
    check_accounting(c, result);
    check_load_curves(c, timeline);
    check_spans(c, timeline);
    check_communication(c, timeline);
    check_kernels(c, timeline);
    check_equal(result, run(c.workload));  // with chains, and flights on links of their own
  }
}

TEST_CASE("the names of ranks, groups and links change nothing") {
  // Sums of rates are taken in another order, so an end may round to the next picosecond.
  constexpr double kRounding = 1e-9;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    CAPTURE(seed);
    const Case c = random_case(seed);
    const Result result = run(c.workload);
    const Result other = run(reversed(c.workload));
    const auto close = [&](SimTime a, SimTime b) {
      return to_seconds(a) / seconds(1) ==
             Approx(to_seconds(b) / seconds(1)).epsilon(kRounding).margin(1e-11);
    };
    REQUIRE(close(result.makespan, other.makespan));
    for (std::size_t r = 0; r < result.ranks.size(); ++r) {
      const RankSummary& mine = result.ranks[r];
      const RankSummary& theirs = other.ranks[result.ranks.size() - 1 - r];
      REQUIRE(close(mine.end, theirs.end));
      REQUIRE(close(mine.slowdown, theirs.slowdown));
      REQUIRE(mine.memory.total == theirs.memory.total);
      for (std::size_t i = 0; i < kCategories; ++i) {
        REQUIRE(close(mine.by_category[i].exposed, theirs.by_category[i].exposed));
        REQUIRE(close(mine.by_category[i].waiting, theirs.by_category[i].waiting));
      }
    }
  }
}
