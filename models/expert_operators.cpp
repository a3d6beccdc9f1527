#include "models/expert_routing.h"
#include "models/operator_list.h"

// A layer with experts, as Megatron-Core issues it with its all-to-all dispatcher: router; tokens
// sorted by expert; all-to-all to the ranks that hold the experts; all-gather over the
// expert-tensor group; grouped matrix products; the same way back. Four all-to-alls per
// micro-batch: dispatch and combine, and their gradients. With its all-gather dispatcher every rank
// gets all tokens and all choices instead, and partial sums are reduced and scattered on the way
// back. Source: Megatron-LM d98e8a64, megatron/core/transformer/moe/moe_layer.py,
// token_dispatcher.py (MoEAlltoAllTokenDispatcher, MoEAllGatherTokenDispatcher), experts.py
// (TEGroupedMLP).

namespace flopcast {
namespace {

/// fp32 scores count two elements: logits read, scores written, read for the top k, probabilities
/// written.
constexpr double kRouterElements = 8;
constexpr Bytes kCountSize = bytes(8);   // number of tokens for one expert, int64
constexpr Bytes kChoiceSize = bytes(5);  // of a token for an expert: a flag and an fp32 probability

/// What the router and the bookkeeping of tokens take on the host, as so many operators.
/// Megatron-LM d98e8a64, transformer/moe/router.py and moe_utils.py, issue some 35 small calls for
/// the choice (softmax, top k, masks, scatters, auxiliary loss and its log), some 20 for their
/// gradients, and token_dispatcher.py some 20 for counts and their copies to the host; of such
/// calls three take as long as an operator of the other kinds (assumed).
constexpr int kRouterCalls = 12;
constexpr int kRouterGradientCalls = 7;
constexpr int kCountCalls = 7;

/// Work of the routed experts on one rank.
struct ExpertWork {
  RoutedTokens tokens;
  std::int64_t width;  // of one expert on this rank
  GemmShape router;
  GemmShape fc1;
  GemmShape fc2;
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
          .fc2 = {.m = tokens.per_expert, .n = model.hidden, .k = width, .batch = tokens.experts}};
}

bool dispatches(const OperatorContext& context, TokenDispatcher dispatcher) {
  return context.layout.dispatcher == dispatcher && context.layout.grid.ep > 1;
}
bool once_per_node(const OperatorContext& context) {
  return dispatches(context, TokenDispatcher::once_per_node);
}
bool gathers(const OperatorContext& context) {
  return dispatches(context, TokenDispatcher::all_gather);
}

bool exchanges_by_level(const OperatorContext& context) {
  return dispatches(context, TokenDispatcher::hierarchical);
}

enum class Way : std::uint8_t { to_experts, from_experts };

/// Rows of a rank's part of the exchange, as wide as the model.
Bytes exchanged(const OperatorContext& context, Way way) {
  const std::int64_t rows =
      gathers(context) ? context.sharded_tokens() : routed_tokens(context).sent;
  const Training& training = context.training;
  const DataType type = way == Way::to_experts
                            ? training.dispatch_dtype.value_or(training.parameter_dtype)
                            : training.parameter_dtype;
  return static_cast<double>(rows * context.model.hidden) * element_size(type);
}

/// First to the neighbour that is in line with the target, then along the line; the other way back.
/// What is sent at once to each peer must lie together, so it is sorted in between. Between nodes
/// go the same bytes as without levels, in messages as many times larger as there are neighbours.
/// Sources: Rajbhandari et al., DeepSpeed-MoE, arXiv 2201.05596, section 5.3; Hwang et al., Tutel,
/// arXiv 2206.03382, 2DH (sections from memory).
void exchange_by_level(OperatorList& list, const OperatorContext& context, std::string_view name,
                       Way way) {
  GroupCall call{CollectiveKind::all_to_all, exchanged(context, way), false,
                 StepGroup::expert_inside};
  call.exchanges_tokens = true;
  if (way == Way::from_experts) call.group = StepGroup::expert_across;
  list.collective(name, call);
  list.memory("sort between levels", MemoryKernel::permute, routed_tokens(context).sent,
              2 * static_cast<double>(context.model.hidden));
  call.group = way == Way::to_experts ? StepGroup::expert_across : StepGroup::expert_inside;
  list.collective(name, call);
}

/// Between ranks that hold different experts. Of an all-gather the whole buffer is what all have.
void exchange(OperatorList& list, const OperatorContext& context, std::string_view name, Way way) {
  if (exchanges_by_level(context)) return exchange_by_level(list, context, name, way);
  GroupCall call{CollectiveKind::all_to_all, exchanged(context, way), false, StepGroup::expert,
                 once_per_node(context)};
  call.exchanges_tokens = true;
  if (gathers(context)) {
    call.kind =
        way == Way::to_experts ? CollectiveKind::all_gather : CollectiveKind::reduce_scatter;
    call.size = static_cast<double>(context.layout.grid.ep) * call.size;
    list.collective(name, call);
    return;
  }
  list.begin_routed();
  list.collective(name, call);
  list.end_routed();
}

/// Between ranks that hold parts of the same experts: they work on what all of them received.
void exchange_parts(OperatorList& list, const OperatorContext& context, Way way) {
  const ParallelGrid& grid = context.layout.grid;
  const double parts = gathers(context) ? grid.etp * grid.ep : grid.etp;
  const Bytes size = parts * exchanged(context, way);
  if (way == Way::to_experts) {
    list.collective("all-gather routed tokens",
                    {CollectiveKind::all_gather, size, false, StepGroup::expert_tensor});
  } else {
    list.collective("reduce expert outputs",
                    {CollectiveKind::reduce_scatter, size, false, StepGroup::expert_tensor});
  }
}

/// Copies every token once for each of its experts, or adds the copies up. Where a node gets one
/// copy that is done there; where a rank gets all tokens, it takes what it needs.
void permute(OperatorList& list, const OperatorContext& context, std::string_view name) {
  if (once_per_node(context) || gathers(context)) return;
  const ExpertWork work = expert_work(context);
  list.memory(name, MemoryKernel::permute, work.tokens.sent,
              2 * static_cast<double>(context.model.hidden));
}

/// What came from several ranks is sorted by expert; one expert needs no order.
void sort_by_expert(OperatorList& list, const OperatorContext& context) {
  const ExpertWork work = expert_work(context);
  const ParallelGrid& grid = context.layout.grid;
  const bool sorted = work.tokens.experts == 1 || grid.ep * grid.etp == 1;
  if (sorted && !once_per_node(context) && !gathers(context)) return;
  list.memory("sort by expert", MemoryKernel::permute, work.tokens.held,
              2 * static_cast<double>(context.model.hidden));
}

/// Where the host must know how many tokens come, it waits for them: the all-to-all dispatcher
/// reads counts before it, the kernels that send once per node tell them at the end, and who gets
/// all choices counts them. Source: Megatron-LM d98e8a64, token_dispatcher.py
/// (_maybe_dtoh_and_synchronize); deepseek-ai/DeepEP, README, "notes on CPU waiting".
bool host_waits(const OperatorContext& context) {
  return context.training.framework.waits_for_token_counts && !context.training.pads();
}

/// Up to the products, which are the rank's own work, as what sorts their input is.
void receive(OperatorList& list, const OperatorContext& context) {
  exchange_parts(list, context, Way::to_experts);
  list.begin_routed();
  sort_by_expert(list, context);
}

void from_experts(OperatorList& list, const OperatorContext& context, std::string_view name) {
  sort_by_expert(list, context);
  list.end_routed();
  exchange_parts(list, context, Way::from_experts);
  exchange(list, context, name, Way::from_experts);
}

/// Every rank learns how many tokens each other has for its experts, or which ones; the kernels
/// that send once per node do so themselves.
void exchange_counts(OperatorList& list, const OperatorContext& context) {
  if (once_per_node(context)) return;
  const double ranks = context.layout.grid.ep;
  const auto experts = static_cast<double>(context.model.moe->experts);
  if (gathers(context)) {
    const double choices = experts * static_cast<double>(context.sharded_tokens());
    list.collective("exchange choices", {CollectiveKind::all_gather, ranks * choices * kChoiceSize,
                                         false, StepGroup::expert});
  } else {
    list.collective(
        "exchange token counts",
        {CollectiveKind::all_gather, ranks * experts * kCountSize, false, StepGroup::expert});
  }
}

void activation(OperatorList& list, const OperatorContext& context, AttentionPass pass) {
  const ExpertWork work = expert_work(context);
  list.memory("activation", MemoryKernel::elementwise, work.tokens.held,
              activation_elements(context, work.width, pass));
}

void add_shared(OperatorList& list, const OperatorContext& context) {
  list.memory("add shared experts", MemoryKernel::elementwise, context.sharded_tokens(),
              3 * static_cast<double>(context.model.hidden));
}

}  // namespace

