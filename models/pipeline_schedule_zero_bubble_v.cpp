#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "models/pipeline_schedule_orders.h"
#include "sim/check.h"

// ZB-V: two chunks per rank, placed as a V, so that the rank with the first stage has the last one
// too: no bubble within a rank's span with the activations of 1F1B.
//
// Steps of a micro-batch on a rank: forwards down and up the V, input gradients down (of chunk 1)
// and up (of chunk 0). In the way down a rank waits for the one before, in the way up for the one
// after it.
//
// Source: Qi et al., arXiv 2401.10241, section 6, and arXiv 2405.15362. Forward, input gradient and
// weight gradient are taken to last equally long, and hops to be free.

namespace flopcast {

namespace {

enum class Way : std::uint8_t { down, up };

struct FillChoices {
  bool before_forwards = true;  // a weight gradient that takes longer than the wait
  bool before_up_gradients = true;
};

// The search: in every round each rank runs an input gradient and a forward; weight gradients free
// memory and fill waits. Waits are allowed up to what another rank waits anyhow, which is known
// from the run before; repeated as long as that helps.
// Source: sail-sg/zero-bubble-pipeline-parallelism 39f2c186,
// megatron/core/pipeline_parallel/zerobubble/scheduler/zbv.py.
class ZeroBubbleVSearch {
 public:
  ZeroBubbleVSearch(const ScheduleShape& shape, const FillChoices& fill, std::vector<int> allowed);

  void run();

  int most_waited() const { return *std::ranges::max_element(waited_); }
  const std::vector<int>& waited() const { return waited_; }
  ScheduleOps ops() && { return std::move(ops_); }

 private:
  enum class Kind : std::uint8_t { forward, gradient };
  struct Step {
    Kind kind;
    Way way;
  };

  void warm_up();
  void even_out();
  void gradients();
  void forwards();
  void one_gradient(std::size_t r, Way way);
  std::optional<Way> next_forward(std::size_t r) const;

  void put(std::size_t r, Step step);
  void put_weight_gradient(std::size_t r);
  void fill_wait(std::size_t r, int ready, bool even_if_longer);

  std::vector<int>& ends(std::size_t r, Step step) {
    return end_[r][static_cast<std::size_t>(step.kind)][static_cast<std::size_t>(step.way)];
  }
  const std::vector<int>& ends(std::size_t r, Step step) const {
    return end_[r][static_cast<std::size_t>(step.kind)][static_cast<std::size_t>(step.way)];
  }
  int count(std::size_t r, Step step) const { return static_cast<int>(ends(r, step).size()); }
  /// End of the step on the rank that this one waits for; nothing if there is none or not yet.
  std::optional<int> ready(std::size_t r, Step step) const;
  /// How long the rank may wait without becoming the one that waits longest.
  int slack(std::size_t r) const;

  static constexpr Step kForwardDown{Kind::forward, Way::down};
  static constexpr Step kForwardUp{Kind::forward, Way::up};
  static constexpr Step kGradientDown{Kind::gradient, Way::down};
  static constexpr Step kGradientUp{Kind::gradient, Way::up};

