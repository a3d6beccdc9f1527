#include "models/stage_builder.h"

// Parameters and gradients of one rank over its data-parallel groups, bucket by bucket.

namespace flopcast {

/// Parameters come back from the optimizer's shards in forward order, one bucket after another.
void StageBuilder::gather_parameters() {
  const LabelId label = tables_.label("gather parameters");
  for (const int chunk : chunks_by_stage()) {
    const auto c = static_cast<std::size_t>(chunk);
    const std::vector<ChunkBucket>& buckets = chunks_[c].buckets;
    for (auto bucket = buckets.rbegin(); bucket != buckets.rend(); ++bucket) {
      program_.collective(kData, slot_of(bucket->group), bucket->gather,
                          id_of(StepCategory::parameter), label);
      gathers_[c].push_back({program_.record(kData), bucket->first_tensor});
    }
  }
}

/// The first forward pass of a chunk waits, layer by layer, for the buckets that hold tensors
/// before `end_tensor`. Source: Megatron-LM d98e8a64, distributed/distributed_data_parallel.py,
/// forward pre-hooks of overlap_param_gather.
void StageBuilder::await_parameters(int chunk, std::size_t end_tensor) {
  const auto c = static_cast<std::size_t>(chunk);
  for (; awaited_[c] < gathers_[c].size(); ++awaited_[c]) {
    const Gather& gather = gathers_[c][awaited_[c]];
    if (gather.first_tensor >= end_tensor) return;
    program_.wait(kCompute, gather.done);
  }
}

/// Starts the buckets of a chunk whose gradients are all there, beside the backward pass. Without
/// interleaving only the first stage does so if Megatron aligns the stages: the others would reduce
/// while they are still in the middle of the pipeline; they start when they are done, in the
/// bubble.
void StageBuilder::reduce_completed(int chunk, std::size_t completed_tensor) {
  const auto c = static_cast<std::size_t>(chunk);
  if (!reduces() || !training().overlap_grad_reduce || copies() > 1) return;
  if (grid().pp > 1 && training().framework.align_grad_reduce &&
      (!plain_schedule() || rank_ != 0)) {
    return;
  }
  const std::vector<ChunkBucket>& buckets = chunks_[c].buckets;
  while (reduced_[c] < buckets.size() && buckets[reduced_[c]].first_tensor >= completed_tensor) {
    program_.order(kCompute, kData);
    reduce_bucket(buckets[reduced_[c]++]);
  }
  free_reduced(chunk);
}

void StageBuilder::reduce_bucket(const ChunkBucket& bucket) {
  program_.collective(kData, slot_of(bucket.group), bucket.reduce, id_of(StepCategory::gradient),
                      tables_.label("reduce gradients"));
}

void StageBuilder::reduce_rest(int chunk) {
  const auto c = static_cast<std::size_t>(chunk);
  if (reduced_[c] == chunks_[c].buckets.size()) return;
  program_.order(kCompute, kData);
  while (reduced_[c] < chunks_[c].buckets.size()) reduce_bucket(chunks_[c].buckets[reduced_[c]++]);
  free_reduced(chunk);
}

void StageBuilder::hold_gradients(int chunk) {
  const auto c = static_cast<std::size_t>(chunk);
  if (!gradients_sharded() || gradients_held_[c]) return;
  hold(MemoryPool::gradients, gradient_bytes(c));
  gradients_held_[c] = true;
}

void StageBuilder::free_reduced(int chunk) {
  const auto c = static_cast<std::size_t>(chunk);
  if (!gradients_held_[c] || reduced_[c] < chunks_[c].buckets.size()) return;
  program_.release(kData, id_of(MemoryPool::gradients), gradient_bytes(c));
  gradients_held_[c] = false;
}

/// A chunk is reduced after its last weight gradient; interleaved, `rank` backward passes later, so
/// that all ranks start together. Source: Megatron-LM d98e8a64, pipeline_parallel/schedules.py,
/// grad_sync_virtual_microbatch_id. Two copies of a stage wait for each other, to the end of both.
void StageBuilder::reduce_aligned(std::size_t backward_index) {
  if (!reduces() || !training().overlap_grad_reduce) return;
  if (plain_schedule() || copies() > 1) return;
  const bool shifted =
      schedule() == ScheduleKind::interleaved && training().framework.align_grad_reduce;
  const std::size_t shift = shifted ? static_cast<std::size_t>(rank_) : 0;
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    if (backward_index == last_backward_[c] + shift) reduce_rest(static_cast<int>(c));
  }
}

}  // namespace flopcast
