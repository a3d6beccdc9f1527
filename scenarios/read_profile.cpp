#include "scenarios/read_profile.h"

#include <algorithm>

#include "calibration/kernel_names.h"
#include "scenarios/profile_regimes.h"

namespace flopcast {
namespace {

constexpr std::array kPasses{Choice<AttentionPass>{"forward", AttentionPass::forward},
                             Choice<AttentionPass>{"backward", AttentionPass::backward}};

GemmCurve read_gemm(const Node& node) {
  GemmCurve curve{.eff_inf = node.at("eff_inf").number(1e-3, 2),
                  .eff_bw = node.at("eff_bw").number(1e-3, 2),
                  .t0 = node.at("t0").quantity<Seconds>(),
                  .k0 = node.at("k0").number(0, 1e5),
                  .c_tile = node.at("c_tile").number(0, 1e5),
                  .q_wave = node.at("q_wave").fraction(),
                  .p = node.at("p").number(1, 100),
                  .eff_quantise_bw = {},
                  .quantise_traffic = {},
                  .provenance = read_provenance(node)};
  if (const auto quantise = node.find("quantise")) {
    curve.eff_quantise_bw = quantise->at("efficiency").number(1e-3, 2);
    curve.quantise_traffic = quantise->at("traffic").positive_quantity<Bytes>();
  }
  if (const auto clock = node.find("clock")) {
    curve.clock = {.sag = clock->at("sag").number(0, 10),
                   .settle = clock->at("settle").positive_quantity<Seconds>()};
  }
  if (const auto rereads = node.find("rereads_a")) curve.rereads_a = rereads->boolean();
  return curve;
}

AttentionCurve read_attention(const Node& node) {
  AttentionCurve curve{.head_dim = node.at("head_dim").small_integer(1, 4096),
                       .pass = node.at("pass").one_of(kPasses),
                       .kernel = AttentionKernel::newest,
                       .eff_inf = node.at("eff_inf").number(1e-3, 2),
                       .s0 = node.at("s0").number(0, 1e6),
                       .t0 = node.at("t0").quantity<Seconds>(),
                       .provenance = read_provenance(node)};
  if (const auto kernel = node.find("kernel")) curve.kernel = kernel->one_of(kAttentionKernelKinds);
  if (const auto cache = node.find("cache_efficiency")) curve.eff_cache_bw = cache->number(1e-3, 2);
  return curve;
}

MemoryCurve read_memory(const Node& node) {
  return {.efficiency = node.at("efficiency").number(1e-3, 2),
          .t0 = node.at("t0").quantity<Seconds>(),
          .provenance = read_provenance(node)};
}

TierParameters read_tier(const Node& node) {
  return {.base = node.at("base").quantity<Seconds>(),
          .hop = node.at("hop").quantity<Seconds>(),
          .efficiency = node.at("efficiency").number(1e-3, 2),
          .ramp = node.at("ramp").number(0, 100),
          .provenance = read_provenance(node)};
}

ComputeShare read_share(const Node& node) {
  return {.domain = node.at("domain").fraction(0, 0.9),
          .network = node.at("network").fraction(0, 0.9),
          .point_to_point = node.at("point_to_point").fraction(0, 0.9),
          .provenance = read_provenance(node)};
}

NetworkModel read_network(const Node& node) {
  NetworkModel model{.domain = read_tier(node.at("domain")),
                     .network = read_tier(node.at("network")),
                     .tree = read_tier(node.at("tree")),
                     .switch_reduction = {},
                     .direct = read_tier(node.at("direct")),
                     .direct_network = read_tier(node.at("direct_network")),
                     .pair = read_tier(node.at("pair")),
                     .pair_network = read_tier(node.at("pair_network")),
                     .hardness = node.at("hardness").number(1, 100),
                     .compute_share = read_share(node.at("compute_share"))};
  if (const auto reduction = node.find("switch_reduction")) {
    model.switch_reduction = {.domain = read_tier(reduction->at("domain")),
                              .tree = read_tier(reduction->at("tree"))};
  }
  if (const auto regimes = node.find("regimes")) model.regimes = read_regimes(*regimes);
  return model;
}

// [["512 B", "6.18 us"], ...]
void read_points(const Node& node, CollectiveCurve& curve) {
  for (const Node& point : node.items()) {
    const std::vector<Node> pair = point.items();
    if (pair.size() != 2) {
      point.expected("a size and a time");
    }
    curve.sizes.push_back(pair[0].positive_quantity<Bytes>());
    curve.times.push_back(pair[1].positive_quantity<Seconds>());
    const std::size_t last = curve.sizes.size() - 1;
    if (last > 0 && curve.sizes[last] <= curve.sizes[last - 1]) {
      point.expected("a size above the one before");
    }
    if (last > 0 && curve.times[last] < curve.times[last - 1]) {
      point.expected("a time not below the one before");
    }
  }
  if (curve.sizes.empty()) {
    node.expected("at least one point");
  }
}

CollectiveCurve read_curve(const Node& node) {
  CollectiveCurve curve{.kind = node.at("kind").one_of(kCollectiveKinds),
                        .shape = {.ranks_per_node = node.at("ranks_per_node").small_integer(1),
                                  .nodes = node.at("nodes").small_integer(1)},
                        .domain = node.at("domain").positive_quantity<BytesPerSecond>(),
                        .network = {},
                        .sizes = {},
                        .times = {},
                        .provenance = read_provenance(node)};
  if (curve.shape.nodes > 1) {
    curve.network = node.at("network").positive_quantity<BytesPerSecond>();
    if (const auto sharp = node.find("sharp")) curve.sharp = sharp->boolean();
  }
  read_points(node.at("points"), curve);
  return curve;
}

void read_by_type(const Node& root, Profile& profile) {
  const Node peaks = root.at("peak_dense");
  const Node curves = root.at("gemm");
  for (const DataType type : kDataTypes) {
    const auto i = static_cast<std::size_t>(type);
    if (multiplied_as(type) != type) {
      profile.peak_dense[i] = profile.peak_dense[static_cast<std::size_t>(multiplied_as(type))];
    } else if (const auto peak = peaks.find(to_text(type))) {
      profile.peak_dense[i] = peak->positive_quantity<FlopsPerSecond>();
    }
    if (const auto curve = curves.find(to_text(type))) {
      profile.gemm[i] = read_gemm(*curve);
    }
  }
}

void read_kernels(const Node& root, Profile& profile) {
  const Node attention = root.at("attention");
  for (const Node& curve : attention.items()) {
    profile.attention.push_back(read_attention(curve));
  }
  for (const auto& pass : kPasses) {
    if (std::none_of(profile.attention.begin(), profile.attention.end(),
                     [&pass](const AttentionCurve& curve) {
                       return curve.pass == pass.value && curve.kernel == AttentionKernel::newest;
                     })) {
      attention.expected("curves of both passes");
    }
  }
  const Node memory = root.at("memory");
  for (std::size_t i = 0; i < kMemoryKernels; ++i) {
    profile.memory[i] = read_memory(memory.at(kMemoryKernelNames[i]));
  }
}

}  // namespace

Profile read_profile(const Document& document) {
  const Node root = document.root();
  root.at("format").integer(1, 1);
  const Node level = root.at("level");
  const Node launch = root.at("launch");
  Profile profile;
  profile.name = root.at("name").text();
  profile.gpu = root.at("gpu").text();
  profile.date = root.at("date").text();
  profile.description = root.at("description").text();
  profile.level = level.at("value").number(1e-3, 10);
  profile.level_provenance = read_provenance(level);
  profile.sms = root.at("sms").small_integer(1, 1 << 20);
  profile.memory_bandwidth = root.at("memory_bandwidth").positive_quantity<BytesPerSecond>();
  if (const auto l2 = root.find("l2")) {
    profile.l2 = {.size = l2->at("size").positive_quantity<Bytes>(),
                  .bandwidth = l2->at("bandwidth").positive_quantity<BytesPerSecond>(),
                  .provenance = read_provenance(*l2)};
  }
  read_by_type(root, profile);
  read_kernels(root, profile);
  profile.launch = launch.at("time").quantity<Seconds>();
  profile.launch_provenance = read_provenance(launch);
  if (const auto spread = root.find("kernel_spread")) {
    profile.kernel_spread = {.sigma = spread->at("sigma").fraction(),
                             .provenance = read_provenance(*spread)};
  }
  profile.network = read_network(root.at("network"));
  for (const Node& curve : root.at("curves").items()) {
    profile.curves.push_back(read_curve(curve));
  }
  root.finish();
  return profile;
}

}  // namespace flopcast
