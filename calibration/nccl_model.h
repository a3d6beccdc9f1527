#pragma once

// What NCCL itself expects a collective to cost: its tuner's estimate, by which it chooses among
// algorithms and protocols. One pair of latency and bandwidth for each; the least time wins. The
// constants are NCCL's own and are a prior for a machine of which nothing was measured.
// Source: NCCL 2.30.7 (5067397c), src/graph/tuning.cc.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "sim/collective_kind.h"
#include "sim/units.h"

namespace flopcast {

enum class NcclAlgorithm : std::uint8_t {
  tree,
  ring,
  collnet_direct,
  collnet_chain,
  nvls,       // reduction in the NVLink switch; over several nodes together with SHARP
  nvls_tree,  // the same in each node, a tree between them
  pat,        // one GPU per node
  direct,     // grouped send/recv: all-to-all and pairs; no choice is made there
};
inline constexpr std::array kNcclAlgorithms{
    NcclAlgorithm::tree,          NcclAlgorithm::ring,  NcclAlgorithm::collnet_direct,
    NcclAlgorithm::collnet_chain, NcclAlgorithm::nvls,  NcclAlgorithm::nvls_tree,
    NcclAlgorithm::pat,           NcclAlgorithm::direct};

/// LL sends 4 bytes of data with 4 of flag, LL128 120 with 8, Simple whole chunks with a fence.
enum class NcclProtocol : std::uint8_t { ll, ll128, simple };
inline constexpr std::array kNcclProtocols{NcclProtocol::ll, NcclProtocol::ll128,
                                           NcclProtocol::simple};

enum class GpuGeneration : std::uint8_t { volta, ampere, hopper, blackwell };
inline constexpr std::array kGpuGenerations{GpuGeneration::volta, GpuGeneration::ampere,
                                            GpuGeneration::hopper, GpuGeneration::blackwell};

enum class HostCpu : std::uint8_t { intel, amd, other };
inline constexpr std::array kHostCpus{HostCpu::intel, HostCpu::amd, HostCpu::other};

std::string_view to_text(NcclAlgorithm algorithm);
std::string_view to_text(NcclProtocol protocol);
std::string_view to_text(GpuGeneration generation);
std::string_view to_text(HostCpu cpu);

/// What NCCL's search found for one algorithm: parallel channels and the speed of each.
struct NcclGraph {
  GpuGeneration generation = GpuGeneration::hopper;
  HostCpu cpu = HostCpu::intel;
  GroupShape shape;
  int channels = 0;
  BytesPerSecond intra;  // of a channel inside a node; used up to two nodes
  BytesPerSecond inter;  // of a channel between nodes; used from three
  bool sharp = false;    // switches of the network reduce (CollNet)
};

struct NcclCost {
  Seconds latency;
  BytesPerSecond bandwidth;  // of the whole buffer: size / bandwidth is the transfer
};

/// Nothing where NCCL would not use that pair for this collective and group.
std::optional<NcclCost> nccl_cost(const NcclGraph& graph, CollectiveKind kind,
                                  NcclAlgorithm algorithm, NcclProtocol protocol);

/// The cost at one size, with the corrections by size that trees and long rings get.
std::optional<Seconds> nccl_time(const NcclGraph& graph, CollectiveKind kind,
                                 NcclAlgorithm algorithm, NcclProtocol protocol, Bytes size);

struct NcclChoice {
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  NcclProtocol protocol = NcclProtocol::simple;
  Seconds time;
};

/// The least time, each algorithm over the graph found for it. `nvls` is empty where the node has
/// no NVLink switch that reduces.
NcclChoice nccl_choice(const NcclGraph& graph, const std::optional<NcclGraph>& nvls,
                       CollectiveKind kind, Bytes size);

/// Latency of steps without bandwidth, and limits of a channel, for models that start from NCCL's.
struct NcclLatency {
  Seconds base;
  Seconds domain_hop;   // one step over NVLink
  Seconds network_hop;  // one step between nodes
};
NcclLatency nccl_latency(NcclAlgorithm algorithm, NcclProtocol protocol);

/// Posting to a NIC keeps a CPU thread busy: a step of a ring over several nodes takes this long.
Seconds nccl_post_overhead(HostCpu cpu, NcclProtocol protocol);

/// Bus bandwidth that an algorithm reaches over `raw`, the sum of its channels.
BytesPerSecond nccl_bus_bandwidth(const NcclGraph& graph, NcclAlgorithm algorithm,
                                  NcclProtocol protocol, BytesPerSecond raw);

int floor_log2(std::int64_t value);

}  // namespace flopcast
