#include "scenarios/scenario_parts.h"

namespace flopcast {

std::optional<Reliability> read_reliability(const std::optional<Node>& node, int gpus) {
  if (!node) return std::nullopt;
  const auto whole = node->find("mtbf");
  const auto of_gpu = node->find("gpu_mtbf");
  if (whole.has_value() == of_gpu.has_value()) {
    node->fail("give either \"mtbf\" of the whole job or \"gpu_mtbf\" of one of its GPUs");
  }
  Reliability out{.between_failures = whole ? whole->positive_quantity<Seconds>()
                                            : of_gpu->positive_quantity<Seconds>() / gpus,
                  .dump = node->at("dump").positive_quantity<Seconds>(),
                  .restart = node->at("restart").quantity<Seconds>()};
  if (const auto interval = node->find("interval"))
    out.between_dumps = interval->positive_quantity<Seconds>();
  return out;
}

}  // namespace flopcast
