#include "calibration/closed_forms.h"

#include <cmath>

#include "sim/check.h"

namespace flopcast {
namespace {

double log2_up(int ranks) { return std::ceil(std::log2(static_cast<double>(ranks))); }

Seconds message(const AlphaBeta& link, Bytes size) { return link.latency + size / link.bandwidth; }

Seconds all_reduce(CollectiveAlgorithm algorithm, int ranks, Bytes size, const AlphaBeta& link) {
  const double n = ranks;
  switch (algorithm) {
    case CollectiveAlgorithm::ring: return 2 * (n - 1) * message(link, size / n);
    case CollectiveAlgorithm::direct_switch: return 2.0 * message(link, size * ((n - 1) / n));
    case CollectiveAlgorithm::direct_one_shot: return (n - 1) * message(link, size);
    case CollectiveAlgorithm::recursive: return log2_up(ranks) * message(link, size);
    case CollectiveAlgorithm::halving_doubling:
      return 2 * log2_up(ranks) * link.latency + 2 * (n - 1) / n * size / link.bandwidth;
    case CollectiveAlgorithm::binomial: return 2 * log2_up(ranks) * message(link, size);
    case CollectiveAlgorithm::double_binary_tree_bandwidth_bound:
      return 2 * log2_up(ranks) * link.latency + 2.0 * size / link.bandwidth;
    case CollectiveAlgorithm::scatter_all_gather:
    case CollectiveAlgorithm::bruck: break;
  }
  FLOPCAST_CHECK(false, "an algorithm of all-reduce");
  return {};
}

Seconds gather_or_scatter(CollectiveAlgorithm algorithm, int ranks, Bytes size,
                          const AlphaBeta& link) {
  const double n = ranks;
  const Seconds transfer = (n - 1) / n * size / link.bandwidth;
  switch (algorithm) {
    case CollectiveAlgorithm::ring: return (n - 1) * link.latency + transfer;
    case CollectiveAlgorithm::direct_switch: return link.latency + transfer;
    case CollectiveAlgorithm::recursive: return log2_up(ranks) * link.latency + transfer;
    case CollectiveAlgorithm::bruck: return log2_up(ranks) * message(link, size / 2);
    case CollectiveAlgorithm::direct_one_shot:
    case CollectiveAlgorithm::halving_doubling:
    case CollectiveAlgorithm::binomial:
    case CollectiveAlgorithm::scatter_all_gather:
    case CollectiveAlgorithm::double_binary_tree_bandwidth_bound: break;
  }
  FLOPCAST_CHECK(false, "an algorithm of all-gather, reduce-scatter or all-to-all");
  return {};
}

Seconds broadcast(CollectiveAlgorithm algorithm, int ranks, Bytes size, const AlphaBeta& link) {
  const double n = ranks;
  if (algorithm == CollectiveAlgorithm::binomial) {
    return log2_up(ranks) * message(link, size);
  }
  FLOPCAST_CHECK(algorithm == CollectiveAlgorithm::scatter_all_gather, "an algorithm of broadcast");
  return (log2_up(ranks) + n - 1) * link.latency + 2 * (n - 1) / n * size / link.bandwidth;
}

}  // namespace

Seconds closed_form(CollectiveKind kind, CollectiveAlgorithm algorithm, int ranks, Bytes size,
                    const AlphaBeta& link) {
  switch (kind) {
    case CollectiveKind::all_reduce: return all_reduce(algorithm, ranks, size, link);
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_to_all: return gather_or_scatter(algorithm, ranks, size, link);
    case CollectiveKind::broadcast: return broadcast(algorithm, ranks, size, link);
    case CollectiveKind::send_recv: return message(link, size);
  }
  return {};
}

HierarchicalAllReduce hierarchical_all_reduce(GroupShape shape, Bytes size, const AlphaBeta& inside,
                                              const AlphaBeta& outside) {
  const Bytes shard = size / shape.ranks_per_node;
  const Seconds half = closed_form(CollectiveKind::all_gather, CollectiveAlgorithm::ring,
                                   shape.ranks_per_node, size, inside);
  return {.reduce_scatter = half,
          .all_reduce = closed_form(CollectiveKind::all_reduce, CollectiveAlgorithm::ring,
                                    shape.nodes, shard, outside),
          .all_gather = half,
          .network_sent = shard * bus_factor(CollectiveKind::all_reduce, shape.nodes)};
}

HierarchicalAllToAll hierarchical_all_to_all(GroupShape shape, Bytes size) {
  const int ranks = shape.ranks();
  const Bytes piece = size / ranks;
  const int outside = ranks - shape.ranks_per_node;
  return {.to_other_nodes = piece * outside,
          .inside_node = piece * (shape.ranks_per_node - 1),
          .messages_plain = outside,
          .messages_same_rail = shape.nodes - 1,
          .message_plain = piece,
          .message_same_rail = piece * shape.ranks_per_node};
}

}  // namespace flopcast
