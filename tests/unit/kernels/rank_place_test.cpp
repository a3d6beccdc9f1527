#include "kernels/rank_place.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "sim/errors.h"

namespace flopcast {
namespace {

Environment of(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) {
    const auto found = variables.find(name);
    return found != variables.end() ? std::optional(found->second) : std::nullopt;
  };
}

std::string message(const Environment& environment) {
  try {
    rank_place(environment);
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

TEST_CASE("a process without a launcher is on its own") {
  CHECK_FALSE(rank_place(of({})));
  // A shell inside a Slurm allocation.
  CHECK_FALSE(rank_place(of({{"SLURM_PROCID", "0"},
                             {"SLURM_NTASKS", "1"},
                             {"SLURM_LOCALID", "0"},
                             {"SLURM_NTASKS_PER_NODE", "1"}})));
}

TEST_CASE("torchrun, srun and mpirun say which rank this is") {
  const auto environment = GENERATE(
      of({{"RANK", "11"}, {"WORLD_SIZE", "16"}, {"LOCAL_RANK", "3"}, {"LOCAL_WORLD_SIZE", "8"}}),
      of({{"SLURM_PROCID", "11"},
          {"SLURM_NTASKS", "16"},
          {"SLURM_LOCALID", "3"},
          {"SLURM_NTASKS_PER_NODE", "8"}}),
      of({{"OMPI_COMM_WORLD_RANK", "11"},
          {"OMPI_COMM_WORLD_SIZE", "16"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "8"}}));
  const auto place = rank_place(environment);
  REQUIRE(place);
  CHECK(place->rank == 11);
  CHECK(place->ranks == 16);
  CHECK(place->local_rank == 3);
  CHECK(place->ranks_per_node == 8);
  CHECK(place->nodes() == 2);
}

TEST_CASE("variables that are missing or wrong are named") {
  CHECK_THAT(message(of({{"RANK", "0"}, {"LOCAL_RANK", "0"}})),
             Catch::Contains("WORLD_SIZE is not set, but RANK is"));
  CHECK_THAT(message(of({{"RANK", "x"}, {"LOCAL_RANK", "0"}})),
             Catch::Contains("RANK=\"x\": expected a whole number"));
  CHECK_THAT(
      message(
          of({{"RANK", "0"}, {"WORLD_SIZE", "9"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "8"}})),
      Catch::Contains("ranks do not fill equal nodes"));
}

TEST_CASE("every group has the wanted shape, and every rank a place in one") {
  const auto shape = GENERATE(GroupShape{2, 1}, GroupShape{8, 1}, GroupShape{1, 4},
                              GroupShape{4, 2}, GroupShape{8, 4});
  std::map<int, std::map<int, int>> groups;  // group -> place -> rank
  for (int rank = 0; rank < 32; ++rank) {
    const GroupPlace place = group_place(rank, 8, shape);
    CHECK(groups[place.group].emplace(place.rank, rank).second);
  }
  CHECK(groups.size() == static_cast<std::size_t>(32 / shape.ranks()));
  for (const auto& [group, members] : groups) {
    std::map<int, int> per_node;
    for (const auto& [place, rank] : members) ++per_node[rank / 8];
    CHECK(members.rbegin()->first == shape.ranks() - 1);
    CHECK(static_cast<int>(per_node.size()) == shape.nodes);
    for (const auto& [node, count] : per_node) CHECK(count == shape.ranks_per_node);
  }
}

TEST_CASE("a rail joins the same GPU of every node") {
  CHECK(group_place(3, 8, {1, 2}).group == group_place(11, 8, {1, 2}).group);
  CHECK(group_place(3, 8, {1, 2}).group != group_place(4, 8, {1, 2}).group);
}

}  // namespace
}  // namespace flopcast
