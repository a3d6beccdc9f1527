#include "models/step_connections.h"

#include <utility>

#include "topology/group_load.h"
#include "topology/ring_order.h"

namespace flopcast {

std::vector<GpuId> StepConnections::gpus_of(GroupId id) const {
  std::vector<GpuId> gpus;
  gpus.reserve(group_at(id).members.size());
  for (const RankId member : group_at(id).members) gpus.push_back(GpuId{index_of(member)});
  return gpus;
}

/// Channels of rings and trees are rotated over the members of a domain, as NCCL's.
std::uint32_t StepConnections::lanes_of(StepForm form, GroupId group) const {
  const auto members = static_cast<std::uint32_t>(group_at(group).members.size());
  switch (form) {
    case StepForm::whole:
    case StepForm::none:
    case StepForm::next: return 1;
    case StepForm::direct: return members - 1;
    case StepForm::two_levels: return two_levels_of(group).lanes();
    case StepForm::in_switch: return in_switch_lanes(members);
    case StepForm::ring:
    case StepForm::tree: break;
  }
  const GroupShape shape = group_shape(cluster_, gpus_of(group));
  const auto channels = shape.nodes > 1 ? static_cast<std::uint32_t>(shape.ranks_per_node) : 1;
  return form == StepForm::tree ? 2 * channels : channels;
}

std::uint32_t StepConnections::streams_of(StepForm form, GroupId group) const {
  const std::uint32_t lanes = lanes_of(form, group);
  switch (form) {
    case StepForm::two_levels: return two_levels_of(group).streams();
    case StepForm::in_switch: return kInSwitchStreams * lanes;
    case StepForm::tree: return kTreeStreams * lanes;
    case StepForm::whole:
    case StepForm::none:
    case StepForm::next:
    case StepForm::direct:
    case StepForm::ring: break;
  }
  return lanes;
}

/// No lanes where the members of each domain are not as many, in the same places and so on the
/// same rails.
TwoLevels StepConnections::two_levels_of(GroupId group) const {
  if (!cluster_.uses_pxn()) return {};
  const GroupPlaces places(cluster_, gpus_of(group));
  const Place local = places.domain_size(0);
  if (places.domains() == 1 || local == 1 || places.members() != local * places.domains()) {
    return {};
  }
  const auto size = static_cast<std::uint32_t>(cluster_.spec().system.nvlink_domain);
  for (Place place = 0; place < places.members(); ++place) {
    const bool alike =
        index_of(places.gpu(place)) % size == index_of(places.gpu(place % local)) % size;
    if (places.first(place / local) != place - place % local || !alike) return {};
  }
  return {.local = local, .domains = places.domains()};
}

const GroupTrees& StepConnections::trees_of(GroupId id) {
  const auto known = trees_.find(id);
  if (known != trees_.end()) return known->second;
  return trees_.try_emplace(id, cluster_, gpus_of(id), lanes_of(StepForm::tree, id)).first->second;
}

void StepConnections::connect(StepForm form, std::uint32_t slot, GroupId group) {
  switch (form) {
    case StepForm::whole:
    case StepForm::none: return;
    case StepForm::tree: return connect_trees(slot, trees_of(group));
    case StepForm::two_levels: return connect_two_levels(slot, group);
    case StepForm::in_switch: return connect_in_switch(slot, group);
    case StepForm::next:
    case StepForm::ring:
    case StepForm::direct: return connect_lanes(form, slot, group);
  }
}

void StepConnections::connect_lanes(StepForm form, std::uint32_t slot, GroupId group) {
  const std::vector<GpuId> gpus = gpus_of(group);
  if (form == StepForm::next) {
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      add_pair(gpus[i], gpus[(i + 1) % gpus.size()], {slot, slot + 1});
    }
    return;
  }
  const std::uint32_t lanes = lanes_of(form, group);
  const GroupPlaces places(cluster_, gpus);
  for (std::uint32_t lane = 0; lane < lanes; ++lane, slot += 2) {
    std::vector<Place> to;
    if (form == StepForm::ring) to = ring_successors(places, lane);
    for (Place from = 0; from < places.members(); ++from) {
      const Place target = form == StepForm::ring ? to[from] : (from + lane + 1) % places.members();
      add_pair(places.gpu(from), places.gpu(target), {slot, slot + 1});
    }
  }
}

void StepConnections::connect_trees(std::uint32_t first_slot, const GroupTrees& trees) {
  trees.for_each_edge([&](std::uint32_t lane, GpuId child, GpuId parent, std::uint32_t number) {
    const std::uint32_t slot = first_slot + lane * kTreeSlots;
    add_pair(child, parent, {slot + kUpToParent, slot + up_from_child(number)});
    add_pair(parent, child, {slot + down_to_child(number), slot + kDownFromParent});
  });
}

void StepConnections::connect_two_levels(std::uint32_t slot, GroupId group) {
  const TwoLevels shape = two_levels_of(group);
  const GroupPlaces places(cluster_, gpus_of(group));
  const auto connect_all = [&](auto target) {
    for (Place from = 0; from < places.members(); ++from) {
      add_pair(places.gpu(from), places.gpu(target(from)), {slot, slot + 1}, shape.weight());
    }
    slot += 2;
  };
  for (Place distance = 1; distance < shape.local; ++distance) {
    connect_all([&](Place from) {
      const Place place = from % shape.local;
      return from - place + (place + distance) % shape.local;
    });
  }
  for (Place distance = 1; distance < shape.domains; ++distance) {
    connect_all([&](Place from) { return (from + distance * shape.local) % places.members(); });
  }
}

/// Of all members' data one part goes up, and the sum down to one; or from one up and down to all.
void StepConnections::connect_in_switch(std::uint32_t slot, GroupId group) {
  const std::vector<GpuId> gpus = gpus_of(group);
  const double weight = static_cast<double>(gpus.size()) / static_cast<double>(gpus.size() - 1);
  for (const GpuId owner : gpus) {
    std::vector<LinkLoad> reduce{{cluster_.from_domain(owner), weight}};
    std::vector<LinkLoad> copy{{cluster_.to_domain(owner), weight}};
    for (const GpuId member : gpus) {
      reduce.push_back({cluster_.to_domain(member), weight});
      copy.push_back({cluster_.from_domain(member), weight});
    }
    add_flow(slot++, group, std::move(reduce));
    add_flow(slot++, group, std::move(copy));
  }
}

void StepConnections::add_pair(GpuId from, GpuId to, PairSlots slots, double weight) {
  const GroupId id{static_cast<std::uint32_t>(workload_.groups.size())};
  Group pair{.name = "message", .members = {RankId{index_of(from)}, RankId{index_of(to)}}};
  pair.loads.push_back(route_loads(cluster_, from, to));
  for (LinkLoad& load : pair.loads.back()) load.weight *= weight;
  workload_.groups.push_back(std::move(pair));
  workload_.ranks[index_of(from)].groups[slots.from] = id;
  workload_.ranks[index_of(to)].groups[slots.to] = id;
}

void StepConnections::add_flow(std::uint32_t slot, GroupId like, std::vector<LinkLoad> loads) {
  const GroupId id{static_cast<std::uint32_t>(workload_.groups.size())};
  Group flow{.name = "in switch", .members = group_at(like).members};
  for (const RankId member : flow.members) workload_.ranks[index_of(member)].groups[slot] = id;
  flow.loads.push_back(std::move(loads));
  workload_.groups.push_back(std::move(flow));
}

}  // namespace flopcast
