#pragma once

// Builds workloads of a few ranks by hand, with names that the tests read well with.

#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine.h"

namespace flopcast::test {

inline constexpr CategoryId kCompute{0};
inline constexpr CategoryId kCommunication{1};
inline constexpr CategoryId kOther{2};
inline constexpr std::size_t kCategories = 3;

inline constexpr std::size_t kMain = kComputeStream;
inline constexpr std::size_t kSide = 1;
inline constexpr std::size_t kThird = 2;

struct SmallWorkload {
  Workload workload;

  SmallWorkload() {
    workload.category_names = {"compute", "communication", "other"};
    workload.pool_names = {"weights", "activations"};
    workload.stream_names = {"compute", "side", "third"};
    workload.labels = {"op"};
  }

  KernelId kernel(Seconds duration) {
    workload.kernels.push_back({duration});
    return KernelId{static_cast<std::uint32_t>(workload.kernels.size() - 1)};
  }
  TransferId transfer(const Transfer& transfer) {
    workload.transfers.push_back(transfer);
    return TransferId{static_cast<std::uint32_t>(workload.transfers.size() - 1)};
  }
  LinkId link(BytesPerSecond capacity) {
    workload.links.push_back({.name = "link", .capacity = capacity});
    return LinkId{static_cast<std::uint32_t>(workload.links.size() - 1)};
  }
  /// A group of these ranks, which may be added later.
  GroupId group(std::vector<RankId> members, std::vector<LinkLoad> loads = {}) {
    Group group{.name = "group", .members = std::move(members)};
    group.loads.push_back(std::move(loads));
    workload.groups.push_back(std::move(group));
    return GroupId{static_cast<std::uint32_t>(workload.groups.size() - 1)};
  }
  RankId rank(ProgramBuilder program, std::vector<GroupId> groups = {}, double speed = 1) {
    workload.programs.push_back(std::move(program).finish());
    const auto id = static_cast<std::uint32_t>(workload.programs.size() - 1);
    workload.ranks.push_back({.name = "rank " + std::to_string(workload.ranks.size()),
                              .program = ProgramId{id},
                              .speed = speed,
                              .groups = std::move(groups)});
    return RankId{static_cast<std::uint32_t>(workload.ranks.size() - 1)};
  }
};

inline constexpr SimTime us(std::int64_t count) { return {count * 1000000}; }

inline const CategoryTime& time_of(const Result& result, std::size_t rank, CategoryId category) {
  return result.ranks.at(rank).by_category.at(static_cast<std::size_t>(category));
}

/// compute_busy + exposed + waiting + idle, which is the makespan for every rank.
inline SimTime accounted(const RankSummary& rank) {
  SimTime sum = rank.compute_busy + rank.idle;
  for (const CategoryTime& time : rank.by_category) sum += time.exposed + time.waiting;
  return sum;
}

}  // namespace flopcast::test

namespace flopcast {
inline std::ostream& operator<<(std::ostream& out, SimTime time) {
  return out << time.picoseconds << " ps";
}
}  // namespace flopcast
