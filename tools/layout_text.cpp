#include "tools/layout_text.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

namespace flopcast {

std::string layout_text(const Layout& layout) {
  const ParallelGrid& grid = layout.grid;
  std::string text = fmt::format("tp {}", grid.tp);
  if (grid.cp > 1) text += fmt::format(", cp {}", grid.cp);
  text += fmt::format(", pp {}", grid.pp);
  if (layout.vpp > 1) text += fmt::format(" (vpp {})", layout.vpp);
  text += fmt::format(", dp {}", grid.dp);
  if (grid.ep > 1) text += fmt::format(", ep {} (etp {}, edp {})", grid.ep, grid.etp, grid.edp());
  if (layout.zero > 0) text += fmt::format(", ZeRO {}", layout.zero);
  if (layout.sequence_parallel) text += ", sequence parallel";
  return text;
}

namespace {

/// Core attention alone is what the word means.
std::string selective_text(const Recompute& recompute) {
  if (recompute.modules == Recompute{}.modules) return "selective";
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < recompute.modules.size(); ++i) {
    if (recompute.modules[i]) names.push_back(kRecomputeModuleNames[i]);
  }
  return fmt::format("selective: {}", fmt::join(names, ", "));
}

}  // namespace

std::string recompute_text(const Recompute& recompute) {
  switch (recompute.kind) {
    case RecomputeKind::none: return "none";
    case RecomputeKind::selective: return selective_text(recompute);
    case RecomputeKind::every_other_matmul: return "every other matmul";
    case RecomputeKind::full: break;
  }
  if (!recompute.layers) return "full";
  return fmt::format("full, {} layer{} of each chunk", *recompute.layers,
                     *recompute.layers == 1 ? "" : "s");
}

std::string offload_text(const Job& job) {
  std::string text;
  if (const auto& optimizer = job.training.offload) {
    text = fmt::format("optimizer of {:.0f} % of the parameters on the host{}",
                       100 * optimizer->fraction, optimizer->to_drives ? ", states on drives" : "");
  }
  if (const std::int64_t layers = job.training.offloaded_layers; layers > 0) {
    text += fmt::format("{}activations of {} of {} layers to the host and back",
                        text.empty() ? "" : "; ", layers, job.model.layers);
  }
  return text;
}

std::string machine_text(const ClusterSpec& cluster) {
  const System& own = cluster.system;
  int left = cluster.nodes;
  std::string others;
  for (const OtherNodes& other : cluster.others) {
    int nodes = 0;
    for (const OtherNodes::Range& range : other.nodes) nodes += range.last - range.first + 1;
    left -= nodes;
    others += fmt::format(", {} x {} with {} {}", nodes, other.system.name,
                          other.system.gpus_per_node, other.system.gpu.name);
  }
  return fmt::format("{} GPUs: {} x {} with {} {}{}", cluster.nodes * own.gpus_per_node, left,
                     own.name, own.gpus_per_node, own.gpu.name, others);
}

}  // namespace flopcast
