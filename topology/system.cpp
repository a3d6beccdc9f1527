#include "topology/system.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include <fmt/format.h>

namespace flopcast {

namespace {

std::size_t place_in_mesh(const System& system, int a, int b) {
  return static_cast<std::size_t>(a) * static_cast<std::size_t>(system.nvlink_domain) +
         static_cast<std::size_t>(b);
}

int links_between(const System& system, int a, int b) {
  if (a == b) return 0;
  return system.mesh.empty() ? 1 : system.mesh[place_in_mesh(system, a, b)];
}

int links_to(const System& system, int gpu, std::span<const int> others) {
  int links = 0;
  for (const int other : others) links += links_between(system, gpu, other);
  return links;
}

std::vector<int> domain_of(const System& system) {
  std::vector<int> gpus(static_cast<std::size_t>(system.nvlink_domain));
  std::iota(gpus.begin(), gpus.end(), 0);
  return gpus;
}

}  // namespace

std::optional<std::string> problem_of_mesh(const System& system) {
  if (system.mesh.empty()) return std::nullopt;
  const int gpus = system.nvlink_domain;
  if (system.node_link != NodeLink::nvlink_mesh) {
    return fmt::format("node_link is {}; only nvlink_mesh has links between two GPUs",
                       to_text(system.node_link));
  }
  if (system.mesh.size() != static_cast<std::size_t>(gpus) * static_cast<std::size_t>(gpus)) {
    return fmt::format("expected {} rows of {} links, found {} numbers", gpus, gpus,
                       system.mesh.size());
  }
  const std::vector<int> all = domain_of(system);
  for (int a = 0; a < gpus; ++a) {
    if (system.mesh[place_in_mesh(system, a, a)] != 0) {
      return fmt::format("GPU {} has links to itself; expected 0 there", a);
    }
    for (int b = 0; b < a; ++b) {
      if (links_between(system, a, b) == links_between(system, b, a)) continue;
      return fmt::format("{} links from GPU {} to {}, but {} back", links_between(system, b, a), b,
                         a, links_between(system, a, b));
    }
    if (gpus > 1 && links_to(system, a, all) == 0) {
      return fmt::format("GPU {} has no link to any other", a);
    }
  }
  return std::nullopt;
}

int most_mesh_links(const System& system) {
  int most = 1;
  const std::vector<int> all = domain_of(system);
  for (const int gpu : all) most = std::max(most, links_to(system, gpu, all));
  return most;
}

BytesPerSecond domain_bandwidth(const System& system, std::span<const int> members) {
  switch (system.node_link) {
    case NodeLink::pcie: return system.gpu.pcie;
    case NodeLink::nvswitch: return system.gpu.nvlink;
    case NodeLink::nvlink_mesh: break;
  }
  const int most = most_mesh_links(system);
  int fewest = most;
  for (const int gpu : members) {
    if (members.size() > 1) fewest = std::min(fewest, std::max(1, links_to(system, gpu, members)));
  }
  return system.gpu.nvlink * (static_cast<double>(fewest) / most);
}

std::optional<std::string> problem_of_affinity(const System& system) {
  const auto gpus = static_cast<std::size_t>(system.gpus_per_node);
  if (system.gpu_nic.empty()) return std::nullopt;
  if (system.nics > system.gpus_per_node) {
    return fmt::format("{} cards for {} GPUs, of which each uses its own share of cards",
                       system.nics, gpus);
  }
  if (system.gpu_nic.size() != gpus) {
    return fmt::format("expected a card for each of {} GPUs, found {}", gpus,
                       system.gpu_nic.size());
  }
  for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
    const int card = system.gpu_nic[gpu];
    if (0 <= card && card < system.nics) continue;
    return system.nics == 0 ? fmt::format("GPU {} uses card {}, but the node has none", gpu, card)
                            : fmt::format("GPU {} uses card {}, but cards are 0 to {}", gpu, card,
                                          system.nics - 1);
  }
  for (int card = 0; card < system.nics; ++card) {
    if (std::ranges::count(system.gpu_nic, card) > 0) continue;
    return fmt::format("no GPU uses card {}; expected {} cards, or a GPU on each", card,
                       std::set<int>(system.gpu_nic.begin(), system.gpu_nic.end()).size());
  }
  return std::nullopt;
}

int card_of(const System& system, int local, int cards) {
  if (!system.gpu_nic.empty()) return system.gpu_nic[static_cast<std::size_t>(local)];
  return local * cards / system.gpus_per_node;
}

BytesPerSecond card_bandwidth(const System& system, Transport transport) {
  constexpr double kStaged = 1.0 / 3;
  constexpr BytesPerSecond kSocketsOfNode = gigabytes_per_second(5);
  switch (transport) {
    case Transport::gpudirect: return system.nic_bandwidth;
    case Transport::host_memory: return kStaged * system.nic_bandwidth;
    case Transport::socket: return std::min(system.nic_bandwidth, kSocketsOfNode / system.nics);
  }
  return system.nic_bandwidth;
}

}  // namespace flopcast
