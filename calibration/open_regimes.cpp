#include <algorithm>
#include <cmath>

#include "calibration/regimes.h"

namespace flopcast {
namespace {

// Of a link's nominal rate NCCL counts on 20.6 of 25 GB/s (NVLink 4) and 40.1 of 50 (NVLink 5), in
// channels of round numbers: 12 x 30 of 450, 12 x 20 of 300 GB/s. Of a NIC on 12 GB/s per 100 Gb/s.
// Source: NCCL 2.30.7, src/graph/topo.h and search.cc.
constexpr double kUsableDomain = 0.8;
constexpr double kUsableNetwork = 0.96;
constexpr int kDomainChannels = 12;

// NVLink reductions by multicast reach 480 of 450 GB/s on Hopper, 1000 of 900 on Blackwell, counted
// as bus bandwidth. Source: NCCL 2.30.7, src/sym_kernels.cc.
double multicast_gain(GpuGeneration generation) {
  return generation == GpuGeneration::hopper ? 480.0 / 450 : 1000.0 / 900;
}

// NVLS splits the work over the switch's ports of all GPUs: four GPUs reach three quarters of what
// eight do (363 against 473 GB/s on H200; stas00/ml-engineering 744d01e1, network/README.md).
double multicast_share(int ranks) { return std::min(1.0, 0.75 + 0.0625 * (ranks - 4)); }

// NCCL's latencies fit Hopper. Ampere's clock is 1.41 against 1.98 GHz and Blackwell's kernels
// start later: both take 1.4 times as long for the smallest messages (nccl-tests tables of
// ai-dynamo/aiconfigurator 095f58a, A100 and B200 against H100).
double latency_factor(GpuGeneration generation) {
  switch (generation) {
    case GpuGeneration::volta:
    case GpuGeneration::ampere:
    case GpuGeneration::blackwell: return 1.4;
    case GpuGeneration::hopper: return 1.0;
  }
  return 1;
}

// Grouped send/recv has no entry in NCCL's table. Launch as for rings, plus a little for each peer;
// assumed from H100 tables (aiconfigurator 095f58a in a node, NVIDIA/nccl-tests issue 309 between).
constexpr Seconds kDirectLl = microseconds(6.6);
constexpr Seconds kDirectSimple = microseconds(15);
constexpr Seconds kPeer = microseconds(0.3);
constexpr Seconds kDirectNetwork = microseconds(14);
constexpr Seconds kNetworkPeer = microseconds(1);
// Slingshot matches each message of a peer and agrees on its place: 62 us for 4 remote ranks, 288
// for 28, 22,100 for 2156 (polaris in calibration/data/collectives.json). Assumed: of A100's 1.4.
constexpr Seconds kSlingshotPeer = microseconds(7);
// One pair across nodes has two channels of NCCL's few: half a NIC's rate.
constexpr double kPairShare = 0.5;

// TCP stays in the path of GPUDirect-TCPX(O). Fitted: the smallest all-gathers of two a3-megagpu
// nodes take 85 us where the Simple ring has 70; their all-reduces are not shown to it.
constexpr Seconds kTcpxStep = microseconds(15);

Seconds network_peer(NetworkTransport transport) {
  return transport == NetworkTransport::slingshot ? kSlingshotPeer : kNetworkPeer;
}

// What the transport adds to a step between nodes.
Seconds step_overhead(NetworkTransport transport) {
  return transport == NetworkTransport::tcpx ? kTcpxStep : seconds(0);
}

struct Question {
  const ProtocolRegimes& machine;
  CollectiveKind kind;
  Bytes size;
  GroupShape shape;
  NetworkPath path;

  double rounds() const { return kind == CollectiveKind::all_reduce ? 2 : 1; }
  BytesPerSecond usable_domain() const { return path.domain * kUsableDomain; }
  BytesPerSecond usable_network() const { return path.network * kUsableNetwork; }
};

// The channels that NCCL would find: between nodes one per rank, as each has its NIC, more where a
// channel would be faster than any it looks for.
NcclGraph channels_of(const Question& q) {
  NcclGraph graph{.generation = q.machine.generation,
                  .cpu = q.machine.cpu,
                  .shape = q.shape,
                  .channels = kDomainChannels,
                  .intra = {},
                  .inter = {},
                  .sharp = q.machine.sharp && q.path.sharp};
  BytesPerSecond raw = q.usable_domain();
  if (q.shape.nodes > 1) {
    const BytesPerSecond fastest =
        gigabytes_per_second(q.machine.generation == GpuGeneration::blackwell ? 96 : 48);
    if (q.shape.ranks_per_node > 1) {
      raw = std::min(raw, q.usable_network());
    } else {
      raw = q.usable_network();
    }
    graph.channels =
        std::max({2, q.shape.ranks_per_node, static_cast<int>(std::ceil(raw / fastest - 1e-9))});
  }
  graph.intra = graph.inter = raw / graph.channels;
  return graph;
}

class RegimeBuilder {
 public:
  explicit RegimeBuilder(const Question& question) : q_(question), graph_(channels_of(question)) {}

