#pragma once

// The communicators of a training step and the links they load, as rows of the engine, in one of
// two views.
//
//   by_stage  one row of ranks stands for a pipeline stage and one communicator for all equal ones
//             beside it. The loads of all of them are summed on every link of the cluster, and
//             links with equal loads and capacity become one row. A ring whose hops differ (some
//             cross the spine, others stay under a leaf) loads several rows, and the fullest
//             decides its rate.
//   all       every rank, communicator and link of the cluster is a row: what fold() needs.
//
// Ranks of a stage do the same at the same time where their communicators lie alike: each copy puts
// the same loads on links of the same classes, and each link of a class carries the same loads.
// Then stages, families and classes of links are an equitable partition (sim/fold.h), by_stage is
// exact and says so (`alike`). Where not, by_stage takes the first copy and the slowest GPU for
// all.

#include <array>
#include <cstdint>
#include <vector>

#include "models/group_families.h"
#include "models/layout.h"
#include "sim/workload.h"
#include "topology/cluster.h"

namespace flopcast {

enum class Ranks : std::uint8_t { by_stage, all };

/// Load lists of a group, all per byte that a rank of a ring sends: as a ring (or pair) of
/// point-to-point sends; as a reduction in the switch, where a rank sends the buffer once instead
/// of 2(n-1)/n times; as double binary trees, if GroupFacts::trees.
inline constexpr std::uint8_t kRingPattern = 0;
inline constexpr std::uint8_t kInSwitchPattern = 1;
inline constexpr std::uint8_t kTreePattern = 2;

/// The groups of one rank, by StepGroup.
using RankGroups = std::array<GroupId, kStepGroups>;

/// What ranks have in common that run one program: the stage, and how their groups lie.
struct RankRole {
  int stage = 0;
  RankGroups groups{};  // one of each slot; the others' have the same facts
  /// Its place in its group of experts, where what they get differs; negative: the fullest, which
  /// stands for all.
  int expert_rank = -1;
  /// The same of its context-parallel ring, where ranks see unlike parts of a sequence.
  int context_rank = -1;
};

struct RankRow {
  std::uint32_t role = 0;
  RankGroups groups{};
  double speed = 1;
  std::uint64_t count = 1;
};

struct Communicators {
  std::vector<Group> groups;
  std::vector<Link> links;
  std::vector<GroupFacts> facts;  // by GroupId
  std::vector<RankRole> roles;    // by_stage: one per stage, in order
  std::vector<RankRow> ranks;     // by RankId: of stage p, or rank r
  bool alike = true;              // the ranks of every row do the same at the same time
};

Communicators build_communicators(const Cluster& cluster, const Job& job, Ranks ranks);

}  // namespace flopcast
