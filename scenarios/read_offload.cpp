#include <fmt/format.h>

#include "scenarios/fields.h"
#include "scenarios/scenario_parts.h"

namespace flopcast {
namespace {

constexpr Choice<bool> kPlaces[] = {{"host", false}, {"drives", true}};

OptimizerOffload read_optimizer(const Node& node) {
  OptimizerOffload offload;
  offload.to_drives = (node.is_text() ? node : node.at("to")).one_of(kPlaces);
  if (node.is_text()) return offload;
  if (const auto fraction = node.find("fraction")) offload.fraction = fraction->number(1e-6, 1);
  Fields(node, false).flag("overlap", offload.overlap);
  return offload;
}

/// Activations may be there without the optimizer.
bool moves_optimizer(const Node& node) {
  if (node.is_text() || !node.find("activations")) return true;
  return node.find("to") || node.find("fraction") || node.find("overlap");
}

}  // namespace

void read_offload(const Node& node, ClusterSpec& cluster, Training& training) {
  if (moves_optimizer(node)) training.offload = read_optimizer(node);
  if (const auto activations = node.is_text() ? std::nullopt : node.find("activations")) {
    training.offloaded_layers = activations->at("layers").integer(1, kMostLayers);
  }
  const System& system = cluster.system;
  if (system.host_memory <= BytesPerSecond{}) {
    node.fail(
        fmt::format("the memory bandwidth of the hosts of {} is not known; give "
                    "cluster.host_memory",
                    system.name));
  }
  if (training.offloaded_layers > 0 && system.host_memory_size <= Bytes{}) {
    node.fail(
        fmt::format("how much memory the hosts of {} have is not known; give "
                    "cluster.host_memory_size",
                    system.name));
  }
  if (training.offload && training.offload->to_drives && system.storage <= BytesPerSecond{}) {
    node.fail(fmt::format("the drives of {} are not known; give cluster.storage", system.name));
  }
  if (system.gpu.pcie <= BytesPerSecond{}) {
    node.fail(fmt::format("the PCIe bandwidth of GPU {} is not known", system.gpu.name));
  }
  if (!cluster.others.empty()) {
    node.fail("copies to the host in a cluster of unlike nodes are not simulated yet");
  }
  cluster.host_copies = true;
}

}  // namespace flopcast
