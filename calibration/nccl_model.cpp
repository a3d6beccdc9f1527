#include "calibration/nccl_model.h"

#include <algorithm>

namespace flopcast {
namespace {

template <class Kind>
constexpr std::size_t at(Kind kind) {
  return static_cast<std::size_t>(kind);
}

// All tables below: NCCL 2.30.7, src/graph/tuning.cc. Latencies in microseconds by protocol LL,
// LL128, Simple; rows in the order of NcclAlgorithm.
using ByProtocol = std::array<double, 3>;
using LatencyTable = std::array<ByProtocol, 7>;
constexpr LatencyTable kBaseLatency{{{6.8, 14.0, 8.4},
                                     {6.6, 14.0, 8.4},
                                     {0, 0, 0},
                                     {0, 0, 0},
                                     {0, 0, 0},
                                     {0, 0, 0},
                                     {8.0, 8.0, 8.0}}};
constexpr LatencyTable kNvlinkLatency{{{0.6, 1.25, 4.0},
                                       {0.6, 1.9, 3.4},
                                       {0, 0, 3.7},
                                       {0, 0, 2.8},
                                       {0, 0, 25},
                                       {0, 0, 25},
                                       {0, 0, 4.0}}};
constexpr LatencyTable kNetworkLatency{{{5.0, 8.5, 14},
                                        {2.7, 4.0, 14.0},
                                        {0, 0, 31},
                                        {0, 0, 30},
                                        {0, 0, 18},
                                        {0, 0, 20.9},
                                        {0, 0, 14}}};

// Limits in GB/s by GPU generation for one, two and more nodes; of a channel but for LL, whose
// limit holds for all of them. Over several nodes LL takes the first row, or the second with AMD.
using ByNodes = std::array<double, 3>;
using LimitTable = std::array<ByNodes, 4>;
constexpr LimitTable kLlMax{
    {{39.0, 39.0, 20.4}, {87.7, 22.5, 19.0}, {141.0, 45.0, 35.0}, {282.0, 90.0, 70.0}}};
constexpr LimitTable kRingLl128{
    {{20.0, 20.0, 20.0}, {20.0, 20.0, 20.0}, {36.7, 36.7, 36.7}, {40.0, 40.0, 40.0}}};
constexpr LimitTable kTreeLl128{
    {{20.0, 20.0, 20.0}, {20.0, 20.0, 20.0}, {36.7, 36.7, 29.0}, {55.6, 31.67, 20.0}}};
constexpr LimitTable kTree{
    {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {38.7, 41.4, 36.0}, {70.0, 42.8, 24.0}}};
constexpr LimitTable kNvlsTree{
    {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {0, 57.7, 45.5}, {0, 96.0, 80.0}}};
constexpr std::array<double, 4> kNvlsEfficiency{0, 0, 0.85, 0.74};

// By powers of two from 64 bytes; larger sizes are not corrected.
constexpr std::array<std::array<double, 24>, 3> kTreeCorrection{
    {{1,   1,   1,   1,   0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5,
      0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1,   1,   1,   1,   1},
     {1,   1,   1,   1,   1,   0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6,
      0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1,   1,   1},
     {0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5,
      0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9, 0.9}}};

constexpr int kMostDirect = 8;  // GPUs of a node with CollNet direct; src/enqueue.cc

std::size_t nodes_column(int nodes) { return nodes == 1 ? 0 : nodes == 2 ? 1 : 2; }

BytesPerSecond limit(const LimitTable& table, const NcclGraph& graph) {
  return gigabytes_per_second(table[at(graph.generation)][nodes_column(graph.shape.nodes)]);
}

BytesPerSecond ll_limit(const NcclGraph& graph) {
  const std::size_t row = graph.shape.nodes == 1      ? at(graph.generation)
                          : graph.cpu == HostCpu::amd ? 1
                                                      : 0;
  return gigabytes_per_second(kLlMax[row][nodes_column(graph.shape.nodes)]);
}

BytesPerSecond ring_bus_bandwidth(const NcclGraph& graph, NcclProtocol protocol,
                                  BytesPerSecond raw) {
  switch (protocol) {
    case NcclProtocol::ll: return std::min(ll_limit(graph), 0.5 * raw);
    case NcclProtocol::ll128:
      return std::min(0.92 * raw, static_cast<double>(graph.channels) * limit(kRingLl128, graph));
    case NcclProtocol::simple: return raw;
  }
  return raw;
}

BytesPerSecond tree_bus_bandwidth(const NcclGraph& graph, NcclProtocol protocol,
                                  BytesPerSecond raw) {
  const double channels = graph.channels;
  const BytesPerSecond tree = std::min(0.92 * raw, channels * limit(kTree, graph));
  switch (protocol) {
    case NcclProtocol::ll: return std::min(tree / 3.8, ll_limit(graph));
    case NcclProtocol::ll128:
      return std::min(tree * (graph.shape.nodes == 1 ? 7.0 / 9 : 120.0 / 128),
                      channels * limit(kTreeLl128, graph));
    case NcclProtocol::simple: return tree;
  }
  return tree;
}

bool gathers_or_scatters(CollectiveKind kind) {
  return kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter;
}

BytesPerSecond nvls_bus_bandwidth(const NcclGraph& graph, CollectiveKind kind,
                                  NcclAlgorithm algorithm) {
  const double channels = graph.channels;
  const double ranks = graph.shape.ranks_per_node;
  const BytesPerSecond inside =
      graph.intra * (kNvlsEfficiency[at(graph.generation)] * (channels - 1) / channels *
                     (kind == CollectiveKind::all_reduce ? 2 : (ranks - 1) / ranks));
  const bool tree = algorithm == NcclAlgorithm::nvls_tree;
  const BytesPerSecond outside = graph.inter * (tree && graph.shape.nodes <= 2 ? 2.0 : 1.0);
  BytesPerSecond channel = std::min(inside, outside);
  if (tree) {
    channel = std::min(channel, limit(kNvlsTree, graph));
  }
  return channels * channel;
}

bool available(const NcclGraph& graph, CollectiveKind kind, NcclAlgorithm algorithm,
               NcclProtocol protocol) {
  const bool reduces_all = kind == CollectiveKind::all_reduce;
  const bool several = graph.shape.nodes > 1;
  const bool simple = protocol == NcclProtocol::simple;
  const bool switch_reduces = graph.generation >= GpuGeneration::hopper && graph.channels >= 2;
  switch (algorithm) {
    case NcclAlgorithm::tree: return reduces_all;
    case NcclAlgorithm::ring:
      return reduces_all || gathers_or_scatters(kind) || kind == CollectiveKind::broadcast;
    case NcclAlgorithm::collnet_direct:
      return simple && several && graph.sharp && graph.shape.ranks_per_node > 1 &&
             graph.shape.ranks_per_node <= kMostDirect &&
             (reduces_all || gathers_or_scatters(kind));
    case NcclAlgorithm::collnet_chain: return simple && several && graph.sharp && reduces_all;
    case NcclAlgorithm::nvls:
      return simple && switch_reduces && graph.shape.ranks_per_node > 1 &&
             (reduces_all || gathers_or_scatters(kind)) && (!several || graph.sharp);
    case NcclAlgorithm::nvls_tree:
      return simple && switch_reduces && graph.shape.ranks_per_node > 1 && reduces_all && several;
    case NcclAlgorithm::pat:
      return simple && several && graph.shape.ranks_per_node == 1 && gathers_or_scatters(kind);
    case NcclAlgorithm::direct: return false;
  }
  return false;
}

// Steps of a ring: twice round for an all-reduce, once for half of it.
Seconds ring_latency(const NcclGraph& graph, CollectiveKind kind, NcclProtocol protocol) {
  const GroupShape shape = graph.shape;
  const double rounds = kind == CollectiveKind::all_reduce ? 2 : 1;
  const double steps = rounds * (shape.ranks() - 1);
  const NcclLatency ring = nccl_latency(NcclAlgorithm::ring, protocol);
  if (shape.nodes == 1) {
    return ring.base + steps * ring.domain_hop;
  }
  const double outer = rounds * (shape.nodes - 1);
  const Seconds inner_hop = std::max(ring.domain_hop, nccl_post_overhead(graph.cpu, protocol));
  // With one GPU per node nothing hides the network: NCCL takes the tree's latency.
  const Seconds outer_hop = shape.ranks_per_node == 1
                                ? nccl_latency(NcclAlgorithm::tree, protocol).network_hop
                                : ring.network_hop;
  return ring.base + (steps - outer) * inner_hop + outer * outer_hop;
}

Seconds latency_of(const NcclGraph& graph, CollectiveKind kind, NcclAlgorithm algorithm,
                   NcclProtocol protocol) {
  const GroupShape shape = graph.shape;
  const NcclLatency part = nccl_latency(algorithm, protocol);
  const double chain = shape.ranks_per_node - 1;
  const double levels = floor_log2(shape.nodes);
  switch (algorithm) {
    case NcclAlgorithm::ring: return ring_latency(graph, kind, protocol);
    case NcclAlgorithm::tree:
      return part.base + 2.0 * (chain * part.domain_hop + levels * part.network_hop);
    case NcclAlgorithm::collnet_direct:
      return 2.0 * (part.domain_hop + chain * microseconds(0.4)) + part.network_hop;
    case NcclAlgorithm::collnet_chain: return 2.0 * chain * part.domain_hop + part.network_hop;
    case NcclAlgorithm::nvls:
      return part.domain_hop + (shape.nodes > 1 ? part.network_hop : Seconds{});
    case NcclAlgorithm::nvls_tree: return part.domain_hop + 2.0 * levels * part.network_hop;
    case NcclAlgorithm::pat:
      return part.base + levels * part.network_hop / 3.5 +
             static_cast<double>(shape.ranks()) * microseconds(2.8);
    case NcclAlgorithm::direct: break;
  }
  return {};
}

// From the bus bandwidth of an algorithm to bytes of the buffer per second.
BytesPerSecond buffer_bandwidth(const NcclGraph& graph, CollectiveKind kind,
                                NcclAlgorithm algorithm, NcclProtocol protocol) {
  const int ranks = graph.shape.ranks();
  const BytesPerSecond channel = graph.shape.nodes <= 2 ? graph.intra : graph.inter;
  const BytesPerSecond raw = static_cast<double>(graph.channels) * channel;
  switch (algorithm) {
    case NcclAlgorithm::ring:
      return ring_bus_bandwidth(graph, protocol, raw) / bus_factor(kind, ranks);
    case NcclAlgorithm::tree: return tree_bus_bandwidth(graph, protocol, raw) * 0.5;
    case NcclAlgorithm::collnet_direct:
    case NcclAlgorithm::collnet_chain:
      return static_cast<double>(graph.channels) * graph.intra * 0.5;
    case NcclAlgorithm::nvls:
    case NcclAlgorithm::nvls_tree: {
      const BytesPerSecond bus = nvls_bus_bandwidth(graph, kind, algorithm);
      return kind == CollectiveKind::all_reduce ? bus / bus_factor(kind, ranks) : bus;
    }
    case NcclAlgorithm::pat: return raw * 0.75;
    case NcclAlgorithm::direct: break;
  }
  return {};
}

}  // namespace

std::string_view to_text(NcclAlgorithm algorithm) {
  switch (algorithm) {
    case NcclAlgorithm::tree: return "tree";
    case NcclAlgorithm::ring: return "ring";
    case NcclAlgorithm::collnet_direct: return "collnet_direct";
    case NcclAlgorithm::collnet_chain: return "collnet_chain";
    case NcclAlgorithm::nvls: return "nvls";
    case NcclAlgorithm::nvls_tree: return "nvls_tree";
    case NcclAlgorithm::pat: return "pat";
    case NcclAlgorithm::direct: return "direct";
  }
  return {};
}

std::string_view to_text(NcclProtocol protocol) {
  switch (protocol) {
    case NcclProtocol::ll: return "ll";
    case NcclProtocol::ll128: return "ll128";
    case NcclProtocol::simple: return "simple";
  }
  return {};
}

std::string_view to_text(GpuGeneration generation) {
  switch (generation) {
    case GpuGeneration::volta: return "volta";
    case GpuGeneration::ampere: return "ampere";
    case GpuGeneration::hopper: return "hopper";
    case GpuGeneration::blackwell: return "blackwell";
  }
  return {};
}

std::string_view to_text(HostCpu cpu) {
  switch (cpu) {
    case HostCpu::intel: return "intel";
    case HostCpu::amd: return "amd";
    case HostCpu::other: return "other";
  }
  return {};
}

int floor_log2(std::int64_t value) {
  int log = 0;
  while (value > 1) {
    value /= 2;
    ++log;
  }
  return log;
}

NcclLatency nccl_latency(NcclAlgorithm algorithm, NcclProtocol protocol) {
  if (algorithm == NcclAlgorithm::direct) {
    return {};
  }
  const std::size_t row = at(algorithm);
  const std::size_t column = at(protocol);
  return {.base = microseconds(kBaseLatency[row][column]),
          .domain_hop = microseconds(kNvlinkLatency[row][column]),
          .network_hop = microseconds(kNetworkLatency[row][column])};
}

Seconds nccl_post_overhead(HostCpu cpu, NcclProtocol protocol) {
  const double times = protocol == NcclProtocol::simple ? 3 : 1;
  return times * microseconds(cpu == HostCpu::amd ? 2.0 : 1.0);
}

BytesPerSecond nccl_bus_bandwidth(const NcclGraph& graph, NcclAlgorithm algorithm,
                                  NcclProtocol protocol, BytesPerSecond raw) {
  return algorithm == NcclAlgorithm::tree ? tree_bus_bandwidth(graph, protocol, raw)
                                          : ring_bus_bandwidth(graph, protocol, raw);
}

std::optional<NcclCost> nccl_cost(const NcclGraph& graph, CollectiveKind kind,
                                  NcclAlgorithm algorithm, NcclProtocol protocol) {
  if (!available(graph, kind, algorithm, protocol)) {
    return std::nullopt;
  }
  return NcclCost{.latency = latency_of(graph, kind, algorithm, protocol),
                  .bandwidth = buffer_bandwidth(graph, kind, algorithm, protocol)};
}

std::optional<Seconds> nccl_time(const NcclGraph& graph, CollectiveKind kind,
                                 NcclAlgorithm algorithm, NcclProtocol protocol, Bytes size) {
  std::optional<NcclCost> cost = nccl_cost(graph, kind, algorithm, protocol);
  if (!cost) {
    return std::nullopt;
  }
  const bool corrected =
      algorithm == NcclAlgorithm::tree ||
      (algorithm == NcclAlgorithm::nvls_tree && graph.generation >= GpuGeneration::blackwell &&
       graph.cpu != HostCpu::other);
  const auto units = static_cast<std::int64_t>(size.value / 64);
  if (corrected && units >= 1 && floor_log2(units) < 24) {
    const auto power = static_cast<std::size_t>(floor_log2(units));
    cost->bandwidth = cost->bandwidth * kTreeCorrection[at(protocol)][power];
  }
  // Each channel of the graph is used twice.
  const double pieces = 2.0 * graph.channels * graph.shape.ranks();
  if (algorithm == NcclAlgorithm::ring && protocol == NcclProtocol::simple &&
      kind == CollectiveKind::all_reduce && graph.shape.nodes > 1 && size / pieces >= bytes(64)) {
    cost->latency = cost->latency * (graph.generation < GpuGeneration::ampere ? 1.9 : 1.4);
  }
  return cost->latency + size / cost->bandwidth;
}

NcclChoice nccl_choice(const NcclGraph& graph, const std::optional<NcclGraph>& nvls,
                       CollectiveKind kind, Bytes size) {
  std::optional<NcclChoice> best;
  for (const NcclAlgorithm algorithm : kNcclAlgorithms) {
    const bool in_switch =
        algorithm == NcclAlgorithm::nvls || algorithm == NcclAlgorithm::nvls_tree;
    if (in_switch && !nvls) {
      continue;
    }
    for (const NcclProtocol protocol : kNcclProtocols) {
      const auto time = nccl_time(in_switch ? *nvls : graph, kind, algorithm, protocol, size);
      if (time && (!best || *time < best->time)) {
        best = {.algorithm = algorithm, .protocol = protocol, .time = *time};
      }
    }
  }
  return best.value_or(
      NcclChoice{.algorithm = NcclAlgorithm::direct, .protocol = NcclProtocol::simple, .time = {}});
}

}  // namespace flopcast
