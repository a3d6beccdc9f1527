#pragma once

// A timeline as a Chrome trace, which ui.perfetto.dev and chrome://tracing open: ranks are
// processes, streams are threads, memory and link use are counters.
// Format: "Trace Event Format", Google, 2016.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sim/timeline.h"
#include "sim/workload.h"
#include "tools/trace_file.h"

namespace flopcast {

/// Writes event by event while the engine runs, through a buffer of a MiB, compressed where the
/// name ends in ".gz". Every call throws IoError with the file and the reason where it cannot be
/// written.
///
/// The time in which an op waits for other ranks is a slice "wait: <op>" of its own before the
/// op's. Times are whole nanoseconds, rounded down, so that slices of one thread never overlap in a
/// viewer.
class ChromeTrace : public TimelineSink {
 public:
  /// `workload` names ranks, streams and ops; it must outlive the trace.
  ChromeTrace(const std::filesystem::path& file, const Workload& workload);

  void add(const Span& span) override;
  void add(const MemorySample& sample) override;
  void add(const LinkSample& sample) override;
  /// Must be called at the end: only then is the file whole.
  void close();

 private:
  std::size_t link_process() const { return workload_.ranks.size() + 1; }
  void write_event(std::string_view event);
  void write_process(std::size_t process, std::string_view name);
  void write_names();
  void write_slice(const Span& span, SimTime from, SimTime to, std::string_view name);
  void write_counter(std::size_t process, SimTime at, std::string_view name, std::string_view unit,
                     double value);

  TraceFile file_;
  const Workload& workload_;
  std::vector<std::string> labels_;
  std::vector<std::string> wait_labels_;
  std::vector<std::string> categories_;
  bool first_ = true;
  bool links_named_ = false;
};

}  // namespace flopcast
