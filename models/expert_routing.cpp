#include "models/expert_routing.h"

#include <cmath>

namespace flopcast {

std::int64_t expert_capacity(std::int64_t tokens, const MixtureOfExperts& moe, double factor) {
  const double share = static_cast<double>(tokens * moe.top_k) / static_cast<double>(moe.experts);
  return static_cast<std::int64_t>(std::ceil(share * factor));
}

// Experts work outside the tensor-parallel region: a rank routes the tokens of its own sequence
// shard. Balanced routing makes each of the ep ranks receive as many as it sends.
RoutedTokens routed_tokens(const OperatorContext& context) {
  const MixtureOfExperts& moe = *context.model.moe;
  const std::int64_t tokens = context.sharded_tokens();
  const auto factor = context.training.capacity_factor;
  RoutedTokens out;
  out.sent = factor ? expert_capacity(tokens, moe, *factor) * moe.experts : tokens * moe.top_k;
  out.held = out.sent * context.layout.grid.etp;
  out.experts = moe.experts / context.layout.grid.ep;
  out.per_expert = (out.held + out.experts - 1) / out.experts;
  return out;
}

}  // namespace flopcast
