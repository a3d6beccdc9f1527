#pragma once

// What a simulated training step means in the field's terms: speed, utilisation, where the time
// goes, memory per stage. Filled from a Plan and the engine's Result.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/goodput.h"
#include "models/lower.h"
#include "models/model_flops.h"
#include "models/placement.h"
#include "models/step_jitter.h"
#include "sim/collective_kind.h"
#include "sim/data_type.h"
#include "sim/evidence.h"
#include "sim/result.h"
#include "sim/units.h"

namespace flopcast {

/// One line of "where the step goes": mean over all ranks; the lines add up to the step time.
struct TimeShare {
  std::string name;  // "forward", "exposed tensor parallel", "pipeline bubble", ...
  Seconds time;
  Evidence evidence = Evidence::assumed;
};

/// One communication dimension over one step, per rank (mean over ranks).
struct CommunicationShare {
  std::string name;             // "tensor parallel", "pipeline parallel", "data parallel", ...
  Bytes sent;                   // bus bytes a rank sends
  std::uint64_t calls = 0;      // of the rank with the most
  Seconds transfer;             // from start to end of its transfers
  Seconds exposed;              // compute stood still for a transfer
  Seconds waiting;              // compute stood still for another rank
  double bus_bandwidth_gb = 0;  // sent / transfer, GB/s
  GroupShape shape;             // ranks per NVLink domain and domains
  std::string slowest_link;     // "nvlink", "nic", "leaf_uplink"...
  Evidence evidence = Evidence::assumed;

  double hidden_fraction() const { return transfer.value > 0 ? 1 - exposed / transfer : 1; }
};

/// Memory of the most loaded rank of one pipeline rank, by its own GPU, at its peak, by ledger.
struct StageMemory {
  int stage = 0;  // pipeline rank
  std::int64_t layers = 0;
  Bytes parameters;
  Bytes gradients;
  Bytes optimizer;
  Bytes activations;
  Bytes buffers;  // communication and workspace
  Bytes margin;   // CUDA context, allocator fragmentation
  /// Its GPU and that one's memory, where they are not of the cluster's own kind.
  std::string gpu{};
  std::optional<Bytes> device{};
  Bytes allocated() const { return parameters + gradients + optimizer + activations + buffers; }
  Bytes reserved() const { return allocated() + margin; }
};

/// What the GPUs of a node keep in the memory of its processors.
struct HostMemory {
  Bytes optimizer;
  Bytes activations;
  Bytes size;  // of the memory; 0: not known
  Bytes used() const { return optimizer + activations; }
  bool fits() const { return size == Bytes{} || used() <= size; }
};

/// Where tokens went; of a model with experts.
struct RoutingShare {
  std::string kind;        // "balanced", "zipf 0.5", "measured"
  RoutingSummary summary;  // expected of the routing that was asked for
  Bytes routed;            // a rank's: tokens * top_k * hidden * element, four times a layer
  Bytes sent;              // by a rank for it, mean
};

struct StepReport {
  // the question
  int gpus = 0;
  std::int64_t micro_batches = 0;
  std::int64_t tokens = 0;      // per step
  std::int64_t parameters = 0;  // of the model
  std::string schedule;

  // the answer
  Seconds step;
  Evidence evidence = Evidence::assumed;  // weakest link of all times that enter
  double tokens_per_second = 0;
  double tokens_per_second_per_gpu = 0;
  FlopConvention convention = FlopConvention::megatron;
  Flops model_flops;     // per step
  Flops hardware_flops;  // with recomputed work
  DataType peak_dtype = DataType::bf16;
  FlopsPerSecond peak;  // of one GPU (the mean over unlike ones), dense: below MFU and HFU
  FlopsPerSecond model_flops_per_gpu;
  double mfu = 0;
  double hfu = 0;

  std::vector<TimeShare> breakdown;
  std::vector<CommunicationShare> communication;
  std::vector<GroupPlacement> placement;
  std::optional<RoutingShare> routing;
  std::optional<JitterReport> jitter;    // all else is of the median step
  std::optional<GoodputReport> goodput;  // where the scenario says what fails

  Bytes device_memory;              // of the cluster's own kind of GPU
  std::vector<StageMemory> memory;  // by pipeline rank
  int fullest_stage = 0;
  std::optional<HostMemory> host;  // of the fullest node, where anything is there
  bool fits = false;  // reserved() of the fullest stage within device_of() it, and the host's

  // how it was found
  std::uint64_t simulated_ranks = 0;    // rows that the engine ran
  std::uint64_t represented_ranks = 0;  // ranks that they stand for
  std::uint64_t events = 0;

  Bytes device_of(const StageMemory& stage) const { return stage.device.value_or(device_memory); }
};

/// Model FLOPs are counted as Megatron does (causal half of attention).
StepReport step_report(const Job& job, const Cluster& cluster, const Plan& plan,
                       const Result& result);

/// The same step with its model FLOPs, their rate and MFU counted another way. HFU is what the
/// hardware did and stays.
StepReport in_convention(StepReport report, const Job& job, FlopConvention convention);

}  // namespace flopcast
