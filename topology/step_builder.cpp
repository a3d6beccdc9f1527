#include "topology/step_builder.h"

#include <limits>
#include <utility>

#include "sim/check.h"

namespace flopcast {

StepBuilder::StepBuilder(const Cluster& cluster, std::span<const GpuId> gpus,
                         const CollectiveSteps& steps, Workload& network)
    : cluster_(cluster),
      steps_(steps),
      network_(network),
      first_rank_(static_cast<std::uint32_t>(network.ranks.size())),
      places_(cluster, gpus) {
  network_.ranks.reserve(network_.ranks.size() + places_.members());
  for (const GpuId gpu : places_.gpus()) {
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

void StepBuilder::set_program(Program program) {
  const ProgramId id = add_program(std::move(program));
  for (Place place = 0; place < members(); ++place) set_program(place, id);
}

void StepBuilder::set_programs(std::vector<Program> programs) {
  for (Place place = 0; place < members(); ++place) {
    set_program(place, add_program(std::move(programs[place])));
  }
}

std::uint16_t StepBuilder::add_slot(Place place, GroupId group) {
  std::vector<GroupId>& groups = network_.ranks[first_rank_ + place].groups;
  FLOPCAST_CHECK(groups.size() < std::numeric_limits<std::uint16_t>::max(), "a slot has 16 bits");
  groups.push_back(group);
  return static_cast<std::uint16_t>(groups.size() - 1);
}

GroupId StepBuilder::add_pair(Place from, Place to) {
  Group& pair = network_.groups.emplace_back();
  pair.members = {RankId{first_rank_ + from}, RankId{first_rank_ + to}};
  pair.loads.push_back(route_loads(cluster_, places_.gpu(from), places_.gpu(to)));
  return GroupId{static_cast<std::uint32_t>(network_.groups.size() - 1)};
}

StepBuilder::Connection StepBuilder::connect(Place from, Place to) {
  const GroupId pair = add_pair(from, to);
  return {.from_slot = add_slot(from, pair), .to_slot = add_slot(to, pair)};
}

void StepBuilder::join_all(std::vector<LinkLoad> loads) {
  const GroupId id{static_cast<std::uint32_t>(network_.groups.size())};
  Group& flow = network_.groups.emplace_back();
  for (Place place = 0; place < members(); ++place) {
    flow.members.push_back(RankId{first_rank_ + place});
    add_slot(place, id);
  }
  flow.loads.push_back(std::move(loads));
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
