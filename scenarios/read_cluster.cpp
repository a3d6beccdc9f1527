#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "scenarios/fields.h"
#include "scenarios/scenario_parts.h"

namespace flopcast {
namespace {

// Far beyond any machine; keep products of counts within their types.
constexpr int kMostPerNode = 1024;
constexpr std::int64_t kMostGpus = 1 << 20;

void read_peaks(const Node& node, Gpu& gpu) {
  for (const DataType type : kDataTypes) {
    if (multiplied_as(type) != type) continue;
    if (const auto peak = node.find(to_text(type))) {
      gpu.peak_dense[static_cast<std::size_t>(type)] = peak->positive_quantity<FlopsPerSecond>();
    }
  }
}

/// "gpu_nic": [0, 0, 1, 1]: the card of each GPU.
void read_affinity(const std::optional<Node>& node, System& system) {
  if (!node) return;
  system.gpu_nic.clear();
  for (const Node& card : node->items()) {
    system.gpu_nic.push_back(card.small_integer(0, kMostPerNode));
  }
  if (const auto problem = problem_of_affinity(system)) node->fail(*problem);
}

/// "mesh": a row for each GPU with its links to every other.
void read_mesh(const std::optional<Node>& node, System& system) {
  if (!node) return;
  constexpr int kMostLinks = 1024;
  system.mesh.clear();
  for (const Node& row : node->items()) {
    const std::vector<Node> links = row.items();
    if (static_cast<int>(links.size()) != system.nvlink_domain) {
      row.fail(fmt::format("expected links to each of {} GPUs, found {}", system.nvlink_domain,
                           links.size()));
    }
    for (const Node& count : links) system.mesh.push_back(count.small_integer(0, kMostLinks));
  }
  if (const auto problem = problem_of_mesh(system)) node->fail(*problem);
}

/// Of the first GPUs alone: cards are numbered anew, in the order of their numbers.
void take_part_of_cards(System& system, int gpus) {
  system.gpu_nic.resize(static_cast<std::size_t>(gpus));
  const std::set<int> used(system.gpu_nic.begin(), system.gpu_nic.end());
  for (int& card : system.gpu_nic) {
    card = static_cast<int>(std::distance(used.begin(), used.find(card)));
  }
  system.nics = static_cast<int>(used.size());
}

/// Of the first GPUs alone: they keep the links between them, and with these a part of their rate.
void take_part_of_mesh(System& system, int domain) {
  const auto before = static_cast<std::size_t>(system.nvlink_domain);
  const auto after = static_cast<std::size_t>(domain);
  const int most = most_mesh_links(system);
  std::vector<int> mesh;
  for (std::size_t from = 0; !system.mesh.empty() && from < after; ++from) {
    const auto row = system.mesh.begin() + static_cast<std::ptrdiff_t>(from * before);
    mesh.insert(mesh.end(), row, row + static_cast<std::ptrdiff_t>(after));
  }
  system.mesh = std::move(mesh);
  system.nvlink_domain = domain;
  if (domain > 1) system.gpu.nvlink = system.gpu.nvlink * (1.0 * most_mesh_links(system) / most);
}

/// A part of one node: its GPUs with their share of the cards.
void take_part_of_node(System& system, int gpus) {
  const int whole = system.gpus_per_node;
  system.nics = (system.nics * gpus + whole - 1) / whole;
  if (!system.gpu_nic.empty()) take_part_of_cards(system, gpus);
  const int domain = system.nvlink_domain >= whole ? gpus : std::gcd(system.nvlink_domain, gpus);
  if (system.node_link == NodeLink::nvlink_mesh) take_part_of_mesh(system, domain);
  system.nvlink_domain = domain;
  system.gpus_per_node = gpus;
}

void read_gpus(const Node& node, ClusterSpec& spec) {
  const int gpus = node.small_integer(1, static_cast<int>(kMostGpus));
  const int per_node = spec.system.gpus_per_node;
  if (gpus < per_node) {
    take_part_of_node(spec.system, gpus);
    spec.nodes = 1;
    return;
  }
  if (gpus % per_node != 0) {
    const int below = gpus / per_node * per_node;
    node.fail(fmt::format("{} GPUs do not fill nodes of {}; nearest: {} or {}", gpus, per_node,
                          below, below + per_node));
  }
  spec.nodes = gpus / per_node;
}

void read_size(const Node& node, ClusterSpec& spec) {
  const auto nodes = node.find("nodes");
  const auto gpus = node.find("gpus");
  if (nodes && gpus) gpus->fail("\"nodes\" is given too; give one of them");
  if (gpus) {
    read_gpus(*gpus, spec);
    return;
  }
  const Node count = node.at("nodes");
  spec.nodes = count.small_integer(1, kMostNodes);
  const std::int64_t total = std::int64_t{spec.nodes} * spec.system.gpus_per_node;
  if (total > kMostGpus) {
    count.fail(fmt::format("{} nodes have {} GPUs; at most {} can be simulated", spec.nodes, total,
                           kMostGpus));
  }
}

}  // namespace

std::vector<std::string> read_sources(const Node& node) {
  std::vector<std::string> sources;
  if (const auto source = node.find("source")) sources.push_back(source->text());
  if (const auto list = node.find("sources")) {
    for (const Node& source : list->items()) sources.push_back(source.text());
  }
  return sources;
}

Gpu read_gpu(const Node& node, Catalogue& catalogue) {
  if (node.is_text()) return catalogue.gpu(node);
  const auto base = node.find("base");
  Gpu gpu = base ? catalogue.gpu(*base) : Gpu{};
  const Fields fields(node, base.has_value());
  fields.text("name", gpu.name);
  fields.text("description", gpu.description);
  fields.text("architecture", gpu.architecture);
  if (const auto peaks = fields.needed("peak_dense")) read_peaks(*peaks, gpu);
  fields.needed_count("sms", gpu.sms, 1 << 16);
  fields.needed_quantity("memory", gpu.memory);
  fields.needed_quantity("memory_bandwidth", gpu.memory_bandwidth);
  fields.quantity("nvlink", gpu.nvlink);
  fields.needed_quantity("pcie", gpu.pcie);
  const auto sources = read_sources(node);
  if (!sources.empty()) gpu.sources = sources;
  if (gpu.name.empty()) gpu.name = "custom";
  node.finish();
  return gpu;
}

System read_system(const Node& node, Catalogue& catalogue) {
  if (node.is_text()) return catalogue.system(node);
  const auto base = node.find("base");
  System system = base ? catalogue.system(*base) : System{};
  const Fields fields(node, base.has_value());
  fields.text("name", system.name);
  fields.text("description", system.description);
  if (const auto gpu = fields.needed("gpu")) system.gpu = read_gpu(*gpu, catalogue);
  fields.needed_count("gpus_per_node", system.gpus_per_node, kMostPerNode);
  if (!base) system.nvlink_domain = system.gpus_per_node;
  fields.count("nvlink_domain", system.nvlink_domain, 1, kMostPerNode);
  if (const auto link = fields.needed("node_link")) system.node_link = link->one_of(kNodeLinks);
  read_mesh(node.find("mesh"), system);
  if (const auto nics = fields.needed("nics")) system.nics = nics->small_integer(0, kMostPerNode);
  // Without a card there is no rate to ask for.
  if (system.nics > 0) fields.needed_quantity("nic_bandwidth", system.nic_bandwidth);
  fields.kind("network", system.network, kNetworkKinds);
  read_affinity(node.find("gpu_nic"), system);
  fields.count("gpus_per_host_link", system.gpus_per_host_link, 1, kMostPerNode);
  fields.positive("host_link", system.host_link);
  fields.positive("host_memory", system.host_memory);
  fields.positive("host_memory_size", system.host_memory_size);
  fields.positive("storage", system.storage);
  const auto sources = read_sources(node);
  if (!sources.empty()) system.sources = sources;
  if (system.name.empty()) system.name = "custom";
  node.finish();
  return system;
}

ClusterSpec read_cluster(const Node& node, Catalogue& catalogue) {
  ClusterSpec spec;
  spec.system = read_system(node.at("system"), catalogue);
  const Fields fields(node, true);
  fields.count("nics", spec.system.nics, 0, kMostPerNode);
  if (const auto rate = node.find("nic_bandwidth")) {
    spec.system.nic_bandwidth = rate->positive_quantity<BytesPerSecond>();
  }
  fields.positive("host_memory", spec.system.host_memory);
  fields.positive("host_memory_size", spec.system.host_memory_size);
  fields.positive("storage", spec.system.storage);
  read_size(node, spec);
  read_fabric(node.find("fabric"), spec);
  fields.kind("transport", spec.transport, kTransports);
  read_missing_nics(node.find("missing_nics"), spec);
  if (const auto problem = problem_of(spec)) node.fail(*problem);
  read_slow(node.find("slow"), spec);
  read_degraded(node.find("degraded"), spec);
  read_other_nodes(node.find("other_nodes"), spec, catalogue);
  return spec;
}

}  // namespace flopcast
