#include <fmt/format.h>

#include <array>
#include <charconv>
#include <utility>

#include "scenarios/scenario_parts.h"

namespace flopcast {
namespace {

// Below it a part is broken, not slow.
constexpr double kLeastPart = 0.001;

constexpr std::array kDegradable{LinkKind::nvlink,      LinkKind::nic,
                                 LinkKind::leaf_uplink, LinkKind::spine_uplink,
                                 LinkKind::switch_link, LinkKind::zone_uplink};

/// What the places of its links are numbered by.
constexpr std::string_view places_of(LinkKind kind) {
  switch (kind) {
    case LinkKind::nvlink:
    case LinkKind::nic: return "gpus";
    case LinkKind::leaf_uplink: return "leaves";
    case LinkKind::spine_uplink: return "spine_groups";
    case LinkKind::switch_link: return "cables";
    case LinkKind::zone_uplink: return "zones";
    case LinkKind::pcie:
    case LinkKind::host_memory:
    case LinkKind::storage: break;  // not among kDegradable
  }
  return {};
}

struct Range {
  int first = 0;
  int last = 0;
};

/// 12, or "8-15" with both ends.
Range read_range(const Node& node, int count) {
  if (node.is_number()) {
    const int place = node.small_integer(0, count - 1);
    return {place, place};
  }
  constexpr std::string_view kExpected = "a number or a range such as \"8-15\"";
  if (!node.is_text()) node.expected(kExpected);
  const std::string text = node.text();
  const char* const end = text.data() + text.size();
  Range range;
  const auto [dash, first_error] = std::from_chars(text.data(), end, range.first);
  if (first_error != std::errc() || dash == end || *dash != '-') node.expected(kExpected);
  const auto [rest, last_error] = std::from_chars(dash + 1, end, range.last);
  if (last_error != std::errc() || rest != end) node.expected(kExpected);
  if (range.first < 0 || range.first > range.last) {
    node.fail(fmt::format("\"{}\" is no range from low to high", text));
  }
  if (range.last >= count) {
    node.fail(fmt::format("{} is beyond the last, {}", range.last, count - 1));
  }
  return range;
}

}  // namespace

void read_missing_nics(const std::optional<Node>& node, ClusterSpec& spec) {
  if (!node) return;
  const int gpus = spec.nodes * spec.system.gpus_per_node;
  for (const Node& item : node->items()) {
    const Range range = read_range(item, gpus);
    for (int gpu = range.first; gpu <= range.last; ++gpu) spec.missing_nics.push_back(gpu);
  }
}

void read_slow(const std::optional<Node>& node, ClusterSpec& spec) {
  if (!node) return;
  const int gpus = spec.nodes * spec.system.gpus_per_node;
  for (const Node& row : node->items()) {
    const double speed = row.at("speed").fraction(kLeastPart, 1);
    for (const Node& item : row.at("gpus").items()) {
      const Range range = read_range(item, gpus);
      spec.slow.push_back({.first = range.first, .last = range.last, .speed = speed});
    }
  }
}

void read_degraded(const std::optional<Node>& node, ClusterSpec& spec) {
  if (!node) return;
  for (const Node& row : node->items()) {
    const Node link = row.at("link");
    const auto kind = link.one_of(kDegradable);
    const int places = count_of_places(spec, kind);
    if (places == 0) link.fail(fmt::format("the cluster has no {}", to_text(kind)));
    const double factor = row.at("factor").fraction(kLeastPart, 1);
    for (const Node& item : row.at(places_of(kind)).items()) {
      const Range range = read_range(item, places);
      spec.degraded.push_back(
          {.kind = kind, .first = range.first, .last = range.last, .factor = factor});
    }
  }
}

namespace {

/// Joint rate of a node's cards.
BytesPerSecond network_of(const System& system) { return system.nics * system.nic_bandwidth; }

/// Links of the other nodes that are slower than the cluster's; faster ones wait for those.
void degrade_links(const OtherNodes& other, ClusterSpec& spec) {
  const System& own = spec.system;
  const auto degrade = [&](LinkKind kind, BytesPerSecond there, BytesPerSecond here) {
    if (count_of_places(spec, kind) == 0 || there >= here) return;
    for (const OtherNodes::Range& range : other.nodes) {
      spec.degraded.push_back({.kind = kind,
                               .first = range.first * own.gpus_per_node,
                               .last = (range.last + 1) * own.gpus_per_node - 1,
                               .factor = there / here});
    }
  };
  degrade(LinkKind::nvlink, other.system.gpu.nvlink, own.gpu.nvlink);
  degrade(LinkKind::nic, network_of(other.system), network_of(own));
}

}  // namespace

void read_other_nodes(const std::optional<Node>& node, ClusterSpec& spec, Catalogue& catalogue) {
  if (!node) return;
  for (const Node& row : node->items()) {
    OtherNodes other{.system = read_system(row.at("system"), catalogue)};
    for (const Node& item : row.at("nodes").items()) {
      const Range range = read_range(item, spec.nodes);
      other.nodes.push_back({range.first, range.last});
    }
    row.find("profile");  // read with the scenario's own
    spec.others.push_back(other);
    if (const auto problem = problem_of(spec)) row.fail(*problem);
    degrade_links(other, spec);
  }
}

}  // namespace flopcast
