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

/// `loads` is what the group puts on the links of the cluster.
GroupFacts group_facts(const Cluster& cluster, std::span<const GpuId> gpus,
                       std::span<const LinkLoad> loads) {
  const System& system = cluster.spec().system;
  GroupFacts facts;
  facts.shape = group_shape(cluster, gpus);
  facts.ranks = static_cast<int>(gpus.size());
  facts.slowest = slowest_tier(cluster, gpus);
  facts.path.domain = system.node_link == NodeLink::pcie ? system.gpu.pcie : system.gpu.nvlink;
  facts.path.network = node_bandwidth(cluster, gpus);
  facts.path.network_hop = network_latency(cluster, gpus);
  if (facts.shape.nodes > 1) facts.path.card_latency = message_latency(system.network);
  double nvlink = 1;
  double nic = 1;
  for (const LinkLoad& load : loads) {
    const ClusterLink& link = cluster.links()[index_of(load.link)];
    facts.heaviest_alone = std::max(facts.heaviest_alone, load.weight / link.capacity.value);
    if (cluster.spec().degraded.empty()) continue;
    const double condition = cluster.condition_of(load.link);
    if (link.kind == LinkKind::nvlink) nvlink = std::min(nvlink, condition);
    if (link.kind == LinkKind::nic) nic = std::min(nic, condition);
  }
  facts.path.domain = nvlink * facts.path.domain;
  facts.path.network = nic * facts.path.network;
  return facts;
}

/// Sends of each member of a ring to the next.
std::vector<LinkLoad> ring_of_pairs(const Cluster& cluster, std::span<const GpuId> gpus) {
  std::map<LinkId, double> sums;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const std::array pair{gpus[i], gpus[(i + 1) % gpus.size()]};
    for (const LinkLoad& load : group_load(cluster, pair, LoadPattern::pair)) {
      sums[load.link] += load.weight;
    }
  }
  std::vector<LinkLoad> loads;
  loads.reserve(sums.size());
  for (const auto& [link, weight] : sums) loads.push_back({link, weight});
  return loads;
}

/// The first of those that cross most.
std::array<GpuId, 2> slowest_pair(const Cluster& cluster, std::span<const GpuId> gpus) {
  std::array slowest{gpus[0], gpus[1]};
  for (std::size_t i = 1; i < gpus.size(); ++i) {
    const std::array pair{gpus[i], gpus[(i + 1) % gpus.size()]};
    if (slowest_tier(cluster, pair) > slowest_tier(cluster, slowest)) slowest = pair;
  }
  return slowest;
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
    if (job_.training.offload) add_host();
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
    for (const StepGroup slot :
         {StepGroup::to_host, StepGroup::from_host, StepGroup::host_memory, StepGroup::storage}) {
      if (slot == StepGroup::storage && !job_.training.offload->to_drives) continue;
      add_stage_groups(slot, alone, Hops::host);
    }
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

namespace {

/// Parts of the nominal rate that are reached. Copies over PCIe: assumed, as NCCL counts 12 of
/// 15.75 GB/s of Gen3 x16 (2.30.7, graph/topo.h). Adam on processors: 28 bytes per parameter at
/// 0.22 s per 1e9 and 2.57 s per 1e10 on a DGX-2, whose 12 channels of DDR4-2666 make 256 GB/s, is
/// 0.50 and 0.43 (ZeRO-Offload, arXiv 2101.06840, table 4; from memory). Drives: assumed.
constexpr double kCopyEfficiency = 0.77;
constexpr double kHostAdamEfficiency = 0.45;
constexpr double kDriveEfficiency = 0.8;

/// What a byte of a group that is a rank and its host weighs on its links.
std::vector<LinkLoad> host_loads(const Cluster& cluster, GpuId gpu, StepGroup slot) {
  HostPath path = HostPath::memory;
  double efficiency = kHostAdamEfficiency;
  if (slot == StepGroup::to_host || slot == StepGroup::from_host) {
    path = slot == StepGroup::to_host ? HostPath::to_host : HostPath::from_host;
    efficiency = kCopyEfficiency;
  } else if (slot == StepGroup::storage) {
    path = HostPath::storage;
    efficiency = kDriveEfficiency;
  }
  std::vector<LinkId> route;
  cluster.append_host_route(gpu, path, route);
  std::vector<LinkLoad> loads;
  loads.reserve(route.size());
  for (const LinkId link : route) loads.push_back({link, 1 / efficiency});
  return loads;
}

}  // namespace

double sent_per_buffer(const GroupFacts& facts) {
  return facts.ranks > 1 ? 1 / bus_factor(CollectiveKind::all_reduce, facts.ranks) : 1;
}

std::vector<LinkLoad> family_loads(const Cluster& cluster, const GroupFamily& family,
                                   std::size_t copy) {
  if (family.latency_only) return {};
  const std::span<const GpuId> gpus = family.copy(copy);
  switch (family.hops) {
    case Hops::ring: return group_load(cluster, gpus, LoadPattern::ring);
    case Hops::direct: return group_load(cluster, gpus, LoadPattern::direct);
    case Hops::host: return host_loads(cluster, gpus.front(), family.slot);
    case Hops::pairs:
      if (family.stages.size() == 1) return ring_of_pairs(cluster, gpus);
      return group_load(cluster, gpus, LoadPattern::pair);
  }
  return {};
}

std::vector<LinkLoad> family_tree_loads(const Cluster& cluster, const GroupFamily& family,
                                        std::size_t copy) {
  const std::span<const GpuId> gpus = family.copy(copy);
  if (!family.all_reduces || group_shape(cluster, gpus).nodes == 1) return {};
  return group_load(cluster, gpus, LoadPattern::tree);
}

GroupFacts family_facts(const Cluster& cluster, const GroupFamily& family, std::size_t copy,
                        std::span<const LinkLoad> loads) {
  if (family.hops == Hops::pairs && family.stages.size() == 1) {
    const std::array pair = slowest_pair(cluster, family.copy(copy));
    return group_facts(cluster, pair, group_load(cluster, pair, LoadPattern::pair));
  }
  GroupFacts facts = group_facts(cluster, family.copy(copy), loads);
  facts.trees = family.all_reduces && facts.shape.nodes > 1;
  return facts;
}

}  // namespace flopcast
