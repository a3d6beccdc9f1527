#pragma once

// The search behind fit_network: scales of all regimes of one kind in one scope. Internal.

#include <vector>

#include "calibration/regimes.h"

namespace flopcast {

/// A measured time and the regimes that NCCL had to choose from.
struct FitRow {
  double log_time = 0;
  double weight = 0;  // rows of a table together weigh 1
  RegimeList open{};
  bool through_host = false;  // one node, whose GPUs have only PCIe
};

/// `rows` are of one machine. Starts from the scales that `prior` has, fitted or not.
std::vector<FittedRegime> fit_regimes(const std::vector<FitRow>& rows, const ProtocolRegimes& prior,
                                      CollectiveKind kind, RegimeScope scope);

}  // namespace flopcast
