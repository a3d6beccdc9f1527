#pragma once

// Operators with their times: rows of the engine's tables, made once for each distinct operator and
// appended to programs as often as they run.

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "calibration/profile.h"
#include "models/communicators.h"
#include "models/layer_operators.h"
#include "models/step_category.h"
#include "sim/evidence.h"
#include "sim/workload.h"

namespace flopcast {

/// Streams of a rank, by number.
enum class StepStream : std::uint8_t {
  compute,
  tensor,
  forward_send,
  forward_recv,
  backward_send,
  backward_recv,
  data,
  context,
  expert,
};
inline constexpr std::array<std::string_view, 9> kStepStreamNames{
    "compute",         "tensor parallel",  "pp forward send",
    "pp forward recv", "pp backward send", "pp backward recv",
    "data parallel",   "context parallel", "expert parallel"};

constexpr std::size_t index_of(StepStream stream) { return static_cast<std::size_t>(stream); }

/// Rows shared by all programs of a workload, and how well each category's times are known.
class CostTables {
 public:
  CostTables(const Profile& profile, const Communicators& communicators)
      : profile_(profile), communicators_(communicators) {
    evidence_.fill(Evidence::measured);
  }

  const Profile& profile() const { return profile_; }
  GroupShape shape_of(GroupId group) const { return communicators_.facts[index_of(group)].shape; }

  LabelId label(std::string_view text);
  KernelId kernel(TimeEstimate estimate, StepCategory category);
  /// A collective of `size` (nccl-tests' whole buffer) in a group.
  TransferId transfer(CollectiveKind kind, Bytes size, GroupId group, StepCategory category);

  /// Of a transfer that has the network for itself.
  Seconds solo_time(TransferId id) const;

  const std::array<Evidence, kStepCategoryNames.size()>& evidence() const { return evidence_; }

  /// Moves the rows into the workload; the tables are empty afterwards.
  void finish(Workload& workload) &&;

 private:
  void note(StepCategory category, Evidence evidence);

  const Profile& profile_;
  const Communicators& communicators_;
  std::vector<Kernel> kernels_;
  std::vector<Transfer> transfers_;
  std::vector<std::string> labels_;
  std::map<std::string, LabelId, std::less<>> label_ids_;
  std::map<double, KernelId> kernel_ids_;  // by duration
  std::map<std::tuple<CollectiveKind, double, GroupId>, TransferId> transfer_ids_;
  std::array<Evidence, kStepCategoryNames.size()> evidence_;
};

/// A stretch of one rank's work, ready to append: compute and the collectives inside it in order.
struct TimedOperators {
  struct Item {
    // exchange: a collective that sends tokens to experts or back
    enum class Kind : std::uint8_t { kernel, collective, exchange, beside, join } kind;
    std::uint32_t row = 0;  // KernelId or TransferId
    StepCategory category{};
    LabelId label{};
    StepGroup group = StepGroup::tensor;  // of collective, beside, join
  };
  std::vector<Item> items;
  Flops executed;    // matrix products and attention
  Flops recomputed;  // the part of it that is recompute
};

/// With the time that the GPU waits where the host needs longer to issue the stretch.
TimedOperators timed(const std::vector<Operator>& operators, const OperatorContext& context,
                     const RankGroups& groups, CostTables& tables);

void append(ProgramBuilder& program, const TimedOperators& work);

/// Two independent stretches beside each other: whenever one exchanges tokens the other computes
/// on, up to its own next exchange. Which hides all four exchanges of a layer's backward, first
/// here, and another's forward:
///   compute   back to experts | attention | experts, both gradients | experts  | attention
///   exchange                    gradients   tokens                    gradients  tokens
///   of        backward          forward     backward                  forward    backward
/// Source: DeepSeek-V3, arXiv 2412.19437, section 3.2.1 and figure 4.
void append_beside(ProgramBuilder& program, const TimedOperators& first,
                   const TimedOperators& second);

}  // namespace flopcast
