#include <utility>

#include "models/activation_memory.h"

// What adapters keep between their passes: the input of A in 16 bits, whole under sequence
// parallel, or what dropout left of it, with the mask; and what lies between A and B. Attention
// keeps its output itself, unless it does so in 8 bits. An MLP that is recomputed brings back all
// but its own input. Source: Megatron-LM d98e8a64, tensor_parallel/layers.py,
// LinearWithGradAccumulationAndAsyncCommunication, which saves its input.

namespace flopcast {

std::vector<SavedTensor> saved_by_adapter(const OperatorContext& context, AdapterTarget target) {
  std::vector<SavedTensor> saved;
  const auto& adapters = context.training.adapters;
  if (!adapters || !adapters->on(target)) return saved;
  const AdapterWidths widths = adapter_widths(context.model, *adapters, target);
  const bool column = is_column_parallel(target);
  const double tp = context.layout.grid.tp;
  const auto tokens = static_cast<double>(context.tokens());
  const auto beside = static_cast<double>(widths.outputs.size());
  const double input = tokens * static_cast<double>(widths.input) / (column ? 1 : tp);
  const double element = element_size(context.training.parameter_dtype).value;
  const bool last = target == AdapterTarget::linear_fc2;
  std::vector<RecomputeModule> inside;
  if (last || target == AdapterTarget::linear_fc1) inside = {RecomputeModule::mlp};
  if (adapters->dropout) {
    const double mask = column && gathers_adapter_input(context) ? kMaskSize / tp : kMaskSize;
    saved.push_back({"adapter input", bytes(beside * input * element), false, inside});
    saved.push_back({"adapter dropout mask", bytes(beside * input * mask), false, inside});
  } else if (target != AdapterTarget::linear_proj || context.training.attention_dtype) {
    saved.push_back({"adapter input", bytes(input * element), false,
                     last ? inside : std::vector<RecomputeModule>{}});
  }
  const double rank = beside * tokens * static_cast<double>(adapters->rank);
  saved.push_back({"adapter rank", bytes(rank * element), false, std::move(inside)});
  return saved;
}

}  // namespace flopcast
