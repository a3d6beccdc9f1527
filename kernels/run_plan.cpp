#include "kernels/run_plan.h"

#include <algorithm>

namespace flopcast {
namespace {

// Writes what came of a case, and counts it.
struct Writer {
  const MeasurementCase& wanted;
  Record* record;
  std::string at;
  MeasureSummary& summary;

  void operator()(const Measurement& measurement) const {
    ++summary.measured;
    if (record != nullptr) record->append(measurement_line(wanted, measurement, at));
  }
  void operator()(const CaseFailure& failure) const {
    ++summary.failed;
    if (record != nullptr) record->append(failure_line(wanted, failure, at));
  }
};

}  // namespace

Seconds case_budget(Seconds left, std::size_t cases_left) {
  const double cases = static_cast<double>(std::max<std::size_t>(cases_left, 1));
  return std::clamp(left / cases, seconds(0.1), seconds(10));
}

MeasureSummary run_plan(std::span<const MeasurementCase> plan, Measurer& measurer, Record* record,
                        Seconds budget, const ProgressCallback& progress) {
  MeasureSummary summary;
  std::vector<const MeasurementCase*> wanted;
  wanted.reserve(plan.size());
  for (const MeasurementCase& one : plan) {
    const bool there = measurer.agree(record != nullptr && record->has(one));
    if (!there) wanted.push_back(&one);
  }
  summary.resumed = plan.size() - wanted.size();

  const Seconds begin = measurer.now();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    summary.spent = measurer.now() - begin;
    const Seconds left = budget - summary.spent;
    if (measurer.agree(left <= seconds(0))) {
      summary.left = wanted.size() - i;
      break;
    }
    // The pace so far, once there is one; the budget is never overrun by more than a case.
    const Seconds at_this_pace =
        i == 0 ? left : summary.spent * (static_cast<double>(wanted.size() - i) / double(i));
    if (progress) {
      progress({summary.resumed + i, plan.size(), std::min(left, at_this_pace), key(*wanted[i])});
    }
    const StopRule rule{.budget = case_budget(left, wanted.size() - i)};
    std::visit(Writer{*wanted[i], record, measurer.time_of_day(), summary},
               measurer.measure(*wanted[i], rule));
  }
  summary.spent = measurer.now() - begin;
  if (progress) progress({plan.size() - summary.left, plan.size(), {}, {}});
  return summary;
}

}  // namespace flopcast