void expert_activation(OperatorList& list, const OperatorContext& context) {
  list.begin_routed();
  activation(list, context, AttentionPass::forward);
  list.end_routed();
}

void experts_inside(OperatorList& list, const OperatorContext& context) {
  const MixtureOfExperts& moe = *context.model.moe;
  const ExpertWork work = expert_work(context);
  list.begin_unquantised();
  list.gemm("router", work.router);
  list.end_unquantised();
  list.memory("router scores", MemoryKernel::softmax, context.sharded_tokens(),
              kRouterElements * static_cast<double>(moe.experts));
  list.host_calls(kRouterCalls + kCountCalls);
  if (moe.shared_ffn > 0) dense_mlp_forward(list, context, moe.shared_ffn);
  exchange_counts(list, context);
  if (host_waits(context) && !once_per_node(context)) list.host_waits();
  permute(list, context, "permute tokens");
  exchange(list, context, "dispatch tokens", Way::to_experts);
  if (host_waits(context) && once_per_node(context)) list.host_waits();
  receive(list, context);
  list.local_forward("expert fc1", work.fc1);
  activation(list, context, AttentionPass::forward);
  list.local_forward("expert fc2", work.fc2);
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
  exchange(list, context, "dispatch gradients", Way::to_experts);
  receive(list, context);
  list.local_backward("expert fc2", work.fc2);
  activation(list, context, AttentionPass::backward);
  list.local_backward("expert fc1", work.fc1);
  from_experts(list, context, "combine gradients");
  permute(list, context, "unpermute gradients");
  if (moe.shared_ffn > 0) {
    dense_mlp_backward(list, context, moe.shared_ffn);
    add_shared(list, context);
  }
  list.memory("router scores", MemoryKernel::softmax, context.sharded_tokens(),
              kRouterElements * static_cast<double>(moe.experts));
  list.host_calls(kRouterGradientCalls);
  list.begin_unquantised();
  list.local_backward("router", work.router);
  list.end_unquantised();
  list.norm_backward("MLP norm", context.model.hidden);
  list.residual_gradient();
}

}  // namespace flopcast
