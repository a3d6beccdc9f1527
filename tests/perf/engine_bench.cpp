// Events per second of the engine on a few mixes. `engine_bench <scale>`: 1 is a smoke run, 100
// takes seconds. Processor time, the best of a few runs: the machine may be busy with other things.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <vector>

#include "sim/engine.h"

using namespace flopcast;

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

/// Kernels alone.
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

/// Tensor-parallel groups of 8: four kernels, then a collective on the group's own link.
Workload tensor_parallel(std::size_t ranks, std::size_t steps) {
  constexpr std::size_t kGroup = 8;
  Workload w = tables(ranks);
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

/// Kernels on stream 0, overlapped with collectives of all ranks of a row on stream 1. `shared`
/// rows load one link, which they fill: every start and end changes all rates.
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

/// A pipeline: receive, compute, send, on three streams.
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

std::uint64_t op_count(const Workload& w) {
  std::uint64_t ops = 0;
  for (const Rank& rank : w.ranks) {
    for (const auto& stream : w.programs[index_of(rank.program)].streams) ops += stream.size();
  }
  return ops;
}

void measure(std::string_view name, const Workload& workload) {
  constexpr int kRuns = 3;
  double best = 1e300;
  std::uint64_t events = 0;
  for (int i = 0; i < kRuns; ++i) {
    const std::clock_t begin = std::clock();
    events = run(workload).events;
    const auto took = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    best = std::min(best, took);
  }
  const double ops = static_cast<double>(op_count(workload));
  fmt::print("{:<28} {:>10} events {:>8.1f} ms {:>8.2f} M events/s {:>8.2f} M ops/s\n", name,
             events, best * 1e3, static_cast<double>(events) / best / 1e6, ops / best / 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  const int scale = argc > 1 ? std::atoi(argv[1]) : 20;
  if (scale < 1) {
    fmt::print(stderr, "usage: engine_bench [scale, at least 1]\n");
    return 2;
  }
  const auto steps = static_cast<std::size_t>(scale) * 100;
  measure("compute", compute_only(steps));
  measure("tensor parallel, 64 ranks", tensor_parallel(64, steps));
  measure("tensor parallel, 4096 ranks", tensor_parallel(4096, steps / 20));
  measure("overlapped, own links", overlapped(steps, false));
  measure("overlapped, shared link", overlapped(steps, true));
  measure("pipeline", pipeline(steps));
}
