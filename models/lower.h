#pragma once

// From a job on a cluster to the engine's tables: who runs what, on which links, how long each part
// takes alone.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calibration/profile.h"
#include "models/communicators.h"
#include "models/routing_loads.h"
#include "models/stage_program.h"
#include "models/step_category.h"
#include "models/training.h"
#include "sim/workload.h"
#include "topology/cluster.h"

namespace flopcast {

struct Plan {
  Workload workload;  // by stage: rank row p stands for all ranks of pipeline rank p
  bool alike =
      true;  // the ranks of every row do the same at the same time: nothing is approximated
  std::vector<int> stage_of;  // pipeline rank, by ProgramId; each has sends and receives of its own
  std::vector<int> kind_of;   // Cluster::kind_of its ranks' nodes, by ProgramId
  std::vector<std::array<GroupFacts, kStepGroups>> facts;  // by ProgramId; of groups it has
  std::vector<HostBytes> host;                             // by ProgramId, of one rank
  std::vector<StageContent> stages;                        // by global stage
  std::vector<CollectiveKind> transfer_kinds;              // by TransferId
  std::int64_t padded_vocab = 0;
  Flops executed;                                            // of the whole job in one step
  Flops recomputed;                                          // the part of it that is recompute
  std::optional<RoutingSummary> routing;                     // of a model with experts
  std::array<Evidence, kStepCategoryNames.size()> evidence;  // weakest of each category's times
};

/// What of the job cannot be simulated yet, in words for the user; nothing when all can.
std::optional<std::string> lowering_gap(const Job& job);

/// The job must be legal (layout_violations) and without gap. `others`: profiles of the cluster's
/// other nodes, in order, which time their kernels.
Plan lower(const Job& job, const Cluster& cluster, const Profile& profile,
           Ranks ranks = Ranks::by_stage, std::span<const Profile> others = {});

/// One row for each class of ranks, groups and links (sim/fold.h).
Plan folded(Plan plan);

}  // namespace flopcast
