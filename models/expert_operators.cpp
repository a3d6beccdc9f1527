#include "models/expert_routing.h"
#include "models/operator_list.h"

// A layer with experts, as Megatron-Core issues it with its all-to-all dispatcher: router; tokens
// sorted by expert; all-to-all to the ranks that hold the experts; all-gather over the
// expert-tensor group; grouped matrix products; the same way back. Four all-to-alls per
// micro-batch: dispatch and combine, and their gradients. Routing is balanced. Source: Megatron-LM
// d98e8a64, megatron/core/transformer/moe/moe_layer.py, token_dispatcher.py
// (MoEAlltoAllTokenDispatcher), experts.py (TEGroupedMLP).

namespace flopcast {
namespace {

/// fp32 scores count two elements: logits read, scores written, read for the top k, probabilities
/// written.
constexpr double kRouterElements = 8;
constexpr Bytes kCountSize = bytes(8);  // number of tokens for one expert, int64

/// Work of the routed experts on one rank.
struct ExpertWork {
  RoutedTokens tokens;
  std::int64_t width;  // of one expert on this rank
  GemmShape router;
  GemmShape fc1;
  GemmShape fc2;
  Bytes exchanged;  // buffer of dispatch and of combine
};

ExpertWork expert_work(const OperatorContext& context) {
  const Transformer& model = context.model;
  const MixtureOfExperts& moe = *model.moe;
  const RoutedTokens tokens = routed_tokens(context);
  const std::int64_t width = moe.expert_ffn / context.layout.grid.etp;
  const std::int64_t gates = model.gated_mlp ? 2 : 1;
  return {.tokens = tokens,
          .width = width,
          .router = {.m = context.sharded_tokens(), .n = moe.experts, .k = model.hidden},
          .fc1 = {.m = tokens.per_expert,
                  .n = gates * width,
                  .k = model.hidden,
                  .batch = tokens.experts},
          .fc2 = {.m = tokens.per_expert, .n = model.hidden, .k = width, .batch = tokens.experts},
          .exchanged = static_cast<double>(tokens.sent * model.hidden) *
                       element_size(context.training.parameter_dtype)};
}

bool once_per_node(const OperatorContext& context) {
  return context.layout.dispatcher == TokenDispatcher::once_per_node && context.layout.grid.ep > 1;
}

GroupCall exchange(const OperatorContext& context, const ExpertWork& work) {
  return {CollectiveKind::all_to_all, work.exchanged, false, StepGroup::expert,
          once_per_node(context)};
}

/// Copies every token once for each of its experts, or adds the copies up. Where a node gets one
/// copy that is done there.
void permute(OperatorList& list, const OperatorContext& context, std::string_view name) {
  if (once_per_node(context)) return;
  const ExpertWork work = expert_work(context);
  list.memory(name, MemoryKernel::permute, work.tokens.sent,
              2 * static_cast<double>(context.model.hidden));
}

/// What came from several ranks is sorted by expert; one expert needs no order.
void sort_by_expert(OperatorList& list, const OperatorContext& context, const ExpertWork& work) {
  const ParallelGrid& grid = context.layout.grid;
  const bool sorted = work.tokens.experts == 1 || grid.ep * grid.etp == 1;
  if (sorted && !once_per_node(context)) return;
  list.memory("sort by expert", MemoryKernel::permute, work.tokens.held,
              2 * static_cast<double>(context.model.hidden));
}

void to_experts(OperatorList& list, const OperatorContext& context, std::string_view name) {
  const ExpertWork work = expert_work(context);
  const double etp = context.layout.grid.etp;
  list.collective(name, exchange(context, work));
  list.collective("all-gather routed tokens", {CollectiveKind::all_gather, etp * work.exchanged,
                                               false, StepGroup::expert_tensor});
  sort_by_expert(list, context, work);
}

void from_experts(OperatorList& list, const OperatorContext& context, std::string_view name) {
  const ExpertWork work = expert_work(context);
  const double etp = context.layout.grid.etp;
  sort_by_expert(list, context, work);
  list.collective("reduce expert outputs", {CollectiveKind::reduce_scatter, etp * work.exchanged,
                                            false, StepGroup::expert_tensor});
  list.collective(name, exchange(context, work));
}

/// Every rank learns how many tokens each other has for its experts; the kernels that send once per
/// node do so themselves.
void exchange_counts(OperatorList& list, const OperatorContext& context) {
  if (once_per_node(context)) return;
  const auto counts = static_cast<double>(context.model.moe->experts * context.layout.grid.ep);
  list.collective("exchange token counts",
                  {CollectiveKind::all_gather, counts * kCountSize, false, StepGroup::expert});
}

void add_shared(OperatorList& list, const OperatorContext& context) {
  list.memory("add shared experts", MemoryKernel::elementwise, context.sharded_tokens(),
              3 * static_cast<double>(context.model.hidden));
}

}  // namespace

void expert_activation(OperatorList& list, const OperatorContext& context) {
  const ExpertWork work = expert_work(context);
  list.memory("activation", MemoryKernel::elementwise, work.tokens.held,
              activation_elements(context.model, work.width, AttentionPass::forward));
}

void experts_inside(OperatorList& list, const OperatorContext& context) {
  const MixtureOfExperts& moe = *context.model.moe;
  const ExpertWork work = expert_work(context);
  list.gemm("router", work.router);
  list.memory("router scores", MemoryKernel::softmax, context.sharded_tokens(),
              kRouterElements * static_cast<double>(moe.experts));
  if (moe.shared_ffn > 0) dense_mlp_forward(list, context, moe.shared_ffn);
  exchange_counts(list, context);
  permute(list, context, "permute tokens");
  to_experts(list, context, "dispatch tokens");
  list.gemm("expert fc1", work.fc1);
  expert_activation(list, context);
  list.gemm("expert fc2", work.fc2);
  from_experts(list, context, "combine tokens");
  permute(list, context, "unpermute tokens");
  if (moe.shared_ffn > 0) add_shared(list, context);
}

void experts_forward(OperatorList& list, const OperatorContext& context) {
  list.norm_forward("MLP norm", context.model.hidden);
  experts_inside(list, context);
  list.residual();
}

void experts_backward(OperatorList& list, const OperatorContext& context) {
  const MixtureOfExperts& moe = *context.model.moe;
  const ExpertWork work = expert_work(context);
  list.residual_dropout_backward();
  permute(list, context, "permute gradients");
  to_experts(list, context, "dispatch gradients");
  list.local_backward("expert fc2", work.fc2);
  list.memory("activation", MemoryKernel::elementwise, work.tokens.held,
              activation_elements(context.model, work.width, AttentionPass::backward));
  list.local_backward("expert fc1", work.fc1);
  from_experts(list, context, "combine gradients");
  permute(list, context, "unpermute gradients");
  if (moe.shared_ffn > 0) {
    dense_mlp_backward(list, context, moe.shared_ffn);
    add_shared(list, context);
  }
  list.memory("router scores", MemoryKernel::softmax, context.sharded_tokens(),
              kRouterElements * static_cast<double>(moe.experts));
  list.local_backward("router", work.router);
  list.norm_backward("MLP norm", context.model.hidden);
  list.residual_gradient();
}

}  // namespace flopcast
