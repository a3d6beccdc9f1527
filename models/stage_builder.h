#pragma once

// The builder behind stage_program(): private to the files that append its parts, which are
// stage_program.cpp (schedule, begin and end of the step), stage_passes.cpp (the passes and what
// goes from stage to stage), stage_data_parallel.cpp (gathers and reductions over the
// data-parallel groups), stage_offload.cpp (the optimizer on the host) and
// stage_activation_offload.cpp (activations there).

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "models/model_chunk.h"
#include "models/sharded_parameters.h"
#include "models/stage_program.h"
#include "models/step_streams.h"

namespace flopcast {

inline constexpr std::size_t kAllTensors = std::numeric_limits<std::size_t>::max();

constexpr std::uint16_t slot_of(StepGroup group) { return static_cast<std::uint16_t>(group); }

/// Appends one rank's step, part by part.
class StageBuilder {
 public:
  StageBuilder(const StageInputs& inputs, const RoleProgram& role, const StageChunks& chunks,
               CostTables& tables);

  StageProgram build() &&;

 private:
  // One pass of the schedule.
  void run(const ScheduleOp& op);
  void forward(const ScheduleOp& op);
  void backward(const ScheduleOp& op);
  void input_gradient(const ScheduleOp& op);
  void weight_gradient(const ScheduleOp& op);
  void overlapped(const ScheduleOp& op);

  /// A layer of a chunk with the tokens of one micro-batch.
  struct LayerTurn {
    const ChunkLayer& layer;
    RoutingLoad load;
    LayerBytes kept;

    /// Whether what it keeps follows what the rank's experts get.
    bool varies() const { return layer.routed != LayerBytes{}; }
    bool restores() const { return layer.kept.restored > 0; }
  };
  LayerTurn turn_of(int chunk, std::size_t index, int micro_batch) const;

  // Parts of passes.
  void begin_forward(int chunk);
  void enter_layer(int chunk, const LayerTurn& turn);
  void end_forward(int chunk);
  void begin_backward(int chunk);
  void recompute_layer(const LayerTurn& turn);
  void leave_layer(int chunk, const LayerTurn& turn);
  void end_backward(int chunk);
  void work(const TimedOperators& operators, const RoutingLoad& load = {});
  void count(const LoadedOperators& stretch);

  // Activations on the host; layers by their place in the only chunk.
  void await_copied_out(const ModelChunk& chunk, std::size_t entered);
  void copy_out(const ModelChunk& chunk, std::size_t left);
  void copy_back(const ModelChunk& chunk, std::size_t entered);
  void copy_activations(StepGroup slot, std::int64_t size, std::string_view name);
  HostBytes host_bytes() const;

  // Between stages.
  bool goes_up(const ScheduleOp& op) const;
  std::optional<StagePlace> source_of(const ScheduleOp& op) const;
  std::optional<StagePlace> target_of(const ScheduleOp& op) const;
  void receive(const ScheduleOp& op);
  void send(const ScheduleOp& op);

  // Data parallel.
  void gather_parameters();
  void await_parameters(int chunk, std::size_t end_tensor);
  void reduce_completed(int chunk, std::size_t completed_tensor);
  void reduce_rest(int chunk);
  void reduce_bucket(const ChunkBucket& bucket);
  void reduce_aligned(std::size_t backward_index);
  void begin_unit() {
    if (shards_) shards_->begin();
  }
  void end_unit() {
    if (shards_) shards_->end();
  }
  void hold_gradients(int chunk);
  void free_reduced(int chunk);

  // Begin and end of the step.
  void shard_parameters();
  void allocate_states();
  void hold_parameters();
  void hold_frozen();
  double routed_elements() const;
  void finish_gradients();
  void optimize();
  void cast_weights();
  void start_on_host();
  void await_host();

