#pragma once

// `flopcast calibrate` without logs: measures the GPUs that are here.

#include <string>

#include "kernels/plan.h"
#include "tools/verbs.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11 is called so
class App;
}

namespace flopcast {

struct MeasureMachineOptions {
  bool quick = false;
  bool full = false;
  std::string samples = "flopcast-samples.jsonl";
};

/// --quick, --full and --samples.
void add_measure_options(CLI::App& verb, MeasureMachineOptions& options);

/// Measures, with progress on a terminal, and says what is in the record. Throws DeviceError where
/// this build or this machine cannot measure.
ExitCode measure_machine(const MeasureMachineOptions& options);

}  // namespace flopcast