  RegimeList build() && {
    switch (q_.kind) {
      case CollectiveKind::all_reduce:
        rings();
        trees();
        in_switch();
        in_network();
        break;
      case CollectiveKind::all_gather:
      case CollectiveKind::reduce_scatter:
        rings();
        parallel_trees();
        in_network();
        break;
      case CollectiveKind::broadcast: rings(); break;
      case CollectiveKind::all_to_all: all_to_all(); break;
      case CollectiveKind::send_recv: pair(); break;
    }
    return list_;
  }

 private:
  BytesPerSecond raw() const { return static_cast<double>(graph_.channels) * graph_.intra; }
  double levels() const { return floor_log2(q_.shape.nodes); }
  Seconds network_hop(NcclAlgorithm algorithm, NcclProtocol protocol) const {
    return nccl_latency(algorithm, protocol).network_hop + q_.path.network_hop +
           step_overhead(q_.machine.transport);
  }

  void add(RegimeParts parts) {
    const double factor = latency_factor(q_.machine.generation);
    parts.base = parts.base * factor;
    parts.inside = parts.inside * factor;
    parts.outside = parts.outside * factor;
    parts.message = goes_whole(parts.algorithm) ? q_.size : q_.size / q_.shape.ranks();
    parts.shape = q_.shape;
    list_.items[list_.count++] = parts;
  }

  static bool goes_whole(NcclAlgorithm algorithm) {
    return algorithm == NcclAlgorithm::tree || algorithm == NcclAlgorithm::nvls ||
           algorithm == NcclAlgorithm::nvls_tree || reduces_in_network(algorithm, {1, 2});
  }

  // Of n links in the ring a part passes n-1. The one that comes last leaves out a link inside a
  // node, if there is one, and so crosses between nodes once for each; NCCL counts one less.
  double crossings() const {
    if (q_.shape.nodes == 1) return 0;
    return q_.rounds() * (q_.shape.ranks_per_node > 1 ? q_.shape.nodes : q_.shape.nodes - 1);
  }

  void rings() {
    const GroupShape shape = q_.shape;
    const double steps = q_.rounds() * (shape.ranks() - 1);
    const double outer = crossings();
    const Bytes sent = q_.size * bus_factor(q_.kind, shape.ranks());
    for (const NcclProtocol protocol : kNcclProtocols) {
      const NcclLatency ring = nccl_latency(NcclAlgorithm::ring, protocol);
      Seconds hop = ring.domain_hop;
      if (shape.nodes > 1) {
        hop = std::max(hop, nccl_post_overhead(q_.machine.cpu, protocol));
      }
      // With one GPU per node nothing hides the network: NCCL takes the tree's latency.
      const NcclAlgorithm like =
          shape.ranks_per_node == 1 ? NcclAlgorithm::tree : NcclAlgorithm::ring;
      add({.algorithm = NcclAlgorithm::ring,
           .protocol = protocol,
           .base = ring.base,
           .inside = (steps - outer) * hop,
           .outside = outer * network_hop(like, protocol),
           .transfer = sent / nccl_bus_bandwidth(graph_, NcclAlgorithm::ring, protocol, raw())});
    }
  }

  void trees() {
    if (q_.shape.nodes == 1) {
      return;  // a chain: never faster than the ring
    }
    for (const NcclProtocol protocol : kNcclProtocols) {
      const NcclLatency tree = nccl_latency(NcclAlgorithm::tree, protocol);
      add({.algorithm = NcclAlgorithm::tree,
           .protocol = protocol,
           .base = tree.base,
           .inside = 2.0 * (q_.shape.ranks_per_node - 1) * tree.domain_hop,
           .outside = 2.0 * levels() * network_hop(NcclAlgorithm::tree, protocol),
           .transfer =
               2.0 * q_.size / nccl_bus_bandwidth(graph_, NcclAlgorithm::tree, protocol, raw())});
    }
  }

  // A rank sends its buffer into the switch once and gets the result once.
  void in_switch() {
    if (q_.machine.generation < GpuGeneration::hopper || q_.shape.ranks_per_node < 3) {
      return;
    }
    const int ranks = q_.shape.ranks_per_node;
    const BytesPerSecond inside =
        q_.path.domain * (multicast_gain(q_.machine.generation) * multicast_share(ranks));
    const Bytes sent = q_.size * bus_factor(q_.kind, q_.shape.ranks());
    if (q_.shape.nodes == 1) {
      add_in_switch(NcclAlgorithm::nvls, 0, sent / inside);
      return;
    }
    // A ring's limit in NVLink is not that of its switch: what is left is the cards'.
    if (graph_.sharp) {
      add_in_switch(NcclAlgorithm::nvls, 1, sent / std::min(inside, q_.usable_network()));
    }
    const auto tree = nccl_cost(graph_, q_.kind, NcclAlgorithm::nvls_tree, NcclProtocol::simple);
    if (tree) {
      const Seconds outside = q_.size / tree->bandwidth;
      add_in_switch(NcclAlgorithm::nvls_tree, 2 * levels(), std::max(outside, sent / inside));
    }
  }

