#include <algorithm>
#include <cmath>

#include "models/stage_builder.h"

// The passes of a schedule, layer by layer, and what goes from stage to stage.

namespace flopcast {

void StageBuilder::count(const LoadedOperators& stretch) {
  const TimedOperators& work = stretch.work;
  const double more = RoutingLoad::part(stretch.load.own) - 1;
  out_.executed += work.executed + more * work.executed_routed;
  out_.recomputed += work.recomputed + more * work.recomputed_routed;
}

void StageBuilder::work(const TimedOperators& operators, const RoutingLoad& load) {
  const LoadedOperators stretch{operators, load};
  append(program_, stretch, tables_);
  count(stretch);
}

StageBuilder::LayerTurn StageBuilder::turn_of(int c, std::size_t index, int micro_batch) const {
  const ChunkLayer& layer = chunk_at(c).layers[index];
  const RoutingLoad load = inputs_.routing.at(layer.number, micro_batch, role_.expert_rank);
  LayerTurn turn{.layer = layer, .load = load, .kept = layer.kept};
  if (load.own == RoutingLoad::kBalanced) return turn;
  const double more = RoutingLoad::part(load.own) - 1;
  const auto add = [&](std::int64_t LayerBytes::*part) {
    turn.kept.*part += std::llround(more * static_cast<double>(layer.routed.*part));
  };
  add(&LayerBytes::saved);
  add(&LayerBytes::restored);
  add(&LayerBytes::weight_inputs);
  add(&LayerBytes::output_gradients);
  return turn;
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
  begin_unit();
  work(chunk.embedding_forward);
  end_unit();
}

void StageBuilder::enter_layer(int c, const LayerTurn& turn) {
  await_parameters(c, turn.layer.end_tensor);
  hold_activations(turn, turn.kept.saved);
}

void StageBuilder::end_forward(int c) {
  const ModelChunk& chunk = chunk_at(c);
  if (!chunk.content.head) return;
  await_parameters(c, kAllTensors);
  begin_unit();
  work(chunk.head_forward);
  end_unit();
}

void StageBuilder::forward(const ScheduleOp& op) {
  const ModelChunk& chunk = chunk_at(op.chunk);
  receive(op);
  begin_forward(op.chunk);
  for (std::size_t i = 0; i < chunk.layers.size(); ++i) {
    const LayerTurn turn = turn_of(op.chunk, i, op.micro_batch);
    await_copied_out(chunk, i);
    enter_layer(op.chunk, turn);
    begin_unit();
    work(turn.layer.forward, turn.load);
    end_unit();
    copy_out(chunk, i);
  }
  end_forward(op.chunk);
  send(op);
}

void StageBuilder::begin_backward(int c) {
  const ModelChunk& chunk = chunk_at(c);
  hold_gradients(c);
  if (chunk.content.head) {
    begin_unit();
    if (chunk.loss_workspace > 0) hold(MemoryPool::activations, chunk.loss_workspace);
    work(chunk.head_backward);
    if (chunk.loss_workspace > 0) free(MemoryPool::activations, chunk.loss_workspace);
    end_unit();
  }
  if (completes(c)) reduce_completed(c, chunk.head_tensor);
}

void StageBuilder::recompute_layer(const LayerTurn& turn) {
  if (turn.restores()) hold_activations(turn, turn.kept.restored);
  work(turn.layer.recompute, turn.load);
}

void StageBuilder::leave_layer(int c, const LayerTurn& turn) {
  free_activations(turn, turn.kept.saved + turn.kept.restored);
  if (completes(c)) reduce_completed(c, turn.layer.first_tensor);
}

void StageBuilder::end_backward(int c) {
  const ModelChunk& chunk = chunk_at(c);
  if (chunk.content.embedding) {
    begin_unit();
    work(chunk.embedding_backward);
    end_unit();
  }
  if (completes(c)) reduce_completed(c, 0);
  if (reduces_each()) {
    reduce_rest(c);
    if (!training().overlap_grad_reduce) program_.order(kData, kCompute);
  }
  if (chunk.saved_by_ends > 0) free(MemoryPool::activations, chunk.saved_by_ends);
}

void StageBuilder::backward(const ScheduleOp& op) {
  const ModelChunk& chunk = chunk_at(op.chunk);
  receive(op);
  begin_backward(op.chunk);
  for (std::size_t i = chunk.layers.size(); i-- > 0;) {
    const LayerTurn turn = turn_of(op.chunk, i, op.micro_batch);
    copy_back(chunk, i);
    begin_unit();
    recompute_layer(turn);
    work(turn.layer.backward, turn.load);
    leave_layer(op.chunk, turn);
    end_unit();
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
    const LayerTurn turn = turn_of(op.chunk, i, op.micro_batch);
    hold_activations(turn, turn.kept.output_gradients);
    recompute_layer(turn);
    work(turn.layer.input_gradient, turn.load);
    free_activations(turn, turn.kept.saved + turn.kept.restored - turn.kept.weight_inputs);
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
    const LayerTurn turn = turn_of(op.chunk, i, op.micro_batch);
    work(turn.layer.weight_gradient, turn.load);
    free_activations(turn, turn.kept.weight_inputs + turn.kept.output_gradients);
    if (last) reduce_completed(op.chunk, turn.layer.first_tensor);
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
  const std::size_t forwards = chunk_at(ahead.chunk).layers.size();
  const std::size_t backwards = chunk_at(back.chunk).layers.size();
  receive(ahead);
  receive(back);
  begin_forward(ahead.chunk);
  begin_backward(back.chunk);
  const TimedOperators nothing;
  for (std::size_t i = 0; i < std::max(forwards, backwards); ++i) {
    std::optional<LayerTurn> entering;
    std::optional<LayerTurn> leaving;
    if (i < forwards) {
      entering.emplace(turn_of(ahead.chunk, i, ahead.micro_batch));
      enter_layer(ahead.chunk, *entering);
    }
    if (i < backwards) {
      leaving.emplace(turn_of(back.chunk, backwards - 1 - i, back.micro_batch));
      recompute_layer(*leaving);
    }
    const LoadedOperators first{leaving ? leaving->layer.backward : nothing,
                                leaving ? leaving->load : RoutingLoad{}};
    const LoadedOperators second{entering ? entering->layer.forward : nothing,
                                 entering ? entering->load : RoutingLoad{}};
    append_beside(program_, first, second, tables_);
    count(first);
    count(second);
    if (leaving) leave_layer(back.chunk, *leaving);
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
  if (!source || source->rank == rank_ || !program_.keeps_ops()) return;
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
  if (!target || target->rank == rank_ || !program_.keeps_ops()) return;
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
