#pragma once

// A node as it is bought or rented: its GPUs, what joins them, its network cards. The catalogue
// (scenarios/catalogue/systems.json) holds the rows.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/units.h"
#include "topology/gpu.h"

namespace flopcast {

/// What joins the GPUs of one node.
enum class NodeLink : std::uint8_t {
  nvswitch,     // every GPU to every other at full rate, reductions in the switch from Hopper on
  nvlink_mesh,  // direct links between GPUs (V100 cube mesh, MI300X xGMI)
  pcie,         // through the host
};

inline constexpr std::array kNodeLinks{NodeLink::nvswitch, NodeLink::nvlink_mesh, NodeLink::pcie};

constexpr std::string_view to_text(NodeLink link) {
  switch (link) {
    case NodeLink::nvswitch: return "nvswitch";
    case NodeLink::nvlink_mesh: return "nvlink_mesh";
    case NodeLink::pcie: return "pcie";
  }
  return {};
}

/// What the network cards speak.
enum class NetworkKind : std::uint8_t { infiniband, roce, efa, slingshot, tcp };

inline constexpr std::array kNetworkKinds{NetworkKind::infiniband, NetworkKind::roce,
                                          NetworkKind::efa, NetworkKind::slingshot,
                                          NetworkKind::tcp};

constexpr std::string_view to_text(NetworkKind kind) {
  switch (kind) {
    case NetworkKind::infiniband: return "infiniband";
    case NetworkKind::roce: return "roce";
    case NetworkKind::efa: return "efa";
    case NetworkKind::slingshot: return "slingshot";
    case NetworkKind::tcp: return "tcp";
  }
  return {};
}

/// One-way latency of a message beyond that of InfiniBand, whose latency profiles hold. Rates need
/// no such figure: cards of all kinds reach 0.9 to 1 of line rate with large messages.
///   Assumed, from all-reduces of 1 KB over two nodes (two hops of a tree), NCCL 2.20 to 2.27:
///   InfiniBand NDR 30 us (NVIDIA/nccl-tests issue 290), EFA 65 to 70 us (p5.48xlarge,
///   aws-samples/awsome-distributed-training), FasTrak (GPUDirect-TCPXO) 147 us (Google Cloud,
///   a3-mega); of 4 GPUs a node InfiniBand HDR 19 us, Slingshot-11 23 us (Alps). RoCE: as
///   InfiniBand.
constexpr Seconds message_latency(NetworkKind kind) {
  switch (kind) {
    case NetworkKind::infiniband: return {};
    case NetworkKind::roce: return {};
    case NetworkKind::efa: return microseconds(19);
    case NetworkKind::slingshot: return microseconds(2);
    case NetworkKind::tcp: return microseconds(58);
  }
  return {};
}

/// How data gets from a GPU to its network card.
enum class Transport : std::uint8_t {
  gpudirect,    // the card reads GPU memory
  host_memory,  // no GPUDirect RDMA: through a buffer in host memory
  socket,       // no RDMA: TCP sockets, through the kernel
};

inline constexpr std::array kTransports{Transport::gpudirect, Transport::host_memory,
                                        Transport::socket};

constexpr std::string_view to_text(Transport transport) {
  switch (transport) {
    case Transport::gpudirect: return "gpudirect";
    case Transport::host_memory: return "host_memory";
    case Transport::socket: return "socket";
  }
  return {};
}

struct System {
  std::string name;  // catalogue name: "dgx-h100"
  std::string description;
  Gpu gpu;
  int gpus_per_node = 8;
  int nvlink_domain = 8;  // GPUs that reach each other by NVLink: gpus_per_node, or 72 in a rack,
                          // or 2 where bridges join pairs
  NodeLink node_link = NodeLink::nvswitch;
  std::vector<int> mesh{};       // NVLinks between GPUs i and j of a domain that is a mesh, by
                                 // i * nvlink_domain + j; empty: as many between any two
  int nics = 8;                  // compute network cards of one node; 0: the node stands alone
  std::vector<int> gpu_nic{};    // card of each GPU of a node; empty: in order, equal shares
  BytesPerSecond nic_bandwidth;  // of one card, one direction
  NetworkKind network = NetworkKind::infiniband;
  // What jobs that copy to the host need to know; 0: not known.
  int gpus_per_host_link = 1;    // GPUs behind one PCIe switch, which has one link to the host
  BytesPerSecond host_link{};    // of it, one direction; 0: as wide as a GPU's PCIe
  BytesPerSecond host_memory{};  // memory bandwidth of the node's processors
  Bytes host_memory_size{};      // and how much of it there is
  BytesPerSecond storage{};      // of the node's own drives
  std::vector<std::string> sources;
};

/// What keeps the mesh from being built, in the words of the user. Nothing if it is sound.
std::optional<std::string> problem_of_mesh(const System& system);

/// Of a mesh: links of the GPU that has most.
int most_mesh_links(const System& system);

/// Of a GPU into its domain, one direction: of its PCIe, or of all its NVLinks. In a mesh that one
/// of `members`, numbers within the domain, counts which has the fewest links to the others; two
/// without a link between them take one through a neighbour.
BytesPerSecond domain_bandwidth(const System& system, std::span<const int> members);

/// What keeps gpu_nic from being built, in the words of the user. Nothing if it is sound.
std::optional<std::string> problem_of_affinity(const System& system);

/// Card that GPU `local` of a node uses, of `cards` of the node: its share of those, if the system
/// does not say.
int card_of(const System& system, int local, int cards);

/// Whether GPUs of a node meet in its host.
constexpr bool joins_by_host(const System& system) {
  return system.gpus_per_node > 1 &&
         (system.node_link == NodeLink::pcie || system.nvlink_domain < system.gpus_per_node);
}

/// Whether GPUs meet in a switch of their NVLink domain.
constexpr bool joins_by_switch(const System& system) {
  return system.node_link != NodeLink::pcie && system.nvlink_domain > 1;
}

/// What a card carries of its line rate. Assumed:
///   host_memory: a third. Measured 0.28 (send/recv) and 0.30 (all-reduce) of 400G RoCE between
///   two H100 nodes (CCI-MOC/roce-testing), 0.40 of 8 x 400G (NVIDIA/nccl issue 2409).
///   socket: 5 GB/s of a whole node, whatever its cards: copies by the CPU's few socket threads.
///   Measured 3.0 to 3.3 GB/s (4 A100, 2 x 200G Slingshot, argonne-lcf/alcf-nccl-tests) and 8.1
///   GB/s (1 L40S, schmaustech/nvidia-tools-image).
BytesPerSecond card_bandwidth(const System& system, Transport transport);

/// GPUs that reach each other without a network card at the rate of their node link: the NVLink
/// domain, or the node where PCIe joins it.
constexpr int domain_size(const System& system) {
  return system.node_link == NodeLink::pcie ? system.gpus_per_node : system.nvlink_domain;
}

}  // namespace flopcast
