#include "kernels/measure.h"

#include <memory>
#include <optional>
#include <utility>

#include "kernels/attention_bench.h"
#include "kernels/collective_bench.h"
#include "kernels/device.h"
#include "kernels/gemm_bench.h"
#include "kernels/gpu_measurer.h"
#include "kernels/nccl_version.h"
#include "kernels/rank_place.h"

namespace flopcast {
namespace {

// All that a sample may depend on, and no time of day: the same machine continues its record.
RecordEnvironment record_environment(const GpuDevice& gpu, const Machine& machine, bool nvml) {
  const auto number = [](int value) { return std::to_string(value); };
  return {{"gpu", gpu.name},
          {"compute", number(gpu.compute_major) + "." + number(gpu.compute_minor)},
          {"sms", number(gpu.sms)},
          {"memory", to_text(gpu.memory)},
          {"gpus_per_node", number(machine.gpus_per_node)},
          {"nodes", number(machine.nodes)},
          {"cuda_driver", gpu.driver_version},
          {"cuda_runtime", gpu.runtime_version},
          {"cublas", cublas_version()},
          {"cudnn", cudnn_version()},
          {"nccl", has_nccl() ? nccl_version() : "none"},
          {"nvml", nvml ? "yes" : "no"}};
}

}  // namespace

MeasureSummary measure(const MeasureOptions& options) {
  const std::vector<GpuDevice> gpus = devices();
  const std::optional<RankPlace> place = rank_place();
  const int here = static_cast<int>(gpus.size());
  const int device = place ? place->local_rank % here : 0;
  const GpuDevice& gpu = gpus[static_cast<std::size_t>(device)];
  const Machine machine{.compute_major = gpu.compute_major,
                        .compute_minor = gpu.compute_minor,
                        .gpus_per_node = place ? place->ranks_per_node : here,
                        .nodes = place ? place->nodes() : 1,
                        .attention = has_cudnn(),
                        .collectives = has_nccl()};
  const bool first = is_first_rank();
  std::unique_ptr<Ranks> ranks;
  if (has_nccl() && machine.gpus_per_node * machine.nodes > 1) {
    ranks = std::make_unique<Ranks>(place, here);
  }
  GpuMeasurer measurer(device, ranks.get(), first);
  std::optional<Record> record;
  if (first) {
    record.emplace(options.record, record_environment(gpu, machine, measurer.has_nvml()));
  }
  return run_plan(measurement_plan(options.effort, machine), measurer, record ? &*record : nullptr,
                  time_budget(options.effort), first ? options.progress : ProgressCallback{});
}

}  // namespace flopcast
