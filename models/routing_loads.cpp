#include "models/routing_loads.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "models/expert_routing.h"
#include "models/layer_operators.h"
#include "sim/random.h"

namespace flopcast {

std::vector<double> expert_demand(std::span<const double> weights, std::int64_t top_k) {
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](auto a, auto b) { return weights[a] > weights[b]; });
  double rest = std::accumulate(weights.begin(), weights.end(), 0.0);
  auto open = static_cast<double>(top_k);  // of the demand, for those that are left
  std::vector<double> demand(weights.size());
  for (const std::size_t expert : order) {
    // Where no weight is left the choice is free, and the first ones take it.
    const double share = rest > 0 ? open * weights[expert] / rest : open;
    demand[expert] = std::clamp(share, 0.0, 1.0);
    open -= demand[expert];
    rest -= weights[expert];
  }
  return demand;
}

std::vector<double> zipf_weights(std::int64_t experts, double exponent) {
  std::vector<double> weights;
  weights.reserve(static_cast<std::size_t>(experts));
  for (std::int64_t rank = 1; rank <= experts; ++rank) {
    weights.push_back(std::pow(static_cast<double>(rank), -exponent));
  }
  return weights;
}

double exponent_now(const TokenRouting& routing) {
  if (routing.drift_steps == 0) return routing.exponent;
  const double passed =
      static_cast<double>(routing.step) / static_cast<double>(routing.drift_steps);
  return std::lerp(routing.exponent, routing.final_exponent, std::min(passed, 1.0));
}

namespace {

/// Source: Steele, Lea and Flood, OOPSLA 2014: SplitMix64.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : state_(seed) {}
  std::uint64_t operator()() {
    state_ += kGoldenGamma;
    return mixed(state_);
  }

 private:
  std::uint64_t state_;
};

/// Fisher and Yates; the remainder's bias is below experts / 2^64.
template <class T>
void shuffle(std::vector<T>& values, Generator random) {
  for (std::size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[random() % i]);
  }
}

/// Sums of the experts of each rank, over the balanced share of one. Experts lie in order.
/// Rounded so that the sum over ranks stays what it is.
std::vector<std::uint32_t> rank_loads(std::span<const double> kept, std::size_t ranks,
                                      std::int64_t top_k) {
  const std::size_t each = kept.size() / ranks;
  const double scale = static_cast<double>(RoutingLoad::kBalanced) * static_cast<double>(ranks) /
                       static_cast<double>(top_k);
  std::vector<std::uint32_t> loads;
  loads.reserve(ranks);
  double sum = 0;
  double told = 0;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    sum += kept[i];
    if ((i + 1) % each != 0) continue;
    const double now = std::round(sum * scale);
    loads.push_back(static_cast<std::uint32_t>(now - told));
    told = now;
  }
  return loads;
}

/// By layer of the model and its prediction modules: which of the layers with experts it is.
std::vector<std::optional<std::size_t>> expert_layers(const Transformer& model) {
  std::vector<std::optional<std::size_t>> out;
  std::size_t next = 0;
  for (std::int64_t layer = 0; layer < model.layers + model.mtp_layers; ++layer) {
    const bool has = model.has_experts(std::min(layer, model.layers - 1));
    out.push_back(has ? std::optional(next++) : std::nullopt);
  }
  return out;
}

/// Demand of the experts before it is shuffled, of each layer with experts or of all.
std::vector<std::vector<double>> demands(const TokenRouting& routing, const MixtureOfExperts& moe) {
  std::vector<std::vector<double>> out;
  if (routing.kind == RoutingKind::measured) {
    for (const auto& counts : routing.counts) out.push_back(expert_demand(counts, moe.top_k));
  } else {
    const double exponent = routing.kind == RoutingKind::zipf ? exponent_now(routing) : 0;
    out.push_back(expert_demand(zipf_weights(moe.experts, exponent), moe.top_k));
  }
  return out;
}

}  // namespace

RoutingLoads::RoutingLoads(const Job& job, std::int64_t micro_batches, const ExchangePlaces& places)
    : ranks_(static_cast<std::size_t>(job.layout.grid.ep)),
      places_(places),
      micro_batches_(static_cast<std::size_t>(micro_batches)) {
  if (!job.model.moe) return;
  const MixtureOfExperts& moe = *job.model.moe;
  const TokenRouting& routing = job.training.routing;
  const OperatorContext context{job.model, job.layout, job.training, 0};
  const auto factor = job.training.capacity_factor;
  if (factor) {
    capacity_ = static_cast<double>(expert_capacity(context.sharded_tokens(), moe, *factor)) /
                static_cast<double>(context.sharded_tokens());
  }
  pads_ = factor && job.training.pad_to_capacity;
  expert_layer_ = expert_layers(job.model);
  totals_.assign(ranks_, 0);
  std::vector<Demand> by_layer;
  for (std::vector<double>& share : demands(routing, moe)) {
    by_layer.push_back({std::move(share), {}});
    const bool unlike = (routing.kind != RoutingKind::balanced || factor) && !pads_;
    if (places_.merged > 0 && unlike) by_layer.back().odds = expert_odds(by_layer.back().share);
  }
  for (std::size_t layer = 0; layer < expert_layer_.size(); ++layer) {
    if (!expert_layer_[layer]) continue;
    const Demand& demand = by_layer[std::min(*expert_layer_[layer], by_layer.size() - 1)];
    for (std::size_t batch = 0; batch < micro_batches_; ++batch) {
      Demand drawn = demand;
      if (routing.kind == RoutingKind::zipf) {
        Generator random(routing.seed);
        const Generator order(random() ^ (layer << 32U) ^ batch);
        shuffle(drawn.share, order);
        shuffle(drawn.odds, order);
      }
      add(drawn, moe);
    }
  }
  finish();
}

