#pragma once

// How a kernel's time varies when it is repeated, and how much longer it takes beside a collective:
// the jitter and the shares of a profile, from a record's own measurements of them.

#include <cstddef>
#include <optional>
#include <string>

#include "calibration/kernel_samples.h"
#include "calibration/profile.h"

namespace flopcast {

/// How kernels that were repeated vary.
struct JitterFit {
  KernelSpread spread;  // over all of them, each about its own mean
  double least = 0;     // of one kernel
  double most = 0;
  std::size_t kernels = 0;
  std::size_t runs = 0;
};

/// Of kernels with two counted runs or more; nothing where there is none. The deviation of the
/// logarithm of a kernel's times about their mean, squares added up over kernels.
std::optional<JitterFit> fit_jitter(const KernelSamples& samples);

/// Part of the SMs that collectives take from kernels: 1 - time alone / time beside, the median of
/// the kernels measured.
struct ShareFit {
  std::optional<double> domain;   // inside one domain
  std::optional<double> network;  // across
  std::size_t kernels = 0;
  std::string source;
};

/// Nothing where no kernel was timed both alone and beside a collective.
std::optional<ShareFit> fit_shares(const KernelSamples& samples);

}  // namespace flopcast
