#include "models/memory_estimates.h"

#include <algorithm>

namespace flopcast {
namespace {

// Bytes per parameter by DeepSpeed's estimator.
constexpr double kHalf = 2;         // 16-bit parameters or gradients
constexpr double kBuiltOnHost = 4;  // the fp32 model that each process of a node builds
constexpr double kOptimizerOnHost = 16;
constexpr double kAllStates = 18;
constexpr double kHostBuffers = 1.5;  // its factor for buffers on the host

double ranks(const EstimatedJob& job) {
  return static_cast<double>(job.gpus_per_node) * static_cast<double>(job.nodes);
}

Bytes on_host(double parameters, double bytes_each) {
  return bytes(parameters * bytes_each * kHostBuffers);
}

}  // namespace

EstimatedMemory deepspeed_zero2_memory(const EstimatedJob& job, bool offload_optimizer) {
  const auto parameters = static_cast<double>(job.parameters);
  const double built = kBuiltOnHost * job.gpus_per_node;
  if (offload_optimizer) {
    // Of all GPUs, not of one node's: so it stands there.
    return {.device = bytes(kHalf * parameters),
            .host = on_host(parameters, std::max(kBuiltOnHost * ranks(job), kOptimizerOnHost))};
  }
  return {.device = bytes(kHalf * parameters + kAllStates * parameters / ranks(job)),
          .host = on_host(parameters, built)};
}

EstimatedMemory deepspeed_zero3_memory(const EstimatedJob& job, const DeepSpeedOffload& offload) {
  const auto parameters = static_cast<double>(job.parameters);
  const auto largest = static_cast<double>(job.largest_module);
  const double working = 2 * kHalf * largest;  // parameters and gradients of the module in use
  const double built = kBuiltOnHost * job.gpus_per_node;
  if (!offload.optimizer) {
    return {.device = bytes(working + kAllStates * parameters / ranks(job)),
            .host = on_host(offload.zero_init ? largest : parameters, built)};
  }
  const double kept = (offload.parameters ? kAllStates : kOptimizerOnHost) / job.nodes;
  const double shard = offload.parameters ? 0 : kHalf * parameters / ranks(job);
  return {.device = bytes(working + shard),
          .host = on_host(parameters, offload.zero_init ? kept : std::max(built, kept))};
}

FsdpMemory fsdp_memory(std::int64_t parameters, std::int64_t layer_parameters, int ranks) {
  constexpr double kShardedBytes = 16;  // fp32 parameter, gradient, two moments
  constexpr double kReduced = 4;        // fp32
  const auto all = static_cast<double>(parameters);
  const auto layer = static_cast<double>(layer_parameters);
  return {.sharded_state = bytes(kShardedBytes * all / ranks),
          .layer_gather = bytes(kHalf * layer),
          .layer_reduce_scatter = bytes(kReduced * layer),
          .all_gathered = bytes(kHalf * all)};
}

}  // namespace flopcast
