#pragma once

// The communicators of a training step and the links they load, as rows of the engine, in one of
// three views.
//
//   by_stage  one row of ranks stands for a pipeline stage and one communicator for all equal ones
//             beside it. The loads of all of them are summed on every link of the cluster, and
//             links with equal loads and capacity become one row. A ring whose hops differ (some
//             cross the spine, others stay under a leaf) loads several rows, and the fullest
//             decides its rate.
//   all       every rank, communicator and link of the cluster is a row.
//   by_class  one row for each class of those (sim/fold.h), found without making rows of them all.
//
// Ranks of a stage do the same at the same time where their communicators lie alike: each copy puts
// the same loads on links of the same classes, and each link of a class carries the same loads.
// Then stages, families and classes of links are an equitable partition (sim/fold.h), by_stage is
// exact and says so (`alike`). Where not, by_stage takes the first copy, the kind of the first GPU
// and the speed of the slowest for all.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/group_families.h"
#include "models/layout.h"
#include "sim/workload.h"
#include "topology/cluster.h"

namespace flopcast {

/// `fewest`: by_stage where that is exact, else by_class.
enum class Ranks : std::uint8_t { by_stage, all, by_class, fewest };

/// Load lists of a group, all per byte that a rank of a ring sends: as a ring (or pair) of
/// point-to-point sends; as a reduction in the switch, where a rank sends the buffer once instead
/// of 2(n-1)/n times; as double binary trees, if GroupFacts::trees; and, if NetworkPath::sharp, as
/// switches of the network do an all-reduce, all-gather or reduce-scatter.
inline constexpr std::uint8_t kRingPattern = 0;
inline constexpr std::uint8_t kInSwitchPattern = 1;
inline constexpr std::uint8_t kTreePattern = 2;
inline constexpr std::uint8_t kNetworkReducePattern = 3;
inline constexpr std::uint8_t kNetworkGatherPattern = 4;
inline constexpr std::uint8_t kNetworkScatterPattern = 5;
inline constexpr std::size_t kLoadPatterns = 6;

/// What a pattern is made of: of a list per byte of a buffer, the kind of collective that it is of.
struct PatternSource {
  LoadKind list{};
  std::optional<CollectiveKind> buffer_of;

  double per_sent(const GroupFacts& facts) const {
    return buffer_of ? sent_per_buffer(facts, *buffer_of) : 1;
  }
};
inline constexpr std::array<PatternSource, kLoadPatterns> kPatternSources{
    {{LoadKind::ring, std::nullopt},
     {LoadKind::ring, CollectiveKind::all_reduce},
     {LoadKind::tree, CollectiveKind::all_reduce},
     {LoadKind::network_reduce, CollectiveKind::all_reduce},
     {LoadKind::network_gather, CollectiveKind::all_gather},
     {LoadKind::network_scatter, CollectiveKind::reduce_scatter}}};

/// The groups of one rank, by StepGroup.
using RankGroups = std::array<GroupId, kStepGroups>;
inline RankGroups no_groups() {
  RankGroups groups;
  groups.fill(kNoGroup);
  return groups;
}

/// What ranks have in common that run one program: the stage, and how their groups lie.
struct RankRole {
  int stage = 0;
  RankGroups groups{};  // rows of Communicators::facts
  /// Its place in its group of experts, where what they get differs; negative: the fullest, which
  /// stands for all.
  int expert_rank = -1;
  /// The same of its context-parallel ring, where ranks see unlike parts of a sequence.
  int context_rank = -1;
  int kind = 0;  // of its node: Cluster::kind_of
};

struct RankRow {
  std::uint32_t role = 0;
  RankGroups groups{};
  double speed = 1;
  std::uint64_t count = 1;
};

/// All communicators, in flat tables: there may be millions. Each has a list of loads for each of
/// load_kinds.
struct ListedGroups {
  struct Load {
    LinkId link{};
    std::uint32_t weight = 0;  // row of `weights`
  };
  std::vector<std::string> names{};            // by family
  std::vector<std::uint32_t> family{};         // by group
  std::vector<std::uint32_t> facts{};          // by group: row of Communicators::facts
  std::vector<std::uint32_t> first_member{0};  // by group, one more at the end
  std::vector<RankId> members{};
  std::size_t kinds = 0;                     // lists of each group
  std::vector<std::uint32_t> first_load{0};  // by group and kind, one more at the end
  std::vector<Load> loads{};
  std::vector<double> weights{};
};

struct Communicators {
  std::vector<Group> groups;  // by_stage; else `listed`
  std::vector<Link> links;    // by_stage; else those of the cluster
  ListedGroups listed;
  std::vector<GroupFacts> facts;  // of groups of roles
  std::vector<RankRole> roles;    // by_stage: one per stage, in order
  std::vector<RankRow> ranks;     // by RankId: of stage p, or rank r
  bool alike = true;              // the ranks of every row do the same at the same time
};

/// `only_alike`: stops, without rows, where the ranks of a stage differ.
Communicators stage_communicators(const Cluster& cluster, const Job& job, bool only_alike = false);
/// Of every rank.
Communicators listed_communicators(const Cluster& cluster, const Job& job);

}  // namespace flopcast
