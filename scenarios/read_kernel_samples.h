#pragma once

// Kernel times from files: records of `flopcast calibrate` (kernels/README.md has their columns)
// and CSV tables (calibration/README.md has theirs).

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "calibration/kernel_samples.h"

namespace flopcast {

/// `column=value`.
struct SampleCondition {
  std::string column;
  std::string value;
};

struct SampleReading {
  /// Rows are kept where each column is the value, or starts with it and a blank ("trtllm" keeps
  /// "trtllm 1.3.0"). Rows without the column are kept.
  std::vector<SampleCondition> where;
  /// Columns that the files lack.
  std::vector<SampleCondition> assume;
};

struct KernelSampleFiles {
  std::vector<KernelSamples> gpus;              // by the name that the rows give
  std::map<std::string, std::size_t> left_out;  // rows by reason
};

/// "column=value". Throws InputError.
SampleCondition sample_condition(const std::string& text);

bool is_kernel_samples(const std::filesystem::path& file);

/// Throws InputError, with the place, on what is no number, out of range or of no known table.
KernelSampleFiles read_kernel_samples(std::span<const std::filesystem::path> files,
                                      const SampleReading& reading);

}  // namespace flopcast
