#include "models/group_families.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "models/pipeline_schedule.h"
#include "topology/group_path.h"

namespace flopcast {
namespace {

std::string_view name_of(StepGroup slot) {
  switch (slot) {
    case StepGroup::tensor: return "tensor";
    case StepGroup::data: return "data";
    case StepGroup::world: return "world";
    case StepGroup::embedding: return "embedding";
    case StepGroup::forward_next: return "forward";
    case StepGroup::forward_previous: return "forward";
    case StepGroup::backward_previous: return "backward";
    case StepGroup::backward_next: return "backward";
    case StepGroup::context: return "context";
    case StepGroup::expert: return "expert";
    case StepGroup::expert_tensor: return "expert tensor";
    case StepGroup::expert_data: return "expert data";
    case StepGroup::replica: return "replica";
    case StepGroup::reshard: return "reshard";
    case StepGroup::to_host: return "to host";
    case StepGroup::from_host: return "from host";
    case StepGroup::host_memory: return "host memory";
    case StepGroup::storage: return "storage";
    case StepGroup::context_exchange: return "context exchange";
    case StepGroup::expert_inside: return "expert inside";
    case StepGroup::expert_across: return "expert across";
  }
  return {};
}

/// Collects the families of a grid.
class Families {
 public:
  explicit Families(const Job& job)
      : job_(job),
        grid_(job.layout.grid),
        copies_(model_copies(job.layout.schedule)),
        pipelines_(process_groups(job.layout.grid, GroupKind::pp)) {}

  std::vector<GroupFamily> build() && {
    if (grid_.tp > 1) add_stage_groups(StepGroup::tensor, GroupKind::tp);
    if (grid_.dp * grid_.cp * copies_ > 1) add_data();
    if (grid_.cp > 1) add_context();
    if (job_.model.moe) add_experts();
    if (job_.training.copies_to_host()) add_host();
    if (grid_.world() > 1) add_world();
    if (grid_.pp > 1) {
      const bool copied = job_.model.tied_embeddings || job_.model.mtp_layers > 0;
      if (copied && placement_of(job_.layout.schedule) != Placement::v)
        add_pairs("embedding", {0, grid_.pp - 1}, {StepGroup::embedding, StepGroup::embedding});
      add_hops();
    }
    return std::move(families_);
  }

 private:
  /// Neighbours share one copy of states, every so many ranks hold the same shard of it.
  void add_data() {
    const int whole = grid_.dp * grid_.cp;
    const int shard = shard_ranks(job_.layout);
    if (shard == whole) {
      add_data_groups(StepGroup::data, GroupKind::dp_cp);
    } else if (shard > 1) {
      add_data_parts(StepGroup::data, {.size = shard, .stride = 1});
    }
    if (shard < whole) add_data_parts(StepGroup::replica, {.size = whole / shard, .stride = shard});
    const int meanwhile = job_.layout.reshard_ranks;
    if (job_.layout.zero == 3 && meanwhile > 1) {
      add_data_parts(StepGroup::reshard, {.size = meanwhile, .stride = 1});
    }
  }

  /// Of a group that is cut: members lie `stride` apart.
  struct Part {
    int size;
    int stride;
  };
  void add_data_parts(StepGroup slot, Part part) {
    add_stage_groups(slot, parts(GroupKind::dp_cp, part));
  }
  std::vector<std::vector<int>> parts(GroupKind kind, Part part) const {
    std::vector<std::vector<int>> groups;
    const auto stride = static_cast<std::size_t>(part.stride);
    const std::size_t block = static_cast<std::size_t>(part.size) * stride;
    for (const std::vector<int>& whole : process_groups(grid_, kind)) {
      for (std::size_t begin = 0; begin < whole.size(); begin += block) {
        for (std::size_t first = begin; first < begin + stride; ++first) {
          std::vector<int>& group = groups.emplace_back();
          for (std::size_t i = first; i < begin + block; i += stride) group.push_back(whole[i]);
        }
      }
    }
    return groups;
  }

