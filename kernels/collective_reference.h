#pragma once

// What a collective must leave in the receive buffer, and how large the buffers are. Only for
// sources of this folder.

#include <cstdint>

#include "kernels/measurement_case.h"

namespace flopcast {

/// fp32 elements on each rank, from the size as nccl-tests count it: the larger of the two buffers.
/// Whole and even shares for every rank.
struct CollectiveBuffers {
  std::int64_t send = 0;
  std::int64_t receive = 0;
};
CollectiveBuffers collective_buffers(const CollectiveCase& collective);

/// Element `index` of what rank `rank` of its group receives, when rank r sends
/// random_value(kSeedCollective + r, i) at i. Broadcast is from rank 0; send/recv goes to the next
/// rank around.
double expected_received(const CollectiveCase& collective, int rank, std::int64_t index);

/// Rounding of a sum over ranks in fp32.
double collective_tolerance(const CollectiveCase& collective);

inline constexpr std::uint64_t kSeedCollective = 100;

}  // namespace flopcast
