#pragma once

// What one rank does for the units that it holds a shard of, appended to its program pass by pass:
// gathers before a unit is used, one unit ahead of the work; reductions after its backward pass.
//
//   data stream      AG 1 | AG 2 ...            AG l-1 | RS l | AG l-2 | RS l-1 ...
//   compute stream        | unit 1 | unit 2 ... | unit l back | unit l-1 back ...
//
// Gathers and reductions of one communicator run in the order of their issue. There is memory for
// the units gathered ahead, not for more: a gather waits until the one before it is in use. There
// is memory for one reduction: the next waits for its end. Sources: PyTorch 2.14.1,
// torch/distributed/fsdp/_fully_shard/ _fsdp_param_group.py (FSDP2),
// torch/distributed/fsdp/_runtime_utils.py (FSDP1, limit_all_gathers and BACKWARD_PRE); DeepSpeed
// edaa7221, runtime/zero/partitioned_param_coordinator.py and stage3.py, which fetches module by
// module: here layer by layer.

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "models/pipeline_schedule.h"
#include "models/shard_units.h"
#include "sim/program.h"

namespace flopcast {

class ShardedParameters {
 public:
  ShardedParameters(const OperatorContext& context, std::vector<ChunkUnits> chunks,
                    const std::vector<ScheduleOp>& schedule, ProgramBuilder& program,
                    CostTables& tables);

  const ChunkUnits& units(int chunk) const { return chunks_[static_cast<std::size_t>(chunk)]; }

  /// Around the work on a unit. Calls must follow the schedule; the ends that share a unit call
  /// twice in a pass.
  void begin();
  void end();

  /// All reductions are through before what `stream` does next.
  void await_reductions(std::size_t stream);
  /// After the optimizer step.
  void release_gradients();

 private:
  enum class Kept : std::uint8_t { whole, part, shard };  // of the unit's parameters
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

  /// One piece of work on a unit, in the order of the program.
  struct Use {
    std::size_t chunk;
    std::size_t unit;
    bool backward;
    bool first;                     // of the unit in this pass
    bool last;                      //
    bool reduces;                   // gradients, after it
    bool final;                     // backward pass of the step
    std::size_t previous = kNever;  // use of the same unit
    Kept before = Kept::whole;      // what there is when it comes to be used
    Kept after = Kept::whole;
  };
  struct UnitState {
    bool accumulated = false;  // unreduced gradients are held
    bool shard_held = false;   // so is the gradient of the shard
  };

  void plan(const std::vector<ScheduleOp>& schedule);
  void plan_pass(const ScheduleOp& op, bool final);
  void plan_gathers();
  Kept kept_after(const Use& use) const;
  void issue_gather();
  void gather_ahead();
  void reduce(const Use& use);
  void hold_reduction_input(const Use& use);
  void accumulate(const Use& use);
  void copy(std::string_view name, double moved, StepCategory category);

  const ShardUnit& unit_of(const Use& use) const { return chunks_[use.chunk].units[use.unit]; }
  UnitState& state_of(const Use& use) { return states_[use.chunk][use.unit]; }
  /// Bytes that the unit holds of others' shards.
  double gathered_size(const Use& use, Kept kept) const;
  const Framework& framework() const { return context_.training.framework; }
  void hold(std::size_t stream, double size);
  void free(std::size_t stream, double size);

  OperatorContext context_;
  std::vector<ChunkUnits> chunks_;
  ProgramBuilder& program_;
  CostTables& tables_;
  double parameter_;  // bytes per element as gathered
  double gradient_;   // bytes per element as reduced
  double written_;    // bytes per element as the backward pass writes gradients
  std::vector<Use> uses_;
  std::vector<std::vector<UnitState>> states_;
  std::size_t next_ = 0;              // use that begins or is under way
  std::vector<std::size_t> gathers_;  // uses that need one
  std::size_t begun_ = 0;             // of them, those that are waited for
  std::optional<EventId> reduced_;    // end of the reduction before
  std::vector<EventId> issued_;       // ends of those in the program
};

}  // namespace flopcast
