#include "random_workload.h"

#include <numeric>
#include <utility>

#include "generator.h"

namespace flopcast::test {
namespace {

struct Builder {
  explicit Builder(std::uint64_t seed) : random(seed) {}

  void make_tables();
  void make_groups();
  void add_op();
  void add_collective();
  void add_message();
  void add_chain();
  void add_order();
  void add_memory();
  void add_compute(std::size_t on_rank, std::size_t on_stream, std::size_t kernel);
  LabelId note_transfer(std::size_t group, const Transfer& transfer);
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
  const bool few = random.chance(0.3);  // loads, so that links belong to one group
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
      if (random.chance(few ? 0.1 : 0.5)) {
        group.loads[0].push_back({LinkId{l}, random.chance(0.5) ? 1 : 0.5});
      }
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
    case 0: return add_compute(rank(), stream(), random.below(4));
    case 1: return add_chain();
    case 2: return add_collective();
    case 3: return add_message();
    case 4: return add_order();
    default: return add_memory();
  }
}

void Builder::add_compute(std::size_t on_rank, std::size_t on_stream, std::size_t kernel) {
  const LabelId label{static_cast<std::uint32_t>(made.notes.size())};
  made.notes.push_back(
      {.alone = made.workload.kernels[kernel].duration / made.workload.ranks[on_rank].speed});
  programs[on_rank].compute(on_stream, KernelId{static_cast<std::uint32_t>(kernel)}, category(),
                            label);
}

/// Kernels on the compute stream with nothing between them.
void Builder::add_chain() {
  const std::size_t r = rank();
  for (std::size_t left = random.between(1, 5); left > 0; --left) {
    add_compute(r, kComputeStream, random.below(4));
  }
}

LabelId Builder::note_transfer(std::size_t group, const Transfer& transfer) {
  for (const LinkLoad& load : made.workload.groups[group].loads[0]) {
    made.carried[index_of(load.link)] += load.weight * transfer.size.value;
  }
  made.notes.push_back({.alone = transfer.latency + transfer.size / transfer.solo_rate,
                        .compute_share = transfer.compute_share,
                        .members = made.workload.groups[group].members});
  return LabelId{static_cast<std::uint32_t>(made.notes.size() - 1)};
}

void Builder::add_collective() {
  const std::size_t g = random.below(group_stream.size());
  if (is_pair[g]) return;
  const std::size_t row = random.below(6);
  const Transfer& transfer = made.workload.transfers[row];
  const CategoryId charged = category();
  const LabelId label = note_transfer(g, transfer);
  for (const RankId member : made.workload.groups[g].members) {
    programs[index_of(member)].collective(group_stream[g], static_cast<std::uint16_t>(g),
                                          TransferId{static_cast<std::uint32_t>(row)}, charged,
                                          label);
    made.moved[index_of(member)] += transfer.size.value;
  }
}

void Builder::add_message() {
  const std::size_t g = random.below(group_stream.size());
  if (!is_pair[g]) return;
  const std::size_t row = random.below(6);
  const Transfer& transfer = made.workload.transfers[row];
  const auto& members = made.workload.groups[g].members;
  const auto slot = static_cast<std::uint16_t>(g);
  const LabelId label = note_transfer(g, transfer);
  ++tag;
  programs[index_of(members[0])].send(stream(), slot, tag,
                                      TransferId{static_cast<std::uint32_t>(row)}, kSent, label);
  programs[index_of(members[1])].recv(stream(), slot, tag, category(), label);
  made.moved[index_of(members[0])] += transfer.size.value;
}

void Builder::add_order() { programs[rank()].order(stream(), stream()); }

void Builder::add_memory() {
  const std::size_t r = rank();
  const std::size_t s = stream();
  const CategoryId pool{static_cast<std::uint16_t>(random.below(2))};
  const auto size = static_cast<std::int64_t>(random.between(1, 1000));
  programs[r].allocate(s, pool, size);
  add_compute(r, s, 0);
  programs[r].release(s, pool, size);
}

Case Builder::finish() {
  for (std::size_t r = 0; r < programs.size(); ++r) {
    made.workload.programs.push_back(std::move(programs[r]).finish());
    made.workload.ranks[r].program = ProgramId{static_cast<std::uint32_t>(r)};
  }
  return std::move(made);
}

}  // namespace

Case random_case(std::uint64_t seed) {
  Builder builder(seed);
  builder.make_tables();
  builder.make_groups();
  const std::size_t ops = builder.random.between(1, 120);
  for (std::size_t i = 0; i < ops; ++i) builder.add_op();
  return builder.finish();
}

}  // namespace flopcast::test
