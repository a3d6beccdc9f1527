#include <algorithm>
#include <cstddef>
#include <vector>

#include "models/pipeline_schedule_orders.h"
#include "sim/check.h"

// ZB-H1 and ZB-H2: the backward is split, so that weight gradients, which nobody waits for, fill
// the places where a rank would wait. H1 keeps the activations of 1F1B, H2 about twice as many.
//
// A list scheduler goes through the micro-batches. In round m every rank may run its next forward,
// and runs input gradient m; before either it runs weight gradients to get below its limit of
// activations, and to fill the time until its input is there. Three choices have no right answer
// beforehand, so all eight combinations are tried, and the first with the shortest time from a
// rank's first start to its last end wins.
//
// Source: Qi et al., arXiv 2401.10241, section 3.1 (heuristic); its choices and their order from
// sail-sg/zero-bubble-pipeline-parallelism 39f2c186,
// megatron/core/pipeline_parallel/zerobubble/scheduler/zb.py. Forward, input gradient and weight
// gradient are taken to last equally long, and hops to be free. An activation is freed by its
// weight gradient.

namespace flopcast {

namespace {

struct Choices {
  bool wait_before_first_backward = true;  // warm up only until the first gradient can be there
  bool hold_forwards_back = true;          // where the next rank lags behind by two
  bool fill_small_gaps = true;             // with a weight gradient that takes longer
};

class ZeroBubbleSearch {
 public:
  ZeroBubbleSearch(const ScheduleShape& shape, int limit, const Choices& choices)
      : micro_batches_(shape.micro_batches),
        limit_(limit),
        choices_(choices),
        ranks_(static_cast<std::size_t>(shape.ranks)) {}

  void run();

  int longest_span() const;
  ScheduleOps ops() &&;

 private:
  // Times in units of one pass.
  struct RankState {
    RankOps ops;
    std::vector<int> forward_end;   // by micro-batch, as far as it went
    std::vector<int> gradient_end;  // of input gradients
    int weight_gradients = 0;
    int end = 0;
    int waited = 0;  // since the first forward

    int forwards() const { return static_cast<int>(forward_end.size()); }
    int gradients() const { return static_cast<int>(gradient_end.size()); }
    int alive() const { return forwards() - weight_gradients; }
    bool has_pending() const { return weight_gradients < gradients(); }
  };

  void first_round();
  std::vector<int> warm_up_forwards() const;
  bool wants_forward(std::size_t r) const;
  void round();

  void forward(std::size_t r);
  void input_gradient(std::size_t r);
  void weight_gradient(std::size_t r);
  void work_until(std::size_t r, int input_ready);
  int most_waited() const;

