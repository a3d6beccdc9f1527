#pragma once

// How the groups of a job lie on the machine: the slowest links that each kind crosses, and what
// they leave it.

#include <string>
#include <vector>

#include "models/group_families.h"
#include "models/training.h"
#include "topology/cluster.h"

namespace flopcast {

/// Bytes a second that a rank sends in a group of a kind, at line rates (assumed): the capacity of
/// the link that the group loads most, over the weight of its load there (group_load.h).
struct GroupPlacement {
  std::string kind;           // "tp"
  StepGroup slot{};           // its communicators
  LinkKind slowest{};         // of the worst group
  BytesPerSecond alone{};     // of the worst group, if all others are silent
  BytesPerSecond together{};  // of the worst group, beside all other groups of the kind
  BytesPerSecond inside{};    // if it did not leave its home, nodes or leaves; 0: it does not
  std::string warning{};      // "TP group spans nodes"
  /// What staying inside would save of a step, at most: the part of the transfers that the narrower
  /// links take, as far as it is exposed. Filled by step_report.
  Seconds cost{};
};

/// One for each of tp, cp, ep, dp, edp, pp that the job has. Home of tp, cp and ep is the NVLink
/// domain (or the node, on PCIe), of dp, edp and pp the switch that cards of a pod share.
std::vector<GroupPlacement> group_placements(const Job& job, const Cluster& cluster);

}  // namespace flopcast
