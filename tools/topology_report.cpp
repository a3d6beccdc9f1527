#include "tools/topology_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "tools/layout_text.h"
#include "tools/table_report.h"
#include "topology/analysis.h"

namespace flopcast {
namespace {

using Json = nlohmann::ordered_json;

// Beyond them the search for the bisection takes seconds, the diameter minutes.
constexpr int kMostForFlow = 4096;
constexpr int kMostForDiameter = 512;

/// Links of one kind upwards, all together.
struct Tier {
  LinkKind kind{};
  int links = 0;
  BytesPerSecond bandwidth{};
  Seconds latency{};
  double oversubscription = 0;  // bandwidth of the tier below over this one's; 0: not a tier
};

bool leads_up(const Cluster& cluster, const ClusterLink& link) {
  return cluster.devices()[index_of(link.from)].kind < cluster.devices()[index_of(link.to)].kind;
}

/// NICs and what is above them.
std::vector<Tier> tiers_of(const Cluster& cluster) {
  std::vector<Tier> tiers;
  for (const LinkKind kind : {LinkKind::nic, LinkKind::leaf_uplink, LinkKind::spine_uplink,
                              LinkKind::switch_link, LinkKind::zone_uplink}) {
    Tier tier{.kind = kind};
    for (std::uint32_t i = 0; i < cluster.links().size(); ++i) {
      const ClusterLink& link = cluster.links()[i];
      // A link between equals counts once, by its first direction.
      if (link.kind != kind ||
          !(leads_up(cluster, link) || (kind == LinkKind::switch_link && i % 2 == 0))) {
        continue;
      }
      ++tier.links;
      tier.bandwidth += link.capacity;
      tier.latency = cluster.latency_of(LinkId{i});
    }
    if (tier.links == 0) continue;
    if (!tiers.empty() && kind != LinkKind::switch_link) {
      tier.oversubscription = tiers.back().bandwidth / tier.bandwidth;
    }
    tiers.push_back(tier);
  }
  return tiers;
}

int count_of(const Cluster& cluster, DeviceKind kind) {
  int count = 0;
  for (const Device& device : cluster.devices()) count += device.kind == kind ? 1 : 0;
  return count;
}

std::optional<BytesPerSecond> bisection_of(const Cluster& cluster) {
  if (cluster.gpu_count() > kMostForFlow || cluster.gpu_count() < 2) return std::nullopt;
  return bisection_bandwidth(cluster);
}

std::optional<int> diameter_of(const Cluster& cluster) {
  return cluster.gpu_count() > kMostForDiameter ? std::nullopt : diameter(cluster);
}

std::vector<Fact> facts_of(const Cluster& cluster) {
  const ClusterSpec& spec = cluster.spec();
  const System& system = spec.system;
  std::vector<Fact> facts{
      {"machine", machine_text(spec)},
      {"node", fmt::format("{}, NVLink domain {}, {} cards of {} ({})", to_text(system.node_link),
                           system.nvlink_domain, system.nics, to_text(system.nic_bandwidth),
                           to_text(system.network))},
      {"fabric", fmt::format("{}, routing {}, transport {}{}", to_text(spec.fabric.kind),
                             to_text(spec.fabric.routing), to_text(spec.transport),
                             spec.fabric.sharp ? ", switches reduce (SHARP)" : "")}};
  const auto width = bisection_of(cluster);
  const int half = cluster.gpu_count() / 2;
  facts.push_back({"bisection", width
                                    ? fmt::format("{} one way between the first half and the rest "
                                                  "(maximum flow; {} of a GPU)",
                                                  to_text(*width), to_text(*width / half))
                                    : fmt::format("not computed beyond {} GPUs", kMostForFlow)});
  if (const auto hops = diameter_of(cluster)) {
    facts.push_back({"diameter", fmt::format("{} links", *hops)});
  }
  facts.push_back({"evidence", "assumed: line rates and switch latencies as given, not measured"});
  return facts;
}

/// From the top of the network down to a GPU, each level once.
std::string tree_text(const Cluster& cluster) {
  std::vector<std::pair<int, std::string>> levels;
  const auto add = [&](DeviceKind kind, const char* name) {
    const int count = count_of(cluster, kind);
    if (count > 0) levels.emplace_back(count, name);
  };
  add(DeviceKind::backbone, "backbone");
  add(DeviceKind::core, "core");
  add(DeviceKind::spine,
      cluster.spec().fabric.kind == FabricKind::dragonfly ? "router group" : "spine group");
  add(DeviceKind::leaf_switch, is_tree(cluster.spec().fabric.kind) ? "leaf switch" : "switch");
  levels.emplace_back(cluster.spec().nodes, "node");
  add(DeviceKind::nic, "network card of a GPU");
  add(DeviceKind::host, "host");
  add(DeviceKind::node_switch, "NVLink switch domain");
  levels.emplace_back(cluster.gpu_count(), "GPU");
  std::string text;
  std::string indent = "  ";
  for (const auto& [count, name] : levels) {
    text += fmt::format("{}{}{} x {}\n", indent, indent.size() > 2 ? "+- " : "", count, name);
    indent += "  ";
  }
  return text;
}

std::string ratio_text(const Tier& tier) {
  return tier.oversubscription > 0 ? fmt::format("{:.2f} : 1", tier.oversubscription) : "";
}

}  // namespace

std::string topology_text(const Cluster& cluster, bool colour) {
  TextTable classes{.title = "Links, one direction",
                    .columns = {{"kind", Align::left}, {"links"}, {"GB/s each"}},
                    .rows = {}};
  for (const LinkClass& link : link_classes(cluster)) {
    classes.rows.push_back({{std::string(to_text(link.kind)), fmt::format("{}", link.links),
                             fmt::format("{:.2f}", to_gigabytes_per_second(link.capacity))}});
  }
  TextTable tiers{.title = "Tiers of the network, upwards",
                  .columns = {{"tier", Align::left},
                              {"links"},
                              {"GB/s together"},
                              {"latency us"},
                              {"oversubscription"}},
                  .rows = {}};
  for (const Tier& tier : tiers_of(cluster)) {
    tiers.rows.push_back(
        {{std::string(to_text(tier.kind)), fmt::format("{}", tier.links),
          fmt::format("{:.1f}", to_gigabytes_per_second(tier.bandwidth)),
          fmt::format("{:.3f}", to_microseconds(tier.latency)), ratio_text(tier)}});
  }
  std::string text = facts_text(facts_of(cluster), colour) + "\n" + tree_text(cluster) + "\n";
  text += aligned_text(classes, colour);
  if (!tiers.rows.empty()) text.append("\n").append(aligned_text(tiers, colour));
  return text;
}

std::string topology_json(const Cluster& cluster) {
  const ClusterSpec& spec = cluster.spec();
  Json classes = Json::array();
  for (const LinkClass& link : link_classes(cluster)) {
    classes.push_back({{"kind", to_text(link.kind)},
                       {"links", link.links},
                       {"bandwidth_bytes_per_second", link.capacity.value}});
  }
  Json tiers = Json::array();
  for (const Tier& tier : tiers_of(cluster)) {
    tiers.push_back({{"kind", to_text(tier.kind)},
                     {"links", tier.links},
                     {"bandwidth_bytes_per_second", tier.bandwidth.value},
                     {"latency_s", tier.latency.value},
                     {"oversubscription",
                      tier.oversubscription > 0 ? Json(tier.oversubscription) : Json(nullptr)}});
  }
  const auto width = bisection_of(cluster);
  const auto hops = diameter_of(cluster);
  const Json document{{"schema_version", 1},
                      {"system", spec.system.name},
                      {"nodes", spec.nodes},
                      {"gpus", cluster.gpu_count()},
                      {"fabric", to_text(spec.fabric.kind)},
                      {"routing", to_text(spec.fabric.routing)},
                      {"transport", to_text(spec.transport)},
                      {"sharp", spec.fabric.sharp},
                      {"evidence", "assumed"},
                      {"bisection_bytes_per_second", width ? Json(width->value) : Json(nullptr)},
                      {"diameter_links", hops ? Json(*hops) : Json(nullptr)},
                      {"link_classes", std::move(classes)},
                      {"tiers", std::move(tiers)}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace flopcast
