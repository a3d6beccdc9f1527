#pragma once

// Measures this machine: what `flopcast calibrate` calls.

#include <filesystem>

#include "kernels/plan.h"
#include "kernels/run_plan.h"

namespace flopcast {

struct MeasureOptions {
  Effort effort = Effort::standard;
  /// Started where it is not there, continued where it is.
  std::filesystem::path record = "flopcast-samples.jsonl";
  ProgressCallback progress;  // called on the first rank alone
};

/// Kernels on GPU 0, collectives over all GPUs of this process, or over one GPU per process where a
/// launcher started several (rank_place.h). Throws DeviceError where this build has no CUDA, where
/// there is no GPU and where one is lost; InputError and IoError of the record.
MeasureSummary measure(const MeasureOptions& options);

}  // namespace flopcast
