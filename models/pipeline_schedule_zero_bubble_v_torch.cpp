#include <algorithm>
#include <array>
#include <cstddef>

#include "models/pipeline_schedule_orders.h"

// ZB-V by rule instead of search (pipeline_schedule_zero_bubble_v.cpp): same makespan where hops
// are free.
//
// Source: PyTorch 2.14.1, torch/distributed/pipelining/schedules.py, ScheduleZBVZeroBubble, after
// Qi et al., arXiv 2401.10241, section 6.

namespace flopcast {

namespace {

// A fixed order for at least 2P - 1 micro-batches; fewer leave out the ops of those that lack.
class ZeroBubbleVRank {
 public:
  explicit ZeroBubbleVRank(int micro_batches) : micro_batches_(micro_batches) {}

  void forward(int chunk) { put(Pass::forward, chunk, forwards_); }
  void input_gradient(int chunk) { put(Pass::input_gradient, chunk, gradients_); }
  void weight_gradient(int chunk) { put(Pass::weight_gradient, chunk, weights_); }
  void backward(int chunk) {
    input_gradient(chunk);
    weight_gradient(chunk);
  }
  bool has_pending(int chunk) const { return at(weights_, chunk) < at(gradients_, chunk); }
  int forwards(int chunk) const { return at(forwards_, chunk); }
  RankOps ops() && { return std::move(ops_); }

 private:
  using Counts = std::array<int, 2>;  // by chunk

  static int at(const Counts& counts, int chunk) { return counts[static_cast<std::size_t>(chunk)]; }
  void put(Pass pass, int chunk, Counts& counts) {
    const int m = counts[static_cast<std::size_t>(chunk)]++;
    if (m < micro_batches_) ops_.push_back({.pass = pass, .micro_batch = m, .chunk = chunk});
  }

  int micro_batches_;
  Counts forwards_{};
  Counts gradients_{};
  Counts weights_{};
  RankOps ops_;
};

RankOps zb_v_torch_rank(const ScheduleShape& shape, int r) {
  const int filled = std::max(2 * shape.ranks - 1, shape.micro_batches);
  ZeroBubbleVRank rank(shape.micro_batches);
  for (int i = 0; i < 2 * (shape.ranks - r) - 1; ++i) rank.forward(0);
  for (int i = 0; i < r; ++i) {
    rank.forward(1);
    rank.forward(0);
  }
  for (int i = 0; i < shape.ranks - r; ++i) {
    rank.forward(1);
    rank.backward(1);
  }
  while (rank.forwards(1) < rank.forwards(0) || rank.forwards(0) < filled) {
    if (rank.forwards(0) < filled) rank.forward(0);
    rank.backward(0);
    rank.forward(1);
    rank.backward(1);
  }
  for (int i = 0; i < r; ++i) {
    rank.input_gradient(0);
    rank.input_gradient(1);
  }
  for (int i = 0; i < shape.ranks - r; ++i) {
    rank.input_gradient(0);
    rank.weight_gradient(0);
  }
  for (const int chunk : {1, 0}) {
    while (rank.has_pending(chunk)) rank.weight_gradient(chunk);
  }
  return std::move(rank).ops();
}

}  // namespace

ScheduleOps zb_v_torch_order(const ScheduleShape& shape) {
  ScheduleOps ranks;
  for (int r = 0; r < shape.ranks; ++r) ranks.push_back(zb_v_torch_rank(shape, r));
  return ranks;
}

}  // namespace flopcast
