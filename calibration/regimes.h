#pragma once

// Time of a collective as NCCL composes it: one regime for each algorithm and protocol, of which
// NCCL takes the one that it believes to be the fastest. A regime is NCCL's own latency and
// bandwidth (nccl_model.h) scaled to what a machine really does, plus what NCCL's model leaves out:
//   outside = steps between nodes * network hop
//   steps = (steps inside * hop + outside) * (1 + growth * past(growth size))
//         + outside * rendezvous * past(rendezvous size)
//   past(s) = 1 / (1 + (s / m)^4) of a message of m bytes, what a rank sends at once
//   L = base + steps
//   T = bytes / (bandwidth * ((n-1)/n)^spread) * (nodes/2)^congestion
//   time = L + T + ramp * sqrt(L * T) - overlap * min(steps, T)
// ramp: a buffer cut into the best number of pieces that follow one another over the steps takes
// (sqrt L + sqrt T)^2, which is ramp = 2; NCCL keeps several pieces under way, hence less.
// overlap: with several pieces under way the next one's latency passes while one is transferred.
// growth: small messages use few channels and threads; from some size on more, with longer steps.
//   That size is of a rank's part in rings: NCCL multiplies its thread thresholds by the ranks
//   (tuning.cc, from memory); all-gathers of 2, 4 and 8 H100 all turn at 4 KB a rank.
//   Below 0: a transport that copies the smallest messages by the CPU takes longer for them.
// rendezvous: from some size on, transports other than NCCL's verbs agree on the place of a message
//   with the receiver first, and copy no more: each step between nodes takes a round trip longer.
// spread: in small groups a rank copies and reduces more per byte that it sends.
// congestion: large groups share and collide on a network's upper levels; of one node behind PCIe,
//   (ranks/2)^congestion, they share its roots, sockets and host memory.
// bias: NCCL compares estimates, not these times; it takes the least bias * time.
// Unscaled it is the prior for a machine of which nothing is known but its links.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "calibration/nccl_model.h"
#include "calibration/network_path.h"
#include "calibration/provenance.h"

namespace flopcast {

enum class RegimeScope : std::uint8_t { domain, network };  // one node, or several
inline constexpr std::array kRegimeScopes{RegimeScope::domain, RegimeScope::network};

std::string_view to_text(RegimeScope scope);

/// How NCCL reaches the NICs. Its own verbs transport (InfiniBand, RoCE) has all protocols; plugins
/// that do not keep stores in order have fewer, and a software stack adds to each step.
enum class NetworkTransport : std::uint8_t { verbs, slingshot, efa, tcpx };
inline constexpr std::array kNetworkTransports{NetworkTransport::verbs, NetworkTransport::slingshot,
                                               NetworkTransport::efa, NetworkTransport::tcpx};

std::string_view to_text(NetworkTransport transport);

/// Multiples of the prior's values, and exponents and parts that are 0 in the prior.
struct RegimeScale {
  double base = 1;
  double hop = 1;
  double network_hop = 1;
  double bandwidth = 1;
  double ramp = 0;
  double spread = 0;
  double congestion = 0;
  double growth = 0;
  Bytes growth_size = kibibytes(16);
  double overlap = 0;
  double rendezvous = 0;
  Bytes rendezvous_size = kibibytes(16);
  double bias = 1;
};

struct RegimeKey {
  CollectiveKind kind{};
  RegimeScope scope{};
  NcclAlgorithm algorithm{};
  NcclProtocol protocol{};

  friend constexpr auto operator<=>(const RegimeKey&, const RegimeKey&) = default;
};

struct FittedRegime {
  RegimeKey key;
  RegimeScale scale;
};

/// A machine: what NCCL would assume, and where measurements say otherwise.
struct ProtocolRegimes {
  GpuGeneration generation = GpuGeneration::hopper;
  HostCpu cpu = HostCpu::intel;
  bool sharp = false;  // regimes of switches that reduce are open on a path that has them
  NetworkTransport transport = NetworkTransport::verbs;
  std::vector<FittedRegime> fitted;  // the others are the prior
  Provenance provenance;             // of `fitted`
};

/// One regime at one size, in unscaled parts.
struct RegimeParts {
  NcclAlgorithm algorithm{};
  NcclProtocol protocol{};
  Seconds base;
  Seconds inside;   // all steps over NVLink
  Seconds outside;  // all steps between nodes
  Seconds transfer;
  Bytes message{};  // of one rank in rings and exchanges, else of the whole buffer
  GroupShape shape{};
};

/// The regimes open to a collective: at most all protocols of all algorithms.
struct RegimeList {
  std::array<RegimeParts, kNcclAlgorithms.size() * kNcclProtocols.size()> items;
  std::size_t count = 0;

  std::span<const RegimeParts> view() const { return std::span(items).first(count); }
};

RegimeList open_regimes(const ProtocolRegimes& machine, CollectiveKind kind, Bytes size,
                        GroupShape shape, const NetworkPath& path);

/// Of a regime that was not fitted.
RegimeScale prior_scale(NcclAlgorithm algorithm, NcclProtocol protocol);

struct RegimeTime {
  Seconds latency;
  Seconds transfer;  // with its ramp
  Evidence evidence = Evidence::assumed;
  NcclAlgorithm algorithm{};
  NcclProtocol protocol{};
  double bias = 1;

  Seconds total() const { return latency + transfer; }
  Seconds believed() const { return total() * bias; }
};

RegimeTime scaled(const RegimeParts& parts, const RegimeScale& scale);

/// The regime that NCCL takes.
RegimeTime regime_time(const ProtocolRegimes& machine, CollectiveKind kind, Bytes size,
                       GroupShape shape, const NetworkPath& path);

/// The fastest of those in which switches of the network reduce: CollNet, and NVLS over nodes.
/// Nothing where none is open: inside a node, or to a kind that they do not serve.
std::optional<RegimeTime> in_network_time(const ProtocolRegimes& machine, CollectiveKind kind,
                                          Bytes size, GroupShape shape, const NetworkPath& path);

/// Whether switches of the network reduce in it. NVLS does so over several nodes.
constexpr bool reduces_in_network(NcclAlgorithm algorithm, GroupShape shape) {
  return algorithm == NcclAlgorithm::collnet_direct || algorithm == NcclAlgorithm::collnet_chain ||
         (algorithm == NcclAlgorithm::nvls && shape.nodes > 1);
}

}  // namespace flopcast
