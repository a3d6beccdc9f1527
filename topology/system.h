#pragma once

// A node as it is bought or rented: its GPUs, what joins them, its network cards. The catalogue
// (scenarios/catalogue/systems.json) holds the rows.

#include <array>
#include <cstdint>
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

struct System {
  std::string name;  // catalogue name: "dgx-h100"
  std::string description;
  Gpu gpu;
  int gpus_per_node = 8;
  int nvlink_domain = 8;  // GPUs that reach each other by NVLink: gpus_per_node, or 72 in a rack,
                          // or 2 where bridges join pairs
  NodeLink node_link = NodeLink::nvswitch;
  int nics = 8;                  // compute network cards of one node; 0: the node stands alone
  BytesPerSecond nic_bandwidth;  // of one card, one direction
  NetworkKind network = NetworkKind::infiniband;
  std::vector<std::string> sources;
};

/// GPUs that reach each other without a network card at the rate of their node link: the NVLink
/// domain, or the node where PCIe joins it.
constexpr int domain_size(const System& system) {
  return system.node_link == NodeLink::pcie ? system.gpus_per_node : system.nvlink_domain;
}

}  // namespace flopcast
