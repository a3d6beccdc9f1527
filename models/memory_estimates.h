#pragma once

// Closed forms of memory that others publish: to compare with the replayed ledger, which knows
// more.

#include <cstdint>

#include "sim/units.h"

namespace flopcast {

/// What an estimator knows of a model and a machine.
struct EstimatedJob {
  std::int64_t parameters = 0;
  std::int64_t largest_module = 0;  // most parameters owned directly by one module
  int gpus_per_node = 1;
  int nodes = 1;
};

struct EstimatedMemory {
  Bytes device;  // of one GPU
  Bytes host;    // of one node
};

/// What DeepSpeed keeps on the host.
struct DeepSpeedOffload {
  bool optimizer = false;
  bool parameters = false;  // stage 3 only
  bool zero_init = true;    // stage 3: the model is built sharded, never whole on the host
};

/// Model states alone, 18 bytes a parameter: gradients in 16 and 32 bits, where the ZeRO paper
/// counts 16. Source: DeepSpeed edaa7221, runtime/zero/stage_1_and_2.py and stage3.py,
/// estimate_zero2_model_states_mem_needs, estimate_zero3_model_states_mem_needs.
EstimatedMemory deepspeed_zero2_memory(const EstimatedJob& job, bool offload_optimizer);
EstimatedMemory deepspeed_zero3_memory(const EstimatedJob& job, const DeepSpeedOffload& offload);

/// FSDP with fp32 shards of parameter, gradient and two Adam moments, bf16 gathers and fp32
/// reductions. Source: PyTorch 2.14.1, fully_shard.
struct FsdpMemory {
  Bytes sharded_state;
  Bytes layer_gather;          // one layer's parameters
  Bytes layer_reduce_scatter;  // one layer's gradients before their reduction
  Bytes all_gathered;          // without resharding after forward
};
FsdpMemory fsdp_memory(std::int64_t parameters, std::int64_t layer_parameters, int ranks);

}  // namespace flopcast