  void add_in_switch(NcclAlgorithm algorithm, double network_steps, Seconds transfer) {
    add({.algorithm = algorithm,
         .protocol = NcclProtocol::simple,
         .base = nccl_latency(algorithm, NcclProtocol::simple).domain_hop,
         .inside = {},
         .outside = network_steps * network_hop(algorithm, NcclProtocol::simple),
         .transfer = transfer});
  }

  // In the switches of the network, as NCCL counts it: CollNet takes half of the channels' rate.
  // All but the chain need an NVSwitch in the node.
  void in_network() {
    add_in_network(NcclAlgorithm::collnet_chain);
    if (q_.path.domain <= kFastestPcie) return;
    add_in_network(NcclAlgorithm::collnet_direct);
    if (q_.kind != CollectiveKind::all_reduce) add_in_network(NcclAlgorithm::nvls);
  }

  void add_in_network(NcclAlgorithm algorithm) {
    if (!graph_.sharp) return;
    const auto cost = nccl_cost(graph_, q_.kind, algorithm, NcclProtocol::simple);
    if (!cost) return;
    const Seconds once = nccl_latency(algorithm, NcclProtocol::simple).network_hop;
    add({.algorithm = algorithm,
         .protocol = NcclProtocol::simple,
         .base = {},
         .inside = cost->latency - once,
         .outside = network_hop(algorithm, NcclProtocol::simple),
         .transfer = q_.size / cost->bandwidth});
  }

  // PAT: one GPU per node.
  void parallel_trees() {
    const auto cost = nccl_cost(graph_, q_.kind, NcclAlgorithm::pat, NcclProtocol::simple);
    if (cost) {
      const Seconds base = nccl_latency(NcclAlgorithm::pat, NcclProtocol::simple).base;
      add({.algorithm = NcclAlgorithm::pat,
           .protocol = NcclProtocol::simple,
           .base = base,
           .inside = {},
           .outside = cost->latency - base,
           .transfer = q_.size / cost->bandwidth});
    }
  }

  // Every rank sends 1/n of its buffer to each other; (n-g)/n of g buffers leave a node.
  void all_to_all() {
    const double n = q_.shape.ranks();
    const double g = q_.shape.ranks_per_node;
    const Bytes inside = q_.size * ((g - 1) / n);
    if (q_.shape.nodes == 1) {
      const BytesPerSecond ll =
          nccl_bus_bandwidth(graph_, NcclAlgorithm::ring, NcclProtocol::ll, raw());
      add_direct(NcclProtocol::ll, kDirectLl, (n - 1) * kPeer, {}, inside / ll);
      add_direct(NcclProtocol::simple, kDirectSimple, (n - 1) * kPeer, {},
                 inside / q_.usable_domain());
      return;
    }
    const Seconds outside = (n - g) / n * g * q_.size / q_.usable_network();
    // The network once, and a time for each remote peer, which is scaled by itself.
    add_direct(NcclProtocol::simple, kDirectSimple, (n - g) * network_peer(q_.machine.transport),
               kDirectNetwork + q_.path.network_hop,
               std::max(outside, inside / q_.usable_domain()));
  }

  void pair() {
    if (q_.shape.nodes == 1) {
      const BytesPerSecond ll =
          nccl_bus_bandwidth(graph_, NcclAlgorithm::ring, NcclProtocol::ll, raw());
      add_direct(NcclProtocol::ll, kDirectLl, kPeer, {}, q_.size / ll);
      add_direct(NcclProtocol::simple, kDirectSimple, kPeer, {}, q_.size / q_.usable_domain());
      return;
    }
    const BytesPerSecond nic = q_.path.network * kPairShare;
    add_direct(NcclProtocol::simple, kDirectSimple, {}, kDirectNetwork + q_.path.network_hop,
               q_.size / nic);
  }

  void add_direct(NcclProtocol protocol, Seconds base, Seconds inside, Seconds outside,
                  Seconds transfer) {
    add({.algorithm = NcclAlgorithm::direct,
         .protocol = protocol,
         .base = base,
         .inside = inside,
         .outside = outside,
         .transfer = transfer});
  }

  const Question& q_;
  NcclGraph graph_;
  RegimeList list_;
};

}  // namespace

RegimeList open_regimes(const ProtocolRegimes& machine, CollectiveKind kind, Bytes size,
                        GroupShape shape, const NetworkPath& path) {
  const Question question{
      .machine = machine, .kind = kind, .size = size, .shape = shape, .path = path};
  return RegimeBuilder(question).build();
}

}  // namespace flopcast
