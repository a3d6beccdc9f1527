#include <fmt/format.h>

#include "scenarios/fields.h"
#include "scenarios/scenario_parts.h"

namespace flopcast {
namespace {

constexpr Choice<bool> kPlaces[] = {{"host", false}, {"drives", true}};

}  // namespace

void read_offload(const Node& node, ClusterSpec& cluster, Training& training) {
  OptimizerOffload offload;
  offload.to_drives = (node.is_text() ? node : node.at("to")).one_of(kPlaces);
  if (!node.is_text()) {
    const Fields fields(node, false);
    if (const auto fraction = node.find("fraction")) offload.fraction = fraction->number(1e-6, 1);
    fields.flag("overlap", offload.overlap);
  }
  const System& system = cluster.system;
  if (system.host_memory <= BytesPerSecond{}) {
    node.fail(
        fmt::format("the memory bandwidth of the hosts of {} is not known; give "
                    "cluster.host_memory",
                    system.name));
  }
  if (offload.to_drives && system.storage <= BytesPerSecond{}) {
    node.fail(fmt::format("the drives of {} are not known; give cluster.storage", system.name));
  }
  if (system.gpu.pcie <= BytesPerSecond{}) {
    node.fail(fmt::format("the PCIe bandwidth of GPU {} is not known", system.gpu.name));
  }
  training.offload = offload;
  cluster.host_copies = true;
}

}  // namespace flopcast