  const ParallelGrid& grid() const { return inputs_.job.layout.grid; }
  const Training& training() const { return inputs_.job.training; }
  const ModelChunk& chunk_at(int chunk) const { return chunks_[static_cast<std::size_t>(chunk)]; }
  StagePlace place(int chunk) const { return {.rank = rank_, .chunk = chunk}; }
  int stage_of(int chunk) const { return flopcast::stage_of(pipeline_, place(chunk)); }
  std::vector<int> chunks_by_stage() const;
  ScheduleKind schedule() const { return inputs_.job.layout.schedule; }
  /// One chunk per rank and whole backward passes, as in Megatron's schedule without interleaving.
  bool plain_schedule() const {
    return schedule() == ScheduleKind::gpipe || schedule() == ScheduleKind::one_f_one_b;
  }
  int copies() const { return model_copies(schedule()); }
  /// Whether the pass that is being appended completes the gradients of the chunk.
  bool completes(int chunk) const {
    return reduces_each() || last_backward_[static_cast<std::size_t>(chunk)] == backward_index_;
  }
  /// Whether any gradient is reduced: experts may be copied where nothing else is.
  bool reduces() const {
    return group(StepGroup::data) != kNoGroup || group(StepGroup::expert_data) != kNoGroup ||
           group(StepGroup::replica) != kNoGroup;
  }
  bool sharded() const { return inputs_.job.layout.zero >= 1 && reduces(); }
  /// ZeRO-2: a chunk's gradients exist from its first backward pass to their reduction.
  bool gradients_sharded() const { return inputs_.job.layout.zero == 2 && sharded(); }
  bool gradients_whole() const { return inputs_.job.layout.zero < 2 || !sharded(); }
  /// ZeRO-2 as DeepSpeed has it: what is not the rank's own does not outlive a micro-batch.
  bool reduces_each() const {
    return gradients_sharded() && training().framework.reduces_each_micro_batch;
  }
  /// Elements whose optimizer state the rank keeps: dense parameters are sharded over dp * cp or a
  /// part of them, those of experts over their own data group.
  double own_elements() const {
    const auto experts = static_cast<double>(expert_parameters_);
    const double dense = static_cast<double>(parameters_) - experts;
    if (inputs_.job.layout.zero == 0) return dense + experts;
    return dense / (copies() * shard_ranks(inputs_.job.layout)) +
           experts / (copies() * grid().edp());
  }
  /// Of some elements, the part that are weights of linear layers: as many in a shard as in the
  /// whole, experts or not.
  double linear_part(double elements) const {
    return parameters_ == 0
               ? 0
               : elements * static_cast<double>(linear_) / static_cast<double>(parameters_);
  }
  /// Of the rank's own, whose optimizer runs on the host.
  double offloaded_elements() const {
    return training().offload ? training().offload->fraction * own_elements() : 0;
  }
  GroupId group(StepGroup slot) const { return role_.groups[static_cast<std::size_t>(slot)]; }
  std::uint32_t tag(const ScheduleOp& op, int receiving_stage) const {
    const auto stages = static_cast<std::uint32_t>(stage_count(pipeline_));
    return static_cast<std::uint32_t>(op.micro_batch) * stages +
           static_cast<std::uint32_t>(receiving_stage);
  }
  std::int64_t gradient_bytes(std::size_t chunk) const {
    return static_cast<std::int64_t>(static_cast<double>(chunks_[chunk].parameters) *
                                     element_size(training().gradient_dtype).value);
  }
  void hold(MemoryPool pool, std::int64_t size) { program_.allocate(kCompute, id_of(pool), size); }
  void free(MemoryPool pool, std::int64_t size) { program_.release(kCompute, id_of(pool), size); }
  void hold_activations(const LayerTurn& turn, std::int64_t size) {
    if (!turn.varies()) return hold(MemoryPool::activations, size);
    program_.allocate_varying(kCompute, id_of(MemoryPool::activations), size);
  }
  void free_activations(const LayerTurn& turn, std::int64_t size) {
    if (!turn.varies()) return free(MemoryPool::activations, size);
    program_.release_varying(kCompute, id_of(MemoryPool::activations), size);
  }
  void memory_kernel(MemoryKernel kernel, Bytes moved, StepCategory category,
                     std::string_view name) {
    program_.compute(kCompute,
                     tables_.kernel(memory_time(tables_.profile(), kernel, moved), category),
                     id_of(category), tables_.label(name));
  }
  /// A collective that the compute stream waits for.
  void blocking(StepGroup slot, CollectiveKind kind, Bytes size, std::string_view name);

  /// Parameters of a bucket on their way back.
  struct Gather {
    EventId done;
    std::size_t first_tensor;
  };

  const StageInputs& inputs_;
  const RankRole& role_;
  int rank_;  // pipeline rank
  PipelineShape pipeline_;
  CostTables& tables_;
  OperatorContext context_;
  ProgramBuilder program_;
  const std::vector<ModelChunk>& chunks_;
  std::vector<std::size_t> reduced_;          // buckets of each chunk already under way
  std::vector<std::size_t> last_backward_;    // index among passes with weight gradients, by chunk
  std::size_t backward_index_ = 0;            // of the pass that is being appended, among them
  std::vector<bool> gradients_held_;          // by chunk, under ZeRO-2
  std::vector<std::vector<Gather>> gathers_;  // by chunk, in forward order
  std::vector<std::size_t> awaited_;          // of them, by chunk
  std::optional<ShardedParameters> shards_;   // ZeRO-3
  std::vector<EventId> copied_;  // by offloaded layer: out, then back, of the micro-batch under way
  std::int64_t parameters_ = 0;  // that are trained
  std::int64_t linear_ = 0;      // of them weights of linear layers
  ElementCount frozen_;          // beside them
  std::int64_t expert_parameters_ = 0;  // of them in the experts' own data group
  StageProgram out_;
};

}  // namespace flopcast
