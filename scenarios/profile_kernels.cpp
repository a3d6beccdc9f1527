#include "scenarios/profile_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "calibration/kernel_names.h"
#include "scenarios/profile_json.h"

namespace flopcast {
namespace {

using Json = nlohmann::ordered_json;

// The bands are wider.
double rounded(double value) { return with_digits(value, 4); }
std::string time_text(Seconds time) { return fmt::format("{:.4g} us", to_microseconds(time)); }

Json gemm_json(const GemmCurve& curve) {
  Json json{{"eff_inf", rounded(curve.eff_inf)},
            {"eff_bw", rounded(curve.eff_bw)},
            {"t0", time_text(curve.t0)},
            {"k0", rounded(curve.k0)},
            {"c_tile", rounded(curve.c_tile)},
            {"q_wave", rounded(curve.q_wave)},
            {"p", rounded(curve.p)}};
  if (curve.eff_quantise_bw) {
    json["quantise"] = {{"efficiency", rounded(*curve.eff_quantise_bw)},
                        {"traffic", fmt::format("{:g} B", curve.quantise_traffic.value)}};
  }
  if (curve.clock) {
    json["clock"] = {{"sag", rounded(curve.clock->sag)},
                     {"settle", time_text(curve.clock->settle)}};
  }
  if (curve.rereads_a) json["rereads_a"] = true;
  add_provenance(json, curve.provenance);
  return json;
}

Json attention_json(const AttentionCurve& curve) {
  Json json{{"head_dim", curve.head_dim}, {"pass", to_text(curve.pass)}};
  if (curve.kernel != AttentionKernel::newest) json["kernel"] = to_text(curve.kernel);
  json["eff_inf"] = rounded(curve.eff_inf);
  json["s0"] = rounded(curve.s0);
  json["t0"] = time_text(curve.t0);
  if (curve.eff_cache_bw) json["cache_efficiency"] = rounded(*curve.eff_cache_bw);
  add_provenance(json, curve.provenance);
  return json;
}

Json memory_json(const MemoryCurve& curve) {
  Json json{{"efficiency", rounded(curve.efficiency)}, {"t0", time_text(curve.t0)}};
  add_provenance(json, curve.provenance);
  return json;
}

void put_attention(Json& list, const AttentionCurve& curve) {
  Json json = attention_json(curve);
  const auto same = [&json](const Json& known, const char* key) {
    return known.value(key, Json()) == json.value(key, Json());
  };
  for (Json& known : list) {
    if (same(known, "head_dim") && same(known, "pass") && same(known, "kernel")) {
      known = std::move(json);
      return;
    }
  }
  list.push_back(std::move(json));
}

/// The evidence stays the base's: what send/recv takes is not measured.
void put_shares(Json& json, const ShareFit& shares) {
  if (shares.domain) json["domain"] = rounded(*shares.domain);
  if (shares.network) json["network"] = rounded(*shares.network);
  const std::string_view tiers = !shares.network  ? "domain"
                                 : !shares.domain ? "network"
                                                  : "domain and network";
  json["source"] =
      fmt::format("{}: {}; else: {}", tiers, shares.source, json.value("source", std::string()));
}

}  // namespace

std::string profile_with_kernels(std::string_view base, const std::string& name,
                                 const KernelFits& fits) {
  Json json = Json::parse(base, nullptr, true, true);
  json["name"] = name;
  for (const DataType type : kDataTypes) {
    const auto& curve = fits.gemm[static_cast<std::size_t>(type)];
    if (curve) json["gemm"][std::string(to_text(type))] = gemm_json(*curve);
  }
  if (std::any_of(fits.gemm.begin(), fits.gemm.end(),
                  [](const auto& c) { return c.has_value(); })) {
    json["level"] = {{"value", 1},
                     {"evidence", "assumed"},
                     {"source",
                      "the samples were fitted as they are; long training at the power "
                      "limit may clock lower"}};
  }
  for (const AttentionCurve& curve : fits.attention) put_attention(json["attention"], curve);
  for (std::size_t i = 0; i < kMemoryKernels; ++i) {
    if (fits.memory[i])
      json["memory"][std::string(kMemoryKernelNames[i])] = memory_json(*fits.memory[i]);
  }
  if (fits.shares) put_shares(json["network"]["compute_share"], *fits.shares);
  if (fits.jitter) {
    json["kernel_spread"] = {{"sigma", rounded(fits.jitter->spread.sigma)}};
    add_provenance(json["kernel_spread"], fits.jitter->spread.provenance);
  }
  return json.dump(2) + "\n";
}

}  // namespace flopcast
