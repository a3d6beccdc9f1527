#pragma once

// How many tokens reach the experts of a rank where each expert gets its equal share; routing_loads
// says who gets more.

#include <cstdint>

#include "models/layer_operators.h"

namespace flopcast {

/// Most tokens that one source rank sends to one expert: ceil(tokens * top_k / experts * factor).
/// Source: Megatron-LM d98e8a64, megatron/core/transformer/moe/moe_utils.py, get_capacity.
std::int64_t expert_capacity(std::int64_t tokens, const MixtureOfExperts& moe, double factor);

/// Expected number of distinct places among the experts of a token, `experts` spread evenly over
/// `places`, each choice of `top_k` equally likely.
double distinct_places(std::int64_t experts, std::int64_t places, std::int64_t top_k);

/// Part of a token's copies that leave where those for one node travel as one and are forwarded
/// there over NVLink, which the network outlasts; in a group inside one node, those for one rank.
/// Source: DeepSeek-V3, arXiv 2412.19437, section 3.2.2; deepseek-ai/DeepEP.
double merged_copies(const MixtureOfExperts& moe, const GroupShape& shape);

/// The routed tokens of one layer and micro-batch on one rank, a token counted once for each of the
/// experts that it goes to.
struct RoutedTokens {
  std::int64_t sent = 0;        // by this rank to all experts, itself included
  std::int64_t held = 0;        // by this rank's experts: what it receives, gathered over etp
  std::int64_t experts = 0;     // on this rank
  std::int64_t per_expert = 0;  // of `held`; rounded up, as the fullest expert decides
};

/// Of a model with experts. Without padding no token is dropped; with it, each source rank sends to
/// each expert as much as its capacity is, whatever the routing.
RoutedTokens routed_tokens(const OperatorContext& context);

}  // namespace flopcast
