#include "models/step_network.h"

#include <algorithm>
#include <array>
#include <compare>
#include <initializer_list>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/step_connections.h"
#include "sim/check.h"

namespace flopcast {
namespace {

/// A way in which ranks use one of their groups. All that have it, have its connections in the same
/// slots, slots_of() each lane: one to send by and one to receive by, or those of a tree.
struct Use {
  std::uint16_t slot = 0;
  StepForm form{};
  friend auto operator<=>(const Use&, const Use&) = default;
};
struct UseRow {
  std::uint32_t lanes = 0;  // of the group with the most
  std::uint32_t first_slot = 0;
};

/// Messages that one rank sends in one lane.
struct LaneMessages {
  std::uint32_t steps = 1;
  TransferId transfer{};
};

/// Messages are alike for collectives of one row, cut in the same way.
struct MessageKey {
  std::uint32_t row = 0;
  StepForm form{};
  std::uint32_t steps = 0;  // or hops, members of a domain, members
  std::uint32_t lanes = 0;  // or domains
  friend auto operator<=>(const MessageKey&, const MessageKey&) = default;
};

class StepNetwork {
 public:
  StepNetwork(Plan plan, const Cluster& cluster)
      : plan_(std::move(plan)),
        workload_(plan_.workload),
        connections_(workload_, cluster),
        first_rank_(first_ranks(workload_)),
        barrier_{static_cast<std::uint32_t>(workload_.transfers.size())} {
    workload_.transfers.push_back({});
  }

  Plan build() && {
    split_programs();
    find_uses();
    give_slots();
    connect();
    name_lanes();
    for (std::size_t program = 0; program < workload_.programs.size(); ++program) {
      workload_.programs[program] = rewritten(program);
    }
    return std::move(plan_);
  }

 private:
  GroupId group_of(std::size_t program, std::uint16_t slot) const {
    return workload_.ranks[first_rank_[program]].groups[slot];
  }
  std::uint32_t members_of(GroupId group) const {
    return static_cast<std::uint32_t>(workload_.groups[index_of(group)].members.size());
  }
  StepForm form(std::size_t program, const Op& op) {
    if (op.kind != OpKind::collective) return StepForm::whole;
    const GroupId group = group_of(program, op.slot);
    const StepForm form = form_of(workload_.transfers[op.row], plan_.transfer_kinds[op.row],
                                  workload_.groups[index_of(group)]);
    if (form != StepForm::direct) return form;
    const auto [known, is_new] = two_levels_.try_emplace(group, false);
    if (is_new) known->second = connections_.has_two_levels(group);
    return known->second ? StepForm::two_levels : StepForm::direct;
  }

  /// By program.
  std::vector<std::set<std::uint16_t>> tree_slots() {
    std::vector<std::set<std::uint16_t>> slots(workload_.programs.size());
    for (std::size_t program = 0; program < slots.size(); ++program) {
      for (const std::vector<Op>& stream : workload_.programs[program].streams) {
        for (const Op& op : stream) {
          if (form(program, op) == StepForm::tree) slots[program].insert(op.slot);
        }
      }
    }
    return slots;
  }

  /// What a member of a tree does depends on its place: ranks in other places get other programs.
  void split_programs() {
    const std::vector<std::set<std::uint16_t>> slots = tree_slots();
    std::map<std::pair<std::size_t, std::vector<TreePlace>>, ProgramId> split;
    std::vector<bool> seen(workload_.programs.size());
    for (std::uint32_t rank = 0; rank < workload_.ranks.size(); ++rank) {
      Rank& row = workload_.ranks[rank];
      const std::size_t program = index_of(row.program);
      if (slots[program].empty()) continue;
      std::vector<TreePlace> places;
      for (const std::uint16_t slot : slots[program]) {
        const GroupTrees& trees = connections_.trees_of(row.groups[slot]);
        for (std::uint32_t lane = 0; lane < trees.lanes(); ++lane) {
          places.push_back(trees.place_of(GpuId{rank}, lane));
        }
      }
      const auto [entry, is_new] = split.try_emplace({program, std::move(places)}, row.program);
      if (is_new && seen[program]) entry->second = copy_of(program);
      seen[program] = true;
      row.program = entry->second;
    }
    first_rank_ = first_ranks(workload_);
  }
  ProgramId copy_of(std::size_t program) {
    const ProgramId id{static_cast<std::uint32_t>(workload_.programs.size())};
    workload_.programs.push_back(Program(workload_.programs[program]));
    plan_.stage_of.push_back(plan_.stage_of[program]);
    plan_.kind_of.push_back(plan_.kind_of[program]);
    plan_.facts.push_back(std::array(plan_.facts[program]));
    return id;
  }

