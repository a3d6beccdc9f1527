#pragma once

// Operators with their times: rows of the engine's tables, made once for each distinct operator and
// appended to programs as often as they run.

#include <array>
#include <bit>
#include <compare>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "calibration/profile.h"
#include "models/communicators.h"
#include "models/layer_operators.h"
#include "models/routing_loads.h"
#include "models/step_category.h"
#include "sim/evidence.h"
#include "sim/random.h"
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
  replica,
  // Only where something is on the host (Training::copies_to_host):
  to_host,
  host,  // its processors' share for this rank
  from_host,
  storage,
};
inline constexpr std::size_t kGpuStreams = 10;
inline constexpr std::array<std::string_view, 14> kStepStreamNames{
    "compute",          "tensor parallel",  "pp forward send", "pp forward recv",
    "pp backward send", "pp backward recv", "data parallel",   "context parallel",
    "expert parallel",  "replicas",         "copy to host",    "host",
    "copy from host",   "storage"};

constexpr std::size_t index_of(StepStream stream) { return static_cast<std::size_t>(stream); }

/// What sets an exchange apart from a plain collective of NCCL's.
struct ExchangeTraits {
  double uneven = 1;           // it takes so many times as long, and loads its links no more in all
  bool once_per_node = false;  // by kernels of its own
  bool one_rank = false;       // all comes from one rank, or goes to it, through a ring
  friend auto operator<=>(const ExchangeTraits&, const ExchangeTraits&) = default;
};

/// Work of balanced routing that a load makes more or less.
struct RoutedWork {
  /// An operator, or the numbers of some that run as one.
  std::variant<GemmShape, MemoryCall, GroupCall, std::vector<std::uint32_t>> work;
  DataType precision{};  // of a product
  GroupId group{};       // of an exchange
  StepCategory category{};
};

/// Rows shared by all programs of a workload, and how well each category's times are known.
class CostTables {
 public:
  /// `others`: of the cluster's other nodes, in order.
  CostTables(const Profile& profile, const Communicators& communicators,
             std::span<const Profile> others = {})
      : profile_(profile), others_(others), kernels_by_(&profile), communicators_(communicators) {
    evidence_.fill(Evidence::measured);
  }

  /// Kernels from here on are those of nodes of a kind (Cluster::kind_of); collectives stay the
  /// cluster's own.
  void time_kernels_of(int kind) {
    kernels_by_ = kind == 0 ? &profile_ : &others_[static_cast<std::size_t>(kind - 1)];
  }
  /// Of kernels.
  const Profile& profile() const { return *kernels_by_; }
  GroupShape shape_of(GroupId group) const { return communicators_.facts[index_of(group)].shape; }

  LabelId label(std::string_view text);
  std::string text_of(LabelId id) const { return labels_[index_of(id)]; }
  KernelId kernel(TimeEstimate estimate, StepCategory category);
  /// Of a time that is known already.
  KernelId kernel(Seconds duration);
  Seconds duration(KernelId id) const { return kernels_[index_of(id)].duration; }
  /// Whether stretches are fused().
  void fuse_kernels(bool on) { fuses_ = on; }
  bool fuses_kernels() const { return fuses_; }
  /// A collective of `size` (nccl-tests' whole buffer) in a group.
  TransferId transfer(CollectiveKind kind, Bytes size, GroupId group, StepCategory category,
                      ExchangeTraits traits = {});

  /// Of a group of HostPath, at the rate of its slowest link.
  TransferId copy(Bytes size, GroupId group, StepCategory category);

  /// Rows of work that follows what a rank's experts get, by its number in `routed`.
  std::uint32_t add_routed(const RoutedWork& work);
  std::uint32_t routed_row(std::uint32_t number, const RoutingLoad& load);

  /// Of a transfer that has the network for itself.
  Seconds solo_time(TransferId id) const;

  const std::array<Evidence, kStepCategoryNames.size()>& evidence() const { return evidence_; }
  /// By TransferId.
  const std::vector<CollectiveKind>& transfer_kinds() const { return transfer_kinds_; }

  /// Moves the rows into the workload; the tables are empty afterwards.
  void finish(Workload& workload) &&;

 private:
  void note(StepCategory category, Evidence evidence);
  std::uint32_t make_routed(const RoutedWork& work, const RoutingLoad& load);

  const Profile& profile_;
  std::span<const Profile> others_;
  const Profile* kernels_by_;
  const Communicators& communicators_;
  std::vector<Kernel> kernels_;
  std::vector<Transfer> transfers_;
  std::vector<CollectiveKind> transfer_kinds_;
  std::vector<Evidence> transfer_evidence_;
  std::vector<std::string> labels_;
  std::map<std::string, LabelId, std::less<>> label_ids_;
  std::map<double, KernelId> kernel_ids_;  // by duration
  std::map<std::tuple<CollectiveKind, double, GroupId, ExchangeTraits>, TransferId> transfer_ids_;
  /// What of a load makes a row of an exchange.
  struct LoadKey {
    std::uint32_t hottest;
    double mean;
    friend bool operator==(const LoadKey&, const LoadKey&) = default;
  };
  struct LoadHash {
    std::size_t operator()(const LoadKey& key) const {
      return mixed(std::bit_cast<std::uint64_t>(key.mean) ^ key.hottest);
    }
  };
  struct RoutedRows {
    RoutedWork work;
    std::unordered_map<LoadKey, std::uint32_t, LoadHash> rows{};  // of exchanges; never iterated
    std::vector<std::uint32_t> by_own{};  // of the rest, by RoutingLoad::own
  };
  std::vector<RoutedRows> routed_;
  bool fuses_ = false;
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
    StepGroup group = StepGroup::tensor;    // of collective, beside, join
    std::optional<std::uint32_t> routed{};  // the row follows the routing of tokens
  };
  std::vector<Item> items;
  Flops executed;           // matrix products and attention
  Flops recomputed;         // the part of it that is recompute
  Flops executed_routed;    // the part of `executed` that follows what the rank's experts get
  Flops recomputed_routed;  // and of `recomputed`
};

/// With the time that the GPU waits where the host needs longer to issue the stretch.
TimedOperators timed(const std::vector<Operator>& operators, const OperatorContext& context,
                     const RankGroups& groups, CostTables& tables);

/// The same with each run of kernels of a category as one.
TimedOperators fused(TimedOperators work, CostTables& tables);

/// A stretch as it is under a load: timed() takes routing for balanced.
struct LoadedOperators {
  const TimedOperators& work;
  RoutingLoad load{};
};

void append(ProgramBuilder& program, const LoadedOperators& stretch, CostTables& tables);

/// Two independent stretches beside each other: whenever one exchanges tokens the other computes
/// on, up to its own next exchange. Which hides all four exchanges of a layer's backward, first
/// here, and another's forward:
///   compute   back to experts | attention | experts, both gradients | experts  | attention
///   exchange                    gradients   tokens                    gradients  tokens
///   of        backward          forward     backward                  forward    backward
/// Source: DeepSeek-V3, arXiv 2412.19437, section 3.2.1 and figure 4.
void append_beside(ProgramBuilder& program, const LoadedOperators& first,
                   const LoadedOperators& second, CostTables& tables);

}  // namespace flopcast
