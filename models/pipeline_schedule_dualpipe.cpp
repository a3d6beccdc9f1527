#include <cstddef>
#include <queue>

#include "models/pipeline_schedule_orders.h"

// DualPipe and DualPipeV: micro-batches enter a rank from both sides, and in the steady state the
// forward of one runs beside the backward of another, so that the all-to-all of one hides behind
// the compute of the other.
//
// A rank is described by its depth: its distance from the end where micro-batches enter. Way 0
// leads deeper, way 1 comes back. In DualPipeV both ways belong to one model of 2 * P stages; in
// DualPipe the two halves of the ranks mirror each other and each way of a rank is a copy of a
// stage.
//
// Source: DeepSeek-V3, arXiv 2412.19437, section 3.2.1 and figure 5; the lengths of the eight steps
// from deepseek-ai/DualPipe 3da1bbea, dualpipe/dualpipe.py and dualpipe/dualpipev.py.

namespace flopcast {

namespace {

struct DualPipeRank {
  int depth = 0;
  int depths = 1;   // ranks from an entry to the turn
  int per_way = 1;  // micro-batches
  int chunk_of_way[2] = {0, 1};
  int first_micro_batch[2] = {0, 0};  // by way
};

class DualPipeWriter {
 public:
  explicit DualPipeWriter(const DualPipeRank& rank) : rank_(rank) {}

  RankOps write() &&;

 private:
  enum class Backward { whole, split };

  void warm_up();
  void steady();
  void cool_down();

  void forward(int way) { ops_.push_back(forward_op(next(forwards_, way), chunk(way))); }
  void backward(int way, Backward kind) {
    const int micro_batch = next(backwards_, way);
    if (kind == Backward::whole) {
      ops_.push_back(backward_op(micro_batch, chunk(way)));
      return;
    }
    ops_.push_back(input_gradient_op(micro_batch, chunk(way)));
    pending_.push(weight_gradient_op(micro_batch, chunk(way)));
  }
  void weight_gradient() {
    ops_.push_back(pending_.front());
    pending_.pop();
  }
  void pair(int forward_way, int backward_way) {
    ops_.push_back({.pass = Pass::overlapped,
                    .micro_batch = next(forwards_, forward_way),
                    .chunk = chunk(forward_way),
                    .beside_micro_batch = next(backwards_, backward_way),
                    .beside_chunk = chunk(backward_way)});
  }

  int chunk(int way) const { return rank_.chunk_of_way[way]; }
  int next(int (&count)[2], int way) const { return rank_.first_micro_batch[way] + count[way]++; }
  int ranks_below() const { return rank_.depths - rank_.depth - 1; }

  const DualPipeRank& rank_;
  RankOps ops_;
  std::queue<ScheduleOp> pending_;  // weight gradients, oldest first
  int forwards_[2] = {0, 0};        // by way
  int backwards_[2] = {0, 0};
};

void DualPipeWriter::warm_up() {
  for (int i = 0; i < 2 * ranks_below(); ++i) forward(0);
  for (int i = 0; i < rank_.depth + 1; ++i) {
    forward(0);
    forward(1);
  }
  for (int i = 0; i < ranks_below(); ++i) {
    backward(1, Backward::split);
    weight_gradient();
    forward(1);
  }
}

void DualPipeWriter::steady() {
  const int rounds = rank_.per_way - 2 * rank_.depths + rank_.depth + 1;
  for (int i = 0; i < rounds; ++i) {
    if (i == 0 && ranks_below() == 0) {  // one after the other at the turn: a smaller bubble
      forward(0);
      backward(1, Backward::whole);
    } else {
      pair(0, 1);
    }
    pair(1, 0);
  }
  for (int i = 0; i < ranks_below(); ++i) {
    backward(1, Backward::whole);
    pair(1, 0);
  }
}

void DualPipeWriter::cool_down() {
  const int rounds = rank_.depth + 1;
  const int whole = rounds / 2 * 2 + (rank_.depth % 2 == 0 ? 1 : 0);  // the second half is split
  for (int i = 0; i < 2 * rounds; ++i) {
    backward(i % 2 == 0 ? 1 : 0, i < whole ? Backward::whole : Backward::split);
  }
  for (int i = 0; i < ranks_below(); ++i) {
    weight_gradient();
    backward(0, Backward::split);
  }
  while (!pending_.empty()) weight_gradient();
}

RankOps DualPipeWriter::write() && {
  warm_up();
  steady();
  cool_down();
  return std::move(ops_);
}

}  // namespace

ScheduleOps dualpipe_order(const ScheduleShape& shape) {
  ScheduleOps ranks;
  const int half = shape.micro_batches / 2;
  for (int r = 0; r < shape.ranks; ++r) {
    DualPipeRank rank{.depth = r, .depths = shape.ranks / 2, .per_way = half};
    rank.first_micro_batch[1] = half;
    if (r >= rank.depths) {  // deeper is towards lower ranks: the second copy of the model
      rank.depth = shape.ranks - 1 - r;
      std::swap(rank.chunk_of_way[0], rank.chunk_of_way[1]);
      std::swap(rank.first_micro_batch[0], rank.first_micro_batch[1]);
    }
    ranks.push_back(DualPipeWriter(rank).write());
  }
  return ranks;
}

ScheduleOps dualpipe_v_order(const ScheduleShape& shape) {
  ScheduleOps ranks;
  for (int r = 0; r < shape.ranks; ++r) {
    const DualPipeRank rank{.depth = r, .depths = shape.ranks, .per_way = shape.micro_batches};
    ranks.push_back(DualPipeWriter(rank).write());
  }
  return ranks;
}

}  // namespace flopcast
