#pragma once

// What `flopcast` can do: one verb, one file.

#include <cstdint>
#include <functional>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11 is called so
class App;
}

namespace flopcast {

enum class ExitCode : std::uint8_t {
  passed = 0,
  failed = 1,       // an expectation, or what `check` asks
  wrong_input = 2,  // file or command line
  machine = 3,      // cannot write, no GPU
};

struct Verb {
  CLI::App* options;  // owned by the app that it was added to
  std::function<ExitCode()> act;
};

Verb add_run_verb(CLI::App& app);
Verb add_check_verb(CLI::App& app);
Verb add_calibrate_verb(CLI::App& app);
Verb add_import_verb(CLI::App& app);
Verb add_validate_verb(CLI::App& app);
Verb add_profile_verb(CLI::App& app);
Verb add_batch_verb(CLI::App& app);
Verb add_topology_verb(CLI::App& app);
Verb add_validate_verb(CLI::App& app);

}  // namespace flopcast
