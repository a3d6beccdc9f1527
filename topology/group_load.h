#pragma once

// The load that communication of a group puts on the links of the cluster, and how a group lies on
// it.

#include <cstdint>
#include <span>
#include <vector>

#include "sim/collective_kind.h"
#include "sim/workload.h"
#include "topology/cluster.h"

namespace flopcast {

/// Who sends to whom while a group communicates.
enum class LoadPattern : std::uint8_t {
  ring,    // neighbours in ring order, one rotation per GPU and rail as NCCL's channels have it
  direct,  // every member to every other
  pair,    // first member to second
  tree,    // double binary tree over NVLink domains, up and down, a chain inside each
  in_network_reduce,   // all-reduce in the switches of the network: SHARP
  in_network_gather,   // all-gather through them, which copy what comes
  in_network_scatter,  // reduce-scatter in them, which add up what comes
};

/// Weights of links per byte that one rank sends, for a group on `gpus` (ring order; ranks of one
/// NVLink domain are brought together, as NCCL does).
///   ring: a rank sends one byte to its successor. With g members in a domain, g channels are
///   rotated so that each member is the exit of one and the entry of one: its NIC carries 1/g out
///   and 1/g in, its NVLink (g-1)/g out and in. In one domain alone NVLink carries 1 out and in.
///   Over all 2(n-1)/n S bytes that an all-reduce of S sends per rank of n = gN, each NIC so
///   carries 2(n-1)/n S/g. Where members share a NIC, their parts add up on it. direct: 1/(n-1)
///   byte to every other member. pair: one byte from first to second.
///   tree: not per byte that a rank sends, since nodes of a tree send unequally, but per byte that
///   is all-reduced. Each edge carries half a byte up and half a byte down, in two trees; channels
///   are rotated as in the ring. Over many nodes a NIC so carries up to 2/g, as in the ring; but
///   trees cross leaves more often, and two nodes have a single edge.
///   in_network: per byte of the whole buffer. A channel is a tree of switches over one member of
///   each domain, which takes the data of its neighbours and hands them the result over NVLink. An
///   all-reduce puts one byte up and one down on every link of the tree: 1/g on a NIC, whatever the
///   number of nodes, and 1/g for each channel on a leaf's uplinks. An all-gather puts on a link
///   the parts of all ranks on its far side, once; a reduce-scatter is that the other way round.
///   NVLink carries what a reduce-scatter and an all-gather inside the node do, (g-1)/g each, as
///   CollNet has it; NVLS moves less, 1 + 1/g in an all-reduce.
/// Weights of one link are summed. In order of LinkId. Links with equal load have equal weights to
/// the last bit.
std::vector<LinkLoad> group_load(const Cluster& cluster, std::span<const GpuId> gpus,
                                 LoadPattern pattern);

/// Members by NVLink domain, domains by the first place of a member, members in the order given.
std::vector<std::vector<GpuId>> members_by_domain(const Cluster& cluster,
                                                  std::span<const GpuId> gpus);

/// Ranks per NVLink domain and number of domains. Uneven groups count the fullest domain.
GroupShape group_shape(const Cluster& cluster, std::span<const GpuId> gpus);

/// The slowest kind of link that traffic between members crosses. On rails that includes what PXN
/// saves: a pod of a rail-optimised fabric is one hop wide.
LinkKind slowest_tier(const Cluster& cluster, std::span<const GpuId> gpus);

}  // namespace flopcast
