#include "calibration/collective_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "sim/check.h"

namespace flopcast {
namespace {

constexpr double kSpike = 1.5;

Profile profile_of(const NetworkModel& model) {
  Profile profile;
  profile.network = model;
  return profile;
}

// The time of a row that is to be believed.
std::optional<Seconds> row_time(const CollectiveRow& row) {
  if (row.out_of_place && row.in_place) {
    const bool spiked = row.out_of_place->time > row.in_place->time * kSpike;
    return spiked ? row.in_place->time : row.out_of_place->time;
  }
  if (row.out_of_place) {
    return row.out_of_place->time;
  }
  return row.in_place ? std::optional(row.in_place->time) : std::nullopt;
}

// Larger buffers take longer: a row above its larger neighbour by half is a spike, and so is one
// that stands out from both in time per byte.
bool is_spike(const std::vector<CollectivePoint>& points, std::size_t i) {
  if (i + 1 >= points.size()) {
    return false;
  }
  const bool above_next = points[i].time > points[i + 1].time * kSpike;
  const bool above_previous = i == 0 || points[i].time > points[i - 1].time * kSpike;
  return above_next && above_previous;
}

struct FitRow {
  double log_time = 0;
  double weight = 0;  // rows of a table together weigh 1
  RegimeList open;
  std::array<std::size_t, std::tuple_size_v<decltype(RegimeList::items)>> regimes{};
};

// Parameters of one regime as the search sees them: multiples and sizes by their logarithms.
enum Parameter : std::size_t {
  kBase,
  kHop,
  kNetworkHop,
  kBandwidth,
  kRamp,
  kSpread,
  kGrowth,
  kGrowthSize,
  kBias,
  kParameters
};
using Vector = std::array<double, kParameters>;

RegimeScale to_scale(const Vector& v) {
  return {.base = std::exp(v[kBase]),
          .hop = std::exp(v[kHop]),
          .network_hop = std::exp(v[kNetworkHop]),
          .bandwidth = std::exp(v[kBandwidth]),
          .ramp = v[kRamp],
          .spread = v[kSpread],
          .growth = v[kGrowth],
          .growth_size = bytes(std::exp(v[kGrowthSize])),
          .bias = std::exp(v[kBias])};
}

Vector to_vector(const RegimeScale& scale) {
  return {std::log(scale.base),
          std::log(scale.hop),
          std::log(scale.network_hop),
          std::log(scale.bandwidth),
          scale.ramp,
          scale.spread,
          scale.growth,
          std::log(scale.growth_size.value),
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
constexpr std::array<Range, kParameters> kRanges{{{kTenfold, kTenfold, kAny, 1},
                                                  {kTenfold, kTenfold, kAny, 1},
                                                  {kTenfold, kTenfold, kAny, 1},
                                                  {kTenfold, kTenfold, kAny, 1},
                                                  {2.5, 2.0, 0, 1},
                                                  {1, 1, kAny, 1},
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
  RegimeSearch(std::vector<FitRow> rows, const ProtocolRegimes& prior, CollectiveKind kind,
               RegimeScope scope)
      : rows_(std::move(rows)) {
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
    for (FitRow& row : rows_) {
      for (std::size_t k = 0; k < row.open.count; ++k) {
        row.regimes[k] = index_.at({row.open.items[k].algorithm, row.open.items[k].protocol});
      }
    }
  }

  std::vector<FittedRegime> fit(CollectiveKind kind, RegimeScope scope) {
    std::vector<Vector> best = start_;
    double best_cost = cost(best);
    for (double step = kFirstStep; step > kLastStep; step /= 2) {
      for (int round = 0; round < kRounds; ++round) {
        const std::vector<Vector> before = best;
        const double found = explore(best, best_cost, step);
        if (found >= best_cost * (1 - kProgress)) {
          best_cost = found;
          break;
        }
        best_cost = found;
        follow(before, best, best_cost);
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
  static constexpr double kProgress = 1e-4;
  static constexpr double kPull = 2e-3;
  static constexpr double kClip = 1.0;    // an error beyond this says the row is of another world
  static constexpr double kRound = 0.01;  // errors below count by their square

  double cost(const std::vector<Vector>& at) const {
    std::vector<RegimeScale> scales;
    for (const Vector& v : at) {
      scales.push_back(to_scale(v));
    }
    double error = 0;
    double weight = 0;
    for (const FitRow& row : rows_) {
      std::optional<RegimeTime> best;
      for (std::size_t k = 0; k < row.open.count; ++k) {
        const RegimeTime time = scaled(row.open.items[k], scales[row.regimes[k]]);
        if (!best || time.believed() < best->believed()) {
          best = time;
        }
      }
      const double distance =
          std::min(kClip, std::abs(std::log(best->total().value) - row.log_time));
      error += row.weight * (std::sqrt(distance * distance + kRound * kRound) - kRound);
      weight += row.weight;
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
    for (std::size_t i = 0; i < at.size(); ++i) {
      for (std::size_t k = 0; k < kParameters; ++k) {
        for (const double direction : {1.0, -1.0}) {
          const double before = at[i][k];
          at[i][k] = bounded(i, k, before + direction * step);
          const double then = at[i][k] == before ? now : cost(at);
          if (then < now) {
            now = then;
            break;
          }
          at[i][k] = before;
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

  std::vector<FitRow> rows_;
  std::map<RegimeId, std::size_t> index_;
  std::vector<Vector> start_;
};

void replace(ProtocolRegimes& machine, const std::vector<FittedRegime>& found) {
  for (const FittedRegime& regime : found) {
    std::erase_if(machine.fitted,
                  [&regime](const FittedRegime& old) { return old.key == regime.key; });
    machine.fitted.push_back(regime);
  }
  std::sort(machine.fitted.begin(), machine.fitted.end(),
            [](const FittedRegime& a, const FittedRegime& b) { return a.key < b.key; });
}

std::vector<FitRow> fit_rows(const ProtocolRegimes& machine, const PlacedTable& placed) {
  const std::vector<CollectivePoint> points = clean_points(placed.table);
  std::vector<FitRow> rows;
  for (const CollectivePoint& point : points) {
    rows.push_back(
        {.log_time = std::log(point.time.value),
         .weight = 1.0 / static_cast<double>(points.size()),
         .open = open_regimes(machine, placed.table.kind, point.size, placed.shape, placed.path)});
  }
  return rows;
}

}  // namespace

std::vector<CollectivePoint> clean_points(const CollectiveTable& table) {
  std::vector<CollectivePoint> all;
  for (const CollectiveRow& row : table.rows) {
    if (const auto time = row_time(row)) {
      all.push_back({.size = row.size, .time = *time});
    }
  }
  std::vector<CollectivePoint> points;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!is_spike(all, i)) {
      points.push_back(all[i]);
    }
  }
  return points;
}

ErrorSummary summary_of(std::vector<double> relative_errors) {
  ErrorSummary out;
  out.rows = relative_errors.size();
  if (relative_errors.empty()) {
    return out;
  }
  std::sort(relative_errors.begin(), relative_errors.end());
  for (const double error : relative_errors) {
    out.mean += error / static_cast<double>(out.rows);
  }
  out.median = relative_errors[out.rows / 2];
  out.p90 = relative_errors[std::min(out.rows - 1, out.rows * 9 / 10)];
  return out;
}

std::vector<double> model_errors(const NetworkModel& model, const PlacedTable& table) {
  const Profile profile = profile_of(model);
  std::vector<double> errors;
  for (const CollectivePoint& point : clean_points(table.table)) {
    const Seconds predicted =
        collective_time(profile, table.table.kind, point.size, table.shape, table.path).total();
    errors.push_back(std::abs(predicted / point.time - 1));
  }
  return errors;
}

NetworkFit fit_network(std::span<const PlacedTable> tables, const NetworkModel& prior) {
  FLOPCAST_CHECK(prior.regimes.has_value(), "a prior for the regimes");
  NetworkFit out;
  out.model = prior;
  ProtocolRegimes& machine = *out.model.regimes;
  for (const CollectiveKind kind : kCollectiveKinds) {
    for (const RegimeScope scope : kRegimeScopes) {
      std::vector<FitRow> rows;
      for (const PlacedTable& placed : tables) {
        const bool inside = placed.shape.nodes == 1;
        if (placed.table.kind == kind && inside == (scope == RegimeScope::domain)) {
          const std::vector<FitRow> more = fit_rows(machine, placed);
          rows.insert(rows.end(), more.begin(), more.end());
        }
      }
      if (!rows.empty()) {
        replace(machine,
                RegimeSearch(std::move(rows), *prior.regimes, kind, scope).fit(kind, scope));
      }
    }
  }
  machine.provenance.evidence = Evidence::fitted;
  std::vector<double> all;
  for (const PlacedTable& placed : tables) {
    const std::vector<double> errors = model_errors(out.model, placed);
    all.insert(all.end(), errors.begin(), errors.end());
    out.tables.push_back({.file = placed.table.file,
                          .kind = placed.table.kind,
                          .shape = placed.shape,
                          .before = summary_of(model_errors(prior, placed)),
                          .after = summary_of(errors)});
  }
  out.all_rows = summary_of(std::move(all));
  machine.provenance.median_error = out.all_rows.median;
  machine.provenance.p90_error = out.all_rows.p90;
  return out;
}

}  // namespace flopcast
