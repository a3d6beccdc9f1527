#include "tools/validate_kernels.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "scenarios/read_kernel_samples.h"
#include "scenarios/read_profile.h"
#include "tools/data_folders.h"
#include "tools/kernel_plot.h"
#include "tools/kernel_report.h"
#include "tools/output.h"

namespace flopcast {
namespace {

struct KernelOptions {
  std::optional<std::string> data;
  std::optional<std::string> output;
  std::vector<std::string> gpus;
  std::optional<std::string> plot;
  bool markdown = false;
};

KernelSampleFiles recorded_samples(const DataFolders& folders, const KernelOptions& options) {
  std::vector<std::filesystem::path> files;
  for (const std::string_view name : {"gemm", "attention", "memory", "experts"}) {
    files.push_back(folders.measured / "kernels" / fmt::format("{}.csv", name));
  }
  KernelSampleFiles read = read_kernel_samples(files, {});
  if (!options.gpus.empty()) {
    std::erase_if(read.gpus, [&options](const KernelSamples& samples) {
      return std::find(options.gpus.begin(), options.gpus.end(), samples.gpu) == options.gpus.end();
    });
  }
  return read;
}

void add_row(TextTable& table, const std::string& gpu, const KernelFitRow& row) {
  table.rows.push_back(
      {{gpu, row.op, fmt::format("{}", row.fitted.rows), fmt::format("{}", row.held_back.rows),
        error_text(row.held_back), row.before ? error_text(*row.before) : ""}});
}

ExitCode validate(const KernelOptions& options) {
  const DataFolders folders = find_data_folders(options.data);
  TextTable table{.title = "Kernel times that no fit saw: errors, median / 90 %, % (fitted)",
                  .columns = {{"GPU", Align::left},
                              {"kernel", Align::left},
                              {"rows fitted"},
                              {"rows judged"},
                              {"fitted here"},
                              {"shipped profile"}},
                  .rows = {}};
  const KernelSampleFiles read = recorded_samples(folders, options);
  const bool terminal = isatty(STDERR_FILENO) != 0;
  std::vector<KernelFitRow> drawn;
  for (const KernelSamples& samples : read.gpus) {
    const auto file = folders.profiles / (samples.gpu + ".json");
    if (!std::filesystem::exists(file)) continue;
    if (terminal) fmt::print(stderr, "fitting {}\n", samples.gpu);
    const Profile profile = read_profile(Document::read(file));
    for (KernelFitRow& row : fit_kernels(samples, profile, {.bootstraps = 0}).rows) {
      add_row(table, samples.gpu, row);
      row.op = samples.gpu + " " + row.op;
      drawn.push_back(std::move(row));
    }
  }
  if (options.plot) write_output(options.plot, kernel_plots_svg(drawn));
  const bool colour = !options.output && terminal_shows_colour();
  write_output(options.output,
               options.markdown ? markdown_text(table) : aligned_text(table, colour));
  return ExitCode::passed;
}

}  // namespace

Verb add_validate_kernels(CLI::App& validate_verb) {
  const auto options = std::make_shared<KernelOptions>();  // shared by the parser and the action
  CLI::App* verb = validate_verb.add_subcommand(
      "kernels", "The kernel curves against published kernel times: fits them, judges both");
  verb->add_option("--gpu", options->gpus, "These GPUs alone")->type_name("NAME...");
  verb->add_option("--data", options->data, "Folder with catalogue/, profiles/ and measured data")
      ->type_name("DIR");
  verb->add_option("--plot", options->plot, "Draw measured against fitted times, as SVG")
      ->type_name("FILE");
  verb->add_flag("--md", options->markdown, "Write Markdown");
  verb->add_option("-o,--output", options->output, "Write to a file")->type_name("FILE");
  return {verb, [options] { return validate(*options); }};
}

}  // namespace flopcast
