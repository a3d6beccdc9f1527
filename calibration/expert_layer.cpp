#include "calibration/expert_layer.h"

#include <algorithm>
#include <cmath>

namespace flopcast {

Seconds expert_layer_time(const ExpertLayerCurve& curve, const ExpertLayerMachine& machine,
                          const ExpertLayerShape& shape) {
  const auto hidden = static_cast<double>(shape.hidden);
  const double inner = static_cast<double>(shape.inner) / static_cast<double>(shape.tp);
  const double local = static_cast<double>(shape.experts) / static_cast<double>(shape.ep);
  const double routed = static_cast<double>(shape.tokens) * static_cast<double>(shape.chosen);
  const double per_expert = routed / static_cast<double>(shape.experts);
  const double padded = curve.row_tile * std::ceil(per_expert / curve.row_tile);
  const double busy = std::min(local, routed / static_cast<double>(shape.ep));

  const Seconds compute =
      flops(6 * busy * padded * hidden * inner) / (machine.peak * curve.eff_inf);
  const Seconds weights =
      element_size(machine.type) * (3 * busy * hidden * inner) / (machine.bandwidth * curve.eff_bw);
  const double rows = routed / static_cast<double>(shape.ep);
  const Bytes gathered = bytes(2 * 2 * rows * hidden);
  const Bytes streamed =
      bytes(2 * (3 * rows * inner + 2 * static_cast<double>(shape.tokens) * hidden));
  return std::max(compute, weights) + gathered / (machine.bandwidth * curve.eff_gather) +
         streamed / (machine.bandwidth * curve.eff_activations) + curve.t0;
}

}  // namespace flopcast
