#include "small_clusters.h"

namespace flopcast {

System small_system(int gpus_per_node, int nics) {
  System system;
  system.gpu.name = "test gpu";
  system.gpu.nvlink = gigabytes_per_second(400);
  system.gpu.pcie = gigabytes_per_second(50);
  system.gpus_per_node = gpus_per_node;
  system.nvlink_domain = gpus_per_node;
  system.nics = nics;
  system.nic_bandwidth = gigabytes_per_second(40);
  return system;
}

ClusterSpec small_fat_tree() {
  return {small_system(2, 2), 4, {.kind = FabricKind::fat_tree, .switch_ports = 8}};
}

ClusterSpec small_rails() {
  return {small_system(2, 2), 4, {.kind = FabricKind::rail_optimized, .switch_ports = 4}};
}

ClusterSpec small_rails_with_core() {
  return {small_system(2, 2), 8, {.kind = FabricKind::rail_optimized, .switch_ports = 4}};
}

ClusterSpec small_switch() { return {small_system(2, 2), 4, {.kind = FabricKind::single_switch}}; }

ClusterSpec lone_node() { return {small_system(8, 8), 1, {}}; }

ClusterSpec pcie_nodes() {
  ClusterSpec spec{small_system(4, 1), 2, {.kind = FabricKind::fat_tree}};
  spec.system.node_link = NodeLink::pcie;
  return spec;
}

ClusterSpec bridged_pairs() {
  ClusterSpec spec{small_system(4, 0), 1, {}};
  spec.system.node_link = NodeLink::nvlink_mesh;
  spec.system.nvlink_domain = 2;
  return spec;
}

ClusterSpec small_racks() {
  ClusterSpec spec{small_system(2, 2), 8, {.switch_ports = 12}};
  spec.system.nvlink_domain = 8;
  return spec;
}

ClusterSpec small_rail_only() {
  ClusterSpec spec = small_rails_with_core();
  spec.fabric.kind = FabricKind::rail_only;
  return spec;
}

ClusterSpec small_dragonfly() {
  return {small_system(2, 2), 12, {.kind = FabricKind::dragonfly, .switch_ports = 7}};
}

ClusterSpec small_torus() {
  return {small_system(2, 2), 24, {.kind = FabricKind::torus, .dimensions = {2, 3, 4}}};
}

ClusterSpec small_zones() {
  ClusterSpec spec = small_rails_with_core();
  spec.fabric.zone_nodes = 4;
  spec.fabric.zone_bandwidth = gigabytes_per_second(50);
  spec.fabric.zone_latency = microseconds(100);
  return spec;
}

ClusterSpec small_graph() {
  ClusterSpec spec{small_system(2, 2), 4, {.kind = FabricKind::graph}};
  const auto cable = [](int from, int to) {
    return FabricGraph::Cable{from, to, gigabytes_per_second(80), nanoseconds(500)};
  };
  spec.fabric.graph = {.switches = {"a", "b", "c", "d"},
                       .cables = {cable(0, 1), cable(1, 3), cable(0, 2), cable(2, 3)},
                       .attached = {0, 0, 1, 1, 2, 2, 3, 3}};
  return spec;
}

std::vector<NamedSpec> all_small_clusters() {
  return {{"fat tree", small_fat_tree()},
          {"rails", small_rails()},
          {"rails with core", small_rails_with_core()},
          {"single switch", small_switch()},
          {"lone node", lone_node()},
          {"PCIe nodes", pcie_nodes()},
          {"bridged pairs", bridged_pairs()},
          {"racks", small_racks()},
          {"rail only", small_rail_only()},
          {"dragonfly", small_dragonfly()},
          {"torus", small_torus()},
          {"zones", small_zones()},
          {"graph", small_graph()}};
}

std::vector<GpuId> gpus(std::vector<std::uint32_t> numbers) {
  std::vector<GpuId> ids;
  for (const std::uint32_t number : numbers) ids.push_back(GpuId{number});
  return ids;
}

std::vector<GpuId> all_gpus(const Cluster& cluster) {
  std::vector<GpuId> ids;
  for (int gpu = 0; gpu < cluster.gpu_count(); ++gpu) {
    ids.push_back(GpuId{static_cast<std::uint32_t>(gpu)});
  }
  return ids;
}

}  // namespace flopcast
