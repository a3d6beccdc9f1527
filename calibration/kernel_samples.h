#pragma once

// Timed kernels, as a fit takes them: what each computed and how long it took. Read from records
// of `flopcast calibrate` and from CSV tables by scenarios/read_kernel_samples.h.

#include <string>
#include <vector>

#include "calibration/expert_layer.h"
#include "calibration/profile.h"

namespace flopcast {

struct GemmSample {
  DataType type{};
  GemmShape shape;
  Bytes quantise_traffic;  // per element of A, of quantising kernels timed with the product
  Seconds time;
};

struct AttentionSample {
  AttentionPass pass{};
  AttentionShape shape;
  Seconds time;
  Bytes cached{};  // traffic of a copy of keys and values into a cache, timed with it
};

struct MemoryKernelSample {
  MemoryKernel kernel{};
  Bytes moved;
  Seconds time;
};

struct ExpertSample {
  DataType type{};
  ExpertLayerShape shape;
  Seconds time;
};

/// One kernel, run again and again with nothing else on the GPU.
struct RepeatedSample {
  std::string kernel;          // as the record names the case
  std::vector<Seconds> times;  // those that count, in order
};

/// A kernel on its own and while a collective ran all the time.
struct BesideSample {
  std::string kernel;  // as the record names the case
  bool across_domains = false;
  Seconds alone;
  Seconds beside;
};

/// Of one GPU.
struct KernelSamples {
  std::string gpu;     // as the source names it; empty if it does not
  std::string source;  // where the times are from
  std::vector<GemmSample> gemm;
  std::vector<AttentionSample> attention;
  std::vector<MemoryKernelSample> memory;
  std::vector<ExpertSample> experts;
  std::vector<RepeatedSample> repeated;
  std::vector<BesideSample> beside;
};

/// Whether a sample is kept out of the fit to judge it: one in four, by a hash of what was
/// computed, so that repetitions of one shape never stand on both sides.
bool held_back(const GemmSample& sample);
bool held_back(const AttentionSample& sample);
bool held_back(const MemoryKernelSample& sample);
bool held_back(const ExpertSample& sample);

}  // namespace flopcast
