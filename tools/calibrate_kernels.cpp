#include "tools/calibrate_kernels.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "scenarios/nearest.h"
#include "scenarios/profile_kernels.h"
#include "scenarios/read_kernel_samples.h"
#include "scenarios/read_profile.h"
#include "scenarios/text_file.h"
#include "sim/errors.h"
#include "tools/data_folders.h"
#include "tools/kernel_plot.h"
#include "tools/kernel_report.h"
#include "tools/output.h"

namespace flopcast {
namespace {

SampleReading reading_of(const KernelCalibration& options) {
  SampleReading reading;
  for (const std::string& text : options.where) reading.where.push_back(sample_condition(text));
  for (const std::string& text : options.assume) reading.assume.push_back(sample_condition(text));
  return reading;
}

const KernelSamples& only_gpu(const KernelSampleFiles& read) {
  if (read.gpus.empty()) throw InputError("calibrate: no row meets the conditions of --where");
  if (read.gpus.size() == 1) return read.gpus.front();
  std::vector<std::string> names;
  names.reserve(read.gpus.size());
  for (const KernelSamples& samples : read.gpus) names.push_back(samples.gpu);
  throw InputError(
      fmt::format("calibrate: samples of several GPUs; choose with --where gpu=NAME (one of: {})",
                  fmt::join(names, ", ")));
}

std::string left_out_text(const KernelSampleFiles& read, const KernelFits& fits) {
  std::string text;
  for (const auto& [reason, rows] : read.left_out)
    text += fmt::format("{} rows: {}\n", rows, reason);
  for (const std::string& group : fits.left_out) text += group + "\n";
  return text.empty() ? "No row was left out.\n" : "Left out:\n" + text;
}

}  // namespace

void add_kernel_options(CLI::App& verb, KernelCalibration& options) {
  verb.add_option("--where", options.where,
                  "Samples: rows whose column is the value, or begins with it and a blank")
      ->type_name("COLUMN=VALUE");
  verb.add_option("--assume", options.assume, "Samples: a column that the files lack")
      ->type_name("COLUMN=VALUE");
  verb.add_option("--json", options.json, "Samples: write the fit report to a file")
      ->type_name("FILE");
  verb.add_option("--plot", options.plot, "Samples: draw measured against fitted times, as SVG")
      ->type_name("FILE");
}

std::string profile_file(const std::optional<std::string>& data, const std::string& name) {
  namespace fs = std::filesystem;
  if (fs::is_regular_file(name)) return name;
  const fs::path folder = find_data_folders(data).profiles;
  const fs::path file = folder / (name + ".json");
  if (fs::is_regular_file(file)) return file.string();
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  const std::vector<std::string_view> known(names.begin(), names.end());
  throw InputError(fmt::format("no profile \"{}\" is shipped, nor is it a file{} (one of: {})",
                               name, did_you_mean(name, known), fmt::join(names, ", ")));
}

ExitCode calibrate_kernels(const KernelCalibration& options) {
  if (!options.base) {
    throw InputError(
        "calibrate: samples need --base PROFILE: peaks, bandwidth and what is not fitted");
  }
  const std::string base = profile_file(options.data, *options.base);
  const Profile machine = read_profile(Document::read(base));
  const std::vector<std::filesystem::path> files(options.files.begin(), options.files.end());
  const KernelSampleFiles read = read_kernel_samples(files, reading_of(options));
  const KernelFits fits = fit_kernels(only_gpu(read), machine, {});
  if (fits.rows.empty() && !fits.jitter && !fits.shares) {
    throw InputError("calibrate: no kernel has samples enough\n" + left_out_text(read, fits));
  }
  if (options.output) {
    const std::string name = std::filesystem::path(*options.output).stem().string();
    const std::string text = profile_with_kernels(read_text_file(base, "a profile"), name, fits);
    read_profile(Document::parse(text, *options.output));  // what is written can be read
    write_output(options.output, text);
  }
  if (options.json) write_output(options.json, kernel_fits_json(fits));
  if (options.plot) write_output(options.plot, kernel_plots_svg(fits.rows));
  const bool colour = terminal_shows_colour();
  std::string text;
  if (!fits.rows.empty()) {
    text = aligned_text(kernel_errors_table(fits), colour) + "\n" +
           aligned_text(kernel_parameters_table(fits), colour) + "\n";
  }
  text += disturbance_text(fits) + left_out_text(read, fits);
  if (options.output) text += fmt::format("\nwritten: {}\n", *options.output);
  write_output(std::nullopt, text);
  return ExitCode::passed;
}

}  // namespace flopcast
