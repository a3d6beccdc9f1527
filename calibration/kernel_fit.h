#pragma once

// Fits the kernel curves of a profile (profile.h has their forms) to samples of one GPU: soft-L1
// least squares of the logarithm of predicted over measured time, on three of four samples; the
// others judge the fit. Bands by the bootstrap (Efron 1979): fits to samples drawn with
// replacement, the 5th and 95th percentile of each parameter.

#include <optional>
#include <string>
#include <vector>

#include "calibration/collective_fit.h"
#include "calibration/kernel_disturbance.h"
#include "calibration/kernel_samples.h"
#include "calibration/profile.h"

namespace flopcast {

/// A number of a curve as it was fitted.
struct FittedParameter {
  std::string name;  // with its unit, where it has one
  double value = 0;
  double low = 0;  // 90 % band; both 0 without a bootstrap
  double high = 0;
};

/// A sample and what the fit makes of it.
struct FittedPoint {
  Seconds measured;
  Seconds fitted;
  bool held_back = false;
};

/// How well one curve does.
struct KernelFitRow {
  std::string op;  // "gemm bf16", "attention forward 128"
  ErrorSummary fitted;
  ErrorSummary held_back;
  std::optional<ErrorSummary> before;  // the profile as it was, on the rows held back
  std::vector<FittedParameter> parameters;
  std::vector<FittedPoint> points;  // every sample of the sizes that are fitted
};

struct KernelFits {
  std::array<std::optional<GemmCurve>, kDataTypes.size()> gemm;
  std::vector<AttentionCurve> attention;
  std::array<std::optional<MemoryCurve>, kMemoryKernels> memory;
  std::vector<KernelFitRow> rows;
  std::optional<JitterFit> jitter;
  std::optional<ShareFit> shares;
  std::vector<std::string> left_out;  // groups of samples too few to fit, and why
};

struct KernelFitOptions {
  int bootstraps = 20;
  bool gemm = true;  // the slow ones: seconds per data type
};

/// `machine` gives peaks, SMs and bandwidth, and the curves that are compared with (`before`). Its
/// level does not count: samples are short runs. Only samples of the sizes that training uses are
/// fitted: GEMMs with m, n, k >= 512 and more than 2e10 FLOP, attention over 1024 tokens or more
/// and 32 heads or more in the batch, memory kernels that move 150 MB or more (above any L2
/// cache), expert layers of 1024 tokens or more.
KernelFits fit_kernels(const KernelSamples& samples, const Profile& machine,
                       const KernelFitOptions& options);

/// The profile's own curves on the samples that a fit holds back, `before` alone filled in.
std::vector<KernelFitRow> judge_kernels(const KernelSamples& samples, const Profile& profile);

}  // namespace flopcast
