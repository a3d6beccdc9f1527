#include "fold_grid.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "generator.h"

namespace flopcast::test {
namespace {

constexpr std::size_t kComputeStreamNumber = 0;
constexpr std::size_t kTensorStream = 1;
constexpr std::size_t kSendStream = 2;
constexpr std::size_t kRecvStream = 3;
constexpr std::size_t kDataStream = 4;
constexpr std::size_t kLeftStream = 5;
constexpr std::size_t kRightStream = 6;
constexpr std::size_t kStreams = 7;

enum Slot : std::uint16_t {
  tensor_slot,
  data_slot,
  world_slot,
  to_next,
  from_previous,
  with_left,  // the next replica's group with this one
  with_right,
  kSlots
};

constexpr CategoryId kWork{0};
constexpr CategoryId kTalk{1};
constexpr CategoryId kPool{0};

std::vector<std::uint32_t> shuffled(std::size_t size, Generator& random) {
  std::vector<std::uint32_t> order(size);
  std::iota(order.begin(), order.end(), 0U);
  for (std::size_t i = size; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

/// Where things lie, and who talks to whom.
struct Builder {
  explicit Builder(std::uint64_t seed) : random(seed) {}

  GridCase build();

  void choose_shape();
  void place_ranks();
  void make_links();
  void make_costs();
  void make_groups();
  void make_programs();
  void make_odd();

  std::uint32_t world() const { return out.tensor * out.data * out.pipeline; }
  /// Rank of a position in the grid, tensor innermost, then data, then pipeline.
  std::uint32_t rank_at(std::uint32_t t, std::uint32_t d, std::uint32_t p) const {
    return t + out.tensor * (d + out.data * p);
  }
  std::uint32_t stage_of(std::uint32_t rank) const { return rank / (out.tensor * out.data); }
  LinkId add_link(double gigabytes) {
    out.workload.links.push_back({.name = "link", .capacity = gigabytes_per_second(gigabytes)});
    return LinkId{static_cast<std::uint32_t>(out.workload.links.size() - 1)};
  }
  void add_hop(std::uint32_t from, std::uint32_t to, double weight, std::vector<LinkLoad>& loads);
  void add_ring(const std::vector<std::uint32_t>& ranks, Slot slot);
  void add_pair(std::uint32_t from, std::uint32_t to);
  void add_exchange(std::uint32_t left, std::uint32_t right);
  Program program_of(std::uint32_t stage, bool skewed);

  Generator random;
  GridCase out;
  std::uint32_t per_node = 1;
  std::uint32_t nodes_per_leaf = 1;
  bool nic_per_gpu = true;
  bool wraps = false;      // the last stage sends to the first
  bool exchanges = false;  // neighbouring replicas swap something, each through its own slot
  std::uint32_t batches = 1;
  std::vector<std::uint32_t> gpu_of;  // by rank
  std::vector<LinkId> nvlink;         // by GPU, outwards
  std::vector<LinkId> nic;            // by GPU or node, outwards
  std::vector<LinkId> uplink;         // by leaf
};

void Builder::choose_shape() {
  out.tensor = std::uint32_t{1} << random.below(3);
  out.data = static_cast<std::uint32_t>(random.between(1, 9));
  out.pipeline = static_cast<std::uint32_t>(random.between(1, 5));
  per_node = std::uint32_t{1} << random.between(1, 4);
  nodes_per_leaf = static_cast<std::uint32_t>(random.between(1, 4));
  nic_per_gpu = random.chance(0.5);
  wraps = out.pipeline > 1 && random.chance(0.4);
  exchanges = out.data > 1 && random.chance(0.3);
  batches = static_cast<std::uint32_t>(random.between(1, 4));
}

/// Tensor innermost, data innermost, pipeline innermost, or no order at all.
void Builder::place_ranks() {
  const std::size_t order = random.below(12);
  const std::vector<std::uint32_t> any = shuffled(world(), random);
  gpu_of.resize(world());
  for (std::uint32_t p = 0; p < out.pipeline; ++p) {
    for (std::uint32_t d = 0; d < out.data; ++d) {
      for (std::uint32_t t = 0; t < out.tensor; ++t) {
        const std::uint32_t rank = rank_at(t, d, p);
        gpu_of[rank] = order < 5    ? rank
                       : order < 9  ? t + out.tensor * (p + out.pipeline * d)
                       : order < 11 ? d + out.data * (t + out.tensor * p)
                                    : any[rank];
      }
    }
  }
}

void Builder::make_links() {
  const std::uint32_t nodes = (world() + per_node - 1) / per_node;
  const double nic_capacity = random.chance(0.5) ? 50 : 30;
  const double uplink_capacity = random.chance(0.5) ? 100 : 35;
  for (std::uint32_t gpu = 0; gpu < world(); ++gpu) nvlink.push_back(add_link(450));
  for (std::uint32_t i = 0; i < (nic_per_gpu ? world() : nodes); ++i) {
    nic.push_back(add_link(nic_capacity));
  }
  for (std::uint32_t leaf = 0; leaf < (nodes + nodes_per_leaf - 1) / nodes_per_leaf; ++leaf) {
    uplink.push_back(add_link(uplink_capacity));
  }
}

void Builder::make_costs() {
  Workload& w = out.workload;
  w.category_names = {"work", "talk"};
  w.pool_names = {"memory"};
  for (int i = 0; i < 6; ++i) {
    w.kernels.push_back({milliseconds(1 + static_cast<double>(random.below(4)))});
  }
  // The second half are the skewed versions of the first.
  for (int i = 0; i < 8; ++i) {
    const double skew = i < 4 ? 1 : 1.5;
    const double size = skew * static_cast<double>(random.below(4)) * 50;
    w.transfers.push_back({.latency = microseconds(static_cast<double>(random.below(3)) * 10),
                           .size = megabytes(size),
                           .solo_rate = gigabytes_per_second(random.chance(0.5) ? 40 : 300),
                           .compute_share = random.chance(0.5) ? 0 : 0.25});
  }
  for (std::uint32_t rank = 0; rank < world(); ++rank) {
    w.ranks.push_back({.name = "rank", .groups = std::vector<GroupId>(kSlots, kNoGroup)});
  }
}

void Builder::add_hop(std::uint32_t from, std::uint32_t to, double weight,
                      std::vector<LinkLoad>& loads) {
  const std::uint32_t a = gpu_of[from];
  const std::uint32_t b = gpu_of[to];
  if (a / per_node == b / per_node) return loads.push_back({nvlink[a], weight});
  loads.push_back({nic[nic_per_gpu ? a : a / per_node], weight});
  const std::uint32_t leaf = a / per_node / nodes_per_leaf;
  if (leaf != b / per_node / nodes_per_leaf) loads.push_back({uplink[leaf], weight});
}

void Builder::add_ring(const std::vector<std::uint32_t>& ranks, Slot slot) {
  const GroupId id{static_cast<std::uint32_t>(out.workload.groups.size())};
  Group group{.name = "ring"};
  group.loads.resize(1);
  const auto n = static_cast<double>(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    group.members.push_back(RankId{ranks[i]});
    out.workload.ranks[ranks[i]].groups[slot] = id;
    if (ranks.size() == 1 || slot == world_slot) continue;
    add_hop(ranks[i], ranks[(i + 1) % ranks.size()], 2 * (n - 1) / n, group.loads[0]);
  }
  out.workload.groups.push_back(std::move(group));
}

void Builder::add_pair(std::uint32_t from, std::uint32_t to) {
  const GroupId id{static_cast<std::uint32_t>(out.workload.groups.size())};
  Group group{.name = "pair", .members = {RankId{from}, RankId{to}}};
  group.loads.resize(1);
  add_hop(from, to, 1, group.loads[0]);
  out.workload.ranks[from].groups[to_next] = id;
  out.workload.ranks[to].groups[from_previous] = id;
  out.workload.groups.push_back(std::move(group));
}

void Builder::add_exchange(std::uint32_t left, std::uint32_t right) {
  const GroupId id{static_cast<std::uint32_t>(out.workload.groups.size())};
  Group group{.name = "exchange", .members = {RankId{left}, RankId{right}}};
  group.loads.resize(1);
  add_hop(left, right, 1, group.loads[0]);
  add_hop(right, left, 1, group.loads[0]);
  out.workload.ranks[left].groups[with_right] = id;
  out.workload.ranks[right].groups[with_left] = id;
  out.workload.groups.push_back(std::move(group));
}

void Builder::make_groups() {
  std::vector<std::uint32_t> everyone(world());
  std::iota(everyone.begin(), everyone.end(), 0U);
  add_ring(everyone, world_slot);
  for (std::uint32_t p = 0; p < out.pipeline; ++p) {
    for (std::uint32_t d = 0; d < out.data; ++d) {
      std::vector<std::uint32_t> ranks;
      for (std::uint32_t t = 0; t < out.tensor; ++t) ranks.push_back(rank_at(t, d, p));
      add_ring(ranks, tensor_slot);
    }
    for (std::uint32_t t = 0; t < out.tensor; ++t) {
      std::vector<std::uint32_t> ranks;
      for (std::uint32_t d = 0; d < out.data; ++d) ranks.push_back(rank_at(t, d, p));
      add_ring(ranks, data_slot);
      for (std::size_t d = 0; exchanges && d < ranks.size(); ++d) {
        add_exchange(ranks[d], ranks[(d + 1) % ranks.size()]);
      }
    }
  }
  for (std::uint32_t p = 0; p < out.pipeline; ++p) {
    if (out.pipeline == 1 || (p + 1 == out.pipeline && !wraps)) continue;
    for (std::uint32_t i = 0; i < out.tensor * out.data; ++i) {
      add_pair(i + out.tensor * out.data * p, i + out.tensor * out.data * ((p + 1) % out.pipeline));
    }
  }
}

/// Micro-batches: receive, work with tensor-parallel collectives, send; then the data-parallel
/// reduction beside more work, and all ranks together. Where the last stage sends to the first,
/// every stage sends before it receives, so that the circle does not lock.
Program Builder::program_of(std::uint32_t stage, bool skewed) {
  const std::uint32_t shift = skewed ? 4 : 0;
  const bool receives = out.pipeline > 1 && (stage > 0 || wraps);
  const bool sends = out.pipeline > 1 && (stage + 1 < out.pipeline || wraps);
  const std::uint32_t kernel = wraps ? 0 : stage;  // a circle of equal stages
  ProgramBuilder program(kStreams);
  std::uint32_t label = 0;
  for (std::uint32_t batch = 0; batch < batches; ++batch) {
    program.allocate(kComputeStreamNumber, kPool, 1000 + batch);
    if (receives && !wraps) {
      program.recv(kRecvStream, from_previous, batch, kTalk, LabelId{label++});
      program.order(kRecvStream, kComputeStreamNumber);
    }
    program.compute(kComputeStreamNumber, KernelId{kernel}, kWork, LabelId{label++});
    program.order(kComputeStreamNumber, kTensorStream);
    program.collective(kTensorStream, tensor_slot, TransferId{shift}, kTalk, LabelId{label++});
    program.order(kTensorStream, kComputeStreamNumber);
    program.compute(kComputeStreamNumber, KernelId{kernel + 1}, kWork, LabelId{label++});
    if (sends) {
      program.order(kComputeStreamNumber, kSendStream);
      program.send(kSendStream, to_next, batch, TransferId{1 + shift}, kTalk, LabelId{label++});
    }
    if (receives && wraps) {
      program.recv(kRecvStream, from_previous, batch, kTalk, LabelId{label++});
      program.order(kRecvStream, kComputeStreamNumber);
    }
  }
  for (const auto& [stream, slot] :
       {std::pair{kLeftStream, with_left}, {kRightStream, with_right}}) {
    if (!exchanges) continue;
    program.order(kComputeStreamNumber, stream);
    if (slot == with_left) program.compute(stream, KernelId{4}, kWork, LabelId{label++});
    program.collective(stream, slot, TransferId{1}, kTalk, LabelId{label++});
    program.order(stream, kDataStream);
  }
  program.order(kComputeStreamNumber, kDataStream);
  program.collective(kDataStream, data_slot, TransferId{2}, kTalk, LabelId{label++});
  program.compute(kComputeStreamNumber, KernelId{5}, kWork, LabelId{label++});
  program.collective(kDataStream, data_slot, TransferId{3}, kTalk, LabelId{label++});
  program.order(kDataStream, kComputeStreamNumber);
  for (std::uint32_t batch = 0; batch < batches; ++batch) {
    program.release(kComputeStreamNumber, kPool, 1000 + batch);
  }
  program.collective(kComputeStreamNumber, world_slot, TransferId{0}, kTalk, LabelId{label++});
  out.workload.labels.resize(std::max<std::size_t>(out.workload.labels.size(), label), "op");
  return std::move(program).finish();
}

void Builder::make_programs() {
  for (std::uint32_t stage = 0; stage < out.pipeline; ++stage) {
    for (const bool skewed : {false, true}) {
      out.workload.programs.push_back(program_of(stage, skewed));
    }
  }
  for (std::uint32_t rank = 0; rank < world(); ++rank) {
    out.workload.ranks[rank].program = ProgramId{2 * stage_of(rank)};
  }
}

/// A slow GPU, a degraded link, one replica with more bytes to move, a data group cut in two.
void Builder::make_odd() {
  Workload& w = out.workload;
  out.regular = random.chance(0.3);
  if (out.regular) return;
  if (random.chance(0.3)) w.ranks[random.below(world())].speed = 0.8;
  if (random.chance(0.2)) w.links[random.below(w.links.size())].capacity = gigabytes_per_second(13);
  if (random.chance(0.3)) {
    const auto replica = static_cast<std::uint32_t>(random.below(out.data));
    for (std::uint32_t rank = 0; rank < world(); ++rank) {
      if (rank / out.tensor % out.data != replica) continue;
      w.ranks[rank].program = ProgramId{index_of(w.ranks[rank].program) + 1};
    }
  }
  if (random.chance(0.2) && out.data > 2) {
    const auto t = static_cast<std::uint32_t>(random.below(out.tensor));
    const auto p = static_cast<std::uint32_t>(random.below(out.pipeline));
    Group& whole = w.groups[index_of(w.ranks[rank_at(t, 0, p)].groups[data_slot])];
    std::vector<std::uint32_t> parts[2];
    for (std::uint32_t d = 0; d < out.data; ++d) parts[d < 2 ? 0 : 1].push_back(rank_at(t, d, p));
    whole.members.clear();
    whole.loads.clear();
    add_ring(parts[0], data_slot);
    add_ring(parts[1], data_slot);
  }
  if (random.chance(0.2)) {
    w.jitter = {.sigma = 0.1, .seed = random.below(100)};
    const std::uint64_t sequences = random.between(1, 4);
    for (std::uint32_t rank = 0; rank < world(); ++rank) w.ranks[rank].draws = rank % sequences;
  }
}

GridCase Builder::build() {
  choose_shape();
  place_ranks();
  make_links();
  make_costs();
  make_groups();
  make_programs();
  make_odd();
  return std::move(out);
}

/// Rows moved to `order[row]`.
template <class Row>
std::vector<Row> reordered(const std::vector<Row>& rows, const std::vector<std::uint32_t>& order) {
  std::vector<Row> result(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) result[order[i]] = rows[i];
  return result;
}

}  // namespace

GridCase random_grid(std::uint64_t seed) { return Builder(seed).build(); }

Workload replicated(const Workload& one, std::uint32_t copies, const std::vector<bool>& shared) {
  Workload all = one;
  for (std::uint32_t copy = 1; copy < copies; ++copy) {
    const auto first_rank = static_cast<std::uint32_t>(all.ranks.size());
    const auto first_group = static_cast<std::uint32_t>(all.groups.size());
    std::vector<LinkId> links;
    for (std::uint32_t l = 0; l < one.links.size(); ++l) {
      links.push_back(shared[l] ? LinkId{l} : LinkId{static_cast<std::uint32_t>(all.links.size())});
      if (!shared[l]) all.links.push_back(one.links[l]);
    }
    for (Rank rank : one.ranks) {
      for (GroupId& group : rank.groups) {
        if (group != kNoGroup) group = GroupId{first_group + index_of(group)};
      }
      all.ranks.push_back(std::move(rank));
    }
    for (Group group : one.groups) {
      for (RankId& member : group.members) member = RankId{first_rank + index_of(member)};
      for (auto& list : group.loads) {
        for (LinkLoad& load : list) load.link = links[index_of(load.link)];
      }
      all.groups.push_back(std::move(group));
    }
  }
  return all;
}

Relabelled relabelled(const Workload& from, std::uint64_t seed) {
  Generator random(seed);
  Relabelled to{.workload = from,
                .ranks = shuffled(from.ranks.size(), random),
                .groups = shuffled(from.groups.size(), random),
                .links = shuffled(from.links.size(), random)};
  to.workload.ranks = reordered(from.ranks, to.ranks);
  to.workload.groups = reordered(from.groups, to.groups);
  to.workload.links = reordered(from.links, to.links);
  for (Rank& rank : to.workload.ranks) {
    for (GroupId& group : rank.groups) {
      if (group != kNoGroup) group = GroupId{to.groups[index_of(group)]};
    }
  }
  for (Group& group : to.workload.groups) {
    for (RankId& member : group.members) member = RankId{to.ranks[index_of(member)]};
    // The order of a pair says who sends.
    if (group.members.size() > 2) std::reverse(group.members.begin(), group.members.end());
    for (auto& list : group.loads) {
      for (LinkLoad& load : list) load.link = LinkId{to.links[index_of(load.link)]};
      std::reverse(list.begin(), list.end());
    }
  }
  return to;
}

}  // namespace flopcast::test
