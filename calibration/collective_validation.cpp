#include "calibration/collective_validation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "sim/run_many.h"

namespace flopcast {
namespace {

using Members = std::vector<const RecordedTable*>;

bool counts(const RecordedTable& table) { return !table.fault && table.forced.empty(); }

// In the order of the data.
std::vector<std::pair<std::string, Members>> grouped(std::span<const RecordedTable> tables,
                                                     std::string RecordedTable::*key) {
  std::vector<std::pair<std::string, Members>> out;
  std::map<std::string, std::size_t> places;
  for (const RecordedTable& table : tables) {
    if (!counts(table)) continue;
    const auto [entry, fresh] = places.try_emplace(table.*key, out.size());
    if (fresh) out.emplace_back(table.*key, Members{});
    out[entry->second].second.push_back(&table);
  }
  return out;
}

void append_errors(const NetworkModel& model, const RecordedTable& table,
                   std::vector<double>& errors) {
  const std::vector<double> more = model_errors(model, table.placed);
  errors.insert(errors.end(), more.begin(), more.end());
}

NetworkModel fitted_to(const Members& tables) {
  std::vector<PlacedTable> placed;
  placed.reserve(tables.size());
  for (const RecordedTable* table : tables) placed.push_back(table->placed);
  return fit_network(placed, nccl_prior(*tables.front())).model;
}

// A curve of every second row, held against the rows between them.
void append_between(const PlacedTable& placed, std::vector<double>& errors) {
  const std::vector<CollectivePoint> points = clean_points(placed.table);
  std::vector<CollectivePoint> shown;
  shown.reserve(points.size() / 2 + 1);
  for (std::size_t i = 0; i < points.size(); i += 2) shown.push_back(points[i]);
  if (shown.size() < 2) return;
  Profile profile;
  profile.curves.push_back(measured_curve(placed, shown));
  for (std::size_t i = 1; i + 1 < points.size(); i += 2) {
    const Seconds time =
        collective_time(profile, placed.table.kind, points[i].size, placed.shape, placed.path)
            .total();
    errors.push_back(std::abs(time / points[i].time - 1));
  }
}

void leave_shapes_out(const Members& tables, const std::set<GroupShape>& shapes,
                      ClusterErrors& out) {
  const auto larger = [](GroupShape a, GroupShape b) { return a.ranks() < b.ranks(); };
  const GroupShape largest = *std::max_element(shapes.begin(), shapes.end(), larger);
  for (const GroupShape shape : shapes) {
    Members shown;
    Members hidden;
    for (const RecordedTable* table : tables) {
      (table->placed.shape == shape ? hidden : shown).push_back(table);
    }
    const NetworkModel model = fitted_to(shown);
    for (const RecordedTable* table : hidden) {
      append_errors(model, *table, out.left_out);
      if (shape == largest) append_errors(model, *table, out.largest);
    }
  }
}

}  // namespace

NetworkModel nccl_prior(const RecordedTable& table) {
  NetworkModel model;
  model.regimes = ProtocolRegimes{.generation = table.generation,
                                  .cpu = HostCpu::intel,
                                  .sharp = table.sharp,
                                  .transport = table.transport,
                                  .fitted = {},
                                  .provenance = {}};
  return model;
}

CheckedTable check_recorded(const RecordedTable& table, std::span<const RecordedTable> all) {
  std::vector<PlacedTable> well;
  for (const RecordedTable& other : all) {
    if (&other == &table || !counts(other) || other.machine != table.machine) continue;
    well.push_back(other.placed);
  }
  return check_table(table.placed, nccl_prior(table), well);
}

std::vector<PriorErrors> validate_prior(std::span<const RecordedTable> tables) {
  std::vector<PriorErrors> out;
  const auto groups = grouped(tables, &RecordedTable::group);
  out.reserve(groups.size());
  for (const auto& [name, members] : groups) {
    std::vector<double> means;
    means.reserve(members.size());
    for (const RecordedTable* table : members) {
      means.push_back(summary_of(model_errors(nccl_prior(*table), table->placed)).mean);
    }
    const double worst = *std::max_element(means.begin(), means.end());
    out.push_back({.group = name,
                   .tables = members.size(),
                   .median = summary_of(std::move(means)).median,
                   .worst = worst});
  }
  return out;
}

namespace {

ClusterErrors errors_of(const std::string& cluster, const Members& members) {
  std::set<GroupShape> shapes;
  for (const RecordedTable* table : members) shapes.insert(table->placed.shape);
  ClusterErrors row{.cluster = cluster,
                    .group = members.front()->group,
                    .tables = members.size(),
                    .shapes = shapes.size(),
                    .fitted = {},
                    .between = {},
                    .left_out = {},
                    .largest = {}};
  const NetworkModel model = fitted_to(members);
  for (const RecordedTable* table : members) {
    append_errors(model, *table, row.fitted);
    append_between(table->placed, row.between);
  }
  if (shapes.size() >= 3) leave_shapes_out(members, shapes, row);
  return row;
}

}  // namespace

std::vector<ClusterErrors> validate_fits(
    std::span<const RecordedTable> tables,
    const std::function<void(std::string_view cluster)>& progress) {
  auto clusters = grouped(tables, &RecordedTable::cluster);
  std::erase_if(clusters, [](const auto& cluster) { return cluster.second.size() < 2; });
  std::vector<ClusterErrors> out(clusters.size());
  for_each_parallel(clusters.size(), [&](std::size_t i) {
    const auto& [name, members] = clusters[i];
    if (progress) progress(name);
    out[i] = errors_of(name, members);
  });
  return out;
}

}  // namespace flopcast
