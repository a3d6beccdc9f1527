#pragma once

// The communicators of a training step: which ranks meet for what, and how each lies on the
// machine.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "calibration/network_path.h"
#include "models/training.h"
#include "sim/collective_kind.h"
#include "sim/workload.h"
#include "topology/cluster.h"
#include "topology/group_load.h"

namespace flopcast {

/// Communicators of one rank, in the order of Op::slot.
enum class StepGroup : std::uint16_t {
  tensor,
  data,               // data and context parallel together, or those that share one copy of states
  world,              // gradient norm
  embedding,          // first and last stage
  forward_next,       // this rank to the next of its pipeline
  forward_previous,   // the previous rank to this
  backward_previous,  // this rank to the previous
  backward_next,      // the next rank to this
  context,            // ranks that share a sequence
  expert,             // ranks that hold different experts: tokens are exchanged
  expert_tensor,      // ranks that hold parts of the same experts
  expert_data,        // ranks that hold the same experts: their gradients and parameters
  replica,            // ranks that hold the same shard: its gradients
  reshard,            // ranks that hold the parameters together between forward and backward pass
  // A rank alone, with its host: HostPath.
  to_host,
  from_host,
  host_memory,
  storage,
  context_exchange,  // neighbours that share a sequence and exchange heads, beside rings
  expert_inside,     // neighbours of a group of experts: the first level of its exchange
  expert_across,     // those in line in all neighbourhoods: the second
};
inline constexpr std::size_t kStepGroups = 21;

/// Who sends to whom in a group.
enum class Hops : std::uint8_t {
  ring,    // of channels, as NCCL's collectives send
  direct,  // all-to-all
  pairs,   // each to its successor by a send of its own; of two stages: the first to the second
  host,    // none: one rank and its host
};

/// One kind of communicator of one stage, or between two: all its copies act together, if the
/// machine lets them. Rank r runs on GPU r.
struct GroupFamily {
  std::string name;
  StepGroup slot{};
  std::vector<int> stages;  // of its members: one, two in order, or all
  StepGroup second_slot{};  // of the second of two
  Hops hops = Hops::ring;
  bool latency_only = false;  // nothing of size travels in it
  bool all_reduces = false;   // among others, so that it may form trees
  std::size_t size = 1;       // members of one copy
  std::vector<GpuId> gpus{};  // of all copies, one after another

  std::size_t copies() const { return gpus.size() / size; }
  std::span<const GpuId> copy(std::size_t i) const {
    return std::span(gpus).subspan(i * size, size);
  }
  /// Through which its member number `i` uses a copy.
  StepGroup slot_of(std::size_t i) const {
    return i == 1 && stages.size() == 2 ? second_slot : slot;
  }
};

/// Those that the job uses.
std::vector<GroupFamily> group_families(const Job& job);

/// Pipeline rank of each rank.
std::vector<int> stage_of_ranks(const ParallelGrid& grid);

/// How one communicator lies on the machine.
struct GroupFacts {
  GroupShape shape;  // the fullest domain counts: 3 ranks on 2 nodes are 2 x 2
  int ranks = 1;
  NetworkPath path;  // with the worst of its degraded cards and NVLinks: all channels wait for it
  LinkKind slowest = LinkKind::nvlink;
  double heaviest_alone = 0;  // largest weight per capacity of its own load, s per byte
  bool trees = false;         // it has loads as a tree, too

  friend auto operator<=>(const GroupFacts&, const GroupFacts&) = default;
};

/// Of the buffer of a collective, the part that makes up one byte that a rank of a ring sends.
double sent_per_buffer(const GroupFacts& facts, CollectiveKind kind = CollectiveKind::all_reduce);

/// How the load of a group on links is counted: per byte that a member sends, or per byte of the
/// whole buffer by trees and by switches of the network (LoadPattern).
enum class LoadKind : std::uint8_t { ring, tree, network_reduce, network_gather, network_scatter };
inline constexpr std::array kLoadKinds{LoadKind::ring, LoadKind::tree, LoadKind::network_reduce,
                                       LoadKind::network_gather, LoadKind::network_scatter};
/// Those that a cluster can have: the first two where its switches do not reduce.
std::span<const LoadKind> load_kinds(const Cluster& cluster);

/// Bytes on links of the cluster; empty where a copy has no such load.
std::vector<LinkLoad> family_loads(const Cluster& cluster, const GroupFamily& family,
                                   std::size_t copy, LoadKind kind = LoadKind::ring);

/// `loads` are those of the copy. Of pairs inside a stage: the one that crosses most, for which the
/// others wait.
GroupFacts family_facts(const Cluster& cluster, const GroupFamily& family, std::size_t copy,
                        std::span<const LinkLoad> loads);

}  // namespace flopcast
