#include <algorithm>
#include <cmath>
#include <optional>

#include "calibration/profile.h"
#include "sim/check.h"

namespace flopcast {
namespace {

// Latency, then the transfer with its ramp: see TierParameters.
struct Candidate {
  Seconds latency;
  Seconds transfer;
  Evidence evidence = Evidence::assumed;
  NcclAlgorithm algorithm = NcclAlgorithm::ring;

  Seconds total() const { return latency + transfer; }
};

Candidate ramped(Seconds latency, Seconds transfer, double ramp, Evidence evidence) {
  const double extra = ramp * std::sqrt(latency.value * transfer.value);
  return {.latency = latency, .transfer = transfer + seconds(extra), .evidence = evidence};
}

// Two tiers in one pipeline: the slower counts, and one that is near its limit slows the other.
Seconds in_series(Seconds a, Seconds b, double hardness) {
  const Seconds larger = std::max(a, b);
  if (larger.value <= 0) {
    return larger;
  }
  return larger * std::pow(1 + std::pow(std::min(a, b) / larger, hardness), 1 / hardness);
}

Evidence evidence_of(const TierParameters& a, const TierParameters& b) {
  return weakest(a.provenance.evidence, b.provenance.evidence);
}

// Steps of a ring over all ranks, one in each direction of an all-reduce; nodes of them leave a
// node.
Candidate ring(const NetworkModel& model, Bytes sent, GroupShape shape, const NetworkPath& path,
               double rounds) {
  const TierParameters& domain = model.domain;
  const Seconds inside = sent / (path.domain * domain.efficiency);
  if (shape.nodes == 1) {
    return ramped(domain.base + rounds * (shape.ranks() - 1) * domain.hop, inside, domain.ramp,
                  domain.provenance.evidence);
  }
  // All channels together carry out of a node what one rank sends, whatever the number of NICs.
  const TierParameters& network = model.network;
  const Seconds outside = sent / (path.network * network.efficiency);
  const double outer_steps = rounds * (shape.nodes - 1);
  const double inner_steps = rounds * (shape.ranks() - shape.nodes);
  const Seconds latency = network.base + inner_steps * domain.hop +
                          outer_steps * (network.hop + path.hop_between_nodes());
  const Seconds transfer =
      shape.ranks_per_node > 1 ? in_series(inside, outside, model.hardness) : outside;
  return ramped(latency, transfer, network.ramp, evidence_of(domain, network));
}

// Bytes that leave a node per byte of the buffer in a double binary tree: with two nodes each sends
// its half-sums once; with more each is interior in one of the trees: S/2 up and 2 S/2 down there,
// S/2 up as a leaf of the other. Source: NCCL 2.30.7, src/graph/trees.cc.
double tree_factor(int nodes) { return nodes == 2 ? 1.0 : 2.0; }

int tree_levels(int nodes) {
  int levels = 0;
  while (nodes > 1) {
    nodes /= 2;
    ++levels;
  }
  return levels;
}

// All-reduce by double binary trees between nodes and chains inside them, which reach 0.85 of a
// ring (NCCL 2.30.7, src/graph/tuning.cc).
Candidate tree(const NetworkModel& model, Bytes size, GroupShape shape, const NetworkPath& path) {
  const TierParameters& levels = model.tree;
  const Seconds latency =
      levels.base + 2.0 * ((shape.ranks_per_node - 1) * model.domain.hop +
                           tree_levels(shape.nodes) * (levels.hop + path.hop_between_nodes()));
  const Seconds outside = tree_factor(shape.nodes) * size / (path.network * levels.efficiency);
  constexpr double kChain = 0.85;
  const Seconds inside = 2.0 * size / (path.domain * (kChain * model.domain.efficiency));
  const Seconds transfer =
      shape.ranks_per_node > 1 ? in_series(inside, outside, model.hardness) : outside;
  return ramped(latency, transfer, levels.ramp, evidence_of(model.domain, levels));
}

// All-reduce in the switch: a rank sends the buffer once and gets the result once, at the same
// time.
Candidate switch_reduction(const NetworkModel& model, Bytes size, GroupShape shape,
                           const NetworkPath& path) {
  const SwitchReduction& nvls = *model.switch_reduction;
  const Seconds inside = size / (path.domain * nvls.domain.efficiency);
  if (shape.nodes == 1) {
    return ramped(nvls.domain.base, inside, nvls.domain.ramp, nvls.domain.provenance.evidence);
  }
  const TierParameters& levels = nvls.tree;
  const Seconds latency =
      levels.base + 2.0 * tree_levels(shape.nodes) * (levels.hop + path.hop_between_nodes());
  const Seconds outside = tree_factor(shape.nodes) * size / (path.network * levels.efficiency);
  return ramped(latency, in_series(inside, outside, model.hardness), levels.ramp,
                evidence_of(nvls.domain, levels));
}

Candidate all_reduce(const NetworkModel& model, Bytes size, GroupShape shape,
                     const NetworkPath& path) {
  Candidate best =
      ring(model, size * bus_factor(CollectiveKind::all_reduce, shape.ranks()), shape, path, 2);
  const auto consider = [&best](NcclAlgorithm algorithm, const Candidate& other) {
    if (other.total() >= best.total()) return;
    best = other;
    best.algorithm = algorithm;
  };
  if (shape.nodes > 1) {
    consider(NcclAlgorithm::tree, tree(model, size, shape, path));
  }
  if (model.switch_reduction && shape.ranks_per_node > 2) {
    consider(shape.nodes > 1 ? NcclAlgorithm::nvls_tree : NcclAlgorithm::nvls,
             switch_reduction(model, size, shape, path));
  }
  return best;
}

// Every rank sends 1/n of its buffer to each other; (n-g)/n of g buffers leave a node.
Candidate all_to_all(const NetworkModel& model, Bytes size, GroupShape shape,
                     const NetworkPath& path) {
  const double n = shape.ranks();
  const double g = shape.ranks_per_node;
  const Seconds inside = (g - 1) / n * size / (path.domain * model.direct.efficiency);
  if (shape.nodes == 1) {
    return ramped(model.direct.base + (n - 1) * model.direct.hop, inside, model.direct.ramp,
                  model.direct.provenance.evidence);
  }
  const TierParameters& network = model.direct_network;
  const Seconds outside = (n - g) / n * g * size / (path.network * network.efficiency);
  return ramped(network.base + path.hop_between_nodes() + (n - 1) * network.hop,
                in_series(inside, outside, model.hardness), network.ramp,
                evidence_of(model.direct, network));
}

Candidate pair(const NetworkModel& model, Bytes size, GroupShape shape, const NetworkPath& path) {
  if (shape.nodes == 1) {
    const TierParameters& tier = model.pair;
    return ramped(tier.base, size / (path.domain * tier.efficiency), tier.ramp,
                  tier.provenance.evidence);
  }
  const TierParameters& tier = model.pair_network;
  return ramped(tier.base + path.hop_between_nodes(), size / (path.network * tier.efficiency),
                tier.ramp, tier.provenance.evidence);
}

// A fit speaks of the kinds it saw, inside a node or across nodes; of the others the tiers know
// more, if there are tiers.
bool regimes_answer(const NetworkModel& model, CollectiveKind kind, GroupShape shape) {
  const RegimeScope scope = shape.nodes == 1 ? RegimeScope::domain : RegimeScope::network;
  const auto speaks = [&](const FittedRegime& regime) {
    return regime.key.kind == kind && regime.key.scope == scope;
  };
  return model.domain.efficiency <= 0 || std::ranges::any_of(model.regimes->fitted, speaks);
}

Candidate modelled(const NetworkModel& model, CollectiveKind kind, Bytes size, GroupShape shape,
                   const NetworkPath& path) {
  if (model.regimes && regimes_answer(model, kind, shape)) {
    const RegimeTime time = regime_time(*model.regimes, kind, size, shape, path);
    return {.latency = time.latency,
            .transfer = time.transfer,
            .evidence = time.evidence,
            .algorithm = time.algorithm};
  }
  switch (kind) {
    case CollectiveKind::all_reduce: return all_reduce(model, size, shape, path);
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::broadcast:
      return ring(model, size * bus_factor(kind, shape.ranks()), shape, path, 1);
    case CollectiveKind::all_to_all: return all_to_all(model, size, shape, path);
    case CollectiveKind::send_recv: return pair(model, size, shape, path);
  }
  return {};
}

// NVLink 5 is Blackwell's. Reductions in its switch came with Hopper.
GpuGeneration generation_of(const NetworkModel& model, const NetworkPath& path) {
  if (!model.switch_reduction) return GpuGeneration::ampere;
  return path.domain > gigabytes_per_second(450) ? GpuGeneration::blackwell : GpuGeneration::hopper;
}

// Tiers hold nothing of switches that reduce: then NCCL's own constants answer for them.
std::optional<Candidate> in_network(const NetworkModel& model, CollectiveKind kind, Bytes size,
                                    GroupShape shape, const NetworkPath& path) {
  ProtocolRegimes machine;
  machine.generation = generation_of(model, path);
  if (model.regimes) machine = *model.regimes;
  const auto time = in_network_time(machine, kind, size, shape, path);
  if (!time) return std::nullopt;
  return Candidate{.latency = time->latency,
                   .transfer = time->transfer,
                   .evidence = time->evidence,
                   .algorithm = time->algorithm};
}

bool alike(BytesPerSecond a, BytesPerSecond b) {
  return std::abs(a.value - b.value) <= 0.05 * std::max(a.value, b.value);
}

// Where switches reduce, tables measured with them come first; others show the rest of NCCL.
const CollectiveCurve* find_curve(const Profile& profile, CollectiveKind kind, GroupShape shape,
                                  const NetworkPath& path) {
  const CollectiveCurve* found = nullptr;
  for (const CollectiveCurve& curve : profile.curves) {
    if (curve.kind != kind || curve.shape != shape || !alike(curve.domain, path.domain)) continue;
    if (shape.nodes > 1 && !alike(curve.network, path.network)) continue;
    if (curve.sharp == path.sharp) return &curve;
    if (!curve.sharp && found == nullptr) found = &curve;
  }
  return found;
}

// Straight lines between the points in log size and log time: monotone where the points are.
// Constant below the smallest size, the largest size's bandwidth above it.
Seconds interpolated(const CollectiveCurve& curve, Bytes size) {
  if (size <= curve.sizes.front()) {
    return curve.times.front();
  }
  if (size >= curve.sizes.back()) {
    return curve.times.back() * (size / curve.sizes.back());
  }
  const auto above = std::upper_bound(curve.sizes.begin(), curve.sizes.end(), size);
  const auto i = static_cast<std::size_t>(above - curve.sizes.begin());
  const double part =
      std::log(size / curve.sizes[i - 1]) / std::log(curve.sizes[i] / curve.sizes[i - 1]);
  return curve.times[i - 1] * std::pow(curve.times[i] / curve.times[i - 1], part);
}

Candidate measured(const CollectiveCurve& curve, Bytes size) {
  // At least a tenth of a measured time counts as transfer, so that sharing a link is felt even by
  // messages on the flat part of the curve.
  constexpr double kLeastTransfer = 0.1;
  const Seconds time = interpolated(curve, size);
  const Seconds latency = std::min(curve.times.front(), (1 - kLeastTransfer) * time);
  return {.latency = latency, .transfer = time - latency, .evidence = curve.provenance.evidence};
}

// Whether what was measured or fitted had switches that reduce.
bool knows_sharp(const NetworkModel& model, const CollectiveCurve* curve, CollectiveKind kind,
                 GroupShape shape) {
  if (curve != nullptr) return curve->sharp;
  return model.regimes && model.regimes->sharp && regimes_answer(model, kind, shape);
}

}  // namespace

CollectiveTime collective_time(const Profile& profile, CollectiveKind kind, Bytes size,
                               GroupShape shape, const NetworkPath& path) {
  if (shape.ranks() < 2 || size.value <= 0) {
    return {.latency = {}, .sent = {}, .rate = path.domain, .evidence = Evidence::measured};
  }
  const CollectiveCurve* curve = find_curve(profile, kind, shape, path);
  const bool adds_sharp =
      path.sharp && shape.nodes > 1 && !knows_sharp(profile.network, curve, kind, shape);
  NetworkPath known = path;
  if (adds_sharp) known.sharp = false;
  Candidate time = modelled(profile.network, kind, size, shape, known);
  if (curve != nullptr) {
    const NcclAlgorithm algorithm = time.algorithm;
    time = measured(*curve, size);
    time.algorithm = algorithm;
  }
  if (adds_sharp) {
    const auto other = in_network(profile.network, kind, size, shape, path);
    if (other && other->total() < time.total()) time = *other;
  }
  FLOPCAST_CHECK(time.transfer.value > 0, "a path has bandwidth and a profile efficiency");
  const Bytes sent = size * bus_factor(kind, shape.ranks());
  return {.latency = time.latency,
          .sent = sent,
          .rate = sent / time.transfer,
          .evidence = time.evidence,
          .algorithm = time.algorithm};
}

double compute_share(const Profile& profile, CollectiveKind kind, GroupShape shape) {
  const ComputeShare& share = profile.network.compute_share;
  if (kind == CollectiveKind::send_recv) {
    return share.point_to_point;
  }
  return shape.nodes > 1 ? share.network : share.domain;
}

}  // namespace flopcast
