#include "models/expert_routing.h"

#include <algorithm>
#include <cmath>

namespace flopcast {

std::int64_t expert_capacity(std::int64_t tokens, const MixtureOfExperts& moe, double factor) {
  const double share = static_cast<double>(tokens * moe.top_k) / static_cast<double>(moe.experts);
  return static_cast<std::int64_t>(std::ceil(share * factor));
}

// None of the k choices falls on a given place with probability C(E - E/p, k) / C(E, k).
double distinct_places(std::int64_t experts, std::int64_t places, std::int64_t top_k) {
  const double each = static_cast<double>(experts) / static_cast<double>(places);
  double missed = 1;
  for (std::int64_t i = 0; i < top_k; ++i) {
    const double left = static_cast<double>(experts - i);
    missed *= std::max(0.0, left - each) / left;
  }
  return static_cast<double>(places) * (1 - missed);
}

double merged_copies(const MixtureOfExperts& moe, const GroupShape& shape) {
  std::int64_t places = shape.nodes > 1 ? shape.nodes : shape.ranks_per_node;
  std::int64_t experts = moe.experts;
  if (moe.node_limit > 0 && moe.node_limit < shape.nodes) {
    experts = experts * moe.node_limit / places;
    places = moe.node_limit;
  }
  return distinct_places(experts, places, moe.top_k) / static_cast<double>(moe.top_k);
}

// Experts work outside the tensor-parallel region: a rank routes the tokens of its own sequence
// shard. Balanced routing makes each of the ep ranks receive as many as it sends.
RoutedTokens routed_tokens(const OperatorContext& context) {
  const MixtureOfExperts& moe = *context.model.moe;
  const std::int64_t tokens = context.sharded_tokens();
  const Training& training = context.training;
  RoutedTokens out;
  out.sent = training.pads() ? expert_capacity(tokens, moe, *training.capacity_factor) * moe.experts
                             : tokens * moe.top_k;
  out.held = out.sent * context.layout.grid.etp;
  out.experts = moe.experts / context.layout.grid.ep;
  out.per_expert = (out.held + out.experts - 1) / out.experts;
  return out;
}

}  // namespace flopcast
