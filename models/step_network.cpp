#include "models/step_network.h"

#include <algorithm>
#include <array>
#include <compare>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "models/step_forms.h"
#include "models/step_trees.h"
#include "sim/check.h"
#include "topology/ring_order.h"

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

class StepNetwork {
 public:
  StepNetwork(Plan plan, const Cluster& cluster)
      : plan_(std::move(plan)),
        workload_(plan_.workload),
        cluster_(cluster),
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
  const Group& group_of(std::size_t program, std::uint16_t slot) const {
    const Rank& rank = workload_.ranks[first_rank_[program]];
    return workload_.groups[index_of(rank.groups[slot])];
  }
  StepForm form(std::size_t program, const Op& op) const {
    if (op.kind != OpKind::collective) return StepForm::whole;
    return form_of(workload_.transfers[op.row], plan_.transfer_kinds[op.row],
                   group_of(program, op.slot));
  }
  std::vector<GpuId> gpus_of(const Group& group) const {
    std::vector<GpuId> gpus;
    gpus.reserve(group.members.size());
    for (const RankId member : group.members) gpus.push_back(GpuId{index_of(member)});
    return gpus;
  }
  /// Channels of rings and trees are rotated over the members of a domain, as NCCL's.
  std::uint32_t lanes_of(StepForm form, const Group& group) const {
    if (form == StepForm::next) return 1;
    if (form == StepForm::direct) return static_cast<std::uint32_t>(group.members.size() - 1);
    const GroupShape shape = group_shape(cluster_, gpus_of(group));
    const auto channels = shape.nodes > 1 ? static_cast<std::uint32_t>(shape.ranks_per_node) : 1;
    return form == StepForm::tree ? 2 * channels : channels;
  }
  const GroupTrees& trees_of(GroupId id) {
    const auto known = trees_.find(id);
    if (known != trees_.end()) return known->second;
    const Group& group = workload_.groups[index_of(id)];
    const std::uint32_t lanes = lanes_of(StepForm::tree, group);
    return trees_.try_emplace(id, cluster_, gpus_of(group), lanes).first->second;
  }

