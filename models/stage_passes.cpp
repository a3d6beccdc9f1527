#include <algorithm>

#include "models/stage_builder.h"

// The passes of a schedule, layer by layer, and what goes from stage to stage.

namespace flopcast {

void StageBuilder::count(const TimedOperators& operators) {
  out_.executed += operators.executed;
  out_.recomputed += operators.recomputed;
}

void StageBuilder::work(const TimedOperators& operators) {
  append(program_, operators);
  count(operators);
}

void StageBuilder::run(const ScheduleOp& op) {
  switch (op.pass) {
    case Pass::forward: return forward(op);
    case Pass::backward: return backward(op);
    case Pass::input_gradient: return input_gradient(op);
    case Pass::weight_gradient: return weight_gradient(op);
    case Pass::overlapped: return overlapped(op);
  }
}

void StageBuilder::begin_forward(int c) {
  const ModelChunk& chunk = chunk_at(c);
  if (chunk.saved_by_ends > 0) hold(MemoryPool::activations, chunk.saved_by_ends);
  if (!chunk.content.embedding) return;
  await_parameters(c, chunk.layers.empty() ? chunk.head_tensor : chunk.layers[0].first_tensor);
  work(chunk.embedding_forward);
}

void StageBuilder::enter_layer(int c, std::size_t layer) {
  const ChunkLayer& row = chunk_at(c).layers[layer];
  await_parameters(c, row.end_tensor);
  hold(MemoryPool::activations, row.saved);
}

void StageBuilder::end_forward(int c) {
  const ModelChunk& chunk = chunk_at(c);
  if (!chunk.content.head) return;
  await_parameters(c, kAllTensors);
  work(chunk.head_forward);
}

void StageBuilder::forward(const ScheduleOp& op) {
  const ModelChunk& chunk = chunk_at(op.chunk);
  receive(op);
  begin_forward(op.chunk);
  for (std::size_t layer = 0; layer < chunk.layers.size(); ++layer) {
    enter_layer(op.chunk, layer);
    work(chunk.layers[layer].forward);
  }
  end_forward(op.chunk);
  send(op);
}

void StageBuilder::begin_backward(int c) {
  const ModelChunk& chunk = chunk_at(c);
  hold_gradients(c);
  if (chunk.content.head) work(chunk.head_backward);
  if (completes(c)) reduce_completed(c, chunk.head_tensor);
}

void StageBuilder::recompute_layer(int c, std::size_t layer) {
  const ChunkLayer& row = chunk_at(c).layers[layer];
  if (row.restored > 0) hold(MemoryPool::activations, row.restored);
  work(row.recompute);
}

void StageBuilder::leave_layer(int c, std::size_t layer) {
  const ChunkLayer& row = chunk_at(c).layers[layer];
  free(MemoryPool::activations, row.saved + row.restored);
  if (completes(c)) reduce_completed(c, row.first_tensor);
}

void StageBuilder::end_backward(int c) {
  const ModelChunk& chunk = chunk_at(c);
  if (chunk.content.embedding) work(chunk.embedding_backward);
  if (completes(c)) reduce_completed(c, 0);
  if (chunk.saved_by_ends > 0) free(MemoryPool::activations, chunk.saved_by_ends);
}

void StageBuilder::backward(const ScheduleOp& op) {
  const ModelChunk& chunk = chunk_at(op.chunk);
  receive(op);
  begin_backward(op.chunk);
  for (std::size_t layer = chunk.layers.size(); layer-- > 0;) {
    recompute_layer(op.chunk, layer);
    work(chunk.layers[layer].backward);
    leave_layer(op.chunk, layer);
  }
  end_backward(op.chunk);
  send(op);
}

/// Autograd's work; of the activations only inputs of linear layers outlive it, and it adds the
/// gradients of their outputs.
void StageBuilder::input_gradient(const ScheduleOp& op) {
  const ModelChunk& chunk = chunk_at(op.chunk);
  receive(op);
  if (chunk.content.head) work(chunk.head_input_gradient);
  for (std::size_t i = chunk.layers.size(); i-- > 0;) {
    const ChunkLayer& layer = chunk.layers[i];
    hold(MemoryPool::activations, layer.output_gradients);
    recompute_layer(op.chunk, i);
    work(layer.input_gradient);
    free(MemoryPool::activations, layer.saved + layer.restored - layer.weight_inputs);
  }
  if (chunk.content.embedding) work(chunk.embedding_backward);
  if (chunk.saved_by_ends > 0) {
    hold(MemoryPool::activations, chunk.kept_by_ends);
    free(MemoryPool::activations, chunk.saved_by_ends);
  }
  send(op);
}

void StageBuilder::weight_gradient(const ScheduleOp& op) {
  const ModelChunk& chunk = chunk_at(op.chunk);
  const bool last = completes(op.chunk);
  hold_gradients(op.chunk);
  if (chunk.content.head) work(chunk.head_weight_gradient);
  if (chunk.kept_by_ends > 0) free(MemoryPool::activations, chunk.kept_by_ends);
  if (last) reduce_completed(op.chunk, chunk.head_tensor);
  for (std::size_t i = chunk.layers.size(); i-- > 0;) {
    const ChunkLayer& layer = chunk.layers[i];
    work(layer.weight_gradient);
    free(MemoryPool::activations, layer.weight_inputs + layer.output_gradients);
    if (last) reduce_completed(op.chunk, layer.first_tensor);
  }
  if (last) reduce_completed(op.chunk, 0);
}

/// A backward and a forward of other chunks and micro-batches, layer beside layer: both inputs are
/// awaited, and both results sent at the end. Source: deepseek-ai/DualPipe 3da1bbea,
/// dualpipe/dualpipe.py, _forward_backward_chunk.
void StageBuilder::overlapped(const ScheduleOp& op) {
  const ScheduleOp ahead{.pass = Pass::forward, .micro_batch = op.micro_batch, .chunk = op.chunk};
  const ScheduleOp back{
      .pass = Pass::backward, .micro_batch = op.beside_micro_batch, .chunk = op.beside_chunk};
  const std::vector<ChunkLayer>& forwards = chunk_at(ahead.chunk).layers;
  const std::vector<ChunkLayer>& backwards = chunk_at(back.chunk).layers;
  receive(ahead);
  receive(back);
  begin_forward(ahead.chunk);
  begin_backward(back.chunk);
  for (std::size_t i = 0; i < std::max(forwards.size(), backwards.size()); ++i) {
    const TimedOperators nothing;
    const bool runs_forward = i < forwards.size();
    const bool runs_backward = i < backwards.size();
    const std::size_t layer = backwards.size() - 1 - i;
    if (runs_forward) enter_layer(ahead.chunk, i);
    if (runs_backward) recompute_layer(back.chunk, layer);
    const TimedOperators& first = runs_backward ? backwards[layer].backward : nothing;
    const TimedOperators& second = runs_forward ? forwards[i].forward : nothing;
    append_beside(program_, first, second);
    count(first);
    count(second);
    if (runs_backward) leave_layer(back.chunk, layer);
  }
  end_forward(ahead.chunk);
  end_backward(back.chunk);
  send(ahead);
  send(back);
}

std::optional<StagePlace> StageBuilder::source_of(const ScheduleOp& op) const {
  const StagePlace here = place(op.chunk);
  return op.pass == Pass::forward ? previous_place(pipeline_, here) : next_place(pipeline_, here);
}

std::optional<StagePlace> StageBuilder::target_of(const ScheduleOp& op) const {
  const StagePlace here = place(op.chunk);
  return op.pass == Pass::forward ? next_place(pipeline_, here) : previous_place(pipeline_, here);
}

/// Whether a message of a pass goes to the next rank: forwards do in a line and in a loop; the
/// second chunk of a V and the second copy of a model run the other way.
bool StageBuilder::goes_up(const ScheduleOp& op) const {
  const bool returns =
      pipeline_.placement == Placement::v || pipeline_.placement == Placement::bidirectional;
  return (op.pass == Pass::forward) != (returns && op.chunk == 1);
}

/// At the turn of a V the next stage is on the same rank.
void StageBuilder::receive(const ScheduleOp& op) {
  const auto source = source_of(op);
  if (!source || source->rank == rank_) return;
  const bool forward = op.pass == Pass::forward;
  const std::size_t stream = forward ? kForwardRecv : kBackwardRecv;
  const StepGroup from = goes_up(op) ? StepGroup::forward_previous : StepGroup::backward_next;
  program_.recv(stream, slot_of(from), tag(op, stage_of(op.chunk)), id_of(StepCategory::pipeline),
                tables_.label(forward ? "receive activation" : "receive gradient"));
  program_.order(stream, kCompute);
}

/// Blocking frameworks and schedules with one chunk and whole backward passes wait for their sends:
/// Megatron-LM d98e8a64, pipeline_parallel/p2p_communication.py, `wait_on_reqs` unless
/// overlap_p2p_comm.
void StageBuilder::send(const ScheduleOp& op) {
  const auto target = target_of(op);
  if (!target || target->rank == rank_) return;
  const bool forward = op.pass == Pass::forward;
  const std::size_t stream = forward ? kForwardSend : kBackwardSend;
  const StepGroup to = goes_up(op) ? StepGroup::forward_next : StepGroup::backward_previous;
  const TransferId transfer = tables_.transfer(
      CollectiveKind::send_recv, pipeline_hop_size(context_), group(to), StepCategory::pipeline);
  program_.order(kCompute, stream);
  program_.send(stream, slot_of(to), tag(op, flopcast::stage_of(pipeline_, *target)), transfer,
                id_of(StepCategory::pipeline),
                tables_.label(forward ? "send activation" : "send gradient"));
  const bool beside = !plain_schedule() && training().overlap_p2p;
  if (!beside || training().framework.blocking_p2p) program_.order(stream, kCompute);
}

}  // namespace flopcast
