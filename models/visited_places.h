#pragma once

// On how many places (nodes, or ranks of one node) the experts of a token lie where some experts
// are wanted more than others: what travels where copies for one place travel as one.
//
// How often each expert is wanted does not say which experts are wanted together. Of all choices of
// top_k that give each expert its demand the most random one is taken (maximum entropy, conditional
// Poisson sampling): a set of experts is as likely as the product of its experts' odds. Equal odds
// give the hypergeometric law of distinct_places(). Source: Chen, Dempster and Liu, Biometrika
// 81(3), 1994. That routers come near it is assumed.

#include <cstdint>
#include <span>
#include <vector>

namespace flopcast {

/// Weights of an expert that is not chosen and of one that is; an expert of every token has no
/// weight where it is not chosen.
struct ExpertOdds {
  double without = 1;
  double with = 0;
};

/// Odds under which each expert is chosen as often as `demand` says; its sum is top_k.
std::vector<ExpertOdds> expert_odds(std::span<const double> demand);

/// Places of equal numbers of experts, in order; the last may have fewer.
struct TokenPlaces {
  std::int64_t experts_each = 1;
  /// A token's experts lie on so many places at most; 0: on any. It picks the places first, by how
  /// likely the experts there are chosen, and then among those: DeepSeek-V3, arXiv 2412.19437,
  /// section 2.1.2. Ignored where the demand cannot be had under it.
  std::int64_t limit = 0;
};

/// By place: part of tokens of which at least one copy gets there. Of the copies for an expert the
/// part `kept` is not dropped.
std::vector<double> visited_places(std::span<const ExpertOdds> odds, std::span<const double> kept,
                                   std::int64_t top_k, TokenPlaces places);

}  // namespace flopcast
