#pragma once

// The measurer of a real GPU: hands each case to the bench of its kind. Only for sources of this
// folder.

#include <optional>

#include "kernels/bench.h"
#include "kernels/collective_bench.h"
#include "kernels/run_plan.h"

namespace flopcast {

class GpuMeasurer : public Measurer {
 public:
  /// `ranks` may be nothing where one GPU is measured by itself. Ranks of other processes than the
  /// first measure what takes all of them, and leave the rest to the first.
  GpuMeasurer(int device, Ranks* ranks, bool first)
      : bench_(device), ranks_(ranks), first_(first) {}

  std::variant<Measurement, CaseFailure> measure(const MeasurementCase& wanted,
                                                 const StopRule& rule) override;
  bool agree(bool first_rank_says) override;
  Seconds now() override;
  std::string time_of_day() override;

  bool has_nvml() const { return bench_.has_nvml(); }

 private:
  Bench bench_;
  Ranks* ranks_;
  bool first_;
};

}  // namespace flopcast
