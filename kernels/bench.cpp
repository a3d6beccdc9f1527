#include "kernels/bench.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>

namespace flopcast {
namespace {

constexpr int kWarmUps = 3;

// Twice the L2 cache; the device becomes current first of all.
std::size_t flush_size(int device) {
  check_cuda(cudaSetDevice(device), "cudaSetDevice");
  int size = 0;
  check_cuda(cudaDeviceGetAttribute(&size, cudaDevAttrL2CacheSize, device),
             "cudaDeviceGetAttribute(L2CacheSize)");
  return std::max<std::size_t>(2 * static_cast<std::size_t>(size), 1 << 20);
}

std::string pci_address(int device) {
  std::array<char, 32> text{};
  check_cuda(cudaDeviceGetPCIBusId(text.data(), text.size(), device), "cudaDeviceGetPCIBusId");
  return text.data();
}

}  // namespace

Bench::Bench(int device) : flush_(flush_size(device)), nvml_(pci_address(device)) {}

void Bench::empty_cache() {
  check_cuda(cudaMemsetAsync(flush_.as<char>(), 0, flush_.size(), stream()), "cudaMemsetAsync");
}

Measurement Bench::time(const std::function<void()>& launch, const StopRule& rule,
                        CacheState cache) {
  for (int i = 0; i < kWarmUps; ++i) launch();
  wait();
  return sample(
      [&] {
        if (cache == CacheState::cold) empty_cache();
        begin_.record(stream());
        launch();
        end_.record(stream());
        end_.wait();
        return end_.since(begin_);
      },
      rule);
}

Measurement Bench::sample(const std::function<Seconds()>& work, const StopRule& rule) {
  const auto begin = std::chrono::steady_clock::now();
  Measurement result;
  std::optional<StopReason> reason;
  for (bool stop = false; !stop;) {
    result.samples.push_back({work(), nvml_.state()});
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    reason = stop_reason(result.samples, seconds(elapsed.count()), rule);
    stop = agree_ ? agree_(reason.has_value()) : reason.has_value();
  }
  // A rank that would have gone on was stopped by the first one's rule.
  result.stopped = reason.value_or(StopReason::budget);
  return result;
}

}  // namespace flopcast
