#include "tools/layout_text.h"

#include <fmt/format.h>

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

std::string recompute_text(const Recompute& recompute) {
  switch (recompute.kind) {
    case RecomputeKind::none: return "none";
    case RecomputeKind::selective: return "selective";
    case RecomputeKind::every_other_matmul: return "every other matmul";
    case RecomputeKind::full: break;
  }
  if (!recompute.layers) return "full";
  return fmt::format("full, {} layer{} of each chunk", *recompute.layers,
                     *recompute.layers == 1 ? "" : "s");
}

}  // namespace flopcast
