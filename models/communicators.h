#pragma once

// The communicators of a training step and the links they load.
//
// All ranks of one pipeline stage do the same at the same time, so that one rank stands for a stage
// and one communicator for all equal ones beside it. What they do together to the machine is kept
// exactly: the loads of all communicators of a kind and stage are summed on every link of the
// cluster, and links with equal loads and capacity become one row. A ring whose hops differ (some
// cross the spine, others stay under a leaf) loads several rows, and the fullest decides its rate.

#include <array>
#include <cstdint>
#include <vector>

#include "calibration/profile.h"
#include "models/layout.h"
#include "sim/workload.h"
#include "topology/cluster.h"
#include "topology/group_load.h"

namespace flopcast {

/// Communicators of one rank, in the order of Op::slot.
enum class StepGroup : std::uint16_t {
  tensor,
  data,               // data and context parallel together: gradients and parameters
  world,              // gradient norm
  embedding,          // first and last stage
  forward_next,       // this stage to the next
  forward_previous,   // the previous stage to this
  backward_previous,  // this stage to the previous
  backward_next,      // the next stage to this
  context,            // ranks that share a sequence
  expert,             // ranks that hold different experts: tokens are exchanged
  expert_tensor,      // ranks that hold parts of the same experts
  expert_data,        // ranks that hold the same experts: their gradients and parameters
};
inline constexpr std::size_t kStepGroups = 12;

/// How one communicator lies on the machine.
struct GroupFacts {
  GroupShape shape;  // the fullest domain counts: 3 ranks on 2 nodes are 2 x 2
  int ranks = 1;
  NetworkPath path;
  LinkKind slowest = LinkKind::nvlink;
  double heaviest_alone = 0;  // largest weight per capacity of its own load, s per byte
};

/// Load lists of a group: as a ring (or pair) of point-to-point sends, and as a reduction in the
/// switch, where a rank sends the buffer once instead of 2(n-1)/n times.
inline constexpr std::uint8_t kRingPattern = 0;
inline constexpr std::uint8_t kInSwitchPattern = 1;

struct Communicators {
  std::vector<Group> groups;
  std::vector<Link> links;
  std::vector<GroupFacts> facts;                           // by GroupId
  std::vector<std::array<GroupId, kStepGroups>> by_stage;  // by pipeline rank
};

/// One row of ranks per pipeline rank: RankId p stands for all ranks of pipeline rank p.
/// `context` decides how ranks that share a sequence send: in a ring of pairs or all together.
Communicators build_communicators(const Cluster& cluster, const ParallelGrid& grid,
                                  ContextKind context = ContextKind::ring);

}  // namespace flopcast
