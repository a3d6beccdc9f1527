#include "topology/system.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

namespace flopcast {

std::optional<std::string> problem_of_affinity(const System& system) {
  const auto gpus = static_cast<std::size_t>(system.gpus_per_node);
  if (system.gpu_nic.empty()) return std::nullopt;
  if (system.nics > system.gpus_per_node) {
    return fmt::format("gpu_nic: {} cards for {} GPUs, of which each uses its own share of cards",
                       system.nics, gpus);
  }
  if (system.gpu_nic.size() != gpus) {
    return fmt::format("gpu_nic: expected a card for each of {} GPUs, found {}", gpus,
                       system.gpu_nic.size());
  }
  for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
    const int card = system.gpu_nic[gpu];
    if (0 <= card && card < system.nics) continue;
    return system.nics == 0
               ? fmt::format("gpu_nic: GPU {} uses card {}, but the node has none", gpu, card)
               : fmt::format("gpu_nic: GPU {} uses card {}, but cards are 0 to {}", gpu, card,
                             system.nics - 1);
  }
  for (int card = 0; card < system.nics; ++card) {
    if (std::ranges::count(system.gpu_nic, card) > 0) continue;
    return fmt::format("gpu_nic: no GPU uses card {}; expected {} cards, or a GPU on each", card,
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
