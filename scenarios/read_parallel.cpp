#include <fmt/format.h>

#include <algorithm>

#include "scenarios/fields.h"
#include "scenarios/scenario_parts.h"

namespace flopcast {
namespace {

constexpr int kMostRanks = 1 << 20;
constexpr int kMostStages = 10'000;

constexpr Choice<Dimension> kDimensions[] = {{"tp", Dimension::tp},
                                             {"cp", Dimension::cp},
                                             {"ep", Dimension::ep},
                                             {"dp", Dimension::dp},
                                             {"pp", Dimension::pp}};

constexpr Choice<ContextKind> kContextKinds[] = {{"p2p", ContextKind::ring},
                                                 {"all_gather", ContextKind::all_gather},
                                                 {"a2a", ContextKind::all_to_all},
                                                 {"a2a+p2p", ContextKind::exchange_and_ring}};

constexpr Choice<ContextSplit> kContextSplits[] = {{"zigzag", ContextSplit::zigzag},
                                                   {"contiguous", ContextSplit::contiguous}};

constexpr Choice<TokenDispatcher> kDispatchers[] = {{"all_to_all", TokenDispatcher::all_to_all},
                                                    {"deepep", TokenDispatcher::once_per_node},
                                                    {"hierarchical", TokenDispatcher::hierarchical},
                                                    {"all_gather", TokenDispatcher::all_gather}};

constexpr Choice<Reshard> kReshards[] = {
    {"default", Reshard::all_but_last}, {"always", Reshard::always}, {"never", Reshard::never}};

constexpr std::string_view kOrderExample =
    "an order of tp, cp, ep, dp and pp, innermost first, such as \"tp-cp-ep-dp-pp\"";

RankOrder read_order(const Node& node) {
  const std::string text = node.text();
  RankOrder order{};
  std::size_t filled = 0;
  std::string_view rest = text;
  while (true) {
    const auto dash = rest.find('-');
    const std::string_view name = rest.substr(0, dash);
    const auto* const found = std::ranges::find(kDimensions, name, &Choice<Dimension>::name);
    const bool known = found != std::end(kDimensions);
    const auto end = order.begin() + static_cast<std::ptrdiff_t>(filled);
    if (!known || filled == order.size() || std::find(order.begin(), end, found->value) != end) {
      node.expected(kOrderExample);
    }
    order[filled++] = found->value;
    if (dash == std::string_view::npos) break;
    rest.remove_prefix(dash + 1);
  }
  if (filled != order.size()) node.expected(kOrderExample);
  return order;
}

/// "auto": what the other dimensions leave of the GPUs. Where they leave no whole number the rules
/// of the layout name the dimension that does not divide.
int read_dp(const std::optional<Node>& node, const ParallelGrid& grid, int gpus) {
  if (node && !node->is_text()) return node->small_integer(1, kMostRanks);
  if (node && node->text() != "auto") node->expected("a whole number or \"auto\"");
  const std::int64_t others = std::int64_t{grid.tp} * grid.cp * grid.pp;
  return static_cast<int>(std::max<std::int64_t>(1, gpus / others));
}

/// A policy, or over how many ranks the parameters stay sharded meanwhile.
void read_sharding(const Node& node, Layout& layout) {
  const Fields fields(node, true);
  fields.count("zero", layout.zero, 0, 3);
  fields.count("shard", layout.shard, 1, kMostRanks);
  const auto reshard = node.find("reshard_after_forward");
  if (!reshard) return;
  if (layout.zero < 3) reshard->fail("only zero = 3 gathers parameters for the forward pass");
  if (reshard->is_number()) {
    layout.reshard_ranks = reshard->small_integer(2, kMostRanks);
  } else {
    layout.reshard = reshard->one_of(kReshards);
  }
}

void read_context(const Node& node, Layout& layout) {
  const Fields fields(node, true);
  fields.kind("cp_kind", layout.context, kContextKinds);
  fields.kind("cp_split", layout.context_split, kContextSplits);
  fields.count("cp_a2a", layout.context_exchange, 1, kMostRanks);
  const auto inner = node.find("cp_a2a");
  if (inner && layout.context != ContextKind::exchange_and_ring) {
    inner->fail("only cp_kind \"a2a+p2p\" has ranks that exchange heads beside a ring");
  }
}

void read_dispatcher(const Node& node, Layout& layout) {
  const Fields fields(node, true);
  fields.kind("dispatcher", layout.dispatcher, kDispatchers);
  fields.count("ep_inner", layout.expert_inner, 1, kMostRanks);
  const auto inner = node.find("ep_inner");
  if (inner && layout.dispatcher != TokenDispatcher::hierarchical) {
    inner->fail("only the dispatcher \"hierarchical\" exchanges tokens by level");
  }
}

}  // namespace

Layout read_parallel(const std::optional<Node>& node, int gpus) {
  Layout layout;
  ParallelGrid& grid = layout.grid;
  if (!node) {
    grid.dp = gpus;
    return layout;
  }
  const Fields fields(*node, true);
  fields.count("tp", grid.tp, 1, kMostRanks);
  fields.count("cp", grid.cp, 1, kMostRanks);
  fields.count("ep", grid.ep, 1, kMostRanks);
  fields.count("pp", grid.pp, 1, kMostStages);
  fields.count("etp", grid.etp, 1, kMostRanks);
  grid.dp = read_dp(node->find("dp"), grid, gpus);
  if (const auto order = node->find("order")) grid.order = read_order(*order);
  fields.count("vpp", layout.vpp, 1, kMostStages);
  read_sharding(*node, layout);
  fields.flag("sequence_parallel", layout.sequence_parallel);
  read_context(*node, layout);
  read_dispatcher(*node, layout);
  fields.count("micro_batch_group", layout.micro_batch_group, 0, kMostRanks);
  if (const auto list = node->find("layers_per_stage")) {
    for (const Node& layers : list->items()) {
      layout.layers_per_stage.push_back(layers.small_integer(0, kMostStages));
    }
  }
  fields.flag("account_embedding_in_split", layout.account_embedding_in_split);
  fields.flag("account_loss_in_split", layout.account_loss_in_split);
  return layout;
}

}  // namespace flopcast
