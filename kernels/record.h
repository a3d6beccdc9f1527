#pragma once

// The file of all samples: JSON lines, appended to and flushed one case at a time, so that a run
// that was stopped goes on where it was. README.md documents its columns.

#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/measurement.h"
#include "kernels/measurement_case.h"

namespace flopcast {

/// Names and values of what the samples depend on: GPU, driver, libraries.
using RecordEnvironment = std::vector<std::pair<std::string, std::string>>;

/// The first line of a record, without its end.
std::string environment_line(const RecordEnvironment& environment);

/// The line of a measured case, without its end. `at` is the time of day in UTC.
std::string measurement_line(const MeasurementCase& measured, const Measurement& measurement,
                             const std::string& at);

/// The line of a case that gave nothing.
std::string failure_line(const MeasurementCase& failed, const CaseFailure& failure,
                         const std::string& at);

class Record {
 public:
  /// Opens or starts the file. A last line without its end, as a killed run leaves it, is cut off.
  /// Throws InputError where the file is another environment's or no record, IoError where it
  /// cannot be read or written.
  Record(std::filesystem::path file, const RecordEnvironment& environment);

  /// Whether this case was measured already. Cases that failed are tried again.
  bool has(const MeasurementCase& measured) const { return done_.contains(key(measured)); }

  /// Appends one line and flushes it. Throws IoError.
  void append(const std::string& line);

 private:
  std::filesystem::path file_;
  std::set<std::string> done_;  // keys
};

}  // namespace flopcast
