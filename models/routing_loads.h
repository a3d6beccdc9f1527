#pragma once

// Where the tokens of each layer and micro-batch go, and what that leaves on the ranks that hold
// the experts. Loads are expectations: of thousands of tokens a rank sees little scatter.
//
// All sources route alike, and so do all groups of experts of a stage in the same micro-batch (one
// seed): ranks that hold the same experts do the same, and stand for one another when ranks are
// folded.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "models/training.h"
#include "models/visited_places.h"

namespace flopcast {

/// Share of the tokens that want each of the experts, in the order of `weights`: in proportion to
/// its weight, but no expert more than once per token. Sums to top_k.
std::vector<double> expert_demand(std::span<const double> weights, std::int64_t top_k);

/// Weights of Zipf's law, largest first: r^-exponent of the expert of rank r.
std::vector<double> zipf_weights(std::int64_t experts, double exponent);

/// The exponent at the training step that is simulated.
double exponent_now(const TokenRouting& routing);

/// Tokens of one layer and micro-batch, in parts of the balanced share of a rank without drops.
struct RoutingLoad {
  static constexpr std::uint32_t kBalanced = 256;

  std::uint32_t own = kBalanced;      // what the experts of a rank get
  std::uint32_t hottest = kBalanced;  // what the place gets that the exchange waits for
  double mean = kBalanced;            // what a rank sends, copies for one place as one

  static double part(double load) { return load / kBalanced; }
  bool balanced() const { return own == kBalanced && hottest == kBalanced && mean == kBalanced; }
};

/// What the routing of a step comes to; loads are means over its layers and micro-batches.
struct RoutingSummary {
  double dropped = 0;            // part of the routed tokens
  double expert_load = 0;        // largest demand of an expert over the mean
  double rank_load = 0;          // most that a rank computes, over the mean
  double exchange_load = 0;      // what an exchange waits for, over the mean
  int hottest_rank = 0;          // in its group: the one with the most tokens of the step
  double hottest_rank_load = 0;  // its tokens of the step, over the mean
};

/// Where copies of a token arrive.
struct ExchangePlaces {
  /// Of a group of experts, among which what comes to one of them spreads on its way: the cards of
  /// a node, where a node gets one copy.
  int ranks_each = 1;
  /// Expected places of a token under balanced routing, where copies for one place travel as one;
  /// else 0.
  double merged = 0;
  std::int64_t limit = 0;  // of places of a token; 0: none
};

class RoutingLoads {
 public:
  RoutingLoads(const Job& job, std::int64_t micro_batches, const ExchangePlaces& places);

  /// Whether any rank gets more or less than its balanced share.
  bool skewed() const { return skewed_; }
  /// Of a layer of the model (prediction modules come after the last) and a rank of the group of
  /// experts, negative: the one with the most.
  RoutingLoad at(std::int64_t layer, std::int64_t micro_batch, int expert_rank) const;
  /// Of a model with experts.
  const RoutingSummary& summary() const { return summary_; }

 private:
  struct Row {
    std::uint32_t hottest;  // place
    std::uint32_t fullest;  // rank
    double mean;            // of what is sent, as `hottest` of what arrives
  };
  struct Demand {
    std::vector<double> share;  // of the tokens, by expert
    std::vector<ExpertOdds> odds;
  };
  void add(const Demand& drawn, const MixtureOfExperts& moe);
  void merge_copies(Row& row, const Demand& demand, const MixtureOfExperts& moe) const;
  void finish();

  std::size_t ranks_;  // of a group of experts
  ExchangePlaces places_;
  std::size_t micro_batches_;
  double capacity_ = 1;  // of an expert, per token
  bool pads_ = false;
  bool skewed_ = false;
  std::vector<std::optional<std::size_t>> expert_layer_;  // by layer of the model
  std::vector<Row> rows_;                                 // by layer with experts, micro-batch
  std::vector<std::uint32_t> loads_;                      // by row, rank of the group
  std::vector<std::uint64_t> totals_;                     // by rank of the group
  RoutingSummary summary_;
};

/// Whether the ranks of a group of experts may get unlike numbers of tokens.
bool routing_differs(const Job& job);

}  // namespace flopcast
