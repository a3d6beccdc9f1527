#pragma once

// Textbook costs of collectives in the alpha-beta model: `latency` per message, `bandwidth` of one
// direction of a rank's port, full duplex; reductions cost nothing. No protocol, no contention: the
// yardstick that measured and modelled times are held against.
// Sources: Thakur, Rabenseifner and Gropp 2005; Chan et al. 2007; Sanders, Speck and Traeff 2009.

#include <cstdint>

#include "sim/collective_kind.h"
#include "sim/units.h"

namespace flopcast {

struct AlphaBeta {
  Seconds latency;
  BytesPerSecond bandwidth;
};

enum class CollectiveAlgorithm : std::uint8_t {
  ring,                               // all-to-all: pairwise exchange
  direct_switch,                      // all messages leave together; all-reduce in two shots
  direct_one_shot,                    // all-reduce: everything to everybody, one after another
  recursive,                          // doubling or halving
  halving_doubling,                   // all-reduce
  binomial,                           // all-reduce: reduce, then broadcast
  scatter_all_gather,                 // broadcast: binomial scatter, ring all-gather
  bruck,                              // all-to-all
  double_binary_tree_bandwidth_bound  // all-reduce
};

/// Time of `size`, the whole buffer as nccl-tests counts it. Recursive forms hold for powers of
/// two. Requires a pair that the list above names.
Seconds closed_form(CollectiveKind kind, CollectiveAlgorithm algorithm, int ranks, Bytes size,
                    const AlphaBeta& link);

/// Reduce-scatter inside nodes, a ring all-reduce of each shard between them, all-gather inside.
struct HierarchicalAllReduce {
  Seconds reduce_scatter;
  Seconds all_reduce;
  Seconds all_gather;
  Bytes network_sent;  // per rank

  Seconds total() const { return reduce_scatter + all_reduce + all_gather; }
};
/// `outside.bandwidth` is the share of one rank.
HierarchicalAllReduce hierarchical_all_reduce(GroupShape shape, Bytes size, const AlphaBeta& inside,
                                              const AlphaBeta& outside);

/// What leaves a rank in an all-to-all, without and with gathering on the NIC of the receiver's
/// rail (NCCL's PXN): the same bytes in fewer, larger messages.
struct HierarchicalAllToAll {
  Bytes to_other_nodes;
  Bytes inside_node;
  int messages_plain = 0;
  int messages_same_rail = 0;
  Bytes message_plain;
  Bytes message_same_rail;
};
HierarchicalAllToAll hierarchical_all_to_all(GroupShape shape, Bytes size);

}  // namespace flopcast
