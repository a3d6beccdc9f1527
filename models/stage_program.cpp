#include "models/stage_program.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "models/expert_routing.h"
#include "models/parameters.h"
#include "models/quantised_weights.h"
#include "models/stage_builder.h"

namespace flopcast {

namespace {

/// The chunk whose weight gradients a pass adds up.
std::optional<int> weights_of(const ScheduleOp& op) {
  switch (op.pass) {
    case Pass::forward:
    case Pass::input_gradient: return std::nullopt;
    case Pass::backward:
    case Pass::weight_gradient: return op.chunk;
    case Pass::overlapped: return op.beside_chunk;
  }
  return std::nullopt;
}

}  // namespace

StageChunks stage_chunks(const StageInputs& inputs, const RankRole& role, CostTables& tables) {
  const Job& job = inputs.job;
  const OperatorContext context{job.model, job.layout, job.training, inputs.padded_vocab,
                                role.context_rank};
  const PipelineShape pipeline{placement_of(job.layout.schedule), job.layout.grid.pp,
                               job.layout.vpp};
  const bool splits =
      std::ranges::any_of(inputs.schedule[static_cast<std::size_t>(role.stage)],
                          [](const ScheduleOp& op) { return op.pass == Pass::weight_gradient; });
  const auto content_of = [&](int chunk) {
    const int stage = stage_of(pipeline, {.rank = role.stage, .chunk = chunk});
    return inputs.stages[static_cast<std::size_t>(stage)];
  };
  bool embeds = false;
  for (int chunk = 0; chunk < job.layout.vpp; ++chunk) embeds |= content_of(chunk).embedding;
  StageChunks chunks;
  for (int chunk = 0; chunk < job.layout.vpp; ++chunk) {
    const int stage = stage_of(pipeline, {.rank = role.stage, .chunk = chunk});
    ChunkPlace where{chunk, role.stage, splits};
    if (model_copies(job.layout.schedule) > 1) where = {0, stage, splits};
    const StageContent content = content_of(chunk);
    // Ends on one rank share the embedding there, and its gradients. Source: DeepSeek-V3, arXiv
    // 2412.19437, section 3.2.3.
    where.shares_embedding = embeds && content.head && !content.embedding;
    chunks.push_back(build_chunk(context, content, where, role.groups, tables));
  }
  return chunks;
}

StageBuilder::StageBuilder(const StageInputs& inputs, const RoleProgram& role,
                           const StageChunks& chunks, CostTables& tables)
    : inputs_(inputs),
      role_(role.role),
      rank_(role.role.stage),
      pipeline_{placement_of(inputs.job.layout.schedule), inputs.job.layout.grid.pp,
                inputs.job.layout.vpp},
      tables_(tables),
      context_{inputs.job.model, inputs.job.layout, inputs.job.training, inputs.padded_vocab},
      program_(inputs.job.training.copies_to_host() ? kStepStreamNames.size() : kGpuStreams,
               role.amounts),
      chunks_(chunks) {
  for (const ModelChunk& chunk : chunks_) {
    parameters_ += chunk.parameters;
    linear_ += chunk.linear;
    frozen_ += chunk.frozen;
    expert_parameters_ += chunk.expert_parameters;
  }
  reduced_.assign(chunks_.size(), 0);
  last_backward_.assign(chunks_.size(), 0);
  gradients_held_.assign(chunks_.size(), false);
  gathers_.resize(chunks_.size());
  awaited_.assign(chunks_.size(), 0);
  std::size_t backward = 0;
  for (const ScheduleOp& op : inputs.schedule[static_cast<std::size_t>(rank_)]) {
    if (const auto chunk = weights_of(op)) {
      last_backward_[static_cast<std::size_t>(*chunk)] = backward++;
    }
  }
}

StageProgram StageBuilder::build() && {
  allocate_states();
  if (sharded() && inputs_.job.layout.zero == 3) shard_parameters();
  if (sharded() && training().overlap_param_gather) gather_parameters();
  for (const ScheduleOp& op : inputs_.schedule[static_cast<std::size_t>(rank_)]) {
    run(op);
    if (weights_of(op)) reduce_aligned(backward_index_++);
  }
  finish_gradients();
  optimize();
  out_.parameters = parameters_;
  out_.host = host_bytes();
  out_.variant = program_.take_variant();
  out_.program = std::move(program_).finish();
  return std::move(out_);
}

/// Two ranks that hold the same stages reduce and gather them in the same order.
std::vector<int> StageBuilder::chunks_by_stage() const {
  std::vector<int> chunks(chunks_.size());
  std::iota(chunks.begin(), chunks.end(), 0);
  std::ranges::sort(chunks, {}, [this](int chunk) { return stage_of(chunk); });
  return chunks;
}

/// Whole with the copies that products read, or a shard as it is gathered.
void StageBuilder::hold_parameters() {
  const bool whole = inputs_.job.layout.zero < 3;
  const double elements = whole ? static_cast<double>(parameters_) : own_elements();
  const double linear = linear_part(elements);
  const WeightSizes sizes = weight_sizes(training(), tables_.profile());
  const Bytes size = whole ? sizes.kept_of(elements, linear) : sizes.gathered_of(elements, linear);
  hold(MemoryPool::parameters, static_cast<std::int64_t>(size.value));
}

void StageBuilder::hold_frozen() {
  const Bytes size =
      frozen_weight_sizes(training(), tables_.profile())
          .kept_of(static_cast<double>(frozen_.all), static_cast<double>(frozen_.linear));
  hold(MemoryPool::parameters, static_cast<std::int64_t>(size.value));
}

void StageBuilder::allocate_states() {
  const double elements = static_cast<double>(parameters_);
  const auto hold_elements = [this](MemoryPool pool, double count, double size) {
    hold(pool, static_cast<std::int64_t>(count * size));
  };
  const double parameter = element_size(training().parameter_dtype).value;
  const double gradient = element_size(training().gradient_dtype).value;
  const double state = training().optimizer_state().value;
  const double stepped = own_elements() - offloaded_elements();
  const bool whole = inputs_.job.layout.zero < 3;
  if (!whole && training().framework.keeps_fp32_parameters) {
    // The optimizer's weight is the parameter, whose gradient comes with its reduction.
    const double fp32 = element_size(DataType::fp32).value;
    hold_elements(MemoryPool::parameters, own_elements(), fp32);
    hold_elements(MemoryPool::optimizer, own_elements(), state - fp32);
  } else {
    hold_parameters();
    hold_elements(MemoryPool::gradients, gradients_whole() ? elements : own_elements(), gradient);
    hold_elements(MemoryPool::optimizer, stepped, state);
  }
  if (training().adapters) hold_frozen();
  // A tensor-parallel region works on the gathered activation and its gradient.
  const double activation = static_cast<double>(context_.tokens() * inputs_.job.model.hidden);
  if (grid().tp > 1) hold_elements(MemoryPool::buffers, 2 * activation, parameter);
  if (const double routed = routed_elements(); routed > 0) {
    program_.allocate_varying(kCompute, id_of(MemoryPool::buffers),
                              static_cast<std::int64_t>(routed * parameter));
  }
  if (grid().pp > 1) {
    const double hop = pipeline_hop_size(context_).value;
    hold_elements(MemoryPool::buffers, 2, hop);
  }
}

/// A layer with experts holds what it sends and what it gets in each exchange, and what it has
/// between two levels of one; the fullest decides.
double StageBuilder::routed_elements() const {
  const Transformer& model = inputs_.job.model;
  bool experts = false;
  double fullest = RoutingLoad{}.own;
  const std::int64_t batches = micro_batches(inputs_.job.layout, training().batch);
  for (const ModelChunk& chunk : chunks_) {
    for (const ChunkLayer& layer : chunk.layers) {
      if (!model.has_experts(std::min(layer.number, model.layers - 1))) continue;
      if (!experts && inputs_.routing.skewed()) fullest = 0;
      experts = true;
      for (std::int64_t batch = 0; inputs_.routing.skewed() && batch < batches; ++batch) {
        const RoutingLoad load = inputs_.routing.at(layer.number, batch, role_.expert_rank);
        fullest = std::max(fullest, static_cast<double>(load.own));
      }
    }
  }
  if (!experts) return 0;
  const RoutedTokens tokens = routed_tokens(context_);
  const bool gathers =
      inputs_.job.layout.dispatcher == TokenDispatcher::all_gather && grid().ep > 1;
  const bool by_level =
      inputs_.job.layout.dispatcher == TokenDispatcher::hierarchical && grid().ep > 1;
  const std::int64_t sent = gathers ? context_.sharded_tokens() * grid().ep * grid().etp
                                    : (by_level ? 2 : 1) * tokens.sent;
  const double held = RoutingLoad::part(fullest) * static_cast<double>(tokens.held);
  return (static_cast<double>(sent) + held) * static_cast<double>(model.hidden);
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
    for (const int chunk : chunks_by_stage()) reduce_rest(chunk);
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
  if (inputs_.job.layout.sequence_parallel && grid().tp > 1 && replicated > 0) {
    blocking(StepGroup::tensor, CollectiveKind::all_reduce,
             static_cast<double>(replicated) * gradient, "reduce norm gradients");
  }
  if (tied > 0 && group(StepGroup::embedding) != kNoGroup) {
    blocking(StepGroup::embedding, CollectiveKind::all_reduce, static_cast<double>(tied) * gradient,
             "reduce tied embedding");
  }
}

namespace {

/// Fused, Adam reads gradient, master weight and two moments and writes all but the first, and the
/// parameter in its own type. Operator by operator, in fp32: first moment scaled (8 bytes) and
/// added to (12), second scaled (8) and added to (12), its root (8) scaled (8) and offset (8), the
/// weight updated (16); and before that the gradient clipped (8). Source: composer,
/// optim/decoupled_weight_decay.py; PyTorch 2.5, torch/optim/adamw.py, foreach.
Bytes optimizer_traffic(const Training& training) {
  if (!training.framework.fused_optimizer) return bytes(8 + 80);
  const Bytes moments = 2.0 * element_size(training.moment_dtype);
  return 3.0 * element_size(DataType::fp32) + 2.0 * moments +
         element_size(training.parameter_dtype);
}

}  // namespace

/// In truth layer by layer under the next step's first micro-batch, for which they are gathered.
void StageBuilder::cast_weights() {
  const Bytes traffic = weight_sizes(training(), tables_.profile()).cast;
  const auto linear = static_cast<double>(linear_);
  if (inputs_.job.layout.zero == 3 || linear * traffic.value <= 0) return;
  memory_kernel(MemoryKernel::quantise, linear * traffic, StepCategory::optimizer, "cast weights");
}

/// The norm before the optimizer reads the gradient; the buffer is cleared after it.
void StageBuilder::optimize() {
  const double own = own_elements();
  const Bytes fp32 = element_size(DataType::fp32);
  const Bytes gradient = element_size(training().gradient_dtype);
  memory_kernel(MemoryKernel::elementwise, own * gradient, StepCategory::optimizer,
                "gradient norm");
  if (group(StepGroup::world) != kNoGroup) {
    blocking(StepGroup::world, CollectiveKind::all_reduce, fp32, "gradient norm over all ranks");
  }
  if (training().offload) start_on_host();
  if (const double stepped = own - offloaded_elements(); stepped > 0) {
    memory_kernel(MemoryKernel::optimizer, stepped * optimizer_traffic(training()),
                  StepCategory::optimizer, "optimizer");
  }
  if (training().offload) await_host();
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
  cast_weights();
  if (training().framework.step_overhead > seconds(0)) {
    const TimeEstimate overhead{training().framework.step_overhead, Evidence::assumed};
    program_.compute(kCompute, tables_.kernel(overhead, StepCategory::overhead),
                     id_of(StepCategory::overhead), tables_.label("host work"));
  }
}

StageProgram stage_program(const StageInputs& inputs, const RoleProgram& role,
                           const StageChunks& chunks, CostTables& tables) {
  return StageBuilder(inputs, role, chunks, tables).build();
}

}  // namespace flopcast
