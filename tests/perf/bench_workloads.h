#pragma once

// Workloads to measure the engine with.

#include <cstddef>

#include "sim/workload.h"

namespace flopcast::bench {

/// Kernels alone, on 64 ranks.
Workload compute_only(std::size_t steps);

/// Tensor-parallel groups of 8: four kernels, then a collective on the group's own link. In step:
/// all ranks are equally fast, so that much happens in one instant.
Workload tensor_parallel(std::size_t ranks, std::size_t steps, bool in_step);

/// Kernels on stream 0, overlapped with collectives of all ranks of a row on stream 1, 64 ranks.
/// `shared` rows load one link, which they fill: every start and end changes all rates.
Workload overlapped(std::size_t steps, bool shared);

/// A pipeline of 16 ranks: receive, compute, send, on three streams.
Workload pipeline(std::size_t steps);

/// A training step that lists every rank: tensor parallel 8 in a node, 16 pipeline stages (fewer
/// for few ranks), data parallel the rest, a network card per GPU.
struct GridShape {
  std::size_t ranks = 1024;
  std::size_t micro_batches = 16;
};
Workload training_grid(const GridShape& shape);

/// One all-reduce of 1 GiB over all ranks, 8 per node, that loads every network card.
Workload one_all_reduce(std::size_t ranks);

}  // namespace flopcast::bench
