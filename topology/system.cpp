#include "topology/system.h"

#include <algorithm>

namespace flopcast {

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