  int micro_batches_;
  int limit_;  // activations per rank
  FillChoices fill_;
  std::vector<int> allowed_;  // waits of the run before, by rank
  std::vector<std::array<std::array<std::vector<int>, 2>, 2>> end_;  // by rank, kind, way
  std::vector<std::deque<ScheduleOp>> pending_;                      // weight gradients, by rank
  std::vector<int> time_;
  std::vector<int> alive_;
  std::vector<int> waited_;  // since the first forward
  ScheduleOps ops_;
};

ZeroBubbleVSearch::ZeroBubbleVSearch(const ScheduleShape& shape, const FillChoices& fill,
                                     std::vector<int> allowed)
    : micro_batches_(shape.micro_batches),
      limit_(2 * shape.ranks),
      fill_(fill),
      allowed_(std::move(allowed)) {
  const auto ranks = static_cast<std::size_t>(shape.ranks);
  end_.resize(ranks);
  pending_.resize(ranks);
  time_.assign(ranks, 0);
  alive_.assign(ranks, 0);
  waited_.assign(ranks, 0);
  ops_.resize(ranks);
}

std::optional<int> ZeroBubbleVSearch::ready(std::size_t r, Step step) const {
  const bool first = step.way == Way::down ? r == 0 : r + 1 == ops_.size();
  if (first) return std::nullopt;
  const std::vector<int>& before = ends(step.way == Way::down ? r - 1 : r + 1, step);
  const auto m = static_cast<std::size_t>(count(r, step));
  if (m >= before.size()) return std::nullopt;
  return before[m];
}

void ZeroBubbleVSearch::put(std::size_t r, Step step) {
  const int m = count(r, step);
  const int start = std::max(time_[r], ready(r, step).value_or(0));
  if (count(r, kForwardDown) > 0) waited_[r] += start - time_[r];
  time_[r] = start + 1;
  ends(r, step).push_back(time_[r]);
  if (step.kind == Kind::forward) {
    ++alive_[r];
    ops_[r].push_back(forward_op(m, step.way == Way::down ? 0 : 1));
  } else {
    const int chunk = step.way == Way::down ? 1 : 0;
    ops_[r].push_back(input_gradient_op(m, chunk));
    pending_[r].push_back(weight_gradient_op(m, chunk));
  }
}

void ZeroBubbleVSearch::put_weight_gradient(std::size_t r) {
  FLOPCAST_CHECK(!pending_[r].empty(), "an activation over the limit has a gradient to free it");
  ops_[r].push_back(pending_[r].front());
  pending_[r].pop_front();
  --alive_[r];
  ++time_[r];
}

int ZeroBubbleVSearch::slack(std::size_t r) const {
  int most = most_waited();
  if (!allowed_.empty()) most = std::max(most, *std::ranges::max_element(allowed_) - allowed_[r]);
  return most - waited_[r];
}

void ZeroBubbleVSearch::fill_wait(std::size_t r, int ready, bool even_if_longer) {
  while (!pending_[r].empty() && ready >= time_[r] + 1) put_weight_gradient(r);
  if (!pending_[r].empty() && ready - time_[r] > slack(r) && even_if_longer) put_weight_gradient(r);
}

// The first micro-batch runs down and up; ranks that wait for its return start further ones.
void ZeroBubbleVSearch::warm_up() {
  const std::size_t ranks = ops_.size();
  for (std::size_t r = 0; r < ranks; ++r) put(r, kForwardDown);
  for (std::size_t r = ranks; r-- > 0;) {
    if (r + 1 < ranks) {
      const int back = ends(r + 1, kForwardUp).front();
      while (alive_[r] + 2 + 2 * static_cast<int>(r) <= limit_ && time_[r] + 1 <= back &&
             count(r, kForwardDown) < micro_batches_) {
        for (std::size_t before = 0; before <= r; ++before) put(before, kForwardDown);
      }
    }
    put(r, kForwardUp);
  }
}

// Later ranks take turns of forwards down and up until they have as many as the rank before.
void ZeroBubbleVSearch::even_out() {
  Way way = Way::down;
  const auto down = [this](std::size_t r) { return count(r, kForwardDown); };
  const auto up = [this](std::size_t r) { return count(r, kForwardUp); };
  for (std::size_t r = 1; r < ops_.size(); ++r) {
    while (down(r) + up(r) < down(r - 1) + up(r - 1) ||
           (up(r) <= up(r - 1) && up(r - 1) < micro_batches_)) {
      for (std::size_t later = ops_.size(); later-- > r;) {
        const Step step{Kind::forward, way};
        if (count(later, step) < micro_batches_) put(later, step);
      }
      way = way == Way::down ? Way::up : Way::down;
    }
  }
}

void ZeroBubbleVSearch::one_gradient(std::size_t r, Way way) {
  const Step step{Kind::gradient, way};
  const auto input = ready(r, step);
  if (input) fill_wait(r, *input, way == Way::up || fill_.before_up_gradients);
  put(r, step);
}

// Each rank takes the gradient whose input is there, the one of chunk 0 first.
void ZeroBubbleVSearch::gradients() {
  std::vector<std::size_t> down;
  std::vector<std::size_t> up;
  for (std::size_t r = 0; r < ops_.size(); ++r) {
    const bool possible = count(r, kGradientUp) < count(r, kGradientDown);
    const bool at_turn = r + 1 == ops_.size();
    const bool no_other = count(r, kGradientDown) >= micro_batches_;
    const bool taken = possible && (at_turn || no_other || ready(r, kGradientUp).has_value());
    (taken ? up : down).push_back(r);
  }
  for (auto r = up.rbegin(); r != up.rend(); ++r) one_gradient(*r, Way::up);
  for (const std::size_t r : down) one_gradient(r, Way::down);
}

std::optional<Way> ZeroBubbleVSearch::next_forward(std::size_t r) const {
  if (count(r, kForwardUp) >= micro_batches_) return std::nullopt;
  if (count(r, kForwardUp) >= count(r, kForwardDown)) return Way::down;
  if (r + 1 == ops_.size() || ready(r, kForwardUp)) return Way::up;
  if (count(r, kForwardDown) >= micro_batches_) return std::nullopt;
  if (r == 0 || ready(r, kForwardDown)) return Way::down;
  return std::nullopt;
}

void ZeroBubbleVSearch::forwards() {
  for (std::size_t r = 0; r < ops_.size(); ++r) {
    const auto way = next_forward(r);
    if (!way) continue;
    while (alive_[r] + 1 > limit_) put_weight_gradient(r);
    const Step step{Kind::forward, *way};
    if (const auto input = ready(r, step)) fill_wait(r, *input, fill_.before_forwards);
    put(r, step);
  }
}

void ZeroBubbleVSearch::run() {
  warm_up();
  even_out();
  for (int round = 0; round < 2 * micro_batches_; ++round) {
    gradients();
    forwards();
  }
  for (std::size_t r = 0; r < ops_.size(); ++r) {
    while (!pending_[r].empty()) put_weight_gradient(r);
  }
}

ZeroBubbleVSearch searched(const ScheduleShape& shape, const FillChoices& fill) {
  ZeroBubbleVSearch best(shape, fill, {});
  best.run();
  while (true) {
    ZeroBubbleVSearch next(shape, fill, best.waited());
    next.run();
    if (next.most_waited() >= best.most_waited()) return best;
    best = std::move(next);
  }
}

}  // namespace

ScheduleOps zb_v_order(const ScheduleShape& shape) {
  std::optional<ZeroBubbleVSearch> best;
  for (const bool before_up_gradients : {true, false}) {
    for (const bool before_forwards : {true, false}) {
      ZeroBubbleVSearch found = searched(
          shape, {.before_forwards = before_forwards, .before_up_gradients = before_up_gradients});
      if (!best || found.most_waited() < best->most_waited()) best.emplace(std::move(found));
    }
  }
  return std::move(*best).ops();
}

}  // namespace flopcast
