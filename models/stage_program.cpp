#include "models/stage_program.h"

#include <algorithm>
#include <string>
#include <utility>

#include "models/expert_routing.h"
#include "models/parameters.h"
#include "models/stage_builder.h"

namespace flopcast {

StageBuilder::StageBuilder(const StageInputs& inputs, const RankRole& role, CostTables& tables)
    : inputs_(inputs),
      role_(role),
      rank_(role.stage),
      tables_(tables),
      context_{inputs.job.model, inputs.job.layout, inputs.job.training, inputs.padded_vocab},
      program_(kStepStreamNames.size()) {
  const auto count = static_cast<std::size_t>(inputs.job.layout.vpp);
  for (std::size_t c = 0; c < count; ++c) {
    const int chunk = static_cast<int>(c);
    const StageContent& content = inputs.stages[static_cast<std::size_t>(stage_of(chunk))];
    chunks_.push_back(build_chunk(context_, content, {chunk, rank_}, role_.groups, tables));
    parameters_ += chunks_.back().parameters;
    expert_parameters_ += chunks_.back().expert_parameters;
  }
  reduced_.assign(count, 0);
  last_backward_.assign(count, 0);
  gradients_held_.assign(count, false);
  gathers_.resize(count);
  awaited_.assign(count, 0);
  std::size_t backward = 0;
  for (const ScheduleOp& op : inputs.schedule[static_cast<std::size_t>(rank_)]) {
    if (op.pass == Pass::backward) last_backward_[static_cast<std::size_t>(op.chunk)] = backward++;
  }
}

StageProgram StageBuilder::build() && {
  allocate_states();
  if (sharded() && inputs_.job.layout.zero == 3) shard_parameters();
  if (sharded() && training().overlap_param_gather) gather_parameters();
  std::size_t backward_index = 0;
  for (const ScheduleOp& op : inputs_.schedule[static_cast<std::size_t>(rank_)]) {
    if (op.pass == Pass::forward) {
      forward(op);
    } else {
      backward(op);
      reduce_aligned(backward_index++);
    }
  }
  finish_gradients();
  optimize();
  out_.parameters = parameters_;
  out_.program = std::move(program_).finish();
  return std::move(out_);
}

void StageBuilder::work(const TimedOperators& operators) {
  append(program_, operators);
  out_.executed += operators.executed;
  out_.recomputed += operators.recomputed;
}

void StageBuilder::forward(const ScheduleOp& op) {
  const ModelChunk& chunk = chunks_[static_cast<std::size_t>(op.chunk)];
  receive(op);
  if (chunk.saved_by_ends > 0) hold(MemoryPool::activations, chunk.saved_by_ends);
  if (chunk.content.embedding) {
    await_parameters(op.chunk,
                     chunk.layers.empty() ? chunk.head_tensor : chunk.layers[0].first_tensor);
    begin_unit();
    work(chunk.embedding_forward);
    end_unit();
  }
  for (std::size_t i = 0; i < chunk.layers.size(); ++i) {
    const bool last = i + 1 == chunk.layers.size();
    await_parameters(op.chunk, last ? chunk.head_tensor : chunk.layers[i + 1].first_tensor);
    hold(MemoryPool::activations, chunk.layers[i].saved);
    begin_unit();
    work(chunk.layers[i].forward);
    end_unit();
  }
  if (chunk.content.head) {
    await_parameters(op.chunk, kAllTensors);
    begin_unit();
    work(chunk.head_forward);
    end_unit();
  }
  send(op);
}

void StageBuilder::backward_layer(const ModelChunk& chunk, std::size_t layer) {
  const ChunkLayer& row = chunk.layers[layer];
  begin_unit();
  if (row.restored > 0) hold(MemoryPool::activations, row.restored);
  work(row.recompute);
  work(row.backward);
  free(MemoryPool::activations, row.saved + row.restored);
  end_unit();
}

void StageBuilder::backward(const ScheduleOp& op) {
  const auto c = static_cast<std::size_t>(op.chunk);
  const ModelChunk& chunk = chunks_[c];
  const bool last =
      reduces_each() ||
      op.micro_batch ==
          static_cast<std::int32_t>(micro_batches(inputs_.job.layout, training().batch)) - 1;
  receive(op);
  hold_gradients(op.chunk);
  if (chunk.content.head) {
    begin_unit();
    work(chunk.head_backward);
    end_unit();
  }
  if (last) reduce_completed(op.chunk, chunk.head_tensor);
  for (std::size_t layer = chunk.layers.size(); layer-- > 0;) {
    backward_layer(chunk, layer);
    if (last) reduce_completed(op.chunk, chunk.layers[layer].first_tensor);
  }
  if (chunk.content.embedding) {
    begin_unit();
    work(chunk.embedding_backward);
    end_unit();
  }
  if (last) reduce_completed(op.chunk, 0);
  if (reduces_each()) {
    reduce_rest(op.chunk);
    if (!training().overlap_grad_reduce) program_.order(kData, kCompute);
  }
  if (chunk.saved_by_ends > 0) free(MemoryPool::activations, chunk.saved_by_ends);
  send(op);
}

void StageBuilder::receive(const ScheduleOp& op) {
  const int stage = stage_of(op.chunk);
  const bool forward = op.pass == Pass::forward;
  if (stage == (forward ? 0 : last_stage())) return;
  const std::size_t stream = forward ? kForwardRecv : kBackwardRecv;
  const StepGroup from = forward ? StepGroup::forward_previous : StepGroup::backward_next;
  program_.recv(stream, slot_of(from), tag(op, stage), id_of(StepCategory::pipeline),
                tables_.label(forward ? "receive activation" : "receive gradient"));
  program_.order(stream, kCompute);
}

/// Blocking frameworks and the schedule without interleaving wait for their sends: Megatron-LM
/// d98e8a64, pipeline_parallel/p2p_communication.py, `wait_on_reqs` unless overlap_p2p_comm.
void StageBuilder::send(const ScheduleOp& op) {
  const int stage = stage_of(op.chunk);
  const bool forward = op.pass == Pass::forward;
  if (stage == (forward ? last_stage() : 0)) return;
  const std::size_t stream = forward ? kForwardSend : kBackwardSend;
  const StepGroup to = forward ? StepGroup::forward_next : StepGroup::backward_previous;
  const TransferId transfer = tables_.transfer(
      CollectiveKind::send_recv, pipeline_hop_size(context_), group(to), StepCategory::pipeline);
  program_.order(kCompute, stream);
  program_.send(stream, slot_of(to), tag(op, forward ? stage + 1 : stage - 1), transfer,
                id_of(StepCategory::pipeline),
                tables_.label(forward ? "send activation" : "send gradient"));
  const bool beside = inputs_.job.layout.vpp > 1 && training().overlap_p2p;
  if (!beside || training().framework.blocking_p2p) program_.order(stream, kCompute);
}

void StageBuilder::allocate_states() {
  const double elements = static_cast<double>(parameters_);
  const auto hold_elements = [this](MemoryPool pool, double count, double size) {
    hold(pool, static_cast<std::int64_t>(count * size));
  };
  const double parameter = element_size(training().parameter_dtype).value;
  const double gradient = element_size(training().gradient_dtype).value;
  const bool whole = inputs_.job.layout.zero < 3;
  if (!whole && training().framework.keeps_fp32_parameters) {
    // The optimizer's weight is the parameter, whose gradient comes with its reduction.
    const double fp32 = element_size(DataType::fp32).value;
    hold_elements(MemoryPool::parameters, own_elements(), fp32);
    hold_elements(MemoryPool::optimizer, own_elements(), kOptimizerStateBytes - fp32);
  } else {
    hold_elements(MemoryPool::parameters, whole ? elements : own_elements(), parameter);
    hold_elements(MemoryPool::gradients, gradients_whole() ? elements : own_elements(), gradient);
    hold_elements(MemoryPool::optimizer, own_elements(), kOptimizerStateBytes);
  }
  // A tensor-parallel region works on the gathered activation and its gradient.
  const double activation = static_cast<double>(context_.tokens() * inputs_.job.model.hidden);
  if (grid().tp > 1) hold_elements(MemoryPool::buffers, 2 * activation, parameter);
  if (const double routed = routed_elements(); routed > 0) {
    hold_elements(MemoryPool::buffers, routed, parameter);
  }
  if (grid().pp > 1) {
    const double hop = pipeline_hop_size(context_).value;
    hold_elements(MemoryPool::buffers, 2, hop);
  }
}

/// A layer with experts holds the routed tokens before and after each exchange.
double StageBuilder::routed_elements() const {
  const Transformer& model = inputs_.job.model;
  bool experts = false;
  for (const ModelChunk& chunk : chunks_) {
    const StageContent& content = chunk.content;
    for (std::int64_t i = 0; i < content.layers; ++i) {
      experts |= model.has_experts(content.first_layer + i);
    }
  }
  if (!experts) return 0;
  const RoutedTokens tokens = routed_tokens(context_);
  return static_cast<double>((tokens.sent + tokens.held) * model.hidden);
}

void StageBuilder::blocking(StepGroup slot, CollectiveKind kind, Bytes size,
                            std::string_view name) {
  const std::size_t stream = slot == StepGroup::tensor ? kTensor : kData;
  const TransferId transfer = tables_.transfer(kind, size, group(slot), StepCategory::synchronize);
  program_.order(kCompute, stream);
  program_.collective(stream, slot_of(slot), transfer, id_of(StepCategory::synchronize),
                      tables_.label(name));
  program_.order(stream, kCompute);
}

/// Source: Megatron-LM d98e8a64, distributed/finalize_model_grads.py: data-parallel reduction, then
/// gradients of norms under sequence parallelism, then the tied embedding.
void StageBuilder::finish_gradients() {
  if (reduces()) {
    for (std::size_t c = 0; c < chunks_.size(); ++c) reduce_rest(static_cast<int>(c));
    program_.order(kData, kCompute);
    if (group(StepGroup::replica) != kNoGroup) program_.order(kReplica, kCompute);
  }
  const Bytes gradient = element_size(training().gradient_dtype);
  std::int64_t replicated = 0;
  std::int64_t tied = 0;
  for (const ModelChunk& chunk : chunks_) {
    replicated += chunk.replicated;
    tied += chunk.tied_embedding;
  }
  if (inputs_.job.layout.sequence_parallel && grid().tp > 1) {
    blocking(StepGroup::tensor, CollectiveKind::all_reduce,
             static_cast<double>(replicated) * gradient, "reduce norm gradients");
  }
  if (tied > 0 && grid().pp > 1) {
    blocking(StepGroup::embedding, CollectiveKind::all_reduce, static_cast<double>(tied) * gradient,
             "reduce tied embedding");
  }
}

/// Adam reads gradient, master weight and two moments and writes all but the first, in fp32, and
/// the parameter in its own type; the norm before it reads the gradient; the buffer is cleared
/// after it.
void StageBuilder::optimize() {
  const double own = own_elements();
  const Bytes fp32 = element_size(DataType::fp32);
  const Bytes parameter = element_size(training().parameter_dtype);
  const Bytes gradient = element_size(training().gradient_dtype);
  memory_kernel(MemoryKernel::elementwise, own * gradient, StepCategory::optimizer,
                "gradient norm");
  if (group(StepGroup::world) != kNoGroup) {
    blocking(StepGroup::world, CollectiveKind::all_reduce, fp32, "gradient norm over all ranks");
  }
  memory_kernel(MemoryKernel::optimizer, own * (7.0 * fp32 + parameter), StepCategory::optimizer,
                "optimizer");
  if (shards_) {
    shards_->release_gradients();
  } else {
    memory_kernel(MemoryKernel::elementwise, static_cast<double>(parameters_) * gradient,
                  StepCategory::optimizer, "clear gradients");
  }
  if (sharded() && !training().overlap_param_gather) {
    program_.order(kCompute, kData);
    gather_parameters();
    program_.order(kData, kCompute);
  }
  if (training().framework.step_overhead > seconds(0)) {
    const TimeEstimate overhead{training().framework.step_overhead, Evidence::assumed};
    program_.compute(kCompute, tables_.kernel(overhead, StepCategory::overhead),
                     id_of(StepCategory::overhead), tables_.label("host work"));
  }
}

StageProgram stage_program(const StageInputs& inputs, const RankRole& role, CostTables& tables) {
  return StageBuilder(inputs, role, tables).build();
}

}  // namespace flopcast
