#pragma once

// Generated training-like workloads that list every rank: a grid of tensor, data and pipeline
// parallel ranks, placed in some order on nodes under leaf switches, with or without
// irregularities.

#include <cstdint>

#include "sim/workload.h"

namespace flopcast::test {

struct GridCase {
  std::uint32_t tensor = 1;
  std::uint32_t data = 1;
  std::uint32_t pipeline = 1;
  bool regular = true;  // nothing was made odd on purpose
  Workload workload{};
};

GridCase random_grid(std::uint64_t seed);

/// `copies` of a workload side by side. Copies share the links for which `shared` holds.
Workload replicated(const Workload& one, std::uint32_t copies, const std::vector<bool>& shared);

/// The same workload with ranks, groups, links and members listed in another order. `ranks[i]` is
/// the new row of rank i.
struct Relabelled {
  Workload workload;
  std::vector<std::uint32_t> ranks;
  std::vector<std::uint32_t> groups;
  std::vector<std::uint32_t> links;
};
Relabelled relabelled(const Workload& from, std::uint64_t seed);

}  // namespace flopcast::test
