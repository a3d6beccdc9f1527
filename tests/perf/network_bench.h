#pragma once

// Workloads on a modelled cluster of 8-GPU nodes, to measure the network with.

#include "sim/workload.h"

namespace flopcast::bench {

/// A 1 GiB all-reduce over all GPUs as the sends of a ring.
Workload step_ring(int gpus, int channels);

/// All flows of an all-to-all at once, on a fat tree whose leaves are 2:1 oversubscribed: one GPU
/// and one card per node, 16 nodes on a leaf.
Workload step_all_to_all(int gpus);

/// 36 layers forward and backward, tensor parallel 8, data parallel the rest: 288 ops on each GPU,
/// the gradient all-reduces on a stream of their own. Every rank is listed.
Workload transformer_step(int gpus);

}  // namespace flopcast::bench