  /// Of two levels the neighbours are the inner one. Source: Megatron-LM d98e8a64,
  /// megatron/core/parallel_state.py, create_hierarchical_groups.
  void add_context() {
    if (job_.layout.context != ContextKind::exchange_and_ring) {
      add_stage_groups(StepGroup::context, GroupKind::cp, context_hops());
      return;
    }
    const int inner = job_.layout.context_exchange;
    add_stage_groups(StepGroup::context_exchange, parts(GroupKind::cp, {inner, 1}), Hops::direct);
    add_stage_groups(StepGroup::context, parts(GroupKind::cp, {ring_ranks(job_.layout), inner}),
                     context_hops());
  }

  void add_host() {
    std::vector<std::vector<int>> alone;
    alone.reserve(static_cast<std::size_t>(grid_.world()));
    for (int rank = 0; rank < grid_.world(); ++rank) alone.push_back({rank});
    add_stage_groups(StepGroup::to_host, alone, Hops::host);
    add_stage_groups(StepGroup::from_host, alone, Hops::host);
    const std::optional<OptimizerOffload>& optimizer = job_.training.offload;
    if (optimizer) add_stage_groups(StepGroup::host_memory, alone, Hops::host);
    if (optimizer && optimizer->to_drives) add_stage_groups(StepGroup::storage, alone, Hops::host);
  }

  Hops context_hops() const {
    switch (job_.layout.context) {
      case ContextKind::ring:
      case ContextKind::exchange_and_ring: return Hops::pairs;
      case ContextKind::all_gather: return Hops::ring;
      case ContextKind::all_to_all: return Hops::direct;
    }
    return Hops::ring;
  }

  Hops expert_hops() const {
    return job_.layout.dispatcher == TokenDispatcher::all_gather ? Hops::ring : Hops::direct;
  }

  /// Where the expert grid is the dense one its data group has nothing of its own to reduce.
  void add_experts() {
    if (grid_.ep > 1) add_stage_groups(StepGroup::expert, GroupKind::ep, expert_hops());
    if (grid_.ep > 1 && job_.layout.dispatcher == TokenDispatcher::hierarchical) {
      const int inner = job_.layout.expert_inner;
      add_stage_groups(StepGroup::expert_inside, parts(GroupKind::ep, {inner, 1}), Hops::direct);
      add_stage_groups(StepGroup::expert_across, parts(GroupKind::ep, {grid_.ep / inner, inner}),
                       Hops::direct);
    }
    if (grid_.etp > 1) add_stage_groups(StepGroup::expert_tensor, GroupKind::etp);
    const bool apart = grid_.ep > 1 || grid_.etp != grid_.tp;
    if (apart && grid_.edp() * copies_ > 1) {
      add_data_groups(StepGroup::expert_data, GroupKind::edp);
    }
  }

  /// The two ranks of a pipeline that hold the same stages reduce their gradients together.
  void add_data_groups(StepGroup slot, GroupKind kind) {
    const std::size_t first = families_.size();
    add_stage_groups(slot, kind);
    if (copies_ == 1) return;
    const std::size_t half = (families_.size() - first) / 2;
    for (std::size_t stage = 0; stage < half; ++stage) {
      GroupFamily& family = families_[first + stage];
      const GroupFamily& mirrored = families_[first + 2 * half - 1 - stage];
      std::vector<GpuId> gpus;
      gpus.reserve(2 * family.gpus.size());
      for (std::size_t copy = 0; copy < family.copies(); ++copy) {
        const auto own = family.copy(copy);
        const auto other = mirrored.copy(copy);
        gpus.insert(gpus.end(), own.begin(), own.end());
        gpus.insert(gpus.end(), other.begin(), other.end());
      }
      family.gpus = std::move(gpus);
      family.size *= 2;
      family.stages.push_back(mirrored.stages.front());
      family.second_slot = slot;
    }
    families_.resize(first + half);
  }

  void add_stage_groups(StepGroup slot, GroupKind kind, Hops hops = Hops::ring) {
    add_stage_groups(slot, process_groups(grid_, kind), hops);
  }
  void add_stage_groups(StepGroup slot, const std::vector<std::vector<int>>& groups,
                        Hops hops = Hops::ring) {
    const std::vector<int> stage_of = stage_of_ranks(grid_);
    const std::size_t first = families_.size();
    for (int stage = 0; stage < grid_.pp; ++stage) {
      families_.push_back({.name = std::string(name_of(slot)) + " stage " + std::to_string(stage),
                           .slot = slot,
                           .stages = {stage},
                           .hops = hops,
                           .all_reduces = all_reduces(slot)});
    }
    for (const std::vector<int>& ranks : groups) {
      const int stage = stage_of[static_cast<std::size_t>(ranks.front())];
      GroupFamily& family = families_[first + static_cast<std::size_t>(stage)];
      family.size = ranks.size();
      for (const int rank : ranks) family.gpus.push_back(static_cast<GpuId>(rank));
    }
  }

