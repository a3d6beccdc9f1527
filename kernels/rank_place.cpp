#include "kernels/rank_place.h"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <cstdlib>

#include "sim/errors.h"

namespace flopcast {
namespace {

// Names by launcher. Sources: torch/distributed/run.py (2.x), srun(1) of Slurm 23, mpirun(1) of
// Open MPI 4 (OMPI_COMM_WORLD_*).
struct Launcher {
  const char* rank;
  const char* ranks;
  const char* local_rank;
  const char* ranks_per_node;
  const char* job;
};
constexpr std::array kLaunchers{
    Launcher{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"},
    Launcher{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE",
             "SLURM_STEP_ID"},
    Launcher{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
             "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"},
};

int number(const Environment& environment, const std::string& name, const std::string& because) {
  const std::optional<std::string> text = environment(name);
  if (!text) throw InputError(fmt::format("{} is not set, but {} is", name, because));
  int value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc{} || stop != end || value < 0) {
    throw InputError(fmt::format("{}=\"{}\": expected a whole number", name, *text));
  }
  return value;
}

RankPlace read(const Environment& environment, const Launcher& launcher) {
  RankPlace place{.rank = number(environment, launcher.rank, launcher.rank),
                  .ranks = number(environment, launcher.ranks, launcher.rank),
                  .local_rank = number(environment, launcher.local_rank, launcher.rank),
                  .ranks_per_node = number(environment, launcher.ranks_per_node, launcher.rank),
                  .job = environment(launcher.job).value_or("")};
  // One id per allocation and per step tell two Slurm jobs apart; a port, two of torchrun.
  place.job += environment("SLURM_JOB_ID").value_or("") + environment("MASTER_PORT").value_or("");
  const bool whole = place.ranks_per_node > 0 && place.ranks % place.ranks_per_node == 0;
  if (!whole || place.rank >= place.ranks || place.local_rank >= place.ranks_per_node) {
    throw InputError(fmt::format("{}={}, {}={}, {}={}, {}={}: ranks do not fill equal nodes",
                                 launcher.rank, place.rank, launcher.ranks, place.ranks,
                                 launcher.local_rank, place.local_rank, launcher.ranks_per_node,
                                 place.ranks_per_node));
  }
  return place;
}

}  // namespace

std::optional<RankPlace> rank_place(const Environment& environment) {
  for (const Launcher& launcher : kLaunchers) {
    if (!environment(launcher.rank) || !environment(launcher.local_rank)) continue;
    const RankPlace place = read(environment, launcher);
    // A shell inside an allocation has the variables of one task: no job of several ranks.
    return place.ranks > 1 ? std::optional(place) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<RankPlace> rank_place() {
  return rank_place([](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
  });
}

bool is_first_rank() {
  const std::optional<RankPlace> place = rank_place();
  return !place || place->rank == 0;
}

GroupPlace group_place(int rank, int ranks_per_node, const GroupShape& shape) {
  const int node = rank / ranks_per_node;
  const int local = rank % ranks_per_node;
  const int groups_per_node = ranks_per_node / shape.ranks_per_node;
  return {.group = node / shape.nodes * groups_per_node + local / shape.ranks_per_node,
          .rank = node % shape.nodes * shape.ranks_per_node + local % shape.ranks_per_node};
}

}  // namespace flopcast
