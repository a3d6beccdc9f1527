#pragma once

// Which process of the job this is, when one was started per GPU: by torchrun, srun or mpirun. Read
// from the environment, so that none of them is linked.

#include <functional>
#include <optional>
#include <string>

#include "sim/collective_kind.h"

namespace flopcast {

struct RankPlace {
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;      // on its node
  int ranks_per_node = 1;  // the same on every node
  std::string job;         // what tells this start of the job from another one

  int nodes() const { return ranks / ranks_per_node; }
};

/// Value of an environment variable, nothing where it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// Nothing for a process on its own. torchrun's variables come first (it may run below srun), then
/// Slurm's, then Open MPI's. Throws InputError naming the variable where one is missing, is no
/// number, or contradicts another.
std::optional<RankPlace> rank_place(const Environment& environment);

/// Of this process's environment.
std::optional<RankPlace> rank_place();

/// Whether this process is the one that reports: of a job of several, the first.
bool is_first_rank();

/// Where a rank stands once all ranks are cut into groups of one shape: which group, and its place
/// there. Ranks are numbered node by node. Groups take neighbours inside a node, and the same
/// places on neighbouring nodes. Requires that the shape divides the machine.
struct GroupPlace {
  int group = 0;
  int rank = 0;
};
GroupPlace group_place(int rank, int ranks_per_node, const GroupShape& shape);

}  // namespace flopcast
