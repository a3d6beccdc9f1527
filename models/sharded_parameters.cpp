#include "models/sharded_parameters.h"

#include <algorithm>
#include <map>
#include <utility>

#include "models/step_streams.h"
#include "sim/check.h"

namespace flopcast {
namespace {

/// Units of a chunk in the order in which a forward pass uses them.
std::vector<std::size_t> forward_order(const ChunkUnits& chunk) {
  std::vector<std::size_t> order;
  order.reserve(chunk.units.size() + 1);
  if (chunk.embedding) order.push_back(*chunk.embedding);
  for (std::size_t i = 0; i < chunk.units.size(); ++i) {
    if (i != chunk.embedding && i != chunk.head) order.push_back(i);
  }
  if (chunk.head) order.push_back(*chunk.head);
  return order;
}

}  // namespace

ShardedParameters::ShardedParameters(const OperatorContext& context, std::vector<ChunkUnits> chunks,
                                     const std::vector<ScheduleOp>& schedule,
                                     ProgramBuilder& program, CostTables& tables)
    : context_(context),
      chunks_(std::move(chunks)),
      program_(program),
      tables_(tables),
      parameter_(element_size(context.training.parameter_dtype).value),
      gradient_(element_size(context.training.gradient_dtype).value),
      written_(context.training.framework.fresh_gradients ? parameter_ : gradient_) {
  states_.reserve(chunks_.size());
  for (const ChunkUnits& chunk : chunks_) states_.emplace_back(chunk.units.size());
  plan(schedule);
  plan_gathers();
}

void ShardedParameters::plan(const std::vector<ScheduleOp>& schedule) {
  std::map<std::int32_t, std::size_t> final_op;  // by chunk
  for (std::size_t i = 0; i < schedule.size(); ++i) {
    if (schedule[i].pass == Pass::backward) final_op[schedule[i].chunk] = i;
  }
  for (std::size_t i = 0; i < schedule.size(); ++i) {
    plan_pass(schedule[i], final_op[schedule[i].chunk] == i);
  }
}

/// PyTorch's pipeline reduces gradients once, after the last micro-batch: PyTorch 2.14.1,
/// torch/distributed/pipelining/stage.py, backward_maybe_with_nosync. DeepSpeed has no pipeline
/// with ZeRO-2 or 3.
void ShardedParameters::plan_pass(const ScheduleOp& op, bool final) {
  const auto c = static_cast<std::size_t>(op.chunk);
  const bool backward = op.pass == Pass::backward;
  const bool deferred = context_.layout.grid.pp > 1 && framework().defers_reductions_in_pipeline;
  const bool each = framework().reduces_each_micro_batch && !deferred;
  std::vector<std::size_t> order = forward_order(chunks_[c]);
  if (backward) std::ranges::reverse(order);
  for (std::size_t i = 0; i < order.size(); ++i) {
    // The two ends alone may be one unit.
    const bool twice = order.size() > 1 && order.front() == order.back();
    uses_.push_back({.chunk = c,
                     .unit = order[i],
                     .backward = backward,
                     .first = !twice || i + 1 < order.size(),
                     .last = !twice || i > 0,
                     .reduces = backward && (each || final),
                     .final = final});
  }
}

/// What there is of each unit's parameters before and after each use. All begin as shards.
void ShardedParameters::plan_gathers() {
  struct Known {
    Kept kept = Kept::shard;
    std::size_t use = kNever;
  };
  std::vector<std::vector<Known>> known;
  known.reserve(chunks_.size());
  for (const ChunkUnits& chunk : chunks_) known.emplace_back(chunk.units.size());
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    Use& use = uses_[i];
    Known& unit = known[use.chunk][use.unit];
    use.before = unit.kept;
    use.previous = unit.use;
    use.after = kept_after(use);
    unit = {use.after, i};
    if (use.before != Kept::whole && unit_of(use).gathered > bytes(0)) gathers_.push_back(i);
  }
}

ShardedParameters::Kept ShardedParameters::kept_after(const Use& use) const {
  if (!use.last) return Kept::whole;
  const Layout& layout = context_.layout;
  if (use.backward) {
    const bool kept = framework().keeps_unreduced_gathered && layout.reshard == Reshard::never;
    return !use.reduces && (kept || layout.grid.pp > 1) ? Kept::whole : Kept::shard;
  }
  if (layout.reshard == Reshard::never) return Kept::whole;
  const bool next_again = chunks_[use.chunk].head == use.unit;
  if (next_again && layout.reshard == Reshard::all_but_last) return Kept::whole;
  return layout.reshard_ranks > 0 ? Kept::part : Kept::shard;
}

double ShardedParameters::gathered_size(const Use& use, Kept kept) const {
  const double whole = unit_of(use).gathered.value;
  switch (kept) {
    case Kept::whole: return whole;
    case Kept::part: return whole / context_.layout.reshard_ranks;
    case Kept::shard: return 0;
  }
  return 0;
}

void ShardedParameters::hold(std::size_t stream, double size) {
  program_.allocate(stream, id_of(MemoryPool::buffers), static_cast<std::int64_t>(size));
}

void ShardedParameters::free(std::size_t stream, double size) {
  program_.release(stream, id_of(MemoryPool::buffers), static_cast<std::int64_t>(size));
}

void ShardedParameters::copy(std::string_view name, double moved, StepCategory category) {
  const TimeEstimate time = memory_time(tables_.profile(), MemoryKernel::elementwise, bytes(moved));
  program_.compute(kCompute, tables_.kernel(time, category), id_of(category), tables_.label(name));
}

