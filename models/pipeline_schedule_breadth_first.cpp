#include "models/pipeline_schedule_orders.h"

// All forwards before the first backward, stage by stage.

namespace flopcast {

// Backwards in the order of the forwards.
// Source: PyTorch 2.14.1, torch/distributed/pipelining/schedules.py, ScheduleGPipe. The paper
// (arXiv 1811.06965) runs the backwards in reverse: same makespan, another order of release.
ScheduleOps gpipe_order(const ScheduleShape& shape) {
  RankOps ops;
  for (int m = 0; m < shape.micro_batches; ++m) ops.push_back(forward_op(m, 0));
  for (int m = 0; m < shape.micro_batches; ++m) ops.push_back(backward_op(m, 0));
  return ScheduleOps(static_cast<std::size_t>(shape.ranks), ops);
}

// Looped breadth first: all micro-batches run through a chunk before any enters the next.
// Source: Lamy-Poirier, arXiv 2211.05953, section 4.1; backwards in reverse as PyTorch 2.14.1 does,
// torch/distributed/pipelining/schedules.py, ScheduleLoopedBFS.
ScheduleOps looped_bfs_order(const ScheduleShape& shape) {
  RankOps ops;
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    for (int m = 0; m < shape.micro_batches; ++m) ops.push_back(forward_op(m, chunk));
  }
  for (int chunk = shape.chunks - 1; chunk >= 0; --chunk) {
    for (int m = shape.micro_batches - 1; m >= 0; --m) ops.push_back(backward_op(m, chunk));
  }
  return ScheduleOps(static_cast<std::size_t>(shape.ranks), ops);
}

}  // namespace flopcast
