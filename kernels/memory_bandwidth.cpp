#include "kernels/memory_bandwidth.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "kernels/cuda_call.h"
#include "kernels/memory_kernels.h"
#include "kernels/sampling.h"
#include "sim/errors.h"

namespace flopcast {
namespace {

constexpr int kWarmUps = 3;
constexpr std::size_t kLeastSamples = 10;

// Exact in 32-bit floats, so that the check is for equality.
constexpr float kB = 3;
constexpr float kC = 5;
constexpr float kScale = 2;

int arrays(MemoryPattern pattern) {
  switch (pattern) {
    case MemoryPattern::copy: return 2;
    case MemoryPattern::triad: return 3;
  }
  return 0;
}

std::size_t l2_cache_size(int device) {
  int size = 0;
  check_cuda(cudaDeviceGetAttribute(&size, cudaDevAttrL2CacheSize, device),
             "cudaDeviceGetAttribute(L2CacheSize)");
  return static_cast<std::size_t>(size);
}

// Whole blocks, and at most half of the free memory for all arrays together.
std::size_t array_size(const MemoryBandwidthOptions& options) {
  std::size_t free = 0;
  std::size_t total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  const std::size_t most = free / 2 / static_cast<std::size_t>(arrays(options.pattern));
  const std::size_t size = std::min(static_cast<std::size_t>(options.array.value), most);
  if (size < kBlockBytes) throw DeviceError("cudaMemGetInfo: too little free memory to measure");
  return size / kBlockBytes * kBlockBytes;
}

// The arrays, and the buffer that empties the L2 cache between launches.
class Stream {
 public:
  Stream(MemoryPattern pattern, std::size_t size, std::size_t flush)
      : pattern_(pattern),
        size_(size),
        a_(size),
        b_(size),
        c_(pattern == MemoryPattern::triad ? size : kBlockBytes),
        flush_(flush) {
    fill(a_.as<float4>(), a_.size(), 0);
    fill(b_.as<float4>(), b_.size(), kB);
    fill(c_.as<float4>(), c_.size(), kC);
  }

  void empty_cache() { check_cuda(cudaMemset(flush_.as<char>(), 0, flush_.size()), "cudaMemset"); }

  void launch() {
    switch (pattern_) {
      case MemoryPattern::copy: return copy(a_.as<float4>(), b_.as<float4>(), size_);
      case MemoryPattern::triad:
        return triad(a_.as<float4>(), b_.as<float4>(), c_.as<float4>(), kScale, size_);
    }
  }

  void check_result() {
    const float expected = pattern_ == MemoryPattern::copy ? kB : kB + kScale * kC;
    const DeviceMemory counter(sizeof(unsigned long long));
    check_cuda(cudaMemset(counter.as<char>(), 0, counter.size()), "cudaMemset");
    count_wrong(a_.as<float4>(), size_, expected, counter.as<unsigned long long>());
    unsigned long long wrong = 0;
    check_cuda(cudaMemcpy(&wrong, counter.as<char>(), sizeof wrong, cudaMemcpyDeviceToHost),
               "cudaMemcpy");
    if (wrong != 0) {
      throw DeviceError(fmt::format("memory kernel: {} of {} 16-byte words are wrong", wrong,
                                    size_ / sizeof(float4)));
    }
  }

 private:
  MemoryPattern pattern_;
  std::size_t size_;
  DeviceMemory a_;
  DeviceMemory b_;
  DeviceMemory c_;  // one block where the pattern has no use for it
  DeviceMemory flush_;
};

}  // namespace

// One kernel per sample between two events on the same stream. The events add the gap of a launch,
// a few microseconds: under 1 % for the default arrays, whose copy takes 0.7 ms on an H100.
// Lines that the flush left dirty are written back while the kernel runs, and as many of the
// kernel's own stay behind at its end: the two cancel. Throttled samples are not told apart: they
// show in the relative error.
MemoryBandwidth measure_memory_bandwidth(const MemoryBandwidthOptions& options) {
  check_cuda(cudaSetDevice(options.device), "cudaSetDevice");
  const std::size_t size = array_size(options);
  Stream stream(options.pattern, size, std::max(2 * l2_cache_size(options.device), kBlockBytes));
  for (int i = 0; i < kWarmUps; ++i) stream.launch();
  stream.check_result();

  const Bytes array = bytes(static_cast<double>(size));
  const Bytes moved = array * arrays(options.pattern);
  const double flops_per_byte = options.pattern == MemoryPattern::triad ? 2.0 / sizeof(float) : 0.0;
  DeviceTimer timer;
  MemoryBandwidth result;
  std::vector<Seconds> times;
  const auto begin = std::chrono::steady_clock::now();
  while (!result.converged && begin + std::chrono::duration<double>(options.budget.value) >
                                  std::chrono::steady_clock::now()) {
    stream.empty_cache();
    timer.start();
    stream.launch();
    times.push_back(milliseconds(static_cast<double>(timer.stop())));
    result.samples.push_back({.pattern = options.pattern,
                              .moved = moved,
                              .work = flops(flops_per_byte * array.value),
                              .time = times.back()});
    result.relative_error = relative_error(times);
    result.converged =
        times.size() >= kLeastSamples && result.relative_error < options.relative_error;
  }
  stream.check_result();
  if (times.empty()) throw DeviceError("memory kernel: the time budget allows no sample");
  result.median = moved / median(times);
  return result;
}

}  // namespace flopcast
