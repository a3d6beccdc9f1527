#pragma once

// How a GPU is measured: warm-up, cold caches, two events around one launch, again and again until
// the rule says stop. Only for sources of this folder.

#include <functional>
#include <string>

#include "kernels/cuda_call.h"
#include "kernels/measurement.h"
#include "kernels/nvml.h"
#include "kernels/sampling.h"

namespace flopcast {

enum class CacheState : std::uint8_t { cold, warm };

class Bench {
 public:
  /// Makes the device current.
  explicit Bench(int device);

  cudaStream_t stream() const { return stream_.get(); }
  void wait() const { stream_.wait(); }
  bool has_nvml() const { return nvml_.found(); }

  /// `launch` puts the work on stream(). The events add the gap of a launch, about 2 us, as a
  /// framework's queue does. Lines that emptying the cache left dirty are written back while the
  /// kernel runs, and as many of its own stay behind: the two cancel.
  Measurement time(const std::function<void()>& launch, const StopRule& rule,
                   CacheState cache = CacheState::cold);

  /// As time(), but the work says itself how long it took.
  Measurement sample(const std::function<Seconds()>& work, const StopRule& rule);

  /// How ranks that measure together agree to stop (run_plan.h); nothing for one by itself.
  void agree_by(std::function<bool(bool)> agree) { agree_ = std::move(agree); }

  void empty_cache();

 private:
  DeviceMemory flush_;  // made first: that makes the device current for the others
  DeviceStream stream_;
  DeviceEvent begin_;
  DeviceEvent end_;
  Nvml nvml_;
  std::function<bool(bool)> agree_;
};

}  // namespace flopcast