  void find_uses() {
    more_streams_.resize(workload_.stream_names.size());
    for (std::size_t program = 0; program < workload_.programs.size(); ++program) {
      const auto& streams = workload_.programs[program].streams;
      std::map<Use, std::uint32_t> lanes;  // of this program
      for (std::size_t stream = 0; stream < streams.size(); ++stream) {
        for (const Op& op : streams[stream]) {
          const Use use{op.slot, form(program, op)};
          if (use.form == StepForm::whole) continue;
          std::uint32_t& known = lanes[use];
          const GroupId group = group_of(program, op.slot);
          if (known == 0) known = connections_.lanes_of(use.form, group);
          more_streams_[stream] =
              std::max(more_streams_[stream], connections_.streams_of(use.form, group) - 1);
        }
      }
      for (const auto& [use, count] : lanes) {
        uses_[use].lanes = std::max(uses_[use].lanes, count);
      }
    }
  }

  void give_slots() {
    auto slots = static_cast<std::uint32_t>(kStepGroups);
    for (auto& [use, row] : uses_) {
      row.first_slot = slots;
      slots += slots_of(use.form) * row.lanes;
    }
    FLOPCAST_CHECK(slots <= std::numeric_limits<std::uint16_t>::max(), "a slot has 16 bits");
    for (Rank& rank : workload_.ranks) rank.groups.resize(slots, kNoGroup);
  }

  void connect() {
    const std::size_t groups = workload_.groups.size();
    for (const auto& [use, row] : uses_) {
      std::vector<bool> connected(groups);
      for (std::size_t rank = 0; rank < workload_.ranks.size(); ++rank) {
        const GroupId group = workload_.ranks[rank].groups[use.slot];
        if (group == kNoGroup || connected[index_of(group)]) continue;
        connected[index_of(group)] = true;
        connections_.connect(use.form, row.first_slot, group);
      }
    }
  }

  void name_lanes() {
    for (const std::uint32_t more : more_streams_) {
      first_lane_stream_.push_back(workload_.stream_names.size());
      const std::string name = workload_.stream_names[first_lane_stream_.size() - 1];
      for (std::uint32_t lane = 1; lane <= more; ++lane) {
        workload_.stream_names.push_back(name + ", lane " + std::to_string(lane));
      }
    }
    for (const std::string_view more : {", messages", ", messages beside"}) {
      for (const std::string_view name : kStepCategoryNames) {
        workload_.category_names.push_back(std::string(name).append(more));
      }
    }
  }

  Program rewritten(std::size_t number) {
    const Program& program = workload_.programs[number];
    Program out{.streams = {}, .events = program.events};
    out.streams.resize(workload_.stream_names.size());
    for (std::size_t stream = 0; stream < program.streams.size(); ++stream) {
      for (const Op& op : program.streams[stream]) {
        const StepForm shape = form(number, op);
        if (shape == StepForm::whole) {
          out.streams[stream].push_back(op);
        } else {
          add_parts(op, stream, parts_of(number, shape, op, out.events), out);
        }
      }
    }
    return out;
  }

  /// All arrive; the first part runs on the collective's own stream, the others beside it.
  void add_parts(const Op& op, std::size_t stream, const MessageParts& parts, Program& out) {
    std::vector<Op>& own = out.streams[stream];
    own.push_back(op);
    own.back().row = index_of(barrier_);
    const std::uint32_t started = out.events;
    if (parts.size() > 1) {
      out.events +=
          static_cast<std::uint32_t>(parts.size());  // the start, ends of all but the first
      own.push_back({.kind = OpKind::record, .row = started});
    }
    own.insert(own.end(), parts[0].begin(), parts[0].end());
    for (std::uint32_t part = 1; part < parts.size(); ++part) {
      std::vector<Op>& beside = out.streams[first_lane_stream_[stream] + part - 1];
      beside.push_back({.kind = OpKind::wait, .row = started});
      beside.insert(beside.end(), parts[part].begin(), parts[part].end());
      beside.push_back({.kind = OpKind::record, .row = started + part});
      own.push_back({.kind = OpKind::wait, .row = started + part});
    }
  }

  /// `events` grows by those that the parts use among themselves.
  MessageParts parts_of(std::size_t program, StepForm shape, const Op& op, std::uint32_t& events) {
    const GroupId group = group_of(program, op.slot);
    const std::uint32_t first_slot = uses_.at({op.slot, shape}).first_slot;
    switch (shape) {
      case StepForm::tree: return tree_parts(program, op, first_slot, events);
      case StepForm::two_levels:
      case StepForm::in_switch: {
        const PartRows rows{.op = op,
                            .first_slot = first_slot,
                            .transfers = chunks(op.row, shape, group),
                            .first_event = events};
        const bool levels = shape == StepForm::two_levels;
        events += kTwoHopChunks * (levels ? 1 : in_switch_lanes(members_of(group)));
        return levels ? two_level_parts(rows, connections_.two_levels_of(group))
                      : in_switch_parts(rows, members_of(group));
      }
      case StepForm::whole:
      case StepForm::none:
      case StepForm::ring:
      case StepForm::direct:
      case StepForm::next: break;
    }
    MessageParts parts(connections_.lanes_of(shape, group));
    const LaneMessages messages = messages_of(op.row, shape, group);
    for (std::uint32_t lane = 0; lane < parts.size(); ++lane) {
      const MessageLane place = lane == 0 ? MessageLane::first : MessageLane::other;
      add_lane(op, messages, {place, first_slot + 2 * lane}, parts[lane]);
    }
    return parts;
  }