void RoutingLoads::add(const Demand& drawn, const MixtureOfExperts& moe) {
  std::vector<double> demand = drawn.share;
  const auto top_k = static_cast<double>(moe.top_k);
  const double mean = top_k / static_cast<double>(moe.experts);
  summary_.expert_load += *std::ranges::max_element(demand) / mean;
  for (double& share : demand) {
    summary_.dropped += std::max(0.0, share - capacity_) / top_k;
    share = std::min(share, capacity_);
  }
  if (pads_) {
    demand.assign(demand.size(), mean);  // of what is padded, all get the same
  }
  const std::vector<std::uint32_t> loads = rank_loads(demand, ranks_, moe.top_k);
  const std::uint64_t sum = std::accumulate(loads.begin(), loads.end(), std::uint64_t{0});
  const std::uint32_t fullest = *std::ranges::max_element(loads);
  Row row{.hottest = fullest,
          .fullest = fullest,
          .mean = static_cast<double>(sum) / static_cast<double>(ranks_)};
  for (std::size_t i = 0; i < ranks_; ++i) totals_[i] += loads[i];
  summary_.rank_load += row.fullest / row.mean;
  skewed_ = skewed_ || row.mean != RoutingLoad::kBalanced || row.fullest != RoutingLoad::kBalanced;
  if (!drawn.odds.empty()) merge_copies(row, drawn, moe);
  summary_.exchange_load += row.hottest / row.mean;
  rows_.push_back(row);
  loads_.insert(loads_.end(), loads.begin(), loads.end());
}

/// A place gets a token once, however many of its experts are there: a hot one can get no more than
/// all tokens.
void RoutingLoads::merge_copies(Row& row, const Demand& demand, const MixtureOfExperts& moe) const {
  std::vector<double> kept;
  kept.reserve(demand.share.size());
  for (const double share : demand.share) kept.push_back(std::min(1.0, capacity_ / share));
  const std::int64_t each = moe.experts / static_cast<std::int64_t>(ranks_) * places_.ranks_each;
  const std::vector<double> visited =
      visited_places(demand.odds, kept, moe.top_k, {each, places_.limit});
  const auto count = static_cast<double>(visited.size());
  const double scale = RoutingLoad::kBalanced * count / places_.merged;
  const double sum = std::accumulate(visited.begin(), visited.end(), 0.0);
  row.hottest = static_cast<std::uint32_t>(std::round(scale * *std::ranges::max_element(visited)));
  row.mean = scale * sum / count;
}

/// Sums to means.
void RoutingLoads::finish() {
  if (rows_.empty()) return;
  const auto rows = static_cast<double>(rows_.size());
  summary_.dropped /= rows;
  summary_.expert_load /= rows;
  summary_.rank_load /= rows;
  summary_.exchange_load /= rows;
  const auto hottest = std::ranges::max_element(totals_);
  const double all = std::accumulate(totals_.begin(), totals_.end(), 0.0);
  summary_.hottest_rank = static_cast<int>(hottest - totals_.begin());
  summary_.hottest_rank_load = static_cast<double>(*hottest) * static_cast<double>(ranks_) / all;
}

RoutingLoad RoutingLoads::at(std::int64_t layer, std::int64_t micro_batch, int expert_rank) const {
  const auto expert_layer = skewed_ ? expert_layer_[static_cast<std::size_t>(layer)] : std::nullopt;
  if (!expert_layer) return {};
  const std::size_t i = *expert_layer * micro_batches_ + static_cast<std::size_t>(micro_batch);
  const Row& row = rows_[i];
  const std::uint32_t own =
      expert_rank < 0 ? row.fullest : loads_[i * ranks_ + static_cast<std::size_t>(expert_rank)];
  return {.own = own, .hottest = row.hottest, .mean = row.mean};
}

bool routing_differs(const Job& job) {
  const bool pads = job.training.capacity_factor && job.training.pad_to_capacity;
  return job.model.moe && !pads && job.layout.grid.ep > 1 &&
         job.training.routing.kind != RoutingKind::balanced;
}

}  // namespace flopcast
