#include "bench_workloads.h"

#include <algorithm>
#include <utility>

namespace flopcast::bench {
namespace {

constexpr CategoryId kCompute{0};
constexpr CategoryId kCommunication{1};
constexpr LabelId kLabel{0};

Workload tables(std::size_t ranks) {
  Workload w;
  w.category_names = {"compute", "communication"};
  for (int i = 0; i < 7; ++i) w.kernels.push_back({microseconds(50 + 7 * i)});
  w.transfers.push_back({.latency = microseconds(3),
                         .size = megabytes(4),
                         .solo_rate = gigabytes_per_second(300),
                         .compute_share = 0.1});
  w.transfers.push_back(
      {.latency = microseconds(5), .size = megabytes(1), .solo_rate = gigabytes_per_second(45)});
  // Speeds differ a little, so that ranks do not run in step.
  for (std::size_t i = 0; i < ranks; ++i) {
    w.ranks.push_back({.name = "rank", .speed = 1 - 1e-4 * static_cast<double>(i % 101)});
  }
  return w;
}

LinkId add_link(Workload& w, BytesPerSecond capacity) {
  w.links.push_back({.name = "link", .capacity = capacity});
  return LinkId{static_cast<std::uint32_t>(w.links.size() - 1)};
}

GroupId add_group(Workload& w, std::vector<RankId> members, std::vector<LinkLoad> loads) {
  Group group{.name = "group", .members = std::move(members)};
  group.loads.push_back(std::move(loads));
  w.groups.push_back(std::move(group));
  return GroupId{static_cast<std::uint32_t>(w.groups.size() - 1)};
}

}  // namespace

Workload compute_only(std::size_t steps) {
  constexpr std::size_t kRanks = 64;
  Workload w = tables(kRanks);
  ProgramBuilder program(1);
  for (std::size_t i = 0; i < steps * 8; ++i) {
    program.compute(0, KernelId{static_cast<std::uint32_t>(i % 7)}, kCompute, kLabel);
  }
  w.programs.push_back(std::move(program).finish());
  return w;
}

Workload tensor_parallel(std::size_t ranks, std::size_t steps, bool in_step) {
  constexpr std::size_t kGroup = 8;
  Workload w = tables(ranks);
  if (in_step) {
    for (Rank& rank : w.ranks) rank.speed = 1;
  }
  for (std::size_t first = 0; first < ranks; first += kGroup) {
    const LinkId link = add_link(w, gigabytes_per_second(450));
    std::vector<RankId> members;
    for (std::size_t i = 0; i < kGroup; ++i) {
      members.push_back(RankId{static_cast<std::uint32_t>(first + i)});
    }
    const GroupId group = add_group(w, members, {{link, 1}});
    for (const RankId member : members) w.ranks[index_of(member)].groups = {group};
  }
  ProgramBuilder program(1);
  for (std::size_t i = 0; i < steps; ++i) {
    for (std::uint32_t k = 0; k < 4; ++k) program.compute(0, KernelId{k}, kCompute, kLabel);
    program.collective(0, 0, TransferId{0}, kCommunication, kLabel);
  }
  w.programs.push_back(std::move(program).finish());
  return w;
}

Workload overlapped(std::size_t steps, bool shared) {
  constexpr std::size_t kRanks = 64;
  constexpr std::size_t kRows = 16;
  Workload w = tables(kRanks);
  const LinkId spine = add_link(w, gigabytes_per_second(100));
  for (std::size_t row = 0; row < kRows; ++row) {
    const LinkId own = add_link(w, gigabytes_per_second(50));
    std::vector<RankId> members;
    for (std::size_t i = row; i < kRanks; i += kRows) {
      members.push_back(RankId{static_cast<std::uint32_t>(i)});
    }
    std::vector<LinkLoad> loads{{own, 1}};
    if (shared) loads.push_back({spine, 1});
    const GroupId group = add_group(w, members, loads);
    for (const RankId member : members) w.ranks[index_of(member)].groups = {group};
  }
  ProgramBuilder program(2);
  for (std::size_t i = 0; i < steps; ++i) {
    for (std::uint32_t k = 0; k < 4; ++k) program.compute(0, KernelId{k}, kCompute, kLabel);
    program.order(0, 1);
    program.collective(1, 0, TransferId{1}, kCommunication, kLabel);
  }
  w.programs.push_back(std::move(program).finish());
  return w;
}

Workload pipeline(std::size_t steps) {
  constexpr std::size_t kRanks = 16;
  Workload w = tables(kRanks);
  for (std::uint32_t i = 0; i + 1 < kRanks; ++i) {
    const GroupId pair =
        add_group(w, {RankId{i}, RankId{i + 1}}, {{add_link(w, gigabytes_per_second(50)), 1}});
    w.ranks[i].groups.resize(2, kNoGroup);
    w.ranks[i].groups[1] = pair;
    w.ranks[i + 1].groups = {pair, kNoGroup};
  }
  for (const bool first : {true, false}) {
    for (const bool last : {true, false}) {
      ProgramBuilder program(3);
      for (std::uint32_t batch = 0; batch < steps; ++batch) {
        if (!first) {
          program.recv(1, 0, batch, kCommunication, kLabel);
          program.order(1, 0);
        }
        program.compute(0, KernelId{0}, kCompute, kLabel);
        program.compute(0, KernelId{1}, kCompute, kLabel);
        if (last) continue;
        program.order(0, 2);
        program.send(2, 1, batch, TransferId{1}, kCommunication, kLabel);
      }
      w.programs.push_back(std::move(program).finish());
    }
  }
  for (std::size_t i = 0; i < kRanks; ++i) {
    w.ranks[i].program = ProgramId{i == 0 ? 1u : i + 1 == kRanks ? 2u : 3u};
  }
  return w;
}

namespace {

constexpr std::size_t kNode = 8;

enum Slot : std::uint16_t { tensor_slot, data_slot, to_next, from_previous, kSlots };

Program stage_program(std::size_t stage, std::size_t stages, std::size_t micro_batches) {
  constexpr int kLayers = 8;
  ProgramBuilder program(5);
  for (std::uint32_t batch = 0; batch < micro_batches; ++batch) {
    if (stage > 0) {
      program.recv(3, from_previous, batch, kCommunication, kLabel);
      program.order(3, 0);
    }
    for (int layer = 0; layer < kLayers; ++layer) {
      for (std::uint32_t k = 0; k < 6; ++k) program.compute(0, KernelId{k}, kCompute, kLabel);
      program.order(0, 1);
      program.collective(1, tensor_slot, TransferId{0}, kCommunication, kLabel);
      program.order(1, 0);
    }
    if (stage + 1 < stages) {
      program.order(0, 2);
      program.send(2, to_next, batch, TransferId{1}, kCommunication, kLabel);
    }
  }
  program.order(0, 4);
  program.collective(4, data_slot, TransferId{1}, kCommunication, kLabel);
  return std::move(program).finish();
}

RankId rank_of(std::size_t index) { return RankId{static_cast<std::uint32_t>(index)}; }

}  // namespace

Workload training_grid(const GridShape& shape) {
  const std::size_t stages = std::min<std::size_t>(16, shape.ranks / kNode);
  const std::size_t per_stage = shape.ranks / stages;
  Workload w = tables(shape.ranks);
  std::vector<LinkId> cards;
  for (std::size_t r = 0; r < shape.ranks; ++r) {
    w.ranks[r].speed = 1;
    w.ranks[r].program = ProgramId{static_cast<std::uint32_t>(r / per_stage)};
    w.ranks[r].groups.resize(kSlots, kNoGroup);
    cards.push_back(add_link(w, gigabytes_per_second(50)));
  }
  for (std::size_t first = 0; first < shape.ranks; first += kNode) {
    std::vector<RankId> members;
    for (std::size_t i = 0; i < kNode; ++i) members.push_back(rank_of(first + i));
    const GroupId group = add_group(w, members, {{add_link(w, gigabytes_per_second(3600)), 8}});
    for (const RankId member : members) w.ranks[index_of(member)].groups[tensor_slot] = group;
  }
  for (std::size_t stage = 0; stage < stages; ++stage) {
    for (std::size_t position = 0; position < kNode; ++position) {
      std::vector<RankId> members;
      std::vector<LinkLoad> loads;
      for (std::size_t i = position; i < per_stage; i += kNode) {
        members.push_back(rank_of(stage * per_stage + i));
        loads.push_back({cards[index_of(members.back())], 2});
      }
      const GroupId group = add_group(w, members, std::move(loads));
      for (const RankId member : members) w.ranks[index_of(member)].groups[data_slot] = group;
    }
    w.programs.push_back(stage_program(stage, stages, shape.micro_batches));
  }
  for (std::size_t r = 0; r + per_stage < shape.ranks; ++r) {
    const GroupId pair = add_group(w, {rank_of(r), rank_of(r + per_stage)}, {{cards[r], 1}});
    w.ranks[r].groups[to_next] = pair;
    w.ranks[r + per_stage].groups[from_previous] = pair;
  }
  return w;
}

Workload one_all_reduce(std::size_t ranks) {
  Workload w = tables(ranks);
  w.transfers.push_back(
      {.latency = microseconds(20), .size = gibibytes(1), .solo_rate = gigabytes_per_second(200)});
  std::vector<RankId> members;
  std::vector<LinkLoad> loads;
  for (std::size_t r = 0; r < ranks; ++r) {
    members.push_back(rank_of(r));
    loads.push_back({add_link(w, gigabytes_per_second(50)), 0.25});
    w.ranks[r].speed = 1;
    w.ranks[r].groups = {GroupId{0}};
  }
  add_group(w, std::move(members), std::move(loads));
  ProgramBuilder program(1);
  program.collective(0, 0, TransferId{2}, kCommunication, kLabel);
  w.programs.push_back(std::move(program).finish());
  return w;
}

}  // namespace flopcast::bench
