#pragma once

// Logs of collectives as a user gives them, with the machine they were taken on: for the verbs
// `import` and `calibrate`.

#include <optional>
#include <string>
#include <vector>

#include "calibration/collective_fit.h"
#include "topology/cluster.h"
#include "topology/system.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11 is called so
class App;
}

namespace flopcast {

struct CollectiveLogOptions {
  std::vector<std::string> files;
  std::optional<std::string> system;
  std::optional<std::string> kind;
  std::optional<int> nodes;
  bool sharp = false;  // the switches reduced
  std::optional<std::string> data;
};

/// --system, --kind, --nodes, --sharp, --data. `options` must outlive the parsing.
void add_collective_log_options(CLI::App& verb, CollectiveLogOptions& options);

/// All tables of all files.
std::vector<CollectiveTable> read_logs(const CollectiveLogOptions& options);

struct CollectiveMachine {
  System system;
  bool sharp = false;  // its switches reduce

  /// NCCL's own constants for it.
  NetworkModel prior() const;
};

/// Throws InputError without --system, or where the catalogue does not have it.
CollectiveMachine read_machine(const CollectiveLogOptions& options);

/// The wires of a group on a machine.
NetworkPath path_on(const CollectiveMachine& machine, CollectiveKind kind, GroupShape shape);

/// Tables of `options` on the first GPUs of a cluster, with what its faults leave of their links.
/// Throws InputError where a log has more ranks than the cluster has GPUs.
std::vector<PlacedTable> tables_on(const Cluster& cluster, const CollectiveLogOptions& options);

/// Tables on the machine. Where neither the log nor --nodes says how many nodes took part, the
/// fewest that hold the ranks, which a note of the table says.
std::vector<PlacedTable> placed_tables(const CollectiveLogOptions& options,
                                       const CollectiveMachine& machine);

}  // namespace flopcast
