#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "models/pipeline_schedule_orders.h"

// Some forwards to warm up, then one forward and one backward in turn, then the backwards that are
// left.

namespace flopcast {

namespace {

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

std::size_t capped(std::int64_t forwards, const ScheduleShape& shape) {
  return static_cast<std::size_t>(
      std::min(forwards, std::int64_t{shape.micro_batches} * shape.chunks));
}

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

// A forward must have ended before its own backward runs beside a later one, hence one more to warm
// up. Source: Megatron-LM d98e8a64, megatron/core/pipeline_parallel/schedules.py,
// get_pp_rank_microbatches, and combined_1f1b.py.
RankOps side_by_side(const RankOps& forwards, const RankOps& backwards, std::size_t warm_up) {
  warm_up = std::min(warm_up + 1, forwards.size());
  RankOps ops(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(warm_up));
  for (std::size_t k = warm_up; k < forwards.size(); ++k) {
    const ScheduleOp& back = backwards[k - warm_up];
    ScheduleOp pair = forwards[k];
    pair.pass = Pass::overlapped;
    pair.beside_micro_batch = back.micro_batch;
    pair.beside_chunk = back.chunk;
    ops.push_back(pair);
  }
  ops.insert(ops.end(), backwards.end() - static_cast<std::ptrdiff_t>(warm_up), backwards.end());
  return ops;
}

RankOps in_turns(const ScheduleShape& shape, const RankOps& forwards, const RankOps& backwards,
                 std::size_t warm_up) {
  return shape.side_by_side ? side_by_side(forwards, backwards, warm_up)
                            : one_forward_one_backward(forwards, backwards, warm_up);
}

// Splits the backwards: a weight gradient follows `delay` backwards after its input gradient.
RankOps with_delayed_weight_gradients(const RankOps& ops, const RankOps& backwards,
                                      std::size_t delay) {
  RankOps split;
  split.reserve(ops.size() + backwards.size());
  std::size_t seen = 0;
  std::size_t issued = 0;
  const auto issue = [&] {
    const ScheduleOp& op = backwards[issued++];
    split.push_back(weight_gradient_op(op.micro_batch, op.chunk));
  };
  for (const ScheduleOp& op : ops) {
    if (op.pass == Pass::forward) {
      split.push_back(op);
      continue;
    }
    split.push_back(input_gradient_op(op.micro_batch, op.chunk));
    if (++seen > delay) issue();
  }
  while (issued < backwards.size()) issue();
  return split;
}

}  // namespace

// Warm-up until a micro-batch reaches the last rank. Source: Megatron-LM d98e8a64,
// megatron/core/pipeline_parallel/schedules.py, get_pp_rank_microbatches.
ScheduleOps one_f_one_b_order(const ScheduleShape& shape) {
  const RankOps forwards = virtual_micro_batches(Pass::forward, shape, shape.ranks);
  const RankOps backwards = virtual_micro_batches(Pass::backward, shape, shape.ranks);
  ScheduleOps ranks;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    ranks.push_back(in_turns(shape, forwards, backwards, capped(shape.ranks - 1 - rank, shape)));
  }
  return ranks;
}

// Warm-up of a group through all chunks but the last, and two forwards earlier per hop, so that a
// message has a forward's time to arrive. A group of 0 means one micro-batch per rank.
// Source: as above; Narayanan et al., arXiv 2104.04473, section 2.2.
ScheduleOps interleaved_order(const ScheduleShape& shape) {
  const int group = shape.group == 0 ? shape.ranks : shape.group;
  const RankOps forwards = virtual_micro_batches(Pass::forward, shape, group);
  const RankOps backwards = virtual_micro_batches(Pass::backward, shape, group);
  ScheduleOps ranks;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const std::int64_t warm_up =
        2 * std::int64_t{shape.ranks - 1 - rank} + std::int64_t{shape.chunks - 1} * group;
    ranks.push_back(in_turns(shape, forwards, backwards, capped(warm_up, shape)));
  }
  return ranks;
}

// Interleaved with split backwards: since an input gradient takes as long as a forward, one more
// forward per hop is enough, and rank r puts its weight gradients off by r backwards: into the
// places where it would wait. The groups are equal, as small as possible, and of at least P
// micro-batches. Source: Qi et al., arXiv 2401.10241, section 2.1 (ZB-H1); PyTorch 2.14.1,
// torch/distributed/pipelining/schedules.py, ScheduleInterleavedZeroBubble.
ScheduleOps interleaved_zero_bubble_order(const ScheduleShape& shape) {
  const int group = shape.micro_batches / std::max(1, shape.micro_batches / shape.ranks);
  const RankOps forwards = virtual_micro_batches(Pass::forward, shape, group);
  const RankOps backwards = virtual_micro_batches(Pass::backward, shape, group);
  ScheduleOps ranks;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const std::int64_t warm_up =
        std::int64_t{shape.ranks - 1 - rank} + std::int64_t{shape.chunks - 1} * group;
    const RankOps whole = one_forward_one_backward(forwards, backwards, capped(warm_up, shape));
    ranks.push_back(
        with_delayed_weight_gradients(whole, backwards, static_cast<std::size_t>(rank)));
  }
  return ranks;
}

}  // namespace flopcast
