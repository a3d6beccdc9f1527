#pragma once

// The loop over a plan: what is in the record already is left out, the time that is left is shared
// among the cases to come, every result is written down at once.

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <variant>

#include "kernels/measurement.h"
#include "kernels/measurement_case.h"
#include "kernels/record.h"
#include "kernels/sampling.h"
#include "sim/units.h"

namespace flopcast {

/// The machine to be measured, or a stand-in.
class Measurer {
 public:
  Measurer() = default;
  Measurer(const Measurer&) = delete;
  Measurer& operator=(const Measurer&) = delete;
  virtual ~Measurer() = default;

  /// A failure is the case's alone: the next one is tried. Throws DeviceError where the device is
  /// lost.
  virtual std::variant<Measurement, CaseFailure> measure(const MeasurementCase& wanted,
                                                         const StopRule& rule) = 0;
  /// What the first rank says, on every rank of the job: all take the same turns.
  virtual bool agree(bool first_rank_says) = 0;
  /// Since any fixed moment.
  virtual Seconds now() = 0;
  /// Time of day in UTC, "2026-01-31T23:59:59Z".
  virtual std::string time_of_day() = 0;
};

struct MeasureProgress {
  std::size_t done = 0;  // cases, those of an earlier run included
  std::size_t total = 0;
  Seconds remaining;    // no more than the budget allows
  std::string current;  // key of the case that comes next; empty at the end
};
using ProgressCallback = std::function<void(const MeasureProgress&)>;

struct MeasureSummary {
  std::size_t measured = 0;
  std::size_t resumed = 0;  // were in the record
  std::size_t failed = 0;
  std::size_t left = 0;  // for which no time was left
  Seconds spent;
};

/// Wall time for one case: an equal share of the time left, at least 0.1 s and at most 10 s. What a
/// case leaves over goes to those after it.
Seconds case_budget(Seconds left, std::size_t cases_left);

/// `record` is nothing on all ranks but the first.
MeasureSummary run_plan(std::span<const MeasurementCase> plan, Measurer& measurer, Record* record,
                        Seconds budget, const ProgressCallback& progress);

}  // namespace flopcast
