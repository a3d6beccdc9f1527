#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "generator.h"
#include "sim/engine.h"

using namespace flopcast;
using flopcast::test::Generator;

namespace {

constexpr std::size_t kStreams = 4;
constexpr std::size_t kCategories = 5;
constexpr CategoryId kSent{4};  // of messages, so that their bytes can be told apart

/// A generated workload and what it must move.
struct Case {
  Workload workload;
  std::vector<double> carried;  // bytes, by link
  std::vector<double> moved;    // progress bytes of collectives and sends, by rank
};

struct Builder {
  explicit Builder(std::uint64_t seed) : random(seed) {}

  void make_tables();
  void make_groups();
  void add_op();
  void add_collective();
  void add_message();
  void add_order();
  void add_memory();
  void load_links(GroupId group, const Transfer& transfer);
  Case finish();

  CategoryId category() { return CategoryId{static_cast<std::uint16_t>(random.below(4))}; }
  std::size_t stream() { return random.below(kStreams); }
  std::size_t rank() { return random.below(programs.size()); }

  Generator random;
  Case made;
  std::vector<ProgramBuilder> programs;   // by rank
  std::vector<std::size_t> group_stream;  // a group is used from one stream
  std::vector<bool> is_pair;
  std::uint32_t tag = 0;
};

void Builder::make_tables() {
  Workload& w = made.workload;
  w.category_names = {"a", "b", "c", "d", "sent"};
  w.pool_names = {"p", "q"};
  w.labels = {"op"};
  // Few distinct times, so that much happens in the same instant.
  for (int i = 0; i < 4; ++i) {
    w.kernels.push_back({microseconds(static_cast<double>(random.below(5)))});
  }
  for (int i = 0; i < 6; ++i) {
    w.transfers.push_back({.latency = microseconds(static_cast<double>(random.below(3))),
                           .size = kilobytes(static_cast<double>(random.below(4)) * 100),
                           .solo_rate = gigabytes_per_second(20 + 20.0 * random.unit()),
                           .compute_share = random.chance(0.5) ? 0 : random.unit()});
  }
  const std::size_t links = random.between(1, 5);
  for (std::size_t i = 0; i < links; ++i) {
    w.links.push_back({.name = "link", .capacity = gigabytes_per_second(30)});
  }
  made.carried.resize(links, 0);
  const std::size_t ranks = random.between(1, 7);
  for (std::size_t i = 0; i < ranks; ++i) {
    programs.emplace_back(kStreams);
    w.ranks.push_back({.name = "rank", .speed = random.chance(0.7) ? 1 : 0.5 + random.unit()});
  }
  made.moved.resize(ranks, 0);
}

void Builder::make_groups() {
  Workload& w = made.workload;
  const std::size_t groups = random.between(1, 7);
  for (std::size_t g = 0; g < groups; ++g) {
    Group group{.name = "group"};
    is_pair.push_back(programs.size() > 1 && random.chance(0.4));
    std::vector<std::uint32_t> ranks(programs.size());
    std::iota(ranks.begin(), ranks.end(), 0u);
    for (std::size_t i = ranks.size(); i > 1; --i) std::swap(ranks[i - 1], ranks[random.below(i)]);
    const std::size_t size = is_pair.back() ? 2 : random.between(1, ranks.size() + 1);
    for (std::size_t i = 0; i < size; ++i) group.members.push_back(RankId{ranks[i]});
    group.loads.emplace_back();
    for (std::uint32_t l = 0; l < w.links.size(); ++l) {
      if (random.chance(0.5)) group.loads[0].push_back({LinkId{l}, random.chance(0.5) ? 1 : 0.5});
    }
    for (Rank& rank : w.ranks) rank.groups.push_back(kNoGroup);
    for (const RankId member : group.members) {
      w.ranks[index_of(member)].groups[g] = GroupId{static_cast<std::uint32_t>(g)};
    }
    w.groups.push_back(group);
    group_stream.push_back(stream());
  }
}

/// Ops are added to all that take part at once, in an order that could be executed one by one: so
/// the programs cannot deadlock.
void Builder::add_op() {
  switch (random.below(6)) {
    case 0:
    case 1: {
      const KernelId kernel{static_cast<std::uint32_t>(random.below(4))};
      return programs[rank()].compute(stream(), kernel, category(), LabelId{0});
    }
    case 2: return add_collective();
    case 3: return add_message();
    case 4: return add_order();
    default: return add_memory();
  }
}

void Builder::load_links(GroupId group, const Transfer& transfer) {
  for (const LinkLoad& load : made.workload.groups[index_of(group)].loads[0]) {
    made.carried[index_of(load.link)] += load.weight * transfer.size.value;
  }
}

void Builder::add_collective() {
  const std::size_t g = random.below(group_stream.size());
  if (is_pair[g]) return;
  const TransferId transfer{static_cast<std::uint32_t>(random.below(6))};
  const CategoryId charged = category();
  for (const RankId member : made.workload.groups[g].members) {
    programs[index_of(member)].collective(group_stream[g], static_cast<std::uint16_t>(g), transfer,
                                          charged, LabelId{0});
    made.moved[index_of(member)] += made.workload.transfers[index_of(transfer)].size.value;
  }
  load_links(GroupId{static_cast<std::uint32_t>(g)}, made.workload.transfers[index_of(transfer)]);
}

void Builder::add_message() {
  const std::size_t g = random.below(group_stream.size());
  if (!is_pair[g]) return;
  const TransferId transfer{static_cast<std::uint32_t>(random.below(6))};
  const auto& members = made.workload.groups[g].members;
  const auto slot = static_cast<std::uint16_t>(g);
  ++tag;
  programs[index_of(members[0])].send(stream(), slot, tag, transfer, kSent, LabelId{0});
  programs[index_of(members[1])].recv(stream(), slot, tag, category(), LabelId{0});
  made.moved[index_of(members[0])] += made.workload.transfers[index_of(transfer)].size.value;
  load_links(GroupId{static_cast<std::uint32_t>(g)}, made.workload.transfers[index_of(transfer)]);
}

void Builder::add_order() { programs[rank()].order(stream(), stream()); }

void Builder::add_memory() {
  const std::size_t r = rank();
  const std::size_t s = stream();
  const CategoryId pool{static_cast<std::uint16_t>(random.below(2))};
  const auto size = static_cast<std::int64_t>(random.between(1, 1000));
  programs[r].allocate(s, pool, size);
  programs[r].compute(s, KernelId{0}, category(), LabelId{0});
  programs[r].release(s, pool, size);
}

Case Builder::finish() {
  for (std::size_t r = 0; r < programs.size(); ++r) {
    made.workload.programs.push_back(std::move(programs[r]).finish());
    made.workload.ranks[r].program = ProgramId{static_cast<std::uint32_t>(r)};
  }
  return std::move(made);
}

Case random_case(std::uint64_t seed) {
  Builder builder(seed);
  builder.make_tables();
  builder.make_groups();
  const std::size_t ops = builder.random.between(1, 120);
  for (std::size_t i = 0; i < ops; ++i) builder.add_op();
  return builder.finish();
}

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

void check_equal(const Result& a, const Result& b) {
  REQUIRE(a.makespan == b.makespan);
  REQUIRE(a.events == b.events);
  for (std::size_t r = 0; r < a.ranks.size(); ++r) {
    REQUIRE(a.ranks[r].end == b.ranks[r].end);
    REQUIRE(a.ranks[r].slowdown == b.ranks[r].slowdown);
    REQUIRE(a.ranks[r].memory.at == b.ranks[r].memory.at);
    for (std::size_t i = 0; i < kCategories; ++i) {
      REQUIRE(a.ranks[r].by_category[i].busy == b.ranks[r].by_category[i].busy);
      REQUIRE(a.ranks[r].by_category[i].exposed == b.ranks[r].by_category[i].exposed);
      REQUIRE(a.ranks[r].by_category[i].waiting == b.ranks[r].by_category[i].waiting);
    }
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
    check_equal(result, run(c.workload));
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
