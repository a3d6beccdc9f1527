#include "sim/engine_tables.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/check.h"
#include "sim/rates.h"

namespace flopcast {
namespace {

constexpr std::uint32_t kNotRecorded = 0xffffffffu;
constexpr std::size_t kMostStreams = 0xfff0u;
constexpr double kNoLimit = std::numeric_limits<double>::infinity();

std::uint32_t row_count(std::size_t size) {
  FLOPCAST_CHECK(size < kNotRecorded, "a table has fewer than 2^32 - 1 rows");
  return static_cast<std::uint32_t>(size);
}

void check_costs(const Workload& workload) {
  for (const Kernel& kernel : workload.kernels) {
    FLOPCAST_CHECK(kernel.duration.value >= 0, "a kernel takes time");
  }
  for (const Variant& variant : workload.variants) {
    FLOPCAST_CHECK(
        std::ranges::all_of(variant.rows, [&](auto row) { return row < workload.kernels.size(); }),
        "a variant names kernels of the table");
    FLOPCAST_CHECK(std::ranges::all_of(variant.sizes, [](auto size) { return size >= 0; }),
                   "memory ops have a size");
  }
  for (const Transfer& transfer : workload.transfers) {
    FLOPCAST_CHECK(transfer.latency.value >= 0, "a latency is not negative");
    FLOPCAST_CHECK(transfer.size.value >= 0 && std::isfinite(transfer.size.value),
                   "a transfer has a size");
    FLOPCAST_CHECK(transfer.size.value == 0 || transfer.solo_rate.value > 0,
                   "a transfer with bytes makes progress");
    FLOPCAST_CHECK(transfer.compute_share >= 0 && transfer.compute_share <= 1,
                   "a share of the GPU is within 0..1");
  }
}

/// Appends the loads with each link once and without those of weight zero.
void append_merged(const std::vector<LinkLoad>& from, std::size_t links,
                   std::vector<LinkLoad>& to) {
  const std::size_t first = to.size();
  for (const LinkLoad& load : from) {
    FLOPCAST_CHECK(index_of(load.link) < links, "a group loads a link of the table");
    FLOPCAST_CHECK(load.weight >= 0 && std::isfinite(load.weight), "a load has a weight");
    if (load.weight > 0) to.push_back(load);
  }
  const auto begin = to.begin() + static_cast<std::ptrdiff_t>(first);
  std::sort(begin, to.end(), [](const LinkLoad& a, const LinkLoad& b) { return a.link < b.link; });
  auto last = begin;
  for (auto it = begin; it != to.end(); ++it) {
    if (it == begin) continue;
    if (it->link == last->link) {
      last->weight += it->weight;
    } else {
      *++last = *it;
    }
  }
  if (begin != to.end()) to.erase(last + 1, to.end());
}

/// Ops of all programs: of a long run too many for a vector that grows.
std::size_t op_count(const Workload& workload) {
  std::size_t count = 0;
  for (const Program& program : workload.programs) {
    for (const std::vector<Op>& stream : program.streams) count += stream.size();
  }
  return count;
}

}  // namespace

EngineTables::EngineTables(const Workload& workload)
    : source(workload),
      categories(workload.category_names.size()),
      pools(workload.pool_names.size()) {
  check_costs(workload);
  ops.reserve(op_count(workload));
  for (const Program& program : workload.programs) lay_out_program(program);
  lay_out_variants();
  for (const Link& link : workload.links) link_capacity.push_back(link.capacity.value);
  load_lists.push_back({.own = true, .full_rate = kNoLimit});  // nothing
  for (const Group& group : workload.groups) lay_out_group(group);
  for (std::size_t i = 0; i < workload.ranks.size(); ++i) {
    lay_out_rank(workload.ranks[i], RankId{static_cast<std::uint32_t>(i)});
  }
  find_own_links();
  lay_out_shares();
}

const LoadList& EngineTables::load_list(GroupId group, std::uint8_t pattern) const {
  const Rows patterns = group_patterns[index_of(group)];
  if (patterns.size() == 0) return load_lists.front();  // a group that loads no modelled link
  FLOPCAST_CHECK(pattern < patterns.size(), "the group has the pattern of its transfer");
  return load_lists[patterns.begin + pattern];
}

BytesPerSecond EngineTables::rate_alone(const LoadList& list, BytesPerSecond cap) const {
  if (cap.value <= list.full_rate) return cap;
  const bool fits = std::ranges::all_of(loads_of(list), [&](const LinkLoad& load) {
    return load.weight * cap.value <= link_capacity[index_of(load.link)];
  });
  return fits ? cap : BytesPerSecond{list.full_rate};
}

void EngineTables::lay_out_program(const Program& program) {
  const std::uint32_t first_stream = row_count(program_stream_ops.size());
  slot_use_.emplace_back();
  amounts_.emplace_back();
  for (std::size_t stream = 0; stream < program.streams.size(); ++stream) {
    const std::uint32_t first_op = row_count(ops.size());
    for (const Op& op : program.streams[stream]) {
      check_op(op, program);
      ops.push_back(op);
    }
    program_stream_ops.push_back({first_op, row_count(ops.size())});
  }
  FLOPCAST_CHECK(program.streams.size() < kMostStreams, "the number of a stream has 16 bits");
  lay_out_waits(program, first_stream);
  program_streams.push_back({first_stream, row_count(program_stream_ops.size())});
}

/// Tells the waits of a program where their events are recorded.
void EngineTables::lay_out_waits(const Program& program, std::uint32_t first_stream) {
  struct Recorder {
    std::uint16_t stream = 0;
    std::uint32_t row = kNotRecorded;  // in `ops`
  };
  std::vector<Recorder> recorders(program.events);
  const std::uint32_t first_op = program_stream_ops[first_stream].begin;
  for (std::uint32_t stream = first_stream; stream < program_stream_ops.size(); ++stream) {
    const Rows rows = program_stream_ops[stream];
    for (std::uint32_t row = rows.begin; row != rows.end; ++row) {
      if (ops[row].kind != OpKind::record) continue;
      Recorder& recorder = recorders[ops[row].row];
      FLOPCAST_CHECK(recorder.row == kNotRecorded, "an event is recorded once");
      recorder = {.stream = static_cast<std::uint16_t>(stream - first_stream), .row = row};
    }
  }
  FLOPCAST_CHECK(
      std::ranges::none_of(recorders, [](const Recorder& r) { return r.row == kNotRecorded; }),
      "an event is recorded");
  for (std::uint32_t row = first_op; row < ops.size(); ++row) {
    if (ops[row].kind != OpKind::wait) continue;
    const Recorder& recorder = recorders[ops[row].row];
    ops[row].slot = recorder.stream;
    ops[row].tag = recorder.row;
  }
}

void EngineTables::check_op(const Op& op, const Program& program) {
  const auto use_slot = [&]() -> SlotUse& {
    auto& uses = slot_use_.back();
    if (op.slot >= uses.size()) uses.resize(op.slot + std::size_t{1});
    return uses[op.slot];
  };
  const auto category = static_cast<std::size_t>(op.category);
  switch (op.kind) {
    case OpKind::compute:
      FLOPCAST_CHECK(op.row < source.kernels.size(), "a compute op names a kernel of the table");
      amounts_.back().rows = std::max(amounts_.back().rows, op.tag);
      categories = std::max(categories, category + 1);
      return;
    case OpKind::collective:
    case OpKind::send:
      FLOPCAST_CHECK(op.row < source.transfers.size(), "an op names a transfer of the table");
      (op.kind == OpKind::send ? use_slot().send : use_slot().collective) = true;
      categories = std::max(categories, category + 1);
      return;
    case OpKind::recv:
      use_slot().recv = true;
      categories = std::max(categories, category + 1);
      return;
    case OpKind::record:
    case OpKind::wait:
      FLOPCAST_CHECK(op.row < program.events, "an op names an event of its program");
      return;
    case OpKind::allocate:
    case OpKind::release:
      FLOPCAST_CHECK(op.size >= 0, "memory ops have a size");
      amounts_.back().sizes = std::max(amounts_.back().sizes, op.tag);
      pools = std::max(pools, category + 1);
      return;
  }
}

void EngineTables::lay_out_group(const Group& group) {
  std::vector<RankId> members = group.members;
  for (const RankId member : members) {
    FLOPCAST_CHECK(index_of(member) < source.ranks.size(), "a group's members are ranks");
  }
  std::sort(members.begin(), members.end());
  members.erase(std::unique(members.begin(), members.end()), members.end());
  group_arrivals.push_back(group.arrivals != 0 ? group.arrivals : row_count(members.size()));
  sorted_members_.push_back(std::move(members));

  const std::uint32_t first_list = row_count(load_lists.size());
  for (const auto& list : group.loads) {
    const std::uint32_t first_load = row_count(loads.size());
    append_merged(list, source.links.size(), loads);
    load_lists.push_back({.rows = {first_load, row_count(loads.size())}, .full_rate = kNoLimit});
  }
  group_patterns.push_back({first_list, row_count(load_lists.size())});
  group_messages_.push_back(false);
}

/// A group has one collective at a time; messages may be many.
void EngineTables::find_own_links() {
  constexpr std::uint32_t kNobody = 0xffffffffu;
  constexpr std::uint32_t kSeveral = 0xfffffffeu;
  std::vector<std::uint32_t> owner(link_capacity.size(), kNobody);
  const auto for_each_list = [this](auto visit) {
    for (std::uint32_t group = 0; group < group_patterns.size(); ++group) {
      const Rows lists = group_patterns[group];
      for (std::uint32_t i = lists.begin; i != lists.end; ++i) visit(group, load_lists[i]);
    }
  };
  for_each_list([&](std::uint32_t group, const LoadList& list) {
    for (const LinkLoad& load : loads_of(list)) {
      std::uint32_t& of_link = owner[index_of(load.link)];
      of_link = of_link == kNobody || of_link == group ? group : kSeveral;
    }
  });
  for_each_list([&](std::uint32_t group, LoadList& list) {
    const auto of_list = loads_of(list);
    list.own = of_list.empty() || !group_messages_[group];
    for (const LinkLoad& load : of_list) {
      const std::uint32_t link = index_of(load.link);
      list.own &= owner[link] == group;
      list.full_rate = std::min(list.full_rate, rate_when_full(link_capacity[link], load.weight));
    }
  });
}

/// Few values: they come from the kind of the communication.
void EngineTables::lay_out_shares() {
  shares.push_back(0);
  for (const Transfer& transfer : source.transfers) shares.push_back(transfer.compute_share);
  std::ranges::sort(shares);
  shares.erase(std::unique(shares.begin(), shares.end()), shares.end());
  for (const Transfer& transfer : source.transfers) {
    const auto place = std::ranges::lower_bound(shares, transfer.compute_share);
    transfer_share.push_back(static_cast<std::uint32_t>(place - shares.begin()));
  }
}

void EngineTables::lay_out_rank(const Rank& rank, RankId id) {
  FLOPCAST_CHECK(index_of(rank.program) < program_streams.size(), "a rank has a program");
  FLOPCAST_CHECK(rank.speed > 0 && std::isfinite(rank.speed), "a rank makes progress");
  check_slots(rank, id);
  rank_amounts.push_back(amounts_of(rank));
  const std::uint32_t first = streams;
  streams = row_count(std::size_t{streams} + program_streams[index_of(rank.program)].size());
  rank_streams.push_back({first, streams});
  rank_slots.push_back(row_count(slot_groups.size()));
  slot_groups.insert(slot_groups.end(), rank.groups.begin(), rank.groups.end());
}

/// Kernels by their durations: where ranks run in turn, each table on the way is a cache miss.
void EngineTables::lay_out_variants() {
  std::size_t count = 0;
  for (const Variant& variant : source.variants) count += variant.rows.size();
  durations.reserve(count);
  for (const Variant& variant : source.variants) {
    variant_durations_.push_back(durations.size());
    for (const std::uint32_t row : variant.rows) durations.push_back(source.kernels[row].duration);
  }
}

RankAmounts EngineTables::amounts_of(const Rank& rank) const {
  RankAmounts own{.speed = rank.speed};
  const AmountCounts amounts = amounts_[index_of(rank.program)];
  if (amounts.rows == 0 && amounts.sizes == 0) return own;
  FLOPCAST_CHECK(index_of(rank.variant) < source.variants.size(), "a rank has its variant");
  const Variant& variant = source.variants[index_of(rank.variant)];
  FLOPCAST_CHECK(amounts.rows <= variant.rows.size() && amounts.sizes <= variant.sizes.size(),
                 "a variant has an amount for each op that varies");
  own.durations = {durations.data() + variant_durations_[index_of(rank.variant)],
                   variant.rows.size()};
  own.sizes = variant.sizes;
  return own;
}

void EngineTables::check_slots(const Rank& rank, RankId id) {
  const auto& uses = slot_use_[index_of(rank.program)];
  for (std::size_t slot = 0; slot < uses.size(); ++slot) {
    const SlotUse use = uses[slot];
    if (!use.collective && !use.send && !use.recv) continue;
    FLOPCAST_CHECK(slot < rank.groups.size(), "a rank has the groups that its program uses");
    const std::uint32_t group = index_of(rank.groups[slot]);
    FLOPCAST_CHECK(group < source.groups.size(), "a slot in use holds a group of the table");
    const auto& sorted = sorted_members_[group];
    FLOPCAST_CHECK(std::binary_search(sorted.begin(), sorted.end(), id),
                   "a rank is a member of the groups that it uses");
    const auto& members = source.groups[group].members;
    if (use.send || use.recv) {
      group_messages_[group] = true;
      FLOPCAST_CHECK(members.size() == 2, "messages go from one member of a pair to the other");
      FLOPCAST_CHECK(!use.send || members[0] == id, "the first of a pair sends");
      FLOPCAST_CHECK(!use.recv || members[1] == id, "the second of a pair receives");
    }
  }
}

}  // namespace flopcast
