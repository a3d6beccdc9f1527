#include "models/operator_list.h"

#include "models/operand_casts.h"
#include "models/pointwise_traffic.h"
#include "sim/check.h"

// A column-parallel linear layer gathers its input (sequence parallel) and splits its output; a
// row-parallel one takes split input and reduces. Backward mirrors: Korthikanti et al., 2205.05198,
// section 4.2.2, and Megatron-LM d98e8a64, megatron/core/tensor_parallel/layers.py:
//   column backward: gather input again beside dgrad; reduce dgrad beside wgrad
//   row backward:    gather the gradient, then dgrad and wgrad

namespace flopcast {

OperatorList::OperatorList(const OperatorContext& context, OperatorPhase phase)
    : context_(context), phase_(phase), element_(element_size(context.training.parameter_dtype)) {}

int OperatorList::ranks_of(StepGroup group) const {
  const ParallelGrid& grid = context_.layout.grid;
  switch (group) {
    case StepGroup::tensor: return grid.tp;
    case StepGroup::context: return ring_ranks(context_.layout);
    case StepGroup::context_exchange: return context_.layout.context_exchange;
    case StepGroup::expert: return grid.ep;
    case StepGroup::expert_inside: return context_.layout.expert_inner;
    case StepGroup::expert_across: return grid.ep / context_.layout.expert_inner;
    case StepGroup::expert_tensor: return grid.etp;
    case StepGroup::data:
    case StepGroup::expert_data:
    case StepGroup::world:
    case StepGroup::embedding:
    case StepGroup::forward_next:
    case StepGroup::forward_previous:
    case StepGroup::backward_previous:
    case StepGroup::backward_next:
    case StepGroup::replica:
    case StepGroup::reshard:
    case StepGroup::to_host:
    case StepGroup::from_host:
    case StepGroup::host_memory:
    case StepGroup::storage: break;
  }
  FLOPCAST_CHECK(false, "the other groups are not of a layer");
}

void OperatorList::collective(std::string_view name, const GroupCall& call) {
  if (ranks_of(call.group) < 2) return;
  push(name, phase_, call);
}

void OperatorList::join(StepGroup group) {
  if (ranks_of(group) < 2) return;
  push("join", phase_, Join{group});
}

void OperatorList::enter_tensor_region(std::string_view name, Bytes size, bool beside) {
  if (!context_.layout.sequence_parallel) return;
  collective(name, {CollectiveKind::all_gather, size, beside});
}

/// For the weight gradient only.
void OperatorList::regather(std::string_view name, Bytes size, bool beside) {
  GroupCall call{CollectiveKind::all_gather, size, beside};
  call.for_weight_gradient = true;
  collective(name, call);
}

void OperatorList::leave_tensor_region(std::string_view name, Bytes size, bool beside) {
  collective(name, {reduction(), size, beside});
}

/// Rows of a tensor-parallel region on the rank before they are gathered.
double OperatorList::rows_outside(std::int64_t rows) const {
  const double sharded = static_cast<double>(context_.sharded_tokens());
  return static_cast<double>(rows) * sharded / static_cast<double>(context_.tokens());
}

void OperatorList::cast(std::string_view name, double elements) {
  Bytes traffic = cast_traffic(context_.training);
  if (unquantised_ || traffic.value <= 0) return;
  // The copy along columns is for weight gradients: Transformer Engine v2,
  // pytorch/module/linear.py.
  if (context_.training.adapters) traffic = traffic - element_size(context_.training.precision);
  push(name, phase_, MemoryCall{MemoryKernel::quantise, elements * traffic});
}

/// Whole blocks of a rank's rows, and of their columns, have their scales with them; else 16 bits
/// are gathered. Source: Transformer Engine v2, pytorch/tensor: is_quantizable.
bool OperatorList::gathers_quantised(std::int64_t width) const {
  const std::int64_t block = scaled_block(context_.training.precision);
  return !unquantised_ && flopcast::gathers_quantised(context_.training) &&
         context_.sharded_tokens() % block == 0 && width % block == 0;
}

Bytes OperatorList::gathered_size(std::int64_t width) const {
  if (!gathers_quantised(width)) return activation_size(width);
  return static_cast<double>(context_.tokens() * width) * operand_size(context_.training.precision);
}

void OperatorList::reduce_maximum(std::int64_t width) {
  if (!context_.layout.sequence_parallel || !gathers_quantised(width)) return;
  if (!reduces_maximum(context_.training)) return;
  collective("reduce maximum", {CollectiveKind::all_reduce, element_size(DataType::fp32)});
}

/// User buffers gather one orientation before the first product, in blocks the other one under it:
/// Transformer Engine v2, pytorch/module/linear.py, bulk_overlap_ag_with_external_gemm.
bool OperatorList::gather_gradient(std::int64_t width) {
  const Training& training = context_.training;
  const bool twice = context_.layout.sequence_parallel && gathers_quantised(width) &&
                     !training.adapters && gathered_orientations(training.precision) > 1;
  const bool apart = twice && training.tensor_overlap;
  const Bytes one = gathered_size(width);
  enter_tensor_region("all-gather output gradient", twice && !apart ? 2.0 * one : one);
  if (apart) regather("all-gather output gradient by columns", one, true);
  return apart;
}

void OperatorList::local_forward(std::string_view name, GemmShape shape) {
  cast("cast input", static_cast<double>(shape.m * shape.k * shape.batch));
  gemm(name, shape);
}

/// With tensor_overlap (Transformer Engine's user buffers) the ring exchange of the input runs
/// under the product: the part on the local shard starts at once.
void OperatorList::column_forward(std::string_view name, const Shapes& shapes, bool shared) {
  const bool beside = context_.training.tensor_overlap;
  const std::int64_t width = shapes.front().k;
  if (!shared) reduce_maximum(width);
  for (const GemmShape& shape : shapes) {
    cast("cast input", rows_outside(shape.m) * static_cast<double>(shape.k));
  }
  enter_tensor_region("all-gather input", shared ? activation_size(width) : gathered_size(width),
                      beside);
  for (const GemmShape& shape : shapes) gemm(name, shape);
  if (beside) join();
}

/// With tensor_overlap all but the last of tp pieces of the reduction run under the product.
void OperatorList::row_forward(std::string_view name, GemmShape shape) {
  const Bytes size = activation_size(shape.n);
  cast("cast input", static_cast<double>(shape.m * shape.k));
  if (!context_.training.tensor_overlap) {
    gemm(name, shape);
    leave_tensor_region("reduce output", size);
    return;
  }
  const double tail = 1.0 / static_cast<double>(context_.layout.grid.tp);
  leave_tensor_region("reduce output", (1 - tail) * size, true);
  gemm(name, shape);
  join();
  leave_tensor_region("reduce output, last piece", tail * size);
}

void OperatorList::dgrad(std::string_view name, GemmShape forward) {
  push(name, OperatorPhase::data_gradient,
       GemmShape{.m = forward.m, .n = forward.k, .k = forward.n, .batch = forward.batch});
}

/// dW[n,k] += dY[tokens,n]^T X[tokens,k], added up over micro-batches in the gradient's type: in
/// the product's own output (read and written) or by a kernel of its own.
void OperatorList::wgrad(std::string_view name, GemmShape forward) {
  if (!context_.training.adapters) trained_wgrad(name, forward);
}

void OperatorList::trained_wgrad(std::string_view name, GemmShape forward) {
  const Bytes gradient = element_size(context_.training.gradient_dtype);
  const bool fresh = context_.training.framework.fresh_gradients;
  const bool fused = !fresh && context_.training.framework.fused_wgrad_accumulation;
  GemmShape shape{.m = forward.n, .n = forward.k, .k = forward.m, .batch = forward.batch};
  if (fused) shape.result_traffic = 2.0 * gradient;
  push(name, OperatorPhase::weight_gradient, shape);
  if (fused || fresh) return;
  const double elements = static_cast<double>(shape.m * shape.n * shape.batch);
  list_.push_back(
      {.name = "add weight gradient",
       .phase = OperatorPhase::weight_gradient,
       .work = MemoryCall{MemoryKernel::elementwise, elements * (element_ + 2.0 * gradient)}});
}

void OperatorList::column_backward(std::string_view name, const Shapes& forward) {
  const bool gathers = context_.layout.sequence_parallel && !context_.training.adapters &&
                       context_.training.framework.regather_in_backward;
  const bool hide = context_.training.framework.overlap_tensor_regather;
  const std::int64_t width = forward.front().k;
  const Bytes input = activation_size(width);
  if (gathers) regather("all-gather input again", gathered_size(width), hide);
  for (const GemmShape& shape : forward) {
    cast("cast gradient", static_cast<double>(shape.m * shape.n));
    dgrad(name, shape);
    if (&shape == &forward.front()) continue;
    memory("add input gradient", MemoryKernel::elementwise, context_.tokens(),
           3 * static_cast<double>(width));
  }
  if (gathers && hide) join();
  leave_tensor_region("reduce input gradient", input, true);
  for (const GemmShape& shape : forward) wgrad(name, shape);
  join();
}

void OperatorList::row_backward(std::string_view name, GemmShape forward) {
  reduce_maximum(forward.n);
  cast("cast gradient", rows_outside(forward.m) * static_cast<double>(forward.n));
  const bool beside = gather_gradient(forward.n);
  dgrad(name, forward);
  if (beside) join();
  wgrad(name, forward);
}

void OperatorList::local_backward(std::string_view name, GemmShape forward) {
  cast("cast gradient", static_cast<double>(forward.m * forward.n * forward.batch));
  dgrad(name, forward);
  wgrad(name, forward);
}

void OperatorList::norm_forward(std::string_view name, std::int64_t width) {
  const PointwiseTraffic moved = norm_traffic(context_.model, context_.training.framework);
  memory(name, MemoryKernel::norm_forward, context_.sharded_tokens(),
         moved.forward * static_cast<double>(width));
}

void OperatorList::norm_backward(std::string_view name, std::int64_t width) {
  const PointwiseTraffic moved = norm_traffic(context_.model, context_.training.framework);
  memory(name, MemoryKernel::norm_backward, context_.sharded_tokens(),
         moved.backward * static_cast<double>(width));
}

/// Two inputs, one output, a byte of mask.
void OperatorList::residual() {
  const double mask = context_.model.dropout ? 0.5 : 0;
  memory("residual", MemoryKernel::elementwise, context_.sharded_tokens(),
         (3 + mask) * static_cast<double>(context_.model.hidden));
}

void OperatorList::residual_dropout_backward() {
  if (!context_.model.dropout) return;
  memory("residual gradient", MemoryKernel::elementwise, context_.sharded_tokens(),
         2.5 * static_cast<double>(context_.model.hidden));
}

void OperatorList::residual_gradient() {
  memory("residual gradient", MemoryKernel::elementwise, context_.sharded_tokens(),
         3 * static_cast<double>(context_.model.hidden));
}

}  // namespace flopcast
