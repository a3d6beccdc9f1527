#include "calibration/regimes.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "sim/check.h"

namespace flopcast {
namespace {

// Flags within the data (LL, LL128) need stores that arrive in order. EFA's reliable datagrams and
// TCPX's host buffers do not give that, and their plugins leave Simple alone. On Slingshot
// all-reduces keep LL, while all-gathers over several nodes take exactly the steps of a Simple
// ring: 250 to 270 us over 8 nodes of 4 A100, where (8.4 + 24 * 3.4 + 7 * 14.3) * 1.4 = 266
// (polaris in calibration/data/collectives.json). Sources: aws-ofi-nccl 1.9.2; GPUDirect-TCPX guide
// of Google Cloud. A fit may find otherwise: later plugins bring LL128 back.
bool carries(const ProtocolRegimes& machine, CollectiveKind kind, NcclProtocol protocol) {
  if (protocol == NcclProtocol::simple) return true;
  switch (machine.transport) {
    case NetworkTransport::verbs: return true;
    case NetworkTransport::slingshot: return kind == CollectiveKind::all_reduce;
    case NetworkTransport::efa:
    case NetworkTransport::tcpx: return false;
  }
  return true;
}

double past(Bytes size, Bytes message) {
  const double ratio = size / message;
  const double ratio2 = ratio * ratio;
  return 1 / (1 + ratio2 * ratio2);
}

const RegimeScale* find_scale(const ProtocolRegimes& machine, const RegimeKey& key) {
  for (const FittedRegime& regime : machine.fitted) {
    if (regime.key == key) {
      return &regime.scale;
    }
  }
  return nullptr;
}

}  // namespace

std::string_view to_text(RegimeScope scope) {
  switch (scope) {
    case RegimeScope::domain: return "domain";
    case RegimeScope::network: return "network";
  }
  return {};
}

std::string_view to_text(NetworkTransport transport) {
  switch (transport) {
    case NetworkTransport::verbs: return "verbs";
    case NetworkTransport::slingshot: return "slingshot";
    case NetworkTransport::efa: return "efa";
    case NetworkTransport::tcpx: return "tcpx";
  }
  return {};
}

RegimeScale prior_scale(NcclAlgorithm algorithm, NcclProtocol protocol) {
  // Flags within the data keep LL's pieces small; whole chunks of Simple fill a pipeline slowly.
  // Assumed: the values with which H100 tables come out best, the same for all machines.
  RegimeScale scale;
  const bool in_switch = algorithm == NcclAlgorithm::nvls || algorithm == NcclAlgorithm::nvls_tree;
  scale.ramp = protocol == NcclProtocol::simple ? (in_switch ? 0.6 : 0.5) : 0.1;
  return scale;
}

RegimeTime scaled(const RegimeParts& parts, const RegimeScale& scale) {
  const Seconds outside = scale.network_hop * parts.outside;
  Seconds steps = scale.hop * parts.inside + outside;
  if (scale.growth != 0) steps += scale.growth * past(scale.growth_size, parts.message) * steps;
  if (scale.rendezvous != 0) {
    steps += scale.rendezvous * past(scale.rendezvous_size, parts.message) * outside;
  }
  const Seconds latency = scale.base * parts.base + steps;
  Seconds transfer = parts.transfer / scale.bandwidth;
  if (scale.spread != 0) {
    const double n = parts.shape.ranks();
    transfer = transfer * std::pow(n / (n - 1), scale.spread);
  }
  if (scale.congestion != 0) {
    const int sharers = parts.shape.nodes > 1 ? parts.shape.nodes : parts.shape.ranks_per_node;
    transfer = transfer * std::pow(0.5 * sharers, scale.congestion);
  }
  const Seconds ramp = seconds(scale.ramp * std::sqrt(latency.value * transfer.value));
  return {.latency = latency - scale.overlap * std::min(steps, transfer),
          .transfer = transfer + ramp,
          .evidence = Evidence::assumed,
          .algorithm = parts.algorithm,
          .protocol = parts.protocol,
          .bias = scale.bias};
}

namespace {

// The one that NCCL takes.
std::optional<RegimeTime> fastest(const ProtocolRegimes& machine, CollectiveKind kind,
                                  std::span<const RegimeParts> open) {
  std::optional<RegimeTime> best;
  for (const RegimeParts& parts : open) {
    const bool inside = parts.shape.nodes == 1;
    const RegimeScale* fitted =
        find_scale(machine, {.kind = kind,
                             .scope = inside ? RegimeScope::domain : RegimeScope::network,
                             .algorithm = parts.algorithm,
                             .protocol = parts.protocol});
    if (!fitted && !inside && !carries(machine, kind, parts.protocol)) {
      continue;
    }
    RegimeTime time =
        scaled(parts, fitted ? *fitted : prior_scale(parts.algorithm, parts.protocol));
    time.evidence = fitted ? machine.provenance.evidence : Evidence::assumed;
    if (!best || time.believed() < best->believed()) {
      best = time;
    }
  }
  return best;
}

}  // namespace

RegimeTime regime_time(const ProtocolRegimes& machine, CollectiveKind kind, Bytes size,
                       GroupShape shape, const NetworkPath& path) {
  const RegimeList open = open_regimes(machine, kind, size, shape, path);
  const std::optional<RegimeTime> best = fastest(machine, kind, open.view());
  FLOPCAST_CHECK(best.has_value(),
                 "every collective has an algorithm in Simple, which every transport carries");
  return *best;
}

std::optional<RegimeTime> in_network_time(const ProtocolRegimes& machine, CollectiveKind kind,
                                          Bytes size, GroupShape shape, const NetworkPath& path) {
  ProtocolRegimes with = machine;
  with.sharp = true;
  const RegimeList open = open_regimes(with, kind, size, shape, path);
  RegimeList reducing;
  for (const RegimeParts& parts : open.view()) {
    if (reduces_in_network(parts.algorithm, shape)) reducing.items[reducing.count++] = parts;
  }
  return fastest(with, kind, reducing.view());
}

}  // namespace flopcast