  /// By program.
  std::vector<std::set<std::uint16_t>> tree_slots() const {
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
        const GroupTrees& trees = trees_of(row.groups[slot]);
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
          if (known == 0) known = lanes_of(use.form, group_of(program, op.slot));
          more_streams_[stream] = std::max(more_streams_[stream], streams_of(use.form) * known - 1);
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
        connect(use.form, row.first_slot, group);
      }
    }
  }

  void connect(StepForm form, std::uint32_t slot, GroupId id) {
    if (form == StepForm::tree) return connect_trees(slot, trees_of(id));
    const std::vector<GpuId> gpus = gpus_of(workload_.groups[index_of(id)]);
    if (form == StepForm::next) {
      for (std::size_t i = 0; i < gpus.size(); ++i) {
        add_pair(gpus[i], gpus[(i + 1) % gpus.size()], {slot, slot + 1});
      }
      return;
    }
    const std::uint32_t lanes = lanes_of(form, workload_.groups[index_of(id)]);
    const GroupPlaces places(cluster_, gpus);
    for (std::uint32_t lane = 0; lane < lanes; ++lane, slot += 2) {
      std::vector<Place> to;
      if (form == StepForm::ring) to = ring_successors(places, lane);
      for (Place from = 0; from < places.members(); ++from) {
        const Place target =
            form == StepForm::ring ? to[from] : (from + lane + 1) % places.members();
        add_pair(places.gpu(from), places.gpu(target), {slot, slot + 1});
      }
    }
  }

  void connect_trees(std::uint32_t first_slot, const GroupTrees& trees) {
    trees.for_each_edge([&](std::uint32_t lane, GpuId child, GpuId parent, std::uint32_t number) {
      const std::uint32_t slot = first_slot + lane * kTreeSlots;
      add_pair(child, parent, {slot + kUpToParent, slot + up_from_child(number)});
      add_pair(parent, child, {slot + down_to_child(number), slot + kDownFromParent});
    });
  }

  struct PairSlots {
    std::uint32_t from;
    std::uint32_t to;
  };
  void add_pair(GpuId from, GpuId to, PairSlots slots) {
    const GroupId id{static_cast<std::uint32_t>(workload_.groups.size())};
    Group pair{.name = "message", .members = {RankId{index_of(from)}, RankId{index_of(to)}}};
    pair.loads.push_back(route_loads(cluster_, from, to));
    workload_.groups.push_back(std::move(pair));
    workload_.ranks[index_of(from)].groups[slots.from] = id;
    workload_.ranks[index_of(to)].groups[slots.to] = id;
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
        switch (form(number, op)) {
          case StepForm::whole: out.streams[stream].push_back(op); break;
          case StepForm::tree: add_trees(number, stream, op, out); break;
          case StepForm::ring:
          case StepForm::direct:
          case StepForm::next:
          case StepForm::none: add_messages(number, stream, op, out); break;
        }
      }
    }
    return out;
  }

  /// All arrive; the first lane runs on the collective's own stream, the others beside it.
  void add_messages(std::size_t program, std::size_t stream, const Op& op, Program& out) {
    const StepForm shape = form(program, op);
    const Group& group = group_of(program, op.slot);
    const std::uint32_t lanes = lanes_of(shape, group);
    const std::uint32_t first_slot = uses_.at({op.slot, shape}).first_slot;
    const LaneMessages messages = messages_of(op.row, shape, group, lanes);
    std::vector<Op>& own = out.streams[stream];
    own.push_back(op);
    own.back().row = index_of(barrier_);
    const std::uint32_t started = out.events;
    if (lanes > 1) {
      out.events += lanes;  // the start, and the end of each lane but the first
      own.push_back({.kind = OpKind::record, .row = started});
    }
    add_lane(op, messages, {MessageLane::first, first_slot}, own);
    for (std::uint32_t lane = 1; lane < lanes; ++lane) {
      std::vector<Op>& beside = out.streams[first_lane_stream_[stream] + lane - 1];
      beside.push_back({.kind = OpKind::wait, .row = started});
      add_lane(op, messages, {MessageLane::other, first_slot + 2 * lane}, beside);
      beside.push_back({.kind = OpKind::record, .row = started + lane});
      own.push_back({.kind = OpKind::wait, .row = started + lane});
    }
  }

  /// All arrive; up in the first lane runs on the collective's own stream, all else beside it.
  void add_trees(std::size_t program, std::size_t stream, const Op& op, Program& out) {
    const GroupId group = workload_.ranks[first_rank_[program]].groups[op.slot];
    const GroupTrees& trees = trees_of(group);
    const GpuId gpu{static_cast<std::uint32_t>(first_rank_[program])};
    TreeLane lane = tree_lane(op, group);
    std::vector<Op>& own = out.streams[stream];
    own.push_back(op);
    own.back().row = index_of(barrier_);
    const std::uint32_t started = out.events++;
    own.push_back({.kind = OpKind::record, .row = started});
    std::vector<std::uint32_t> ends;
    for (std::uint32_t number = 0; number < trees.lanes(); ++number) {
      lane.place = trees.place_of(gpu, number);
      lane.chunk_events = out.events;
      if (lane.place.children > 0) out.events += lane.chunks;
      for (std::uint32_t part = 0; part < 2 + lane.place.children; ++part) {
        if (part == 1 && !lane.place.parent) continue;
        const std::uint32_t beside = number * kTreeStreams + part;
        if (beside == 0) {
          lane.add_part(part, MessageLane::first, own);
          continue;
        }
        std::vector<Op>& ops = out.streams[first_lane_stream_[stream] + beside - 1];
        ops.push_back({.kind = OpKind::wait, .row = started});
        lane.add_part(part, MessageLane::other, ops);
        ops.push_back({.kind = OpKind::record, .row = out.events});
        ends.push_back(out.events++);
      }
      lane.first_slot += kTreeSlots;
    }
    for (const std::uint32_t end : ends) own.push_back({.kind = OpKind::wait, .row = end});
  }

  TreeLane tree_lane(const Op& op, GroupId group) {
    const GroupTrees& trees = trees_of(group);
    const auto ranks = static_cast<int>(workload_.groups[index_of(group)].members.size());
    const TreeMessages messages = tree_messages(workload_.transfers[op.row], trees, ranks);
    const TransferId next{static_cast<std::uint32_t>(workload_.transfers.size())};
    const auto [entry, is_new] =
        transfers_.try_emplace({op.row, trees.hops(), trees.lanes()}, next);
    if (is_new) {
      workload_.transfers.push_back(messages.first);
      workload_.transfers.push_back(messages.rest);
    }
    return {.op = op,
            .chunks = messages.chunks,
            .first = entry->second,
            .first_slot = uses_.at({op.slot, StepForm::tree}).first_slot};
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
  LaneMessages messages_of(std::uint32_t row, StepForm shape, const Group& group,
                           std::uint32_t lanes) {
    const auto others = static_cast<std::uint32_t>(group.members.size() - 1);
    const std::uint32_t rounds = plan_.transfer_kinds[row] == CollectiveKind::all_reduce ? 2 : 1;
    const std::uint32_t steps = shape == StepForm::ring ? rounds * others : 1;
    const TransferId next{static_cast<std::uint32_t>(workload_.transfers.size())};
    const auto [entry, is_new] = transfers_.try_emplace({row, steps, lanes}, next);
    if (is_new) {
      Transfer message = workload_.transfers[row];
      message.latency = message.latency / steps;
      message.size = message.size / steps / lanes;
      message.solo_rate = message.solo_rate / lanes;
      workload_.transfers.push_back(message);
    }
    return {.steps = steps, .transfer = entry->second};
  }

  Plan plan_;
  Workload& workload_;
  const Cluster& cluster_;
  std::vector<std::size_t> first_rank_;  // by program
  TransferId barrier_;                   // takes no time
  std::map<Use, UseRow> uses_;
  std::vector<std::uint32_t> more_streams_;     // lanes beside each stream
  std::vector<std::size_t> first_lane_stream_;  // by stream
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, TransferId>
      transfers_;  // by the collective's row, steps and lanes
  std::map<GroupId, GroupTrees> trees_;
};

}  // namespace

Plan with_step_network(Plan plan, const Cluster& cluster) {
  return StepNetwork(std::move(plan), cluster).build();
}

}  // namespace flopcast
