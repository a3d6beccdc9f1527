#include "models/pipeline_schedule.h"

#include <algorithm>
#include <cstddef>

#include "sim/check.h"

namespace flopcast {

namespace {

using RankOps = std::vector<ScheduleOp>;

// All forwards, then all backwards in the same order of micro-batches.
// Source: PyTorch 2.14.1, torch/distributed/pipelining/schedules.py, ScheduleGPipe. The paper
// (arXiv 1811.06965) runs the backwards in reverse: same makespan, another order of release.
RankOps gpipe_ops(const ScheduleShape& shape) {
  RankOps ops;
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    for (int m = 0; m < shape.micro_batches; ++m) {
      ops.push_back({.pass = pass, .micro_batch = m});
    }
  }
  return ops;
}

// The unit of interleaved 1F1B: virtual micro-batch k of a rank is a micro-batch on a chunk. The
// micro-batches of a group run through chunk 0, then through chunk 1, ...; then comes the next
// group. The last group may be smaller. Backwards take the chunks from the last to the first.
RankOps virtual_micro_batches(Pass pass, const ScheduleShape& shape, int group) {
  RankOps ops;
  for (std::int64_t first = 0; first < shape.micro_batches; first += group) {
    const std::int64_t end = std::min<std::int64_t>(first + group, shape.micro_batches);
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      const int taken = pass == Pass::forward ? chunk : shape.chunks - 1 - chunk;
      for (std::int64_t m = first; m < end; ++m) {
        ops.push_back({.pass = pass, .micro_batch = static_cast<std::int32_t>(m), .chunk = taken});
      }
    }
  }
  return ops;
}

// `warm_up` forwards, then one forward and one backward in turn, then the backwards that are left.
RankOps one_forward_one_backward(const RankOps& forwards, const RankOps& backwards,
                                 std::size_t warm_up) {
  RankOps ops(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(warm_up));
  ops.reserve(forwards.size() + backwards.size());
  for (std::size_t k = warm_up; k < forwards.size(); ++k) {
    ops.push_back(forwards[k]);
    ops.push_back(backwards[k - warm_up]);
  }
  ops.insert(ops.end(), backwards.end() - static_cast<std::ptrdiff_t>(warm_up), backwards.end());
  return ops;
}

// Forwards before the first backward. Plain 1F1B waits for one micro-batch to reach the last rank;
// interleaved 1F1B runs a group through all chunks but the last, and starts two forwards earlier
// per hop, so that a message has a forward's time to arrive. Source: Megatron-LM d98e8a64,
// megatron/core/pipeline_parallel/schedules.py, get_pp_rank_microbatches; Narayanan et al., arXiv
// 2104.04473, section 2.2.
std::size_t warm_up_forwards(ScheduleKind kind, const ScheduleShape& shape, int group, int rank) {
  const std::int64_t hops = shape.ranks - 1 - rank;
  const std::int64_t wanted =
      kind == ScheduleKind::interleaved ? 2 * hops + std::int64_t{shape.chunks - 1} * group : hops;
  return static_cast<std::size_t>(
      std::min(wanted, std::int64_t{shape.micro_batches} * shape.chunks));
}

}  // namespace

std::vector<std::vector<ScheduleOp>> pipeline_schedule(ScheduleKind kind,
                                                       const ScheduleShape& shape) {
  FLOPCAST_CHECK(shape.ranks > 0 && shape.micro_batches > 0 && shape.chunks > 0 && shape.group >= 0,
                 "layout_violations lets no other shape pass");
  FLOPCAST_CHECK(kind == ScheduleKind::interleaved || shape.chunks == 1,
                 "only the interleaved schedule has several chunks per rank");
  std::vector<std::vector<ScheduleOp>> ranks;
  if (kind == ScheduleKind::gpipe) {
    ranks.assign(static_cast<std::size_t>(shape.ranks), gpipe_ops(shape));
    return ranks;
  }
  const int group = shape.group == 0 ? shape.ranks : shape.group;
  const RankOps forwards = virtual_micro_batches(Pass::forward, shape, group);
  const RankOps backwards = virtual_micro_batches(Pass::backward, shape, group);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    ranks.push_back(
        one_forward_one_backward(forwards, backwards, warm_up_forwards(kind, shape, group, rank)));
  }
  return ranks;
}

}  // namespace flopcast