  int micro_batches_;
  int limit_;
  Choices choices_;
  std::vector<RankState> ranks_;
};

void ZeroBubbleSearch::forward(std::size_t r) {
  RankState& rank = ranks_[r];
  const int m = rank.forwards();
  const int ready = r > 0 ? ranks_[r - 1].forward_end[static_cast<std::size_t>(m)] : 0;
  const int start = std::max(rank.end, ready);
  if (m > 0) rank.waited += start - rank.end;
  rank.end = start + 1;
  rank.forward_end.push_back(rank.end);
  rank.ops.push_back(forward_op(m, 0));
}

void ZeroBubbleSearch::input_gradient(std::size_t r) {
  RankState& rank = ranks_[r];
  const int m = rank.gradients();
  const int ready =
      r + 1 < ranks_.size() ? ranks_[r + 1].gradient_end[static_cast<std::size_t>(m)] : 0;
  const int start = std::max(rank.end, ready);
  rank.waited += start - rank.end;
  rank.end = start + 1;
  rank.gradient_end.push_back(rank.end);
  rank.ops.push_back(input_gradient_op(m, 0));
}

void ZeroBubbleSearch::weight_gradient(std::size_t r) {
  RankState& rank = ranks_[r];
  rank.ops.push_back(weight_gradient_op(rank.weight_gradients++, 0));
  ++rank.end;
}

int ZeroBubbleSearch::most_waited() const {
  return std::ranges::max_element(ranks_, {}, &RankState::waited)->waited;
}

// Weight gradients while they fit, and one that does not if the rank has waited most, or if small
// gaps are filled as well.
void ZeroBubbleSearch::work_until(std::size_t r, int input_ready) {
  RankState& rank = ranks_[r];
  while (rank.has_pending() && rank.end + 1 <= input_ready) weight_gradient(r);
  if (!rank.has_pending() || rank.end >= input_ready) return;
  const bool can_afford_wait = input_ready - rank.end <= most_waited() - rank.waited;
  if (!can_afford_wait || choices_.fill_small_gaps) weight_gradient(r);
}

// Forwards beyond the first that a rank can run before its first gradient arrives. No rank runs as
// many as the one before it.
std::vector<int> ZeroBubbleSearch::warm_up_forwards() const {
  std::vector<int> extra(ranks_.size(), 0);
  int gradient_ready = ranks_.back().end + 1;
  for (std::size_t r = ranks_.size() - 1; r-- > 0;) {
    int end = ranks_[r].end;
    while (1 + extra[r] < std::min(micro_batches_, limit_)) {
      const int reach = choices_.wait_before_first_backward ? end + 1 : end;
      if (choices_.wait_before_first_backward ? reach > gradient_ready : reach >= gradient_ready) {
        break;
      }
      ++end;
      ++extra[r];
    }
    gradient_ready = std::max(end, gradient_ready) + 1;
  }
  for (std::size_t r = 1; r < ranks_.size(); ++r) {
    while (extra[r] > 0 && extra[r] >= extra[r - 1] && 1 + extra[r] < micro_batches_) --extra[r];
  }
  return extra;
}

void ZeroBubbleSearch::first_round() {
  for (std::size_t r = 0; r < ranks_.size(); ++r) forward(r);
  const std::vector<int> extra = warm_up_forwards();
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    for (int i = 0; i < extra[r]; ++i) forward(r);
  }
  for (std::size_t r = ranks_.size(); r-- > 0;) input_gradient(r);
}

// Whether a rank runs a forward in this round. One that is two ahead of the next rank may leave it
// until the next rank has caught up, if that costs no more than others have waited.
bool ZeroBubbleSearch::wants_forward(std::size_t r) const {
  const RankState& rank = ranks_[r];
  if (rank.forwards() >= micro_batches_) return false;
  if (!choices_.hold_forwards_back || r + 1 == ranks_.size()) return true;
  const RankState& next = ranks_[r + 1];
  if (rank.forwards() < next.forwards() + 2) return true;
  const int next_gradient = next.end + 2;  // after its forward and its input gradient
  if (rank.end >= next_gradient) return false;
  const int room_for = std::max(0, rank.alive() + 1 - limit_);
  const int first_freed = std::min(room_for, rank.gradients() - rank.weight_gradients);
  if (rank.end + 1 + first_freed <= next_gradient) return true;
  return next_gradient - rank.end > most_waited() - rank.waited;
}

void ZeroBubbleSearch::round() {
  std::vector<bool> runs(ranks_.size());
  for (std::size_t r = 0; r < ranks_.size(); ++r) runs[r] = wants_forward(r);
  for (std::size_t r = ranks_.size() - 1; r-- > 0;) runs[r] = runs[r] && runs[r + 1];
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (!runs[r]) continue;
    RankState& rank = ranks_[r];
    while (rank.alive() >= limit_) {
      FLOPCAST_CHECK(rank.has_pending(), "the limit leaves room for one micro-batch per rank");
      weight_gradient(r);
    }
    if (r > 0) {
      work_until(r, ranks_[r - 1].forward_end[static_cast<std::size_t>(rank.forwards())]);
    }
    forward(r);
  }
  for (std::size_t r = ranks_.size(); r-- > 0;) {
    RankState& rank = ranks_[r];
    if (r + 1 < ranks_.size()) {
      work_until(r, ranks_[r + 1].gradient_end[static_cast<std::size_t>(rank.gradients())]);
    }
    if (r == 0 && rank.forwards() == micro_batches_) {
      while (rank.has_pending()) weight_gradient(r);
    }
    input_gradient(r);
  }
}

void ZeroBubbleSearch::run() {
  first_round();
  for (int m = 1; m < micro_batches_; ++m) round();
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    while (ranks_[r].has_pending()) weight_gradient(r);
  }
}

int ZeroBubbleSearch::longest_span() const {
  int longest = 0;
  for (const RankState& rank : ranks_) {
    longest = std::max(longest, rank.end - rank.forward_end.front() + 1);
  }
  return longest;
}

ScheduleOps ZeroBubbleSearch::ops() && {
  ScheduleOps ops;
  for (RankState& rank : ranks_) ops.push_back(std::move(rank.ops));
  return ops;
}

// `limit` activations per rank.
ScheduleOps zero_bubble_order(const ScheduleShape& shape, int limit) {
  ScheduleOps best;
  int best_span = 0;
  for (int bits = 0; bits < 8; ++bits) {
    const Choices choices{.wait_before_first_backward = (bits & 4) == 0,
                          .hold_forwards_back = (bits & 2) == 0,
                          .fill_small_gaps = (bits & 1) == 0};
    ZeroBubbleSearch search(shape, limit, choices);
    search.run();
    const int span = search.longest_span();
    if (!best.empty() && span >= best_span) continue;
    best_span = span;
    best = std::move(search).ops();
  }
  return best;
}

}  // namespace

ScheduleOps zb_h1_order(const ScheduleShape& shape) {
  return zero_bubble_order(shape, shape.ranks);
}

ScheduleOps zb_h2_order(const ScheduleShape& shape) {
  return zero_bubble_order(shape, 2 * shape.ranks - 1);
}

}  // namespace flopcast
