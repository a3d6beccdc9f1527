#pragma once

// Many scenarios answered side by side, each for itself: one that is wrong never takes the others
// down.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "models/step_report.h"
#include "scenarios/expectation.h"
#include "scenarios/scenario.h"
#include "sim/units.h"

namespace flopcast {

enum class Outcome : std::uint8_t {
  passed,
  allowed,      // an expectation failed that may
  failed,       // an expectation failed
  unsupported,  // not simulated yet: `problem` says what
  wrong,        // the file: `problem` says where
  broken,       // not the user's mistake
};

/// One scenario of a batch and what became of it.
struct Trial {
  std::string name;
  std::string file;  // as given, or found in a folder that was given
  Outcome outcome = Outcome::wrong;
  std::string problem;  // where there is no answer
  Scenario scenario;    // of its profile the name alone
  StepReport report;
  std::vector<ExpectationResult> expectations;
  Seconds took;  // of the wall's clock
};

struct BatchQuestion {
  std::vector<std::filesystem::path> paths;  // scenarios, tables of them, folders of both
  std::string only = "*";                    // names to be answered, with * ? [abc]
  std::vector<Override> overrides{};
  std::size_t threads = 0;  // 0: one per core
  std::size_t sample = 0;   // of each file at most so many, by a hash; 0: all
};

/// In the order of the paths, of the files of a folder by name (folders below it too) and of the
/// rows of a table, for any number of threads.
std::vector<Trial> run_batch(const BatchQuestion& question, const DataFolders& data);

}  // namespace flopcast