void ShardedParameters::issue_gather() {
  const Use& use = uses_[gathers_[issued_.size()]];
  program_.order(kCompute, kData);
  hold(kData, gathered_size(use, Kept::whole));
  if (use.before == Kept::part) free(kData, gathered_size(use, Kept::part));
  for (const UnitPart& part : unit_of(use).parts) {
    if (!part.gathered) continue;
    const bool again = use.before == Kept::part;
    const auto slot = static_cast<std::uint16_t>(again ? StepGroup::reshard : part.group);
    program_.collective(kData, slot, again ? part.regather : part.gather,
                        id_of(StepCategory::parameter), tables_.label("gather parameters"));
  }
  issued_.push_back(program_.record(kData));
}

/// As many units as there is memory for, none before its last use is through.
void ShardedParameters::gather_ahead() {
  if (!context_.training.overlap_param_gather) return;
  const std::size_t most = begun_ + static_cast<std::size_t>(framework().gathers_ahead);
  while (issued_.size() < std::min(most, gathers_.size())) {
    const Use& use = uses_[gathers_[issued_.size()]];
    if (use.previous != kNever && use.previous >= next_) return;
    issue_gather();
  }
}

void ShardedParameters::begin() {
  FLOPCAST_CHECK(next_ < uses_.size(), "the passes are those of the schedule");
  const Use& use = uses_[next_];
  const StepCategory category = use.backward ? StepCategory::backward : StepCategory::forward;
  if (begun_ < gathers_.size() && gathers_[begun_] == next_) {
    if (issued_.size() == begun_) issue_gather();
    program_.wait(kCompute, issued_[begun_++]);
    if (framework().copies_gathered) {
      copy("copy gathered parameters", 2 * gathered_size(use, Kept::whole), category);
    }
  }
  gather_ahead();
  if (use.backward && use.first) {
    hold(kCompute, static_cast<double>(unit_of(use).elements) * written_);
  }
}

void ShardedParameters::end() {
  const Use& use = uses_[next_++];
  const double given_up = gathered_size(use, Kept::whole) - gathered_size(use, use.after);
  if (given_up > 0) free(kCompute, given_up);
  if (!use.backward || !use.last) return;
  if (use.reduces) {
    reduce(use);
  } else {
    accumulate(use);
  }
}

/// Unreduced gradients of several micro-batches are added up in the type of their reduction.
void ShardedParameters::accumulate(const Use& use) {
  const auto elements = static_cast<double>(unit_of(use).elements);
  UnitState& state = state_of(use);
  const double reads = written_ + (state.accumulated ? gradient_ : 0);
  if (!state.accumulated) hold(kCompute, elements * gradient_);
  copy("add gradients", elements * (reads + gradient_), StepCategory::backward);
  free(kCompute, elements * written_);
  state.accumulated = true;
}

/// The input of a reduction is the gradient itself, or a copy in another type or order.
void ShardedParameters::hold_reduction_input(const Use& use) {
  UnitState& state = state_of(use);
  if (framework().flat_gradients) {
    const auto elements = static_cast<double>(unit_of(use).elements);
    copy("flatten gradients", 4 * elements * parameter_, StepCategory::backward);
  }
  if (state.accumulated) {
    accumulate(use);
  } else if (framework().copies_gathered || written_ != gradient_) {
    const auto elements = static_cast<double>(unit_of(use).elements);
    hold(kCompute, elements * gradient_);
    copy("copy gradients", elements * (written_ + gradient_), StepCategory::backward);
    free(kCompute, elements * written_);
  }
  state.accumulated = false;
}

void ShardedParameters::reduce(const Use& use) {
  const ShardUnit& unit = unit_of(use);
  if (reduced_) program_.wait(kCompute, *reduced_);
  hold_reduction_input(use);
  program_.order(kCompute, kData);
  if (framework().keeps_fp32_parameters && !state_of(use).shard_held) {
    program_.allocate(kData, id_of(MemoryPool::gradients),
                      unit.shard * static_cast<std::int64_t>(element_size(DataType::fp32).value));
    state_of(use).shard_held = true;
  }
  const bool over_replicas =
      context_.layout.shard > 0 && (use.final || framework().replicas_reduce_each_micro_batch);
  std::size_t last = kData;
  for (const UnitPart& part : unit.parts) {
    const LabelId label = tables_.label("reduce gradients");
    const CategoryId category = id_of(StepCategory::gradient);
    if (part.gathered) {
      program_.collective(kData, static_cast<std::uint16_t>(part.group), part.reduce, category,
                          label);
    }
    if (!over_replicas || !part.replicated) continue;
    program_.order(kData, kReplica);
    program_.collective(kReplica, static_cast<std::uint16_t>(StepGroup::replica), part.all_reduce,
                        category, tables_.label("reduce over replicas"));
    if (!part.gathered) last = kReplica;
  }
  free(last, static_cast<double>(unit.elements) * gradient_);
  reduced_ = program_.record(last);
  if (!context_.training.overlap_grad_reduce) await_reductions(kCompute);
}

void ShardedParameters::await_reductions(std::size_t stream) {
  program_.order(kData, stream);
  program_.order(kReplica, stream);
}

void ShardedParameters::release_gradients() {
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    for (std::size_t u = 0; u < chunks_[c].units.size(); ++u) {
      if (!states_[c][u].shard_held) continue;
      const auto size = static_cast<std::int64_t>(element_size(DataType::fp32).value);
      program_.release(kCompute, id_of(MemoryPool::gradients), chunks_[c].units[u].shard * size);
    }
  }
}

}  // namespace flopcast
