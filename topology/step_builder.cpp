#include "topology/step_builder.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "sim/check.h"
#include "topology/group_load.h"

namespace flopcast {

StepBuilder::StepBuilder(const Cluster& cluster, std::span<const GpuId> gpus,
                         const CollectiveSteps& steps, Workload& network)
    : cluster_(cluster),
      steps_(steps),
      network_(network),
      first_rank_(static_cast<std::uint32_t>(network.ranks.size())),
      first_{0} {
  for (const std::vector<GpuId>& domain : members_by_domain(cluster, gpus)) {
    gpus_.insert(gpus_.end(), domain.begin(), domain.end());
    first_.push_back(static_cast<Place>(gpus_.size()));
  }
  network_.ranks.reserve(network_.ranks.size() + gpus_.size());
  for (const GpuId gpu : gpus_) {
    network_.ranks.push_back({.name = cluster.name_of(DeviceId{index_of(gpu)})});
  }
}

TransferId StepBuilder::add_transfer(Bytes size) {
  network_.transfers.push_back(
      {.latency = steps_.latency, .size = size, .solo_rate = steps_.send_rate});
  return TransferId{static_cast<std::uint32_t>(network_.transfers.size() - 1)};
}

ProgramId StepBuilder::add_program(Program program) {
  network_.programs.push_back(std::move(program));
  return ProgramId{static_cast<std::uint32_t>(network_.programs.size() - 1)};
}

void StepBuilder::set_program(Place place, ProgramId program) {
  network_.ranks[first_rank_ + place].program = program;
}

std::uint16_t StepBuilder::add_slot(Place place, GroupId group) {
  std::vector<GroupId>& groups = network_.ranks[first_rank_ + place].groups;
  FLOPCAST_CHECK(groups.size() < std::numeric_limits<std::uint16_t>::max(), "a slot has 16 bits");
  groups.push_back(group);
  return static_cast<std::uint16_t>(groups.size() - 1);
}

GroupId StepBuilder::add_pair(Place from, Place to) {
  route_.clear();
  cluster_.append_route(gpus_[from], gpus_[to], route_);
  std::vector<LinkLoad> loads;
  loads.reserve(route_.size());
  for (const LinkId link : route_) loads.push_back({link, 1});
  Group& pair = network_.groups.emplace_back();
  pair.members = {RankId{first_rank_ + from}, RankId{first_rank_ + to}};
  pair.loads.push_back(std::move(loads));
  return GroupId{static_cast<std::uint32_t>(network_.groups.size() - 1)};
}

StepBuilder::Connection StepBuilder::connect(Place from, Place to) {
  const GroupId pair = add_pair(from, to);
  return {.from_slot = add_slot(from, pair), .to_slot = add_slot(to, pair)};
}

void StepBuilder::connect_all(std::span<const Place> to) {
  std::vector<GroupId> incoming(to.size());
  for (Place from = 0; from < members(); ++from) {
    const GroupId pair = add_pair(from, to[from]);
    add_slot(from, pair);
    incoming[to[from]] = pair;
  }
  for (Place place = 0; place < members(); ++place) add_slot(place, incoming[place]);
}

}  // namespace flopcast
