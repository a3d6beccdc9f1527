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
constexpr std::size_t kParameters = 10;
using Vector = std::array<double, kParameters>;

RegimeScale to_scale(const Vector& v) {
  return {.base = std::exp(v[kBase]),
          .hop = std::exp(v[kHop]),
          .network_hop = std::exp(v[kNetworkHop]),
          .bandwidth = std::exp(v[kBandwidth]),
          .ramp = v[kRamp],
          .spread = v[kSpread],
          .congestion = v[kCongestion],
          .growth = v[kGrowth],
          .growth_size = bytes(std::exp(v[kGrowthSize])),
          .bias = std::exp(v[kBias])};
}

Vector to_vector(const RegimeScale& scale) {
  return {std::log(scale.base),      std::log(scale.hop), std::log(scale.network_hop),
          std::log(scale.bandwidth), scale.ramp,          scale.spread,
          scale.congestion,          scale.growth,        std::log(scale.growth_size.value),
          std::log(scale.bias)};
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
                                                  {3, 3, 0, 1},
                                                  {6, 6, kAny, 0.05},
                                                  {1, 1, kAny, 1}}};

using RegimeId = std::pair<NcclAlgorithm, NcclProtocol>;

// Fits the regimes of one kind in one scope by a compass search with pattern moves (Hooke and
// Jeeves 1961). The objective, a mean of relative errors, has kinks where the fastest regime
// changes and where an error is 0, so that no derivative is used. Its pull towards the prior keeps
// parameters in place that no row depends on, and sets the balance between base and hops where only
// one shape was measured.
class RegimeSearch {
 public:
  RegimeSearch(const std::vector<FitRow>& rows, const ProtocolRegimes& prior, CollectiveKind kind,
               RegimeScope scope)
      : rows_(rows) {
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
    std::vector<Vector> best = start_;
    double best_cost = descend(best, kFirstStep);
    for (int kick = 0; kick < kKicks; ++kick) {
      std::vector<Vector> at = kicked(best);
      const double found = descend(at, kKickStep);
      if (found < best_cost) {
        best = std::move(at);
        best_cost = found;
      }
    }
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
  static constexpr double kClip = 1.0;    // an error beyond this says the row is of another world
  static constexpr double kRound = 0.01;  // errors below count by their square

  // Compass search from `at`; returns the cost that it ends at.
  double descend(std::vector<Vector>& at, double first_step) const {
    double now = cost(at);
    for (double step = first_step; step > kLastStep; step /= 2) {
      for (int round = 0; round < kRounds; ++round) {
        const std::vector<Vector> before = at;
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

  // Some parameters moved at random, to leave a local minimum.
  std::vector<Vector> kicked(std::vector<Vector> at) {
    for (std::size_t i = 0; i < at.size(); ++i) {
      for (std::size_t k = 0; k < kParameters; ++k) {
        if (random() < kKickShare) {
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

  void update(Times& times, std::size_t regime, const Vector& v) const {
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

  Times times_at(const std::vector<Vector>& at) const {
    const Seconds never = seconds(std::numeric_limits<double>::infinity());
    Times times{.time = std::vector<Seconds>(rows_.size() * at.size(), never),
                .believed = std::vector<Seconds>(rows_.size() * at.size(), never)};
    for (std::size_t i = 0; i < at.size(); ++i) {
      update(times, i, at[i]);
    }
    return times;
  }

  double cost(const std::vector<Vector>& at) const { return cost(at, times_at(at)); }

  double cost(const std::vector<Vector>& at, const Times& times) const {
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
  double explore(std::vector<Vector>& at, double now, double step) const {
    Times times = times_at(at);
    for (std::size_t i = 0; i < at.size(); ++i) {
      for (std::size_t k = 0; k < kParameters; ++k) {
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
  void follow(const std::vector<Vector>& before, std::vector<Vector>& at, double& now) const {
    std::vector<Vector> move = at;
    for (std::size_t i = 0; i < at.size(); ++i) {
      for (std::size_t k = 0; k < kParameters; ++k) {
        move[i][k] -= before[i][k];
      }
    }
    constexpr int kLongest = 10;
    for (int again = 0; again < kLongest; ++again) {
      std::vector<Vector> next = at;
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
    return std::clamp(value, std::max(range.least, middle - range.below), middle + range.above);
  }

  const std::vector<FitRow>& rows_;
  std::vector<std::size_t> regimes_;  // of every open regime of every row, by index_
  std::map<RegimeId, std::size_t> index_;
  std::vector<Vector> start_;
  std::mt19937 engine_{1};
};

}  // namespace

std::vector<FittedRegime> fit_regimes(const std::vector<FitRow>& rows, const ProtocolRegimes& prior,
                                      CollectiveKind kind, RegimeScope scope) {
  return RegimeSearch(rows, prior, kind, scope).fit(kind, scope);
}

}  // namespace flopcast
