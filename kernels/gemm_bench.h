#pragma once

// Measures a GEMM through cuBLASLt, or several of a shape through cuBLAS's grouped call. Only for
// sources of this folder.

#include <cstdint>
#include <memory>

#include "kernels/bench.h"
#include "kernels/measurement_case.h"

namespace flopcast {

/// Operands of random values, and the call. cuBLASLt's first suggestion is taken, as frameworks do,
/// with 64 MiB of workspace.
class GemmWork {
 public:
  /// Throws DeviceError where the library has no such GEMM on this GPU.
  GemmWork(const GemmCase& gemm, cudaStream_t stream);
  ~GemmWork();
  GemmWork(const GemmWork&) = delete;
  GemmWork& operator=(const GemmWork&) = delete;

  void launch() const;
  /// After the first launch, of 64 elements spread over C.
  double error_over_tolerance() const;

 private:
  struct Call;
  struct LtCall;
  struct GroupedCall;
  GemmCase gemm_;
  cudaStream_t stream_;
  DeviceMemory a_;
  DeviceMemory b_;
  DeviceMemory c_;
  DeviceMemory workspace_;
  std::unique_ptr<Call> call_;
};

/// Throws DeviceError where it computes the wrong thing.
Measurement measure_gemm(Bench& bench, const GemmCase& gemm, const StopRule& rule);

/// "13.1.0" of cuBLAS.
std::string cublas_version();

}  // namespace flopcast
