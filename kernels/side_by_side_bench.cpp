#include "kernels/side_by_side_bench.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "kernels/gemm_bench.h"
#include "kernels/memory_bench.h"
#include "sim/errors.h"

namespace flopcast {
namespace {

// A kernel that was checked, to be started on a stream of its own.
struct CheckedKernel {
  std::function<void()> launch;
  double error = 0;
};

template <class Work>
CheckedKernel checked(std::shared_ptr<Work> work, const char* what) {
  work->launch();
  const double error = work->error_over_tolerance();
  require_right(error, what);
  return {[work] { work->launch(); }, error};
}

struct KernelOn {
  cudaStream_t stream;

  CheckedKernel operator()(const GemmCase& gemm) const {
    return checked(std::make_shared<GemmWork>(gemm, stream), "GEMM");
  }
  CheckedKernel operator()(const MemoryCase& memory) const {
    return checked(std::make_shared<MemoryWork>(memory, stream), "memory kernel");
  }
};

// Median of five, warm: how many of the one last as long as the other.
Seconds quick_time(Bench& bench, const std::function<void()>& launch) {
  const Measurement few =
      bench.time(launch, {.relative_error = 0, .budget = seconds(10), .least = 5, .most = 5},
                 CacheState::warm);
  return median(counted(few.samples));
}

}  // namespace

// Both alone first, for how often the untimed one has to be started to cover the timed one: at
// least one before, and half as many again as its time asks for, since both are slower together.
Measurement measure_interference(Bench& bench, Ranks& ranks, const InterferenceCase& both,
                                 const StopRule& rule) {
  const DeviceStream other;
  const CheckedKernel kernel =
      std::visit(KernelOn{both.time_collective ? other.get() : bench.stream()}, both.kernel);
  ranks.prepare(both.collective, both.time_collective ? bench.stream() : other.get());
  const std::function<void()> collective = [&ranks] { ranks.launch(); };
  const std::function<void()>& timed = both.time_collective ? collective : kernel.launch;
  const std::function<void()>& beside = both.time_collective ? kernel.launch : collective;

  collective();
  ranks.wait();
  require_right(ranks.error_over_tolerance(), "collective");
  const DeviceEvent begin;
  const DeviceEvent end;
  const Seconds timed_alone = quick_time(bench, timed);
  begin.record(other.get());
  beside();
  end.record(other.get());
  end.wait();
  // Ranks must start the same number of collectives: that of the first rank's clock is a power of
  // two near the ratio, and agreed on bit by bit.
  const double ratio = 1.5 * (timed_alone / std::max(end.since(begin), microseconds(1)));
  int starts = 2;
  while (starts < 1024 && ranks.agree(starts < ratio + 1)) starts *= 2;

  Measurement result = bench.sample(
      [&] {
        // The timed one starts with the second of those beside it.
        beside();
        begin.record(other.get());
        for (int i = 1; i < starts; ++i) beside();
        begin.hold(bench.stream());
        const DeviceEvent from;
        const DeviceEvent to;
        from.record(bench.stream());
        timed();
        to.record(bench.stream());
        to.wait();
        other.wait();
        return to.since(from);
      },
      rule);
  ranks.wait();
  result.error_over_tolerance = kernel.error;
  return result;
}

Measurement measure_jitter(Bench& bench, Ranks* ranks, const JitterCase& jitter,
                           const StopRule& rule) {
  const StopRule many{.relative_error = 0, .budget = rule.budget, .least = 1000, .most = 1000};
  if (const auto* collective = std::get_if<CollectiveCase>(&jitter.repeated)) {
    if (ranks == nullptr) throw DeviceError("this build has no NCCL");
    return measure_collective(bench, *ranks, *collective, many);
  }
  const KernelOn on{bench.stream()};
  const auto* gemm = std::get_if<GemmCase>(&jitter.repeated);
  const CheckedKernel kernel =
      gemm != nullptr ? on(*gemm) : on(std::get<MemoryCase>(jitter.repeated));
  Measurement result = bench.time(kernel.launch, many, CacheState::warm);
  result.error_over_tolerance = kernel.error;
  return result;
}

}  // namespace flopcast
