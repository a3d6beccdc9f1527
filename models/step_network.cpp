#include "models/step_network.h"

#include <algorithm>
#include <compare>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/check.h"
#include "topology/ring_order.h"

namespace flopcast {
namespace {

enum class StepForm : std::uint8_t {
  whole,   // nothing of size travels: it stays one activity
  ring,    // pieces go round, a lane per channel
  direct,  // to every other member at once, a lane each
  next,    // each member to the one listed after it
  none,
};

StepForm form_of(const Transfer& transfer, CollectiveKind kind, const Group& group) {
  const bool loads =
      std::ranges::any_of(group.loads, [](const auto& list) { return !list.empty(); });
  if (group.members.size() < 2 || transfer.size <= Bytes{} || !loads) return StepForm::whole;
  if (transfer.pattern != kRingPattern) return StepForm::none;
  switch (kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter: return StepForm::ring;
    case CollectiveKind::all_to_all: return StepForm::direct;
    case CollectiveKind::send_recv: return StepForm::next;
    case CollectiveKind::broadcast: return StepForm::none;
  }
  return StepForm::none;
}

/// The first rank that runs each program.
std::vector<std::size_t> first_ranks(const Workload& workload) {
  std::vector<std::size_t> first(workload.programs.size());
  for (std::size_t rank = workload.ranks.size(); rank-- > 0;) {
    first[index_of(workload.ranks[rank].program)] = rank;
  }
  return first;
}

/// A way in which ranks use one of their groups. All that have it, have its connections in the same
/// slots: of lane k, the one to send by is `first_slot` + 2 k, the one to receive by comes next.
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
  /// Channels of a ring are rotated over the members of a domain, as NCCL's.
  std::uint32_t lanes_of(StepForm form, const Group& group) const {
    if (form == StepForm::next) return 1;
    if (form == StepForm::direct) return static_cast<std::uint32_t>(group.members.size() - 1);
    const GroupShape shape = group_shape(cluster_, gpus_of(group));
    return shape.nodes > 1 ? static_cast<std::uint32_t>(shape.ranks_per_node) : 1;
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
          more_streams_[stream] = std::max(more_streams_[stream], known - 1);
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
      slots += 2 * row.lanes;
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
        connect(use.form, row, gpus_of(workload_.groups[index_of(group)]));
      }
    }
  }

  void connect(StepForm form, const UseRow& row, const std::vector<GpuId>& gpus) {
    if (form == StepForm::next) {
      for (std::size_t i = 0; i < gpus.size(); ++i) {
        add_pair(gpus[i], gpus[(i + 1) % gpus.size()], row.first_slot);
      }
      return;
    }
    const GroupPlaces places(cluster_, gpus);
    std::uint32_t lanes = places.members() - 1;
    if (form == StepForm::ring) lanes = channels_of(places);
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      std::vector<Place> to;
      if (form == StepForm::ring) to = ring_successors(places, lane);
      for (Place from = 0; from < places.members(); ++from) {
        const Place target =
            form == StepForm::ring ? to[from] : (from + lane + 1) % places.members();
        add_pair(places.gpu(from), places.gpu(target), row.first_slot + 2 * lane);
      }
    }
  }

  static std::uint32_t channels_of(const GroupPlaces& places) {
    std::uint32_t most = 1;
    for (Place domain = 0; places.domains() > 1 && domain < places.domains(); ++domain) {
      most = std::max(most, places.domain_size(domain));
    }
    return most;
  }

  void add_pair(GpuId from, GpuId to, std::uint32_t slot) {
    const GroupId id{static_cast<std::uint32_t>(workload_.groups.size())};
    Group pair{.name = "message", .members = {RankId{index_of(from)}, RankId{index_of(to)}}};
    pair.loads.push_back(route_loads(cluster_, from, to));
    workload_.groups.push_back(std::move(pair));
    workload_.ranks[index_of(from)].groups[slot] = id;
    workload_.ranks[index_of(to)].groups[slot + 1] = id;
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
        if (form(number, op) == StepForm::whole) {
          out.streams[stream].push_back(op);
        } else {
          add_messages(number, stream, op, out);
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
};

std::string_view reason_of(const Transfer& transfer) {
  if (transfer.pattern == kInSwitchPattern) return " that the NVLink switch reduces";
  if (transfer.pattern == kTreePattern) return " by trees";
  return "";
}

}  // namespace

std::optional<std::string> step_network_gap(const Plan& plan) {
  const Workload& workload = plan.workload;
  const std::vector<std::size_t> first = first_ranks(workload);
  for (std::size_t program = 0; program < workload.programs.size(); ++program) {
    for (const std::vector<Op>& stream : workload.programs[program].streams) {
      for (const Op& op : stream) {
        if (op.kind != OpKind::collective) continue;
        const Transfer& transfer = workload.transfers[op.row];
        const CollectiveKind kind = plan.transfer_kinds[op.row];
        const GroupId group = workload.ranks[first[program]].groups[op.slot];
        if (form_of(transfer, kind, workload.groups[index_of(group)]) != StepForm::none) continue;
        return std::string("network.model \"steps\": ")
            .append(to_text(kind))
            .append(reason_of(transfer))
            .append(" (")
            .append(workload.labels[index_of(op.label)])
            .append(") has no form as messages; \"fluid\" knows it");
      }
    }
  }
  return std::nullopt;
}

Plan with_step_network(Plan plan, const Cluster& cluster) {
  return StepNetwork(std::move(plan), cluster).build();
}

}  // namespace flopcast
