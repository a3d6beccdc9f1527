#include "tools/measure_machine.h"

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "kernels/measure.h"
#include "kernels/rank_place.h"
#include "sim/errors.h"
#include "tools/output.h"

namespace flopcast {
namespace {

Effort effort(const MeasureMachineOptions& options) {
  return options.quick ? Effort::quick : options.full ? Effort::full : Effort::standard;
}

// One line, written over. Nothing where no person watches.
void show_progress(const MeasureProgress& progress) {
  if (isatty(STDERR_FILENO) == 0) return;
  fmt::print(stderr, "\r\x1b[K{}",
             progress.current.empty()
                 ? std::string()
                 : fmt::format("{} of {}, {:.0f} s left: {:.70}", progress.done, progress.total,
                               progress.remaining.value, progress.current));
  std::fflush(stderr);
}

/// Where nothing can be measured the error names what can be done instead.
MeasureSummary measure_or_say(const MeasureMachineOptions& options) {
  try {
    return measure(
        {.effort = effort(options), .record = options.samples, .progress = show_progress});
  } catch (const DeviceError& error) {
    throw DeviceError(fmt::format("calibrate: {}; give --from LOG... to fit logs", error.what()));
  }
}

}  // namespace

void add_measure_options(CLI::App& verb, MeasureMachineOptions& options) {
  CLI::Option* quick = verb.add_flag("--quick", options.quick, "Measure for 2 minutes, not 10");
  verb.add_flag("--full", options.full, "Measure for up to an hour")->excludes(quick);
  verb.add_option("--samples", options.samples,
                  "Record of all samples; continued where it is there")
      ->type_name("FILE")
      ->capture_default_str();
}

ExitCode measure_machine(const MeasureMachineOptions& options) {
  const MeasureSummary summary = measure_or_say(options);
  if (!is_first_rank()) return ExitCode::passed;
  write_output(std::nullopt,
               fmt::format("{}: {} cases measured in {}, {} there before, {} failed, {} left for "
                           "another run\n",
                           options.samples, summary.measured, to_text(summary.spent),
                           summary.resumed, summary.failed, summary.left));
  return ExitCode::passed;
}

}  // namespace flopcast
