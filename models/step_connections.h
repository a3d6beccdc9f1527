#pragma once

// The groups by which ranks send each other the messages of their collectives. Private to
// step_network.cpp.

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "models/step_forms.h"
#include "models/step_parts.h"
#include "topology/cluster.h"

namespace flopcast {

class StepConnections {
 public:
  StepConnections(Workload& workload, const Cluster& cluster)
      : workload_(workload), cluster_(cluster) {}

  /// Slots of one group of a form, and streams.
  std::uint32_t lanes_of(StepForm form, GroupId group) const;
  std::uint32_t streams_of(StepForm form, GroupId group) const;
  /// Whether an all-to-all of the group goes by the rails of its members' neighbours.
  bool has_two_levels(GroupId group) const { return two_levels_of(group).lanes() > 0; }
  TwoLevels two_levels_of(GroupId group) const;
  const GroupTrees& trees_of(GroupId group);

  /// Gives the members the messages of a form, by slots from `slot` on.
  void connect(StepForm form, std::uint32_t slot, GroupId group);

 private:
  struct PairSlots {
    std::uint32_t from;
    std::uint32_t to;
  };
  const Group& group_at(GroupId id) const { return workload_.groups[index_of(id)]; }
  std::vector<GpuId> gpus_of(GroupId id) const;
  void connect_lanes(StepForm form, std::uint32_t slot, GroupId group);
  void connect_trees(std::uint32_t slot, const GroupTrees& trees);
  void connect_two_levels(std::uint32_t slot, GroupId group);
  void connect_in_switch(std::uint32_t slot, GroupId group);
  void add_pair(GpuId from, GpuId to, PairSlots slots, double weight = 1);
  void add_flow(std::uint32_t slot, GroupId like, std::vector<LinkLoad> loads);

  Workload& workload_;
  const Cluster& cluster_;
  std::map<GroupId, GroupTrees> trees_;
};

}  // namespace flopcast
