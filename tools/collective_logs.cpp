#include "tools/collective_logs.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <numeric>

#include "scenarios/catalogue.h"
#include "scenarios/import_nccl_tests.h"
#include "scenarios/import_nccl_tests_parts.h"
#include "scenarios/nearest.h"
#include "scenarios/read_kernel_samples.h"
#include "scenarios/read_recorded_collectives.h"
#include "sim/errors.h"
#include "tools/data_folders.h"
#include "topology/group_load.h"
#include "topology/group_path.h"

namespace flopcast {
namespace {

// One switch and its cables between two nodes.
constexpr Seconds kNetworkHop = nanoseconds(300);

CollectiveKind read_kind(const std::string& name) {
  if (const auto kind = nccl_tests_kind(name)) return *kind;
  std::vector<std::string_view> names;
  names.reserve(kCollectiveKinds.size());
  for (const CollectiveKind kind : kCollectiveKinds) names.push_back(to_text(kind));
  throw InputError(fmt::format("--kind: unknown value \"{}\"{} (one of: {})", name,
                               did_you_mean(name, names), fmt::join(names, ", ")));
}

// NCCL tells GPUs apart by compute capability: 7 Volta and Turing, 8 Ampere and Ada, 9 Hopper, from
// 10 on Blackwell. AMD's RCCL carries the same tables; MI300 takes Hopper's row (assumed).
GpuGeneration generation_of(const Gpu& gpu) {
  const std::string& name = gpu.architecture;
  if (name == "volta" || name == "turing") return GpuGeneration::volta;
  if (name == "ampere" || name == "ada") return GpuGeneration::ampere;
  if (name.starts_with("blackwell")) return GpuGeneration::blackwell;
  return GpuGeneration::hopper;
}

NetworkTransport transport_of(NetworkKind kind) {
  switch (kind) {
    case NetworkKind::infiniband:
    case NetworkKind::roce: return NetworkTransport::verbs;
    case NetworkKind::efa: return NetworkTransport::efa;
    case NetworkKind::slingshot: return NetworkTransport::slingshot;
    case NetworkKind::tcp: return NetworkTransport::tcpx;
  }
  return NetworkTransport::verbs;
}

GroupShape shape_of(CollectiveTable& table, const System& system) {
  const int domain = domain_size(system);
  if (!table.nodes) {
    table.notes.push_back(fmt::format(
        "number of nodes not said: taken to be the fewest that hold {} ranks", table.ranks));
  }
  const int nodes = table.nodes.value_or((table.ranks + domain - 1) / domain);
  const int used = domain > system.gpus_per_node ? (table.ranks + domain - 1) / domain : nodes;
  if (used < 1 || table.ranks % used != 0 || table.ranks / used > domain) {
    throw InputError(fmt::format("{}: {} ranks on {} nodes do not fit {}, which has {} GPUs each",
                                 table.file, table.ranks, nodes, system.name, domain));
  }
  return {.ranks_per_node = table.ranks / used, .nodes = used};
}

// Of the first GPUs of a domain.
BytesPerSecond domain_bandwidth(const System& system, int members) {
  std::vector<int> first(static_cast<std::size_t>(std::min(members, domain_size(system))));
  std::iota(first.begin(), first.end(), 0);
  return domain_bandwidth(system, first);
}

// The first GPUs of the first domains.
std::vector<GpuId> members_of(const Cluster& cluster, GroupShape shape) {
  const int domain = domain_size(cluster.spec().system);
  std::vector<GpuId> gpus;
  gpus.reserve(static_cast<std::size_t>(shape.ranks()));
  for (int node = 0; node < shape.nodes; ++node) {
    for (int rank = 0; rank < shape.ranks_per_node; ++rank) {
      gpus.push_back(GpuId{static_cast<std::uint32_t>(node * domain + rank)});
    }
  }
  return gpus;
}

// With the worst of its degraded cards and NVLinks: all channels wait for it.
NetworkPath path_of(const Cluster& cluster, CollectiveKind kind, GroupShape shape) {
  const bool pair = kind == CollectiveKind::send_recv;
  const std::vector<GpuId> gpus =
      members_of(cluster, pair ? GroupShape{shape.nodes > 1 ? 1 : 2, shape.nodes} : shape);
  NetworkPath path{.domain = domain_bandwidth(cluster, gpus), .network = {}, .network_hop = {}};
  if (shape.nodes > 1) {
    path.network = node_bandwidth(cluster, gpus);
    path.network_hop = network_latency(cluster, gpus);
    path.sharp = cluster.spec().fabric.sharp;
  }
  double nvlink = 1;
  double nic = 1;
  for (const LinkLoad& load : group_load(cluster, gpus, LoadPattern::ring)) {
    const double condition = cluster.condition_of(load.link);
    const LinkKind link = cluster.links()[index_of(load.link)].kind;
    if (link == LinkKind::nvlink) nvlink = std::min(nvlink, condition);
    if (link == LinkKind::nic) nic = std::min(nic, condition);
  }
  path.domain = nvlink * path.domain;
  path.network = nic * path.network;
  return path;
}

void require_network(const CollectiveTable& table, GroupShape shape, const NetworkPath& path,
                     const System& system) {
  if (shape.nodes == 1 || path.network.value > 0) return;
  throw InputError(fmt::format("{}: {} nodes, but {} has no network cards", table.file, shape.nodes,
                               system.name));
}

}  // namespace

void add_collective_log_options(CLI::App& verb, CollectiveLogOptions& options) {
  verb.add_option("--system", options.system, "The machine, by its name in the catalogue")
      ->type_name("NAME");
  verb.add_option("--kind", options.kind, "The collective, where the log does not say it");
  verb.add_option("--nodes", options.nodes, "Nodes of the run, where the log does not say it");
  verb.add_flag("--sharp", options.sharp, "InfiniBand's switches reduced (NCCL_COLLNET_ENABLE=1)");
  verb.add_option("--data", options.data, "Folder with catalogue/ and profiles/")->type_name("DIR");
}

std::vector<CollectiveTable> read_logs(const CollectiveLogOptions& options) {
  NcclTestsHints hints;
  if (options.kind) hints.kind = read_kind(*options.kind);
  hints.nodes = options.nodes;
  std::vector<CollectiveTable> all;
  for (const std::string& file : options.files) {
    std::vector<CollectiveTable> tables =
        is_kernel_samples(file) ? read_recorded_collectives(file) : import_nccl_tests(file, hints);
    for (CollectiveTable& table : tables) all.push_back(std::move(table));
  }
  return all;
}

NetworkModel CollectiveMachine::prior() const {
  NetworkModel model;
  model.regimes = ProtocolRegimes{.generation = generation_of(system.gpu),
                                  .cpu = HostCpu::intel,
                                  .sharp = sharp,
                                  .transport = transport_of(system.network),
                                  .fitted = {},
                                  .provenance = {}};
  return model;
}

std::vector<PlacedTable> tables_on(const Cluster& cluster, const CollectiveLogOptions& options) {
  std::vector<CollectiveTable> tables = read_logs(options);
  std::vector<PlacedTable> out;
  out.reserve(tables.size());
  for (CollectiveTable& table : tables) {
    const GroupShape shape = shape_of(table, cluster.spec().system);
    const int needed =
        (shape.nodes - 1) * domain_size(cluster.spec().system) + shape.ranks_per_node;
    if (needed > cluster.gpu_count()) {
      throw InputError(fmt::format("{}: {} ranks on {} nodes, but the cluster has {} GPUs",
                                   table.file, table.ranks, shape.nodes, cluster.gpu_count()));
    }
    const NetworkPath path = path_of(cluster, table.kind, shape);
    require_network(table, shape, path, cluster.spec().system);
    out.push_back({.table = std::move(table), .shape = shape, .path = path});
  }
  return out;
}

NetworkPath path_on(const CollectiveMachine& machine, CollectiveKind kind, GroupShape shape) {
  const System& system = machine.system;
  const int domain = domain_size(system);
  // A rank of a pair has its share of the node's cards; a group has the cards of its members.
  const int members = kind == CollectiveKind::send_recv ? 1 : shape.ranks_per_node;
  const double cards = static_cast<double>(system.nics) * domain / system.gpus_per_node;
  return {.domain = domain_bandwidth(system, shape.ranks_per_node),
          .network =
              shape.nodes > 1 ? cards * members / domain * system.nic_bandwidth : BytesPerSecond{},
          .network_hop = kNetworkHop,
          .sharp = machine.sharp && shape.nodes > 1};
}

CollectiveMachine read_machine(const CollectiveLogOptions& options) {
  if (!options.system) {
    throw InputError("--system: needed to know what links the logs were taken on");
  }
  const Document name = Document::parse(fmt::format("\"{}\"", *options.system), "--system");
  Catalogue catalogue(find_data_folders(options.data).catalogue);
  CollectiveMachine machine{.system = catalogue.system(name.root()), .sharp = options.sharp};
  if (const auto problem = problem_of_sharp(machine.system, {.sharp = machine.sharp})) {
    throw InputError("--sharp: " + *problem);
  }
  return machine;
}

std::vector<PlacedTable> placed_tables(const CollectiveLogOptions& options,
                                       const CollectiveMachine& machine) {
  std::vector<CollectiveTable> tables = read_logs(options);
  std::vector<PlacedTable> out;
  out.reserve(tables.size());
  for (CollectiveTable& table : tables) {
    const GroupShape shape = shape_of(table, machine.system);
    const NetworkPath path = path_on(machine, table.kind, shape);
    require_network(table, shape, path, machine.system);
    out.push_back({.table = std::move(table), .shape = shape, .path = path});
  }
  return out;
}

}  // namespace flopcast
