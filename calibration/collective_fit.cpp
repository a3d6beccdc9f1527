#include "calibration/collective_fit.h"

#include <algorithm>
#include <cmath>

#include "calibration/regime_search.h"
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
  if (row.out_of_place) return row.out_of_place->time;
  return row.in_place ? std::optional(row.in_place->time) : std::nullopt;
}

bool spiked(const CollectiveRow& row) {
  return row.out_of_place && row.in_place && row.out_of_place->time > row.in_place->time * kSpike;
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

struct CleanTable {
  std::vector<CollectivePoint> points;
  std::vector<DoubtfulRow> doubtful;
};

CleanTable clean(const CollectiveTable& table) {
  std::vector<CollectivePoint> all;
  std::vector<int> lines;
  all.reserve(table.rows.size());
  lines.reserve(table.rows.size());
  CleanTable out;
  const auto doubt = [&out](Bytes size, int line, std::string reason) {
    out.doubtful.push_back({.size = size, .line = line, .reason = std::move(reason)});
  };
  for (const CollectiveRow& row : table.rows) {
    const auto time = spiked(row) ? std::optional(row.in_place->time) : row_time(row);
    if (!time) {
      doubt(row.size, row.line, "no time");
      continue;
    }
    if (spiked(row)) doubt(row.size, row.line, "spike out of place: in place is used");
    all.push_back({.size = row.size, .time = *time});
    lines.push_back(row.line);
  }
  out.points.reserve(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (is_spike(all, i)) {
      doubt(all[i].size, lines[i], "spike: over 1.5 times as long as its neighbours; left out");
    } else {
      out.points.push_back(all[i]);
    }
  }
  return out;
}

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
  rows.reserve(points.size());
  for (const CollectivePoint& point : points) {
    rows.push_back(
        {.log_time = std::log(point.time.value),
         .weight = 1.0 / static_cast<double>(points.size()),
         .open = open_regimes(machine, placed.table.kind, point.size, placed.shape, placed.path),
         .through_host = placed.shape.nodes == 1 && placed.path.domain <= kFastestPcie});
  }
  return rows;
}

}  // namespace

std::vector<CollectivePoint> clean_points(const CollectiveTable& table) {
  return clean(table).points;
}

std::vector<DoubtfulRow> doubtful_rows(const CollectiveTable& table) {
  return clean(table).doubtful;
}

CollectiveCurve measured_curve(const PlacedTable& table, std::span<const CollectivePoint> points) {
  struct Pool {
    double log_time;
    std::size_t count;
  };
  CollectiveCurve curve{.kind = table.table.kind,
                        .shape = table.shape,
                        .domain = table.path.domain,
                        .network = table.path.network,
                        .sharp = table.path.sharp,
                        .sizes = {},
                        .times = {},
                        .provenance = {.evidence = Evidence::measured, .source = table.table.file}};
  std::vector<Pool> pools;
  pools.reserve(points.size());
  curve.sizes.reserve(points.size());
  for (const CollectivePoint& point : points) {
    curve.sizes.push_back(point.size);
    Pool last{.log_time = std::log(point.time.value), .count = 1};
    while (!pools.empty() && pools.back().log_time > last.log_time) {
      const Pool& before = pools.back();
      const auto both = static_cast<double>(before.count + last.count);
      last.log_time = (static_cast<double>(before.count) * before.log_time +
                       static_cast<double>(last.count) * last.log_time) /
                      both;
      last.count += before.count;
      pools.pop_back();
    }
    pools.push_back(last);
  }
  for (const Pool& pool : pools) {
    curve.times.insert(curve.times.end(), pool.count, seconds(std::exp(pool.log_time)));
  }
  return curve;
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
        replace(machine, fit_regimes(rows, *prior.regimes, kind, scope));
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
