#include "calibration/regime_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

namespace flopcast {
namespace {

// Parameters of one regime as the search sees them: multiples and sizes by their logarithms.
constexpr std::size_t kBase = 0;
constexpr std::size_t kHop = 1;
constexpr std::size_t kNetworkHop = 2;
constexpr std::size_t kBandwidth = 3;
constexpr std::size_t kRamp = 4;
constexpr std::size_t kSpread = 5;
constexpr std::size_t kCongestion = 6;
constexpr std::size_t kGrowth = 7;
constexpr std::size_t kGrowthSize = 8;
constexpr std::size_t kBias = 9;
constexpr std::size_t kOverlap = 10;
constexpr std::size_t kRendezvous = 11;
constexpr std::size_t kRendezvousSize = 12;
constexpr std::size_t kParameters = 13;
using ScaleVector = std::array<double, kParameters>;

RegimeScale to_scale(const ScaleVector& v) {
  return {.base = std::exp(v[kBase]),
          .hop = std::exp(v[kHop]),
          .network_hop = std::exp(v[kNetworkHop]),
          .bandwidth = std::exp(v[kBandwidth]),
          .ramp = v[kRamp],
          .spread = v[kSpread],
          .congestion = v[kCongestion],
          .growth = v[kGrowth],
          .growth_size = bytes(std::exp(v[kGrowthSize])),
          .overlap = v[kOverlap],
          .rendezvous = v[kRendezvous],
          .rendezvous_size = bytes(std::exp(v[kRendezvousSize])),
          .bias = std::exp(v[kBias])};
}

ScaleVector to_vector(const RegimeScale& scale) {
  return {std::log(scale.base),
          std::log(scale.hop),
          std::log(scale.network_hop),
          std::log(scale.bandwidth),
          scale.ramp,
          scale.spread,
          scale.congestion,
          scale.growth,
          std::log(scale.growth_size.value),
          std::log(scale.bias),
          scale.overlap,
          scale.rendezvous,
          std::log(scale.rendezvous_size.value)};
}

// Range of each around where it starts, and its pull towards there.
struct Range {
  double below;
  double above;
  double least;
  double pull;
};
constexpr double kAny = -1e9;
constexpr double kTenfold = 2.3;
constexpr std::array<Range, kParameters> kRanges{{{kTenfold, kTenfold, kAny, 1},  // base
                                                  {kTenfold, kTenfold, kAny, 1},
                                                  {kTenfold, kTenfold, kAny, 1},
                                                  {kTenfold, kTenfold, kAny, 1},
                                                  {2.5, 2.0, 0, 1},  // ramp
                                                  {1, 1, kAny, 1},
                                                  {1, 1, 0, 1},  // congestion
                                                  {0.9, 3, -0.9, 1},
                                                  {6, 6, kAny, 0.05},
                                                  {1, 1, kAny, 1},
                                                  {0, 0.9, 0, 1},  // overlap
                                                  {0, 8, 0, 0.1},
                                                  {6, 6, kAny, 0.05}}};

using RegimeId = std::pair<NcclAlgorithm, NcclProtocol>;

// Fits the regimes of one kind in one scope by a compass search with pattern moves (Hooke and
// Jeeves 1961). The objective, a mean of relative errors, has kinks where the fastest regime
// changes and where an error is 0, so that no derivative is used. Its pull towards the prior keeps
// parameters in place that no row depends on, and sets the balance between base and hops where only
// one shape was measured. A step at some size is found by trial: far from it no small move of its
// size or height changes the objective.
class RegimeSearch {
 public:
  RegimeSearch(const std::vector<FitRow>& rows, const ProtocolRegimes& prior, CollectiveKind kind,
               RegimeScope scope)
      : rows_(rows),
        rendezvous_(scope == RegimeScope::network && prior.transport != NetworkTransport::verbs),
        most_congestion_(scope == RegimeScope::network ? 1
                         : rows.front().through_host   ? 2
                                                       : 0) {
    std::set<RegimeId> ids;
    for (const FitRow& row : rows_) {
      for (const RegimeParts& parts : row.open.view()) {
        ids.insert({parts.algorithm, parts.protocol});
      }
    }
    for (const RegimeId& id : ids) {
      RegimeScale scale = prior_scale(id.first, id.second);
      for (const FittedRegime& known : prior.fitted) {
        if (known.key == RegimeKey{kind, scope, id.first, id.second}) {
          scale = known.scale;
        }
      }
      index_[id] = start_.size();
      start_.push_back(to_vector(scale));
    }
    for (const FitRow& row : rows_) {
      for (const RegimeParts& parts : row.open.view()) {
        regimes_.push_back(index_.at({parts.algorithm, parts.protocol}));
      }
    }
  }