  MessageParts tree_parts(std::size_t program, const Op& op, std::uint32_t first_slot,
                          std::uint32_t& events) {
    const GroupId group = group_of(program, op.slot);
    const GroupTrees& trees = connections_.trees_of(group);
    const GpuId gpu{static_cast<std::uint32_t>(first_rank_[program])};
    TreeLane lane = tree_lane(op, group);
    lane.first_slot = first_slot;
    MessageParts parts;
    for (std::uint32_t number = 0; number < trees.lanes(); ++number) {
      lane.place = trees.place_of(gpu, number);
      lane.chunk_events = events;
      if (lane.place.children > 0) events += lane.chunks;
      for (std::uint32_t part = 0; part < 2 + lane.place.children; ++part) {
        if (part == 1 && !lane.place.parent) continue;
        const MessageLane place = parts.empty() ? MessageLane::first : MessageLane::other;
        lane.add_part(part, place, parts.emplace_back());
      }
      lane.first_slot += kTreeSlots;
    }
    return parts;
  }

  TreeLane tree_lane(const Op& op, GroupId group) {
    const GroupTrees& trees = connections_.trees_of(group);
    const TreeMessages messages =
        tree_messages(workload_.transfers[op.row], trees, static_cast<int>(members_of(group)));
    const TransferId first = rows_of({op.row, StepForm::tree, trees.hops(), trees.lanes()},
                                     {messages.first, messages.rest});
    return {.op = op, .chunks = messages.chunks, .first = first};
  }

  TransferId chunks(std::uint32_t row, StepForm shape, GroupId group) {
    const Transfer collective = workload_.transfers[row];
    if (shape == StepForm::in_switch) {
      const ChunkTransfers slice = in_switch_transfers(collective, members_of(group));
      return rows_of({row, shape, members_of(group), 0}, {slice.first, slice.rest});
    }
    const TwoLevels levels = connections_.two_levels_of(group);
    const auto [inside, outside] = two_level_transfers(collective, levels);
    return rows_of({row, shape, levels.local, levels.domains},
                   {inside.first, inside.rest, outside.first, outside.rest});
  }

  /// In each step a rank passes on what it received in the step before.
  struct LanePlace {
    MessageLane lane;
    std::uint32_t slot;
  };
  static void add_lane(const Op& op, const LaneMessages& messages, LanePlace place,
                       std::vector<Op>& ops) {
    Op message{.kind = OpKind::recv,
               .category = id_of(static_cast<StepCategory>(op.category), place.lane),
               .label = op.label};
    for (std::uint32_t step = 0; step <= messages.steps; ++step) {
      if (step > 0) {
        message.kind = OpKind::recv;
        message.slot = static_cast<std::uint16_t>(place.slot + 1);
        message.tag = step - 1;
        message.row = 0;
        ops.push_back(message);
      }
      if (step == messages.steps) break;
      message.kind = OpKind::send;
      message.slot = static_cast<std::uint16_t>(place.slot);
      message.tag = step;
      message.row = index_of(messages.transfer);
      ops.push_back(message);
    }
  }

  /// Alone, all steps and lanes together take what the collective takes.
  LaneMessages messages_of(std::uint32_t row, StepForm shape, GroupId group) {
    const std::uint32_t lanes = connections_.lanes_of(shape, group);
    const std::uint32_t rounds = plan_.transfer_kinds[row] == CollectiveKind::all_reduce ? 2 : 1;
    const std::uint32_t steps = shape == StepForm::ring ? rounds * (members_of(group) - 1) : 1;
    Transfer message = workload_.transfers[row];
    message.latency = message.latency / steps;
    message.size = message.size / steps / lanes;
    message.solo_rate = message.solo_rate / lanes;
    return {.steps = steps, .transfer = rows_of({row, shape, steps, lanes}, {message})};
  }

  /// The first of the rows, which are appended where they are new.
  TransferId rows_of(const MessageKey& key, std::initializer_list<Transfer> rows) {
    const TransferId next{static_cast<std::uint32_t>(workload_.transfers.size())};
    const auto [entry, is_new] = transfers_.try_emplace(key, next);
    if (is_new) workload_.transfers.insert(workload_.transfers.end(), rows);
    return entry->second;
  }

  Plan plan_;
  Workload& workload_;
  StepConnections connections_;
  std::vector<std::size_t> first_rank_;  // by program
  TransferId barrier_;                   // takes no time
  std::map<Use, UseRow> uses_;
  std::vector<std::uint32_t> more_streams_;     // lanes beside each stream
  std::vector<std::size_t> first_lane_stream_;  // by stream
  std::map<MessageKey, TransferId> transfers_;
  std::map<GroupId, bool> two_levels_;  // of groups with an all-to-all
};

}  // namespace

Plan with_step_network(Plan plan, const Cluster& cluster) {
  return StepNetwork(std::move(plan), cluster).build();
}

}  // namespace flopcast
