// flopcast calibrate: a profile from what a machine really does: its logs, a step that was
// measured, or, where it has GPUs, samples measured on them.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <set>

#include "scenarios/profile_regimes.h"
#include "scenarios/read_kernel_samples.h"
#include "scenarios/read_profile.h"
#include "scenarios/text_file.h"
#include "sim/errors.h"
#include "tools/calibrate_anchor.h"
#include "tools/calibrate_kernels.h"
#include "tools/collective_logs.h"
#include "tools/data_folders.h"
#include "tools/measure_machine.h"
#include "tools/output.h"
#include "tools/text_table.h"
#include "tools/verbs.h"

namespace flopcast {
namespace {

struct CalibrateOptions {
  AnchorCalibration anchor;
  KernelCalibration kernels;
  CollectiveLogOptions logs;
  std::optional<std::string> base;
  std::optional<std::string> output;
  MeasureMachineOptions measure;
};

std::string shape_text(GroupShape shape) {
  return fmt::format("{} x {}", shape.ranks_per_node, shape.nodes);
}

TextTable fit_table(const NetworkFit& fit) {
  TextTable out{.title = "Fit (errors against the log; fitted)",
                .columns = {{"log", Align::left},
                            {"collective", Align::left},
                            {"GPUs x nodes"},
                            {"rows"},
                            {"NCCL's constants, mean"},
                            {"fit, median"},
                            {"fit, 90 %"}},
                .rows = {}};
  out.rows.reserve(fit.tables.size() + 1);
  for (const TableFit& table : fit.tables) {
    out.rows.push_back({{std::filesystem::path(table.file).filename().string(),
                         std::string(to_text(table.kind)), shape_text(table.shape),
                         fmt::format("{}", table.after.rows), percent_text(table.before.mean),
                         percent_text(table.after.median), percent_text(table.after.p90)}});
  }
  out.rows.push_back({{"all", "", "", fmt::format("{}", fit.all_rows.rows), "",
                       percent_text(fit.all_rows.median), percent_text(fit.all_rows.p90)},
                      Tone::heading});
  return out;
}

std::string doubts_text(const std::vector<PlacedTable>& tables) {
  std::string text;
  for (const PlacedTable& placed : tables) {
    for (const std::string& note : placed.table.notes) {
      text += fmt::format("{}: {}\n", placed.table.file, note);
    }
    for (const DoubtfulRow& row : doubtful_rows(placed.table)) {
      text += fmt::format("{}:{}: {:.0f} bytes: {}\n", placed.table.file, row.line, row.size.value,
                          row.reason);
    }
  }
  return text.empty() ? "No row was left out.\n" : "Inferred and left out:\n" + text;
}

/// Groups that fill one node, and nodes up to four times those that were measured.
std::vector<GroupShape> unmeasured_shapes(const std::vector<PlacedTable>& tables,
                                          const System& system) {
  std::set<GroupShape> measured;
  int most_nodes = 1;
  for (const PlacedTable& placed : tables) {
    measured.insert(placed.shape);
    most_nodes = std::max(most_nodes, placed.shape.nodes);
  }
  std::vector<GroupShape> out;
  if (most_nodes == 1) {
    for (int ranks = 2; ranks <= domain_size(system); ranks *= 2) out.push_back({ranks, 1});
  } else {
    for (int nodes = 2; nodes <= 4 * most_nodes; nodes *= 2) {
      out.push_back({domain_size(system), nodes});
    }
  }
  std::erase_if(out, [&measured](GroupShape shape) { return measured.contains(shape); });
  return out;
}

TextTable predictions_table(const NetworkFit& fit, const std::vector<PlacedTable>& tables,
                            const CollectiveMachine& machine) {
  TextTable out{
      .title = "Predicted for shapes that were not measured (bus GB/s; fitted)",
      .columns = {{"collective", Align::left}, {"GPUs x nodes"}, {"1 MiB"}, {"64 MiB"}, {"1 GiB"}},
      .rows = {}};
  std::set<CollectiveKind> kinds;
  for (const PlacedTable& placed : tables) kinds.insert(placed.table.kind);
  Profile profile;
  profile.network = fit.model;
  for (const CollectiveKind kind : kinds) {
    for (const GroupShape shape : unmeasured_shapes(tables, machine.system)) {
      const NetworkPath path = path_on(machine, kind, shape);
      Row row{{std::string(to_text(kind)), shape_text(shape)}};
      for (const Bytes size : {mebibytes(1), mebibytes(64), gibibytes(1)}) {
        const CollectiveTime time = collective_time(profile, kind, size, shape, path);
        row.cells.push_back(
            fmt::format("{:.1f}", to_gigabytes_per_second(time.sent / time.total())));
      }
      out.rows.push_back(std::move(row));
    }
  }
  return out;
}

void write_profile(const CalibrateOptions& options, const System& system, const NetworkFit& fit,
                   const std::vector<PlacedTable>& tables) {
  const std::string file = profile_file(options.logs.data, options.base.value_or(system.gpu.name));
  Document::read(file);  // names the place where it is not JSON
  std::string sources;
  NetworkUpdate update{.name = std::filesystem::path(*options.output).stem().string(),
                       .regimes = *fit.model.regimes,
                       .curves = {}};
  for (const PlacedTable& placed : tables) {
    if (!sources.empty()) sources += ", ";
    sources += std::filesystem::path(placed.table.file).filename().string();
    const std::vector<CollectivePoint> points = clean_points(placed.table);
    if (!points.empty()) update.curves.push_back(measured_curve(placed, points));
  }
  update.regimes.provenance.source = "fit to " + sources;
  const std::string text = updated_profile(read_text_file(file, "a profile"), update);
  read_profile(Document::parse(text, *options.output));  // what is written can be read
  write_output(options.output, text);
}

/// Set where the files hold samples of kernels.
std::optional<KernelCalibration> kernel_calibration(const CalibrateOptions& options) {
  KernelCalibration kernels = options.kernels;
  for (const std::string& file : options.logs.files) {
    if (is_kernel_samples(file)) kernels.files.push_back(file);
  }
  if (kernels.files.empty()) return std::nullopt;
  if (kernels.files.size() < options.logs.files.size()) {
    throw InputError(
        "calibrate: give samples of kernels and logs of collectives in two runs, the "
        "second with --base of the first");
  }
  kernels.data = options.logs.data;
  kernels.base = options.base;
  kernels.output = options.output;
  return kernels;
}

/// Set where something was measured that the level has to meet.
std::optional<AnchorCalibration> anchor_calibration(const CalibrateOptions& options) {
  if (!options.anchor.wanted()) return std::nullopt;
  if (!options.logs.files.empty()) {
    throw InputError("calibrate: give --from first, then --anchor with --base of what it wrote");
  }
  AnchorCalibration anchor = options.anchor;
  anchor.data = options.logs.data;
  anchor.base = options.base;
  anchor.output = options.output;
  return anchor;
}

ExitCode calibrate_network(const CalibrateOptions& options) {
  const CollectiveMachine machine = read_machine(options.logs);
  const std::vector<PlacedTable> tables = placed_tables(options.logs, machine);
  const NetworkFit fit = fit_network(tables, machine.prior());
  if (options.output) write_profile(options, machine.system, fit, tables);
  const bool colour = terminal_shows_colour();
  std::string text = aligned_text(fit_table(fit), colour) + "\n" + doubts_text(tables) + "\n" +
                     aligned_text(predictions_table(fit, tables, machine), colour);
  if (options.output) text += fmt::format("\nwritten: {}\n", *options.output);
  write_output(std::nullopt, text);
  return ExitCode::passed;
}

/// Kernels of the samples; then, where the machine is named, their collectives on top.
ExitCode calibrate_samples(const CalibrateOptions& options, const KernelCalibration& kernels) {
  const bool collectives = options.logs.system && !read_logs(options.logs).empty();
  calibrate_kernels(kernels);
  if (!collectives) return ExitCode::passed;
  CalibrateOptions network = options;
  if (options.output) network.base = options.output;
  write_output(std::nullopt, "\n");
  return calibrate_network(network);
}

ExitCode calibrate(const CalibrateOptions& options) {
  if (const auto anchor = anchor_calibration(options)) return calibrate_anchor(*anchor);
  if (options.logs.files.empty()) return measure_machine(options.measure);
  if (const auto kernels = kernel_calibration(options)) return calibrate_samples(options, *kernels);
  return calibrate_network(options);
}

}  // namespace

Verb add_calibrate_verb(CLI::App& app) {
  const auto options = std::make_shared<CalibrateOptions>();  // shared by the parser and the action
  CLI::App* verb = app.add_subcommand(
      "calibrate", "Measure the GPUs here, or fit a profile to a machine's own logs");
  verb->add_option("--from", options->logs.files,
                   "nccl-tests or rccl-tests logs, or samples of kernels")
      ->type_name("LOG...");
  add_collective_log_options(*verb, options->logs);
  add_kernel_options(*verb, options->kernels);
  add_anchor_options(*verb, options->anchor);
  verb->add_option("--base", options->base,
                   "Profile that the fit is put into: a name or a file; else that of the GPU")
      ->type_name("PROFILE");
  verb->add_option("-o,--output", options->output, "Write the profile to a file")
      ->type_name("FILE");
  add_measure_options(*verb, options->measure);
  return {verb, [options] { return calibrate(*options); }};
}

}  // namespace flopcast
