#include "kernels/collective_reference.h"

#include <algorithm>

#include "kernels/random_value.h"

namespace flopcast {
namespace {

double sent(int rank, std::int64_t index) {
  return static_cast<double>(random_value(kSeedCollective + static_cast<std::uint64_t>(rank),
                                          static_cast<std::uint64_t>(index)));
}

double sum_over_ranks(int ranks, std::int64_t index) {
  double sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += sent(rank, index);
  return sum;
}

}  // namespace

CollectiveBuffers collective_buffers(const CollectiveCase& collective) {
  const std::int64_t ranks = collective.group.ranks();
  const auto elements = static_cast<std::int64_t>(collective.size.value / 4);
  const std::int64_t share = std::max<std::int64_t>(1, elements / ranks);
  const std::int64_t whole = share * ranks;
  switch (collective.kind) {
    case CollectiveKind::all_gather: return {share, whole};
    case CollectiveKind::reduce_scatter: return {whole, share};
    case CollectiveKind::all_reduce:
    case CollectiveKind::all_to_all:
    case CollectiveKind::broadcast:
    case CollectiveKind::send_recv: return {whole, whole};
  }
  return {};
}

double expected_received(const CollectiveCase& collective, int rank, std::int64_t index) {
  const int ranks = collective.group.ranks();
  const CollectiveBuffers buffers = collective_buffers(collective);
  switch (collective.kind) {
    case CollectiveKind::all_reduce: return sum_over_ranks(ranks, index);
    case CollectiveKind::all_gather:
      return sent(static_cast<int>(index / buffers.send), index % buffers.send);
    case CollectiveKind::reduce_scatter:
      return sum_over_ranks(ranks, rank * buffers.receive + index);
    case CollectiveKind::all_to_all: {
      const std::int64_t share = buffers.send / ranks;
      return sent(static_cast<int>(index / share), rank * share + index % share);
    }
    case CollectiveKind::broadcast: return sent(0, index);
    case CollectiveKind::send_recv: return sent((rank + ranks - 1) % ranks, index);
  }
  return 0;
}

double collective_tolerance(const CollectiveCase& collective) {
  return 1e-6 * static_cast<double>(collective.group.ranks());
}

}  // namespace flopcast
