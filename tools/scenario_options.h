#pragma once

// The options by which a verb is given scenarios.

#include <optional>
#include <string>
#include <vector>

#include "scenarios/batch.h"
#include "scenarios/scenario.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11 is called so
class App;
}

namespace flopcast {

struct ScenarioOptions {
  std::vector<std::string> files;
  std::vector<std::string> settings;  // "parallel.tp=4"
  std::optional<std::string> data;
  std::string only = "*";  // names of scenarios
  std::size_t jobs = 0;    // 0: one per core
};

/// FILE..., --set, --data. `options` must outlive the parsing.
void add_scenario_options(CLI::App& verb, ScenarioOptions& options);

/// --only, --jobs: of verbs that take any number of scenarios, in files, tables and folders.
void add_batch_options(CLI::App& verb, ScenarioOptions& options);

/// "parallel.tp=4" as path and value. Throws InputError without a "=" or a path.
Override read_override(const std::string& setting);

/// What to answer. Throws InputError where --set is none.
BatchQuestion batch_question(const ScenarioOptions& options);

/// All files, read and checked before the first is run.
std::vector<Scenario> read_scenarios(const ScenarioOptions& options);

}  // namespace flopcast
