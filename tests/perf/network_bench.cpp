#include "network_bench.h"

#include <utility>
#include <vector>

#include "topology/cluster.h"
#include "topology/collective_steps.h"
#include "topology/group_load.h"

namespace flopcast::bench {
namespace {

System hopper_node(int gpus_per_node) {
  System system;
  system.gpu.name = "gpu";
  system.gpu.nvlink = gigabytes_per_second(450);
  system.gpu.pcie = gigabytes_per_second(64);
  system.gpus_per_node = gpus_per_node;
  system.nvlink_domain = gpus_per_node;
  system.nics = gpus_per_node;
  system.nic_bandwidth = gigabits_per_second(400);
  return system;
}

std::vector<GpuId> all_gpus(const Cluster& cluster) {
  std::vector<GpuId> gpus;
  for (int gpu = 0; gpu < cluster.gpu_count(); ++gpu) {
    gpus.push_back(GpuId{static_cast<std::uint32_t>(gpu)});
  }
  return gpus;
}

RankId rank_of(GpuId gpu) { return RankId{index_of(gpu)}; }

/// A group of GPUs, each of which has it in its next slot.
void add_ring_group(const Cluster& cluster, const std::vector<GpuId>& gpus, Workload& w) {
  Group group;
  for (const GpuId gpu : gpus) group.members.push_back(rank_of(gpu));
  group.loads = {group_load(cluster, gpus, LoadPattern::ring)};
  w.groups.push_back(std::move(group));
  const GroupId id{static_cast<std::uint32_t>(w.groups.size() - 1)};
  for (const GpuId gpu : gpus) w.ranks[index_of(gpu)].groups.push_back(id);
}

Program transformer_program() {
  constexpr int kLayers = 36;
  constexpr CategoryId kCompute{0}, kTensor{1}, kData{2};
  ProgramBuilder program(2);
  const auto tensor_block = [&](KernelId kernel) {
    program.compute(0, kernel, kCompute, {});
    program.collective(0, 0, TransferId{0}, kTensor, {});
  };
  for (int layer = 0; layer < kLayers; ++layer) {
    tensor_block(KernelId{0});
    tensor_block(KernelId{1});
  }
  for (int layer = 0; layer < kLayers; ++layer) {
    tensor_block(KernelId{2});
    program.compute(0, KernelId{3}, kCompute, {});
    program.order(0, 1);
    program.collective(1, 1, TransferId{1}, kData, {});
  }
  return std::move(program).finish();
}

}  // namespace

Workload step_ring(int gpus, int channels) {
  const Cluster cluster(
      {hopper_node(8), gpus / 8, {.kind = FabricKind::single_switch, .switch_ports = 64}});
  Workload w = idle_network(cluster);
  append_steps(cluster, all_gpus(cluster),
               {.size = gibibytes(1), .channels = channels, .latency = microseconds(1)}, w);
  return w;
}

Workload step_all_to_all(int gpus) {
  const Cluster cluster(
      {hopper_node(1),
       gpus,
       {.kind = FabricKind::fat_tree, .switch_ports = 32, .oversubscription = 2}});
  Workload w = idle_network(cluster);
  append_steps(cluster, all_gpus(cluster),
               {.kind = CollectiveKind::all_to_all,
                .algorithm = StepAlgorithm::direct,
                .size = mebibytes(64),
                .channels = gpus,
                .latency = microseconds(1)},
               w);
  return w;
}

Workload transformer_step(int gpus) {
  constexpr std::size_t kTensorParallel = 8;
  const Cluster cluster({hopper_node(8), gpus / 8, {.kind = FabricKind::rail_optimized}});
  Workload w = idle_network(cluster);
  w.category_names = {"compute", "tensor parallel", "data parallel"};
  for (int i = 0; i < 4; ++i) w.kernels.push_back({microseconds(300 + 100 * i)});
  w.transfers = {
      {.latency = microseconds(8), .size = mebibytes(56), .solo_rate = gigabytes_per_second(400)},
      {.latency = microseconds(30), .size = mebibytes(100), .solo_rate = gigabytes_per_second(48)}};
  w.programs.push_back(transformer_program());
  const std::vector<GpuId> everyone = all_gpus(cluster);
  w.ranks.resize(everyone.size());
  for (std::size_t first = 0; first < everyone.size(); first += kTensorParallel) {
    const auto begin = everyone.begin() + static_cast<std::ptrdiff_t>(first);
    add_ring_group(cluster, {begin, begin + kTensorParallel}, w);
  }
  for (std::size_t position = 0; position < kTensorParallel; ++position) {
    std::vector<GpuId> members;
    for (std::size_t i = position; i < everyone.size(); i += kTensorParallel) {
      members.push_back(everyone[i]);
    }
    add_ring_group(cluster, members, w);
  }
  return w;
}

}  // namespace flopcast::bench
