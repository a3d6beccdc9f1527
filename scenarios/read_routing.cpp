#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "scenarios/fields.h"
#include "scenarios/scenario_parts.h"

namespace flopcast {
namespace {

constexpr double kLargestExponent = 10;
constexpr std::int64_t kLargestSeed = std::int64_t{1} << 53;
constexpr std::int64_t kMostSteps = 1'000'000'000;
constexpr double kMostTokens = 1e18;

constexpr Choice<RoutingKind> kRoutingKinds[] = {{"balanced", RoutingKind::balanced},
                                                 {"zipf", RoutingKind::zipf},
                                                 {"measured", RoutingKind::measured}};

void read_drift(const Node& node, TokenRouting& routing) {
  routing.final_exponent = node.at("exponent").number(0, kLargestExponent);
  routing.drift_steps = node.at("steps").integer(1, kMostSteps);
  if (const auto step = node.find("step")) routing.step = step->integer(0, kMostSteps);
}

std::vector<double> read_layer(const Node& node, std::size_t experts) {
  std::vector<double> counts;
  for (const Node& count : node.items()) counts.push_back(count.number(0, kMostTokens));
  if (counts.size() != experts) {
    node.fail(fmt::format("{} counts for {} experts", counts.size(), experts));
  }
  if (std::ranges::all_of(counts, [](double count) { return count == 0; })) {
    node.fail("no expert has a token");
  }
  return counts;
}

/// A histogram of each layer with experts, or one for all.
std::vector<std::vector<double>> read_counts(const Node& node, const Transformer& model) {
  std::size_t layers = 0;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) layers += model.has_experts(layer);
  std::vector<std::vector<double>> counts;
  for (const Node& layer : node.items()) {
    counts.push_back(read_layer(layer, static_cast<std::size_t>(model.moe->experts)));
  }
  if (counts.size() != 1 && counts.size() != layers) {
    node.fail(fmt::format("{} histograms for {} layers with experts; one for each, or one for all",
                          counts.size(), layers));
  }
  return counts;
}

std::vector<std::vector<double>> read_counts_file(const Node& node, const Transformer& model) {
  const auto path = node.folder() / node.text();
  if (!std::filesystem::exists(path)) node.fail(fmt::format("no such file: {}", path.string()));
  const Document document = Document::read(path);
  return read_counts(document.root(), model);
}

}  // namespace

TokenRouting read_routing(const Node& node, const Transformer& model) {
  TokenRouting routing;
  routing.kind = (node.is_text() ? node : node.at("kind")).one_of(kRoutingKinds);
  if (!model.moe) node.fail("the model has no experts");
  switch (routing.kind) {
    case RoutingKind::balanced: break;
    case RoutingKind::zipf:
      routing.exponent = node.at("exponent").number(0, kLargestExponent);
      if (const auto seed = node.find("seed")) {
        routing.seed = static_cast<std::uint64_t>(seed->integer(0, kLargestSeed));
      }
      if (const auto drift = node.find("drift")) read_drift(*drift, routing);
      break;
    case RoutingKind::measured:
      if (const auto file = node.find("file")) {
        routing.counts = read_counts_file(*file, model);
      } else {
        routing.counts = read_counts(node.at("counts"), model);
      }
      break;
  }
  return routing;
}

}  // namespace flopcast
