#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "scenarios/fields.h"
#include "scenarios/scenario_parts.h"

namespace flopcast {
namespace {

constexpr int kMostPorts = 1 << 16;
constexpr double kMostOversubscribed = 1000;

void read_tree(const Node& node, const Fields& fields, Fabric& fabric) {
  fields.count("levels", fabric.levels, 1, 3);
  fields.count("spine_group_nodes", fabric.spine_group_nodes, 0, kMostNodes);
  if (const auto value = node.find("oversubscription")) {
    fabric.oversubscription = value->number(1, kMostOversubscribed);
  }
  if (const auto value = node.find("core_oversubscription")) {
    fabric.core_oversubscription = value->number(1, kMostOversubscribed);
  }
  fields.count("zone_nodes", fabric.zone_nodes, 1, kMostNodes);
  fields.quantity("zone_bandwidth", fabric.zone_bandwidth);
  fields.quantity("zone_latency", fabric.zone_latency);
}

void read_routing(const Fields& fields, Fabric& fabric) {
  constexpr int kMostFlows = 64;
  fields.kind("routing", fabric.routing, kRoutings);
  fields.count("flows_per_card", fabric.flows_per_card, 1, kMostFlows);
  fields.count("ecmp_seed", fabric.ecmp_seed, 0, std::numeric_limits<int>::max());
}

/// On any kind of fabric: what does not have it deserves a better message than an unknown key.
void read_sharp(const std::optional<Node>& node, ClusterSpec& spec) {
  if (!node) return;
  spec.fabric.sharp = node->boolean();
  if (const auto problem = problem_of_sharp(spec.system, spec.fabric)) node->fail(*problem);
}

void read_torus(const Node& node, const Fields& fields, Fabric& fabric) {
  fields.quantity("link_bandwidth", fabric.link_bandwidth);
  for (const Node& size : node.at("dimensions").items()) {
    fabric.dimensions.push_back(size.small_integer(1, kMostNodes));
  }
}

/// Place of a switch by its name.
int switch_named(const Node& node, const std::vector<std::string>& names) {
  const std::vector<std::string_view> known(names.begin(), names.end());
  return static_cast<int>(node.index_among(known));
}

void read_cables(const Node& list, FabricGraph& graph) {
  constexpr int kMostParallel = 4096;
  for (const Node& row : list.items()) {
    FabricGraph::Cable cable{
        .from = switch_named(row.at("from"), graph.switches),
        .to = switch_named(row.at("to"), graph.switches),
        .bandwidth = row.at("bandwidth").positive_quantity<BytesPerSecond>(),
        .latency = row.at("latency").quantity<Seconds>(),
    };
    if (cable.from == cable.to) row.at("to").fail("a link joins two switches");
    int parallel = 1;
    Fields(row, true).count("cables", parallel, 1, kMostParallel);
    for (int i = 0; i < parallel; ++i) graph.cables.push_back(cable);
  }
}

/// "nodes": [{"nodes": 8, "switches": ["a", "b"]}]: NIC i of each on switch i, or all on the one.
void read_attached(const Node& list, int nics, FabricGraph& graph) {
  for (const Node& row : list.items()) {
    int count = 1;
    Fields(row, true).count("count", count, 1, kMostNodes);
    const Node names = row.at("switches");
    const std::vector<Node> items = names.items();
    if (items.size() != 1 && static_cast<int>(items.size()) != nics) {
      names.fail(fmt::format("{} switches for the {} network cards of a node; give 1 or {}",
                             items.size(), nics, nics));
    }
    std::vector<int> switches;
    switches.reserve(items.size());
    for (const Node& item : items) switches.push_back(switch_named(item, graph.switches));
    for (int i = 0; i < count * nics; ++i) {
      graph.attached.push_back(switches[static_cast<std::size_t>(i % nics) % switches.size()]);
    }
  }
}

FabricGraph read_graph(const Node& root, const System& system) {
  constexpr std::size_t kMostSwitches = 2048;  // routes are kept between all of them
  FabricGraph graph;
  const Node list = root.at("switches");
  for (const Node& name : list.items()) {
    if (std::ranges::count(graph.switches, name.text()) > 0) {
      name.fail(fmt::format("switch {} is listed twice", name.shown()));
    }
    graph.switches.push_back(name.text());
  }
  if (graph.switches.empty() || graph.switches.size() > kMostSwitches) {
    list.fail(
        fmt::format("expected 1 to {} switches, found {}", kMostSwitches, graph.switches.size()));
  }
  read_cables(root.at("links"), graph);
  read_attached(root.at("nodes"), std::min(system.nics, system.gpus_per_node), graph);
  return graph;
}

/// An object, or the path of a file with one, relative to the file that names it.
FabricGraph read_graph_or_file(const Node& node, const System& system) {
  if (!node.is_text()) return read_graph(node, system);
  const Document document = Document::read(node.folder() / node.text());
  FabricGraph graph = read_graph(document.root(), system);
  document.root().finish();
  return graph;
}

}  // namespace

void read_fabric(const std::optional<Node>& node, ClusterSpec& spec) {
  if (!node) return;
  Fabric& fabric = spec.fabric;
  const Fields fields(*node, true);
  fields.kind("kind", fabric.kind, kFabricKinds);
  fields.count("switch_ports", fabric.switch_ports, 2, kMostPorts);
  fields.quantity("hop_latency", fabric.hop_latency);
  if (is_tree(fabric.kind)) {
    read_tree(*node, fields, fabric);
    read_routing(fields, fabric);
  }
  if (fabric.kind == FabricKind::dragonfly) {
    fields.count("group_nodes", fabric.group_nodes, 0, kMostNodes);
    fields.count("global_links", fabric.global_links, 0, kMostPorts);
    read_routing(fields, fabric);
  }
  read_sharp(node->find("sharp"), spec);
  if (fabric.kind == FabricKind::torus) read_torus(*node, fields, fabric);
  if (fabric.kind == FabricKind::graph) {
    fabric.graph = read_graph_or_file(node->at("graph"), spec.system);
  }
}

}  // namespace flopcast