  std::vector<FittedRegime> fit(CollectiveKind kind, RegimeScope scope) {
    std::vector<ScaleVector> best = start_;
    double best_cost = descend(best, kFirstStep);
    const auto consider = [&](std::vector<ScaleVector> at) {
      const double found = descend(at, kKickStep);
      if (found < best_cost) {
        best = std::move(at);
        best_cost = found;
      }
    };
    for (std::size_t i = 0; i < start_.size(); ++i) {
      consider(with_growth(best, i));
      if (rendezvous_) consider(with_rendezvous(best, i));
    }
    for (int kick = 0; kick < kKicks; ++kick) consider(kicked(best));
    std::vector<FittedRegime> out;
    for (const auto& [id, i] : index_) {
      out.push_back({.key = {kind, scope, id.first, id.second}, .scale = to_scale(best[i])});
    }
    return out;
  }

 private:
  static constexpr double kFirstStep = 0.4;
  static constexpr double kLastStep = 0.005;
  static constexpr int kRounds = 40;
  static constexpr int kKicks = 60;
  static constexpr double kKickStep = 0.2;
  static constexpr double kKickShare = 0.3;
  static constexpr double kKickWidth = 0.6;
  static constexpr double kProgress = 1e-4;
  static constexpr double kPull = 2e-3;
  static constexpr double kClip = 1.0;  // an error beyond this says the row is of another world
  static constexpr double kSmallestStep = 64;  // bytes
  static constexpr double kLargestStep = 4e6;
  static constexpr double kStepRatio = 4;
  static constexpr double kRound = 0.01;  // errors below count by their square

  // Compass search from `at`; returns the cost that it ends at.
  double descend(std::vector<ScaleVector>& at, double first_step) const {
    double now = cost(at);
    for (double step = first_step; step > kLastStep; step /= 2) {
      for (int round = 0; round < kRounds; ++round) {
        const std::vector<ScaleVector> before = at;
        const double found = explore(at, now, step);
        const bool stuck = found >= now * (1 - kProgress);
        now = found;
        if (stuck) {
          break;
        }
        follow(before, at, now);
      }
    }
    return now;
  }

  // The best of some steps by a factor at some size. One that falls starts from longer steps.
  std::vector<ScaleVector> with_growth(const std::vector<ScaleVector>& from,
                                       std::size_t regime) const {
    std::vector<std::vector<ScaleVector>> trials;
    for (double size = kSmallestStep; size < kLargestStep; size *= kStepRatio) {
      for (const double growth : {-0.6, 0.5, 1.5}) {
        ScaleVector& v = trials.emplace_back(from)[regime];
        v[kGrowth] = growth;
        v[kGrowthSize] = std::log(size);
        if (growth > 0) continue;
        v[kHop] -= std::log(1 + growth);
        v[kNetworkHop] -= std::log(1 + growth);
      }
    }
    return best_of(trials);
  }

  // The same for rendezvous. NCCL may take such a regime where another would be faster.
  std::vector<ScaleVector> with_rendezvous(const std::vector<ScaleVector>& from,
                                           std::size_t regime) const {
    std::vector<std::vector<ScaleVector>> trials;
    for (double size = kSmallestStep; size < kLargestStep; size *= kStepRatio) {
      for (const double rendezvous : {0.5, 1.5, 4.0}) {
        for (const double bias : {0.0, -0.8}) {
          ScaleVector& v = trials.emplace_back(from)[regime];
          v[kRendezvous] = rendezvous;
          v[kRendezvousSize] = std::log(size);
          v[kBias] = bounded(regime, kBias, v[kBias] + bias);
        }
      }
    }
    return best_of(trials);
  }

  std::vector<ScaleVector> best_of(const std::vector<std::vector<ScaleVector>>& trials) const {
    return *std::ranges::min_element(trials, {}, [this](const auto& at) { return cost(at); });
  }

  bool is_fitted(std::size_t parameter) const {
    return rendezvous_ || (parameter != kRendezvous && parameter != kRendezvousSize);
  }

  // Some parameters moved at random, to leave a local minimum.
  std::vector<ScaleVector> kicked(std::vector<ScaleVector> at) {
    for (std::size_t i = 0; i < at.size(); ++i) {
      for (std::size_t k = 0; k < kParameters; ++k) {
        if (is_fitted(k) && random() < kKickShare) {
          at[i][k] = bounded(i, k, at[i][k] + kKickWidth * (2 * random() - 1));
        }
      }
    }
    return at;
  }

  // In [0, 1); the engine's own bits, for standard distributions differ between libraries.
  double random() { return static_cast<double>(engine_()) / 4294967296.0; }

