#pragma once

// Step-level network: a collective as the sends of its algorithm, chunk by chunk, each a message
// over the links of its route. Slow and obvious: what the fluid model (group_load.h) is held
// against, and what to run where the detail matters.
//
// The sends become programs of the engine: a rank row per member, which sends and receives in the
// order of the algorithm. So every send is paced by the rate solver, and fold() applies.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sim/collective_kind.h"
#include "sim/workload.h"
#include "topology/cluster.h"

namespace flopcast {

enum class StepAlgorithm : std::uint8_t {
  ring,                // all-reduce, all-gather, reduce-scatter; broadcast: from the first on
  tree,                // all-reduce: a binary tree over NVLink domains, a chain inside each
  double_binary_tree,  // all-reduce: two such trees, each with half of the data
  halving_doubling,    // all-reduce, all-gather, reduce-scatter of 2^k ranks
  direct,              // all-to-all: each to every other
  hierarchical,        // all-to-all: first to the local rank on the receiver's rail, then out (PXN)
  binomial,            // broadcast: all that have the data hand it on, twice as many each time
  in_switch,           // all-reduce in one domain: its switch adds up and copies (NVLS)
};

constexpr std::string_view to_text(StepAlgorithm algorithm) {
  switch (algorithm) {
    case StepAlgorithm::ring: return "ring";
    case StepAlgorithm::tree: return "tree";
    case StepAlgorithm::double_binary_tree: return "double_binary_tree";
    case StepAlgorithm::halving_doubling: return "halving_doubling";
    case StepAlgorithm::direct: return "direct";
    case StepAlgorithm::hierarchical: return "hierarchical";
    case StepAlgorithm::binomial: return "binomial";
    case StepAlgorithm::in_switch: return "in_switch";
  }
  return {};
}

struct CollectiveSteps {
  CollectiveKind kind = CollectiveKind::all_reduce;
  StepAlgorithm algorithm = StepAlgorithm::ring;
  Bytes size{};      // as nccl-tests counts it: the larger of a rank's two buffers
  int channels = 1;  // ring, trees, halving-doubling: parts of the data that run side by side, ring
                     // and trees rotated over the members of a domain and so over its rails;
                     // direct: sends of a rank under way at once
  int chunks = 1;    // ring, trees, hierarchical, in_switch: pieces of each message that follow one
                     // another
  Seconds latency{};  // of each send, before its first byte
  BytesPerSecond send_rate =
      gigabytes_per_second(1e6);  // most of one send, whatever its links allow
};

/// What keeps the steps from being built for `ranks` GPUs in equal or unequal domains, in the words
/// of the user. Nothing if they can be.
std::optional<std::string> problem_of(const CollectiveSteps& steps, const Cluster& cluster,
                                      std::span<const GpuId> gpus);

/// A workload with the links of the cluster and nothing that runs.
Workload idle_network(const Cluster& cluster);

/// Adds one rank row per GPU, domain by domain (members_by_domain), with the collective as its
/// program. Collectives added one after another run side by side. `network` has the links of the
/// cluster by LinkId; there must be no problem. Memory: linear in ranks and channels; beside that
/// one program of all sends of a rank (trees: one per rank; direct: quadratic in ranks).
void append_steps(const Cluster& cluster, std::span<const GpuId> gpus, const CollectiveSteps& steps,
                  Workload& network);

}  // namespace flopcast
