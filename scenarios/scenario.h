#pragma once

// A question put to the simulator, complete and checked: which model, on which machine, split and
// trained how, timed by which profile, and what is expected of the answer.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "calibration/profile.h"
#include "models/goodput.h"
#include "models/training.h"
#include "topology/cluster.h"

namespace flopcast {

/// A bound on one metric of the answer, from the scenario's "expect".
struct Expectation {
  std::string metric;           // "step_time", "tokens_per_second_per_gpu", "memory_peak", "mfu"
  std::optional<double> value;  // in the metric's base unit
  double tolerance = 0;         // relative
  std::optional<double> reference;  // shown beside the answer; bounds nothing
  std::optional<double> min;
  std::optional<double> max;
  bool allow_failure = false;  // told, but the scenario passes all the same
};

/// What a published run is used for: to choose constants, or to test them. A test case is never
/// fitted to.
enum class Mark : std::uint8_t { none, fit, test };

struct Scenario {
  std::string name;  // file name without folder and extension, or its "name"
  std::string file;  // as given by the user, for messages
  std::string description;
  std::vector<std::string> sources;      // of the numbers in it
  std::vector<std::string> assumptions;  // what stands in it that the sources do not say
  Mark mark = Mark::none;
  ClusterSpec cluster;
  Job job;
  Profile profile;
  std::vector<Profile> other_profiles;  // of the cluster's other nodes, in order
  std::optional<Reliability> reliability;
  std::vector<Expectation> expect;
};

/// `--set parallel.tp=4`: a key path and a JSON value (bare words are strings).
struct Override {
  std::string path;
  std::string value;
};

/// Folders of shipped data: catalogue/, profiles/, measured/. Installed beside the program or in
/// the source tree.
struct DataFolders {
  std::filesystem::path catalogue;  // gpus.json, systems.json, models.json
  std::filesystem::path profiles;
  std::filesystem::path measured{};  // collectives.json: for `validate`
};

/// Reads, applies overrides, resolves names and checks. Throws InputError with file, line, column,
/// JSON path, what was read, what was expected and the nearest valid name; IoError never for user
/// paths (a missing scenario file is an InputError). An illegal layout is an InputError that lists
/// each violation with the nearest legal values.
Scenario read_scenario(const std::filesystem::path& file, const std::vector<Override>& overrides,
                       const DataFolders& data);

/// The "cluster" of a scenario alone; without a file, of what the overrides set.
ClusterSpec read_cluster_alone(const std::optional<std::filesystem::path>& file,
                               const std::vector<Override>& overrides, const DataFolders& data);

}  // namespace flopcast
