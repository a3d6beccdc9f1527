#include "scenarios/profile_regimes.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "scenarios/profile_json.h"

namespace flopcast {
namespace {

using Json = nlohmann::ordered_json;

// Far beyond the range of the search (regime_search.cpp).
constexpr double kLeastScale = 1e-3;
constexpr double kMostScale = 1e3;

RegimeScale read_scale(const Node& node) {
  return {.base = node.at("base").number(kLeastScale, kMostScale),
          .hop = node.at("hop").number(kLeastScale, kMostScale),
          .network_hop = node.at("network_hop").number(kLeastScale, kMostScale),
          .bandwidth = node.at("bandwidth").number(kLeastScale, kMostScale),
          .ramp = node.at("ramp").number(0, 100),
          .spread = node.at("spread").number(-10, 10),
          .congestion = node.at("congestion").number(0, 10),
          .growth = node.at("growth").number(-1, 100),
          .growth_size = node.at("growth_size").positive_quantity<Bytes>(),
          .overlap = node.at("overlap").fraction(),
          .rendezvous = node.at("rendezvous").number(0, 100),
          .rendezvous_size = node.at("rendezvous_size").positive_quantity<Bytes>(),
          .bias = node.at("bias").number(kLeastScale, kMostScale)};
}

FittedRegime read_regime(const Node& node) {
  return {.key = {.kind = node.at("kind").one_of(kCollectiveKinds),
                  .scope = node.at("scope").one_of(kRegimeScopes),
                  .algorithm = node.at("algorithm").one_of(kNcclAlgorithms),
                  .protocol = node.at("protocol").one_of(kNcclProtocols)},
          .scale = read_scale(node)};
}

double six_digits(double value) { return with_digits(value, 6); }
std::string rate_text(BytesPerSecond rate) {
  return fmt::format("{:.6g} GB/s", to_gigabytes_per_second(rate));
}
std::string size_text(Bytes size) { return fmt::format("{:.12g} B", size.value); }

Json regime_json(const FittedRegime& regime) {
  const RegimeScale& scale = regime.scale;
  return {{"kind", to_text(regime.key.kind)},
          {"scope", to_text(regime.key.scope)},
          {"algorithm", to_text(regime.key.algorithm)},
          {"protocol", to_text(regime.key.protocol)},
          {"base", six_digits(scale.base)},
          {"hop", six_digits(scale.hop)},
          {"network_hop", six_digits(scale.network_hop)},
          {"bandwidth", six_digits(scale.bandwidth)},
          {"ramp", six_digits(scale.ramp)},
          {"spread", six_digits(scale.spread)},
          {"congestion", six_digits(scale.congestion)},
          {"growth", six_digits(scale.growth)},
          {"growth_size", size_text(scale.growth_size)},
          {"overlap", six_digits(scale.overlap)},
          {"rendezvous", six_digits(scale.rendezvous)},
          {"rendezvous_size", size_text(scale.rendezvous_size)},
          {"bias", six_digits(scale.bias)}};
}

Json regimes_json(const ProtocolRegimes& regimes) {
  Json json{{"generation", to_text(regimes.generation)},
            {"cpu", to_text(regimes.cpu)},
            {"sharp", regimes.sharp},
            {"transport", to_text(regimes.transport)}};
  add_provenance(json, regimes.provenance);
  json["fitted"] = Json::array();
  for (const FittedRegime& regime : regimes.fitted) json["fitted"].push_back(regime_json(regime));
  return json;
}

Json curve_json(const CollectiveCurve& curve) {
  Json json{{"kind", to_text(curve.kind)},
            {"ranks_per_node", curve.shape.ranks_per_node},
            {"nodes", curve.shape.nodes},
            {"domain", rate_text(curve.domain)}};
  if (curve.shape.nodes > 1) json["network"] = rate_text(curve.network);
  if (curve.sharp) json["sharp"] = true;
  add_provenance(json, curve.provenance);
  json["points"] = Json::array();
  for (std::size_t i = 0; i < curve.sizes.size(); ++i) {
    json["points"].push_back(
        {size_text(curve.sizes[i]), fmt::format("{:.9g} us", to_microseconds(curve.times[i]))});
  }
  return json;
}

/// Whether the fit speaks of the kind and scope of a curve.
bool refitted(const Json& curve, const ProtocolRegimes& regimes) {
  const RegimeScope scope =
      curve.at("nodes").get<int>() == 1 ? RegimeScope::domain : RegimeScope::network;
  return std::ranges::any_of(regimes.fitted, [&](const FittedRegime& regime) {
    return regime.key.scope == scope && curve.at("kind") == to_text(regime.key.kind);
  });
}

}  // namespace

Provenance read_provenance(const Node& node) {
  Provenance provenance{.evidence = node.at("evidence").one_of(kEvidences),
                        .source = node.at("source").text()};
  if (const auto error = node.find("median_error")) provenance.median_error = error->number();
  if (const auto error = node.find("p90_error")) provenance.p90_error = error->number();
  return provenance;
}

ProtocolRegimes read_regimes(const Node& node) {
  ProtocolRegimes regimes{.generation = node.at("generation").one_of(kGpuGenerations),
                          .cpu = node.at("cpu").one_of(kHostCpus),
                          .sharp = node.at("sharp").boolean(),
                          .transport = node.at("transport").one_of(kNetworkTransports),
                          .fitted = {},
                          .provenance = read_provenance(node)};
  const std::vector<Node> items = node.at("fitted").items();
  regimes.fitted.reserve(items.size());
  for (const Node& item : items) regimes.fitted.push_back(read_regime(item));
  return regimes;
}

std::string updated_profile(std::string_view base, const NetworkUpdate& update) {
  Json json = Json::parse(base, nullptr, true, true);
  json["name"] = update.name;
  json["network"]["regimes"] = regimes_json(update.regimes);
  Json& curves = json["curves"];
  for (std::size_t i = curves.size(); i-- > 0;) {
    if (refitted(curves[i], update.regimes)) curves.erase(i);
  }
  for (const CollectiveCurve& curve : update.curves) curves.push_back(curve_json(curve));
  return json.dump(2) + "\n";
}

}  // namespace flopcast
