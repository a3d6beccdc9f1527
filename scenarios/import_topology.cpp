#include "scenarios/import_topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "scenarios/import_topology_parts.h"
#include "scenarios/text_file.h"
#include "scenarios/text_position.h"
#include "sim/errors.h"

namespace flopcast {
namespace {

// NVLinks of the widest GPUs: Hopper and Blackwell have 18.
constexpr int kMostLinks = 18;

// GPUs that NVLinks join with the first.
std::size_t domain_of_first(const Wiring& wiring) {
  std::vector<bool> reached(wiring.gpus, false);
  std::vector<std::size_t> open{0};
  reached[0] = true;
  while (!open.empty()) {
    const std::size_t from = open.back();
    open.pop_back();
    for (std::size_t to = 0; to < wiring.gpus; ++to) {
      if (reached[to] || wiring.nvlinks[from][to] == 0) continue;
      reached[to] = true;
      open.push_back(to);
    }
  }
  return static_cast<std::size_t>(std::ranges::count(reached, true));
}

// Every GPU has as many links to each other as a GPU can have in all only if a switch joins them.
NodeLink link_of(const Wiring& wiring, std::size_t domain) {
  if (domain < 2) return NodeLink::pcie;
  const std::vector<int>& row = wiring.nvlinks.front();
  const bool crowded = std::accumulate(row.begin(), row.end(), 0) > kMostLinks;
  return wiring.switched || crowded ? NodeLink::nvswitch : NodeLink::nvlink_mesh;
}

// Links of a mesh that joins the whole node; nothing where all pairs have as many.
std::vector<int> mesh_of(const Wiring& wiring) {
  std::vector<int> mesh;
  std::set<int> between;
  for (std::size_t from = 0; from < wiring.gpus; ++from) {
    for (std::size_t to = 0; to < wiring.gpus; ++to) {
      mesh.push_back(wiring.nvlinks[from][to]);
      if (from != to) between.insert(mesh.back());
    }
  }
  return between.size() > 1 ? mesh : std::vector<int>{};
}

}  // namespace

void fail_at(std::string_view text, std::size_t offset, const std::string& name,
             const std::string& problem) {
  throw InputError(fmt::format("{}:{}: {}", name, line_and_column(text, offset), problem));
}

const std::vector<std::string_view>& path_words() {
  static const std::vector<std::string_view> words{"PIX", "PXB", "PHB", "NODE", "SYS"};
  return words;
}

ImportedSystem system_of(const Wiring& wiring, BytesPerSecond nic_bandwidth) {
  ImportedSystem imported;
  System& system = imported.system;
  const std::size_t domain = domain_of_first(wiring);
  system.gpus_per_node = static_cast<int>(wiring.gpus);
  system.node_link = link_of(wiring, domain);
  system.nvlink_domain =
      system.node_link == NodeLink::pcie ? system.gpus_per_node : static_cast<int>(domain);
  if (system.node_link == NodeLink::nvlink_mesh && domain == wiring.gpus) {
    system.mesh = mesh_of(wiring);
  }
  system.nic_bandwidth = nic_bandwidth;
  // Each GPU takes the nearest card, of equally near ones that which fewest took. Cards that nobody
  // takes serve storage or management.
  std::vector<int> taken(wiring.cards.size(), 0);
  std::vector<std::size_t> card_of_gpu;
  for (const std::vector<int>& distance : wiring.distance) {
    if (distance.empty()) break;
    std::size_t best = 0;
    for (std::size_t card = 1; card < distance.size(); ++card) {
      if (std::pair(distance[card], taken[card]) < std::pair(distance[best], taken[best])) {
        best = card;
      }
    }
    ++taken[best];
    card_of_gpu.push_back(best);
    imported.nearest.push_back(
        {wiring.cards[best], std::string(path_words()[static_cast<std::size_t>(distance[best])])});
  }
  const auto used_before = [&](std::size_t card) {
    const auto end = taken.begin() + static_cast<std::ptrdiff_t>(card);
    return static_cast<int>(card) - static_cast<int>(std::count(taken.begin(), end, 0));
  };
  system.nics = used_before(taken.size());
  for (const std::size_t card : card_of_gpu) system.gpu_nic.push_back(used_before(card));
  return imported;
}

ImportedSystem import_topology(const std::filesystem::path& file,
                               std::optional<BytesPerSecond> nic_bandwidth) {
  return parse_topology(read_text_file(file, "a node's wiring"), file.string(), nic_bandwidth);
}

ImportedSystem parse_topology(const std::string& text, const std::string& name,
                              std::optional<BytesPerSecond> nic_bandwidth) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) fail_at(text, 0, name, "an empty file");
  const Wiring wiring =
      text[begin] == '<' ? wiring_of_xml(text, name) : wiring_of_matrix(text, name);
  const std::optional<BytesPerSecond> speed = nic_bandwidth ? nic_bandwidth : wiring.card_speed;
  if (!speed && !wiring.cards.empty()) {
    throw InputError(fmt::format(
        "{}: does not say how fast the network cards are; give --nic-bandwidth \"400 Gb/s\"",
        name));
  }
  return system_of(wiring, speed.value_or(BytesPerSecond{}));
}

std::string system_json(const ImportedSystem& imported, const std::string& gpu) {
  const System& system = imported.system;
  std::string affinity;
  for (std::size_t i = 0; i < imported.nearest.size(); ++i) {
    affinity += fmt::format("{}GPU {}: {} ({})", i == 0 ? "" : ", ", i, imported.nearest[i].card,
                            imported.nearest[i].path);
  }
  nlohmann::ordered_json object{{"name", system.name},
                                {"description", affinity},
                                {"gpu", gpu},
                                {"gpus_per_node", system.gpus_per_node},
                                {"nvlink_domain", system.nvlink_domain},
                                {"node_link", to_text(system.node_link)}};
  const auto links = static_cast<std::ptrdiff_t>(system.nvlink_domain);
  for (auto row = system.mesh.begin(); row != system.mesh.end(); row += links) {
    object["mesh"].push_back(std::vector<int>(row, row + links));
  }
  object["nics"] = system.nics;
  if (system.nics > 0) {
    object["gpu_nic"] = system.gpu_nic;
    object["nic_bandwidth"] = to_text(system.nic_bandwidth);
  }
  object["sources"] = system.sources;
  return object.dump(2) + "\n";
}

}  // namespace flopcast
