#pragma once

// How well the network model meets tables that were measured on public machines
// (calibration/data/collectives.json): NCCL's constants alone, fitted to a machine's own tables,
// for group shapes left out of the fit, and between the measured sizes of a curve.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "calibration/collective_check.h"

namespace flopcast {

/// A table with what is known of where it was measured.
struct RecordedTable {
  PlacedTable placed;  // `table.file` is its id
  std::string source;
  std::string gpu;
  std::string cluster;  // tables of one machine in one set-up
  std::string machine;  // in whatever set-up
  std::string group;    // machines of one kind
  GpuGeneration generation = GpuGeneration::hopper;
  bool sharp = false;
  NetworkTransport transport = NetworkTransport::verbs;
  std::string forced;                // algorithm or protocol set by hand; such a run fits no prior
  std::optional<std::string> fault;  // what its source says is wrong with it
};

/// NCCL's own constants for the machine of a table.
NetworkModel nccl_prior(const RecordedTable& table);

/// Against NCCL's constants and, where there are any, other healthy tables of its machine.
CheckedTable check_recorded(const RecordedTable& table, std::span<const RecordedTable> all);

/// Mean error of each table of a kind of machine by the prior alone.
struct PriorErrors {
  std::string group;
  std::size_t tables = 0;
  double median = 0;  // over tables
  double worst = 0;
};
std::vector<PriorErrors> validate_prior(std::span<const RecordedTable> tables);

/// Over all rows of a machine's healthy tables.
struct ClusterErrors {
  std::string cluster;
  std::string group;
  std::size_t tables = 0;
  std::size_t shapes = 0;
  std::vector<double> fitted;    // regimes fitted to all of its tables
  std::vector<double> between;   // rows between those that a curve was made of
  std::vector<double> left_out;  // of each shape, fitted to the others; from three shapes on
  std::vector<double> largest;   // of the shape with the most ranks alone
};

/// Clusters with two or more healthy tables, side by side on all cores. `progress` is told each
/// cluster before its fits, by several threads.
std::vector<ClusterErrors> validate_fits(
    std::span<const RecordedTable> tables,
    const std::function<void(std::string_view cluster)>& progress = {});

}  // namespace flopcast
