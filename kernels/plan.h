#pragma once

// Which cases to measure, in which order, for how much of the user's time. The same list for the
// same machine, always: the record file is resumed by it.

#include <cstdint>
#include <vector>

#include "kernels/measurement_case.h"

namespace flopcast {

enum class Effort : std::uint8_t { quick, standard, full };

/// Time that the whole run may take: 2 minutes, 10 minutes, 1 hour.
Seconds time_budget(Effort effort);

/// What there is to measure on.
struct Machine {
  int compute_major = 0;  // of the GPU
  int compute_minor = 0;
  int gpus_per_node = 1;  // ranks; 1 rank per GPU
  int nodes = 1;
  bool attention = false;    // cuDNN is there
  bool collectives = false;  // NCCL is there
};

/// Every case that this effort asks for and this machine can do. The most valuable come first, so
/// that a run cut short has some of each kind.
std::vector<MeasurementCase> measurement_plan(Effort effort, const Machine& machine);

/// Products of the linear layers of well-known models at 4096 and 8192 tokens, per tensor-parallel
/// rank: forward m = tokens, n = outputs, k = inputs.
std::vector<GemmCase> layer_gemms(Effort effort);

/// `count` shapes that fill log m, log n, log k evenly from 64 to 16384 (m to 32768): Halton's
/// sequence in bases 2, 3, 5 (Numer. Math. 2, 1960), rounded to multiples of 8.
std::vector<GemmCase> filling_gemms(int count);

/// Shapes of groups that layouts form on `gpus_per_node` x `nodes` ranks: powers of two inside the
/// node; one rank (a rail), half of the node and the whole of it across 2, 4, ... all nodes.
std::vector<GroupShape> group_shapes(int gpus_per_node, int nodes);

}  // namespace flopcast
