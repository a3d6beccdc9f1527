#pragma once

// The part of `flopcast calibrate` that fits kernel curves to samples.

#include <optional>
#include <string>
#include <vector>

#include "tools/verbs.h"

namespace flopcast {

struct KernelCalibration {
  std::vector<std::string> files;
  std::vector<std::string> where;   // column=value
  std::vector<std::string> assume;  // column=value
  std::optional<std::string> data;
  std::optional<std::string> base;  // a name or a file
  std::optional<std::string> output;
  std::optional<std::string> json;  // the fit report
  std::optional<std::string> plot;  // measured against fitted
};

/// --where, --assume, --json and --plot.
void add_kernel_options(CLI::App& verb, KernelCalibration& options);

/// The file of a profile that is a shipped name or a file. Throws InputError.
std::string profile_file(const std::optional<std::string>& data, const std::string& name);

/// Throws InputError where the samples are of several GPUs or none can be fitted.
ExitCode calibrate_kernels(const KernelCalibration& options);

}  // namespace flopcast