  // Times of all rows by all regimes, so that a step along one parameter computes only its own.
  struct Times {
    std::vector<Seconds> time;      // row-major
    std::vector<Seconds> believed;  // infinite where the regime is not open to the row
  };

  void update(Times& times, std::size_t regime, const ScaleVector& v) const {
    const RegimeScale scale = to_scale(v);
    std::size_t open = 0;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      for (const RegimeParts& parts : rows_[r].open.view()) {
        if (regimes_[open++] == regime) {
          const RegimeTime time = scaled(parts, scale);
          times.time[r * start_.size() + regime] = time.total();
          times.believed[r * start_.size() + regime] = time.believed();
        }
      }
    }
  }

  Times times_at(const std::vector<ScaleVector>& at) const {
    const Seconds never = seconds(std::numeric_limits<double>::infinity());
    Times times{.time = std::vector<Seconds>(rows_.size() * at.size(), never),
                .believed = std::vector<Seconds>(rows_.size() * at.size(), never)};
    for (std::size_t i = 0; i < at.size(); ++i) {
      update(times, i, at[i]);
    }
    return times;
  }

  double cost(const std::vector<ScaleVector>& at) const { return cost(at, times_at(at)); }

  double cost(const std::vector<ScaleVector>& at, const Times& times) const {
    double error = 0;
    double weight = 0;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      const auto begin = times.believed.begin() + static_cast<std::ptrdiff_t>(r * at.size());
      const auto taken = std::min_element(begin, begin + static_cast<std::ptrdiff_t>(at.size()));
      const Seconds time = times.time[static_cast<std::size_t>(taken - times.believed.begin())];
      const double distance = std::min(kClip, std::abs(std::log(time.value) - rows_[r].log_time));
      error += rows_[r].weight * (std::sqrt(distance * distance + kRound * kRound) - kRound);
      weight += rows_[r].weight;
    }
    double pull = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
      for (std::size_t k = 0; k < kParameters; ++k) {
        const double away = at[i][k] - start_[i][k];
        pull += kRanges[k].pull * away * away;
      }
    }
    return error / weight + kPull * pull / static_cast<double>(at.size());
  }

  // One step up or down along each parameter, kept where it helps.
  double explore(std::vector<ScaleVector>& at, double now, double step) const {
    Times times = times_at(at);
    for (std::size_t i = 0; i < at.size(); ++i) {
      for (std::size_t k = 0; k < kParameters; ++k) {
        if (!is_fitted(k)) continue;
        for (const double direction : {1.0, -1.0}) {
          const double before = at[i][k];
          at[i][k] = bounded(i, k, before + direction * step);
          if (at[i][k] == before) {
            continue;
          }
          update(times, i, at[i]);
          const double then = cost(at, times);
          if (then < now) {
            now = then;
            break;
          }
          at[i][k] = before;
          update(times, i, at[i]);
        }
      }
    }
    return now;
  }

  // The same move once more, as long as it helps.
  void follow(const std::vector<ScaleVector>& before, std::vector<ScaleVector>& at,
              double& now) const {
    std::vector<ScaleVector> move = at;
    for (std::size_t i = 0; i < at.size(); ++i) {
      for (std::size_t k = 0; k < kParameters; ++k) {
        move[i][k] -= before[i][k];
      }
    }
    constexpr int kLongest = 10;
    for (int again = 0; again < kLongest; ++again) {
      std::vector<ScaleVector> next = at;
      for (std::size_t i = 0; i < at.size(); ++i) {
        for (std::size_t k = 0; k < kParameters; ++k) {
          next[i][k] = bounded(i, k, at[i][k] + move[i][k]);
        }
      }
      const double then = cost(next);
      if (then >= now) {
        return;
      }
      at = next;
      now = then;
    }
  }

  double bounded(std::size_t regime, std::size_t parameter, double value) const {
    const Range& range = kRanges[parameter];
    const double middle = start_[regime][parameter];
    const double above = parameter == kCongestion ? most_congestion_ : range.above;
    return std::clamp(value, std::max(range.least, middle - range.below), middle + above);
  }

  const std::vector<FitRow>& rows_;
  bool rendezvous_;  // of the transport
  double most_congestion_;
  std::vector<std::size_t> regimes_;  // of every open regime of every row, by index_
  std::map<RegimeId, std::size_t> index_;
  std::vector<ScaleVector> start_;
  std::mt19937 engine_{1};
};

}  // namespace

std::vector<FittedRegime> fit_regimes(const std::vector<FitRow>& rows, const ProtocolRegimes& prior,
                                      CollectiveKind kind, RegimeScope scope) {
  return RegimeSearch(rows, prior, kind, scope).fit(kind, scope);
}

}  // namespace flopcast
