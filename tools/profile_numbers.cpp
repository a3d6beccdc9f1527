#include "tools/profile_numbers.h"

#include <fmt/format.h>

#include "calibration/kernel_names.h"

namespace flopcast {
namespace {

class Lines {
 public:
  explicit Lines(const Profile& profile) : profile_(profile) {}

  std::vector<ProfileNumber> all() {
    references();
    begin("level", &profile_.level_provenance);
    share("level", profile_.level);
    for (const DataType type : kDataTypes) {
      const auto& curve = profile_.gemm[static_cast<std::size_t>(type)];
      if (curve) gemm(fmt::format("gemm {}", to_text(type)), *curve);
    }
    for (const AttentionCurve& curve : profile_.attention) {
      const bool newest = curve.kernel == AttentionKernel::newest;
      const std::string kernel = newest ? "" : fmt::format(" {}", to_text(curve.kernel));
      begin(fmt::format("attention {} {}{}", to_text(curve.pass), curve.head_dim, kernel),
            &curve.provenance);
      share("eff_inf", curve.eff_inf);
      add("s0", fmt::format("{:g} tokens", curve.s0), curve.s0);
      time("t0", curve.t0);
      if (curve.eff_cache_bw) share("cache efficiency", *curve.eff_cache_bw);
    }
    for (std::size_t i = 0; i < kMemoryKernels; ++i) {
      begin(fmt::format("memory {}", kMemoryKernelNames[i]), &profile_.memory[i].provenance);
      share("efficiency", profile_.memory[i].efficiency);
      time("t0", profile_.memory[i].t0);
    }
    begin("launch", &profile_.launch_provenance);
    time("time", profile_.launch);
    if (profile_.kernel_spread) {
      begin("kernel spread", &profile_.kernel_spread->provenance);
      share("sigma", profile_.kernel_spread->sigma);
    }
    network();
    for (const CollectiveCurve& curve : profile_.curves) measured(curve);
    return std::move(out_);
  }

 private:
  void begin(std::string part, const Provenance* provenance) {
    part_ = std::move(part);
    provenance_ = provenance;
  }
  void add(std::string name, std::string value, double size) {
    out_.push_back({part_, std::move(name), std::move(value), size, provenance_});
  }
  void share(std::string name, double value) {
    add(std::move(name), fmt::format("{:.4g}", value), value);
  }
  void time(std::string name, Seconds value) {
    add(std::move(name), fmt::format("{:.4g} us", to_microseconds(value)), value.value);
  }

  void references() {
    begin("reference", nullptr);
    for (const DataType type : kDataTypes) {
      const auto& peak = profile_.peak_dense[static_cast<std::size_t>(type)];
      if (peak) {
        add(fmt::format("peak {}", to_text(type)), fmt::format("{:g} TFLOP/s", peak->value / 1e12),
            peak->value);
      }
    }
    add("SMs", fmt::format("{}", profile_.sms), profile_.sms);
    add("memory bandwidth",
        fmt::format("{:g} GB/s", to_gigabytes_per_second(profile_.memory_bandwidth)),
        profile_.memory_bandwidth.value);
    if (!profile_.l2) return;
    begin("L2 cache", &profile_.l2->provenance);
    add("size", fmt::format("{:g} MB", profile_.l2->size.value / 1e6), profile_.l2->size.value);
    add("bandwidth", fmt::format("{:g} GB/s", to_gigabytes_per_second(profile_.l2->bandwidth)),
        profile_.l2->bandwidth.value);
  }

  void gemm(const std::string& part, const GemmCurve& curve) {
    begin(part, &curve.provenance);
    share("eff_inf", curve.eff_inf);
    share("eff_bw", curve.eff_bw);
    time("t0", curve.t0);
    share("k0", curve.k0);
    share("c_tile", curve.c_tile);
    share("q_wave", curve.q_wave);
    share("p", curve.p);
    if (curve.eff_quantise_bw) {
      share("quantise efficiency", *curve.eff_quantise_bw);
      add("quantise traffic", fmt::format("{:g} B", curve.quantise_traffic.value),
          curve.quantise_traffic.value);
    }
    if (curve.clock) {
      share("clock sag", curve.clock->sag);
      time("clock settles in", curve.clock->settle);
    }
    if (curve.rereads_a) add("rereads A", "yes", 1);
  }

  void tier(const std::string& name, const TierParameters& tier) {
    begin("network " + name, &tier.provenance);
    time("base", tier.base);
    time("hop", tier.hop);
    share("efficiency", tier.efficiency);
    share("ramp", tier.ramp);
  }

  void network() {
    const NetworkModel& network = profile_.network;
    tier("domain", network.domain);
    tier("network", network.network);
    tier("tree", network.tree);
    if (network.switch_reduction) {
      tier("switch domain", network.switch_reduction->domain);
      tier("switch tree", network.switch_reduction->tree);
    }
    tier("direct", network.direct);
    tier("direct_network", network.direct_network);
    tier("pair", network.pair);
    tier("pair_network", network.pair_network);
    begin("network SMs taken", &network.compute_share.provenance);
    share("domain", network.compute_share.domain);
    share("network", network.compute_share.network);
    share("point_to_point", network.compute_share.point_to_point);
    if (network.regimes) {
      begin("network regimes", &network.regimes->provenance);
      const auto fitted = network.regimes->fitted.size();
      add("fitted", fmt::format("{} regimes", fitted), static_cast<double>(fitted));
    }
  }

  void measured(const CollectiveCurve& curve) {
    begin(fmt::format("curve {} {} x {}", to_text(curve.kind), curve.shape.ranks_per_node,
                      curve.shape.nodes),
          &curve.provenance);
    add("points", fmt::format("{}", curve.sizes.size()), static_cast<double>(curve.sizes.size()));
    const BytesPerSecond rate = curve.sizes.back() / curve.times.back();
    add("size / time of the largest", fmt::format("{:.4g} GB/s", to_gigabytes_per_second(rate)),
        rate.value);
  }

  const Profile& profile_;
  std::string part_;
  const Provenance* provenance_ = nullptr;
  std::vector<ProfileNumber> out_;
};

}  // namespace

std::vector<ProfileNumber> profile_numbers(const Profile& profile) { return Lines(profile).all(); }

}  // namespace flopcast
