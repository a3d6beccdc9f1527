#pragma once

// The ranks of this process and their NCCL communicators: all GPUs of one process, or the one GPU
// of a process among several. Only for sources of this folder.

#include <memory>
#include <optional>

#include "kernels/bench.h"
#include "kernels/measurement_case.h"
#include "kernels/rank_place.h"

namespace flopcast {

class Ranks {
 public:
  /// `place` is nothing for one process with all `gpus`. Waits until every rank of the job is
  /// there. Throws DeviceError naming NCCL's call.
  Ranks(const std::optional<RankPlace>& place, int gpus);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  bool several_processes() const;

  /// What the first rank says.
  bool agree(bool first_rank_says);

  /// Makes buffers and communicators of the case. Then launch() puts one call on every GPU's
  /// stream; the first GPU's is `stream`, where it is timed.
  void prepare(const CollectiveCase& collective, cudaStream_t stream);
  void launch();
  void wait();
  /// After the first launch: of 64 elements on each GPU of this process.
  double error_over_tolerance() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Whether this build has NCCL.
bool has_nccl();

/// Throws DeviceError where the buffers hold the wrong thing.
Measurement measure_collective(Bench& bench, Ranks& ranks, const CollectiveCase& collective,
                               const StopRule& rule);

}  // namespace flopcast
