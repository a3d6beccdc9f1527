#include "models/operator_list.h"

// Adapters beside the linear layers of a dense layer. Both their products are split as the layer
// beside them is, and stay in 16 bits whatever the layer's precision: they are Megatron's own
// linear layers, not Transformer Engine's. r is the rank, T the tokens of the tensor-parallel
// region.
//
//   beside column-parallel layers:  A gives r/tp, gathered to r;      B gives out/tp
//   beside row-parallel layers:     A takes in/tp, all-reduced to r;  B gives out/tp, gathered
//
// Of what is gathered last a rank keeps its part of the sequence.
//
// Under sequence parallelism A reads the input that Transformer Engine has gathered for the layer
// itself, in 16 bits then, unless that one gathers under its product (tensor_overlap): then it
// gathers on its own.
// Source: Megatron-Bridge 03619215, peft/utils.py, ParallelLinearAdapter and
// get_adapter_attributes_from_linear; peft/lora_layers.py, LoRALinear. Not known from there, and
// assumed: the gradients of the shared gathered input are added before their one reduction. The
// first layer's input has its gradient computed, which Megatron leaves out where no stage is
// before.

namespace flopcast {
namespace {

/// One adapter target of one rank.
class AdapterPart {
 public:
  AdapterPart(OperatorList& list, const OperatorContext& context, AdapterTarget target)
      : list_(list),
        context_(context),
        adapters_(*context.training.adapters),
        column_(is_column_parallel(target)),
        tp_(context.layout.grid.tp),
        widths_(adapter_widths(context.model, adapters_, target)) {
    adapters_beside_ = static_cast<std::int64_t>(widths_.outputs.size());
  }

  void forward();
  void backward();

 private:
  /// A token's elements of an adapter's input, of all adapters that read it.
  double input_elements() const {
    const std::int64_t width = column_ ? widths_.input : widths_.input / tp_;
    return static_cast<double>(adapters_beside_ * width);
  }
  std::int64_t rank_elements() const { return adapters_beside_ * adapters_.rank; }
  bool gathers_input() const { return column_ && gathers_adapter_input(context_); }
  /// Whose dropout is drawn before the gather.
  std::int64_t dropped_tokens() const {
    return gathers_input() ? context_.sharded_tokens() : context_.tokens();
  }
  GemmShape in_shape() const {
    return {.m = context_.tokens(),
            .n = column_ ? adapters_.rank / tp_ : adapters_.rank,
            .k = column_ ? widths_.input : widths_.input / tp_};
  }
  GemmShape out_shape(std::int64_t width) const {
    return {.m = context_.tokens(), .n = width / tp_, .k = adapters_.rank};
  }
  void dropout() {
    if (!adapters_.dropout) return;
    // An element read and written, a byte of mask.
    list_.memory("adapter dropout", MemoryKernel::elementwise, dropped_tokens(),
                 2.5 * input_elements());
  }
  /// By alpha / rank.
  void scale() {
    list_.memory("adapter scale", MemoryKernel::elementwise, context_.tokens(),
                 2 * static_cast<double>(rank_elements()));
  }
  /// Of a row-parallel layer's adapter: between parts of the width and parts of the sequence.
  void turn_output(bool forward);

  OperatorList& list_;
  const OperatorContext& context_;
  const LowRankAdapters& adapters_;
  bool column_;
  std::int64_t tp_;
  AdapterWidths widths_;
  std::int64_t adapters_beside_ = 1;
};

/// All-to-alls load the links of a domain as rings do.
void AdapterPart::turn_output(bool forward) {
  const Bytes whole = list_.activation_size(widths_.output());
  const bool sharded = context_.layout.sequence_parallel;
  if (sharded && adapters_.exchanges_output) {
    list_.collective("exchange adapter output",
                     {CollectiveKind::all_to_all, whole / static_cast<double>(tp_)});
    return;
  }
  // Without sequence parallelism the whole gradient is on every rank.
  if (forward || sharded) {
    list_.collective("all-gather adapter output", {CollectiveKind::all_gather, whole});
  }
  if (tp_ > 1 && sharded) {
    list_.memory("cut adapter output", MemoryKernel::elementwise, context_.sharded_tokens(),
                 2 * static_cast<double>(widths_.output()));
  }
}

void AdapterPart::forward() {
  const Bytes low = list_.activation_size(rank_elements());
  dropout();
  if (gathers_input()) {
    list_.enter_tensor_region("all-gather adapter input", list_.activation_size(widths_.input));
  }
  list_.begin_unquantised();
  for (std::size_t i = 0; i < widths_.outputs.size(); ++i) list_.gemm("adapter in", in_shape());
  list_.collective("join adapter rank",
                   {column_ ? CollectiveKind::all_gather : CollectiveKind::all_reduce, low});
  scale();
  for (const std::int64_t width : widths_.outputs) list_.gemm("adapter out", out_shape(width));
  list_.end_unquantised();
  if (!column_) turn_output(true);
  const std::int64_t added = column_ ? context_.tokens() : context_.sharded_tokens();
  const std::int64_t width = column_ ? widths_.output() / tp_ : widths_.output();
  list_.memory("add adapter output", MemoryKernel::elementwise, added,
               3 * static_cast<double>(width));
}

/// Before the backward pass of the layer beside it: autograd runs what came last first.
void AdapterPart::backward() {
  const Bytes low = list_.activation_size(rank_elements());
  if (!column_) turn_output(false);
  list_.begin_unquantised();
  for (const std::int64_t width : widths_.outputs) {
    list_.trained_dgrad("adapter out", out_shape(width));
  }
  list_.collective("reduce adapter rank gradient", {CollectiveKind::all_reduce, low, true});
  for (const std::int64_t width : widths_.outputs) {
    list_.trained_wgrad("adapter out", out_shape(width));
  }
  list_.join();
  scale();
  for (std::size_t i = 0; i < widths_.outputs.size(); ++i) {
    list_.trained_dgrad("adapter in", in_shape());
    list_.trained_wgrad("adapter in", in_shape());
  }
  list_.end_unquantised();
  const bool own_reduction = gathers_input() || !context_.layout.sequence_parallel;
  if (column_ && own_reduction) {
    list_.leave_tensor_region("reduce adapter input gradient",
                              list_.activation_size(widths_.input));
  }
  dropout();
  list_.memory("add input gradient", MemoryKernel::elementwise, dropped_tokens(),
               3 * input_elements());
}

bool has_adapter(const OperatorContext& context, AdapterTarget target) {
  const auto& adapters = context.training.adapters;
  return adapters && adapters->on(target);
}

}  // namespace

bool adapter_shares_input(const OperatorContext& context, AdapterTarget target) {
  return has_adapter(context, target) && !gathers_adapter_input(context);
}

bool gathers_adapter_input(const OperatorContext& context) {
  return context.layout.sequence_parallel && context.layout.grid.tp > 1 &&
         context.training.tensor_overlap;
}

void adapter_forward(OperatorList& list, const OperatorContext& context, AdapterTarget target) {
  if (has_adapter(context, target)) AdapterPart(list, context, target).forward();
}

void adapter_backward(OperatorList& list, const OperatorContext& context, AdapterTarget target) {
  if (has_adapter(context, target)) AdapterPart(list, context, target).backward();
}

}  // namespace flopcast
