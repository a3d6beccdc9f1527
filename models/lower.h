#pragma once

// From a job on a cluster to the engine's tables: who runs what, on which links, how long each part
// takes alone.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calibration/profile.h"
#include "models/communicators.h"
#include "models/step_category.h"
#include "models/training.h"
#include "sim/workload.h"
#include "topology/cluster.h"

namespace flopcast {

struct Plan {
  Workload workload;              // rank row p stands for all ranks of pipeline rank p
  std::vector<GroupFacts> facts;  // by GroupId of the workload
  std::vector<std::array<GroupId, kStepGroups>> groups;  // by pipeline rank
  std::vector<StageContent> stages;                      // by global stage
  std::int64_t padded_vocab = 0;
  Flops executed;                                            // of the whole job in one step
  Flops recomputed;                                          // the part of it that is recompute
  std::array<Evidence, kStepCategoryNames.size()> evidence;  // weakest of each category's times
};

/// What of the job cannot be simulated yet, in words for the user; nothing when all can.
std::optional<std::string> lowering_gap(const Job& job);

/// The job must be legal (layout_violations) and without gap.
Plan lower(const Job& job, const Cluster& cluster, const Profile& profile);

}  // namespace flopcast