  bool all_reduces(StepGroup slot) const {
    switch (slot) {
      case StepGroup::tensor:
      case StepGroup::expert_tensor: return !job_.layout.sequence_parallel;
      case StepGroup::data:
      case StepGroup::expert_data:
        return job_.layout.zero == 0 || job_.training.framework.zero_all_reduces;
      case StepGroup::replica:
      case StepGroup::embedding: return true;
      case StepGroup::world:  // by latency alone
      case StepGroup::forward_next:
      case StepGroup::forward_previous:
      case StepGroup::backward_previous:
      case StepGroup::backward_next:
      case StepGroup::context:
      case StepGroup::expert:
      case StepGroup::reshard:
      case StepGroup::to_host:
      case StepGroup::from_host:
      case StepGroup::host_memory:
      case StepGroup::storage:
      case StepGroup::context_exchange:
      case StepGroup::expert_inside:
      case StepGroup::expert_across: return false;
    }
    return false;
  }

  void add_world() {
    GroupFamily family{.name = "world", .slot = StepGroup::world, .stages = {}};
    family.latency_only = true;
    for (int stage = 0; stage < grid_.pp; ++stage) family.stages.push_back(stage);
    for (int rank = 0; rank < grid_.world(); ++rank)
      family.gpus.push_back(static_cast<GpuId>(rank));
    family.size = family.gpus.size();
    family.second_slot = StepGroup::world;
    families_.push_back(std::move(family));
  }

  /// Between neighbouring ranks both ways; the last sends to the first where chunks make a loop.
  void add_hops() {
    const bool loop = job_.layout.vpp > 1 && placement_of(job_.layout.schedule) == Placement::loop;
    const int hops = loop ? grid_.pp : grid_.pp - 1;
    for (int stage = 0; stage < hops; ++stage) {
      const int next = (stage + 1) % grid_.pp;
      add_hop(stage, next, {StepGroup::forward_next, StepGroup::forward_previous});
      add_hop(next, stage, {StepGroup::backward_previous, StepGroup::backward_next});
    }
  }

  void add_hop(int from, int to, std::pair<StepGroup, StepGroup> slots) {
    add_pairs(std::string(name_of(slots.first)) + " " + std::to_string(from) + " to " +
                  std::to_string(to),
              {from, to}, slots);
    families_.back().hops = Hops::pairs;
  }

  void add_pairs(std::string name, std::pair<int, int> stages,
                 std::pair<StepGroup, StepGroup> slots) {
    GroupFamily family{.name = std::move(name),
                       .slot = slots.first,
                       .stages = {stages.first, stages.second},
                       .second_slot = slots.second,
                       .all_reduces = all_reduces(slots.first)};
    family.size = 2;
    for (const std::vector<int>& pipeline : pipelines_) {
      family.gpus.push_back(static_cast<GpuId>(pipeline[static_cast<std::size_t>(stages.first)]));
      family.gpus.push_back(static_cast<GpuId>(pipeline[static_cast<std::size_t>(stages.second)]));
    }
    families_.push_back(std::move(family));
  }

  const Job& job_;
  const ParallelGrid& grid_;
  int copies_;  // of the model
  std::vector<std::vector<int>> pipelines_;
  std::vector<GroupFamily> families_;
};

}  // namespace

std::vector<int> stage_of_ranks(const ParallelGrid& grid) {
  std::vector<int> stage_of(static_cast<std::size_t>(grid.world()));
  for (const std::vector<int>& pipeline : process_groups(grid, GroupKind::pp)) {
    for (std::size_t stage = 0; stage < pipeline.size(); ++stage) {
      stage_of[static_cast<std::size_t>(pipeline[stage])] = static_cast<int>(stage);
    }
  }
  return stage_of;
}

std::vector<GroupFamily> group_families(const Job& job) { return Families(job).build(); }

}  // namespace flopcast
