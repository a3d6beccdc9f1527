#include "kernels/host_bench.h"

#include <chrono>
#include <cstring>

#include "kernels/launch_kernel.h"
#include "kernels/random_value.h"
#include "sim/errors.h"

namespace flopcast {
namespace {

// Page-locked, so that the copy engine reads it directly.
class HostMemory {
 public:
  explicit HostMemory(std::size_t size) : size_(size) {
    check_cuda(cudaMallocHost(&address_, size), "cudaMallocHost");
  }
  ~HostMemory() { cudaFreeHost(address_); }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  void* get() const { return address_; }
  void fill(std::uint64_t seed) {
    for (std::size_t at = 0; at + 8 <= size_; at += 8) {
      const std::uint64_t bits = random_bits(seed, at);
      std::memcpy(static_cast<char*>(address_) + at, &bits, 8);
    }
  }

 private:
  void* address_ = nullptr;
  std::size_t size_;
};

// `kernels` launches recorded once and replayed as one.
class LaunchGraph {
 public:
  LaunchGraph(cudaStream_t stream, std::int64_t kernels) {
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCapture");
    for (std::int64_t i = 0; i < kernels; ++i) launch_nothing(stream);
    check_cuda(cudaStreamEndCapture(stream, &graph_), "cudaStreamEndCapture");
    check_cuda(cudaGraphInstantiate(&executable_, graph_, 0), "cudaGraphInstantiate");
  }
  ~LaunchGraph() {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
    cudaGraphDestroy(graph_);
  }
  LaunchGraph(const LaunchGraph&) = delete;
  LaunchGraph& operator=(const LaunchGraph&) = delete;
  void launch(cudaStream_t stream) const {
    check_cuda(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch");
  }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

// The far side holds other bytes before: what comes back is compared.
Measurement measure_host_copy(Bench& bench, const HostCopyCase& copy, const StopRule& rule) {
  const auto size = static_cast<std::size_t>(copy.size.value);
  HostMemory host(size);
  HostMemory back(size);
  const DeviceMemory device(size);
  host.fill(1);
  back.fill(2);
  const auto move = [&](void* to, const void* from, cudaMemcpyKind kind) {
    check_cuda(cudaMemcpyAsync(to, from, size, kind, bench.stream()), "cudaMemcpyAsync");
  };
  const auto there = [&] { move(device.as<void>(), host.get(), cudaMemcpyHostToDevice); };
  const auto again = [&] { move(back.get(), device.as<void>(), cudaMemcpyDeviceToHost); };
  there();
  again();
  bench.wait();
  if (std::memcmp(host.get(), back.get(), size) != 0) {
    throw DeviceError("cudaMemcpyAsync: what came back is not what was sent");
  }
  Measurement result = copy.to_device ? bench.time(there, rule) : bench.time(again, rule);
  result.error_over_tolerance = 0;
  return result;
}

Measurement measure_launch(Bench& bench, const LaunchCase& launch, const StopRule& rule) {
  const LaunchGraph graph(bench.stream(), launch.graph ? launch.kernels : 1);
  const auto queue = [&] {
    if (launch.graph) return graph.launch(bench.stream());
    for (std::int64_t i = 0; i < launch.kernels; ++i) launch_nothing(bench.stream());
  };
  queue();
  bench.wait();
  return bench.sample(
      [&] {
        const auto begin = std::chrono::steady_clock::now();
        queue();
        bench.wait();
        const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
        return seconds(spent.count()) / static_cast<double>(launch.kernels);
      },
      rule);
}

}  // namespace flopcast
