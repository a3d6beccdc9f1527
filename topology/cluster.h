#pragma once

// The machine: devices and links as a graph, built once from a description and then frozen.
//
//   GPU -- node switch (NVLink domain)          one per domain; of a mesh or a PCIe host too
//   GPU -- NIC                                  PCIe; through the host where GPUs hang on one
//   NIC -- leaf -- spine group -- core -- backbone, or switches joined directly: topology/fabric.h
//
// Cards of one GPU act as one NIC of their joint rate (32 cards for 8 GPUs make 8 NICs), as NCCL
// spreads its channels over them. A mesh (V100, MI300X) is a switch with each GPU's joint link
// rate: right for rings and all-to-all over the node, too fast for a lone pair, which a profile's
// solo rate holds down.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/ids.h"
#include "sim/units.h"
#include "topology/fabric.h"
#include "topology/graph_routes.h"
#include "topology/system.h"

namespace flopcast {

enum class GpuId : std::uint32_t {};     // global GPU number: node * gpus_per_node + local index
enum class DeviceId : std::uint32_t {};  // vertex of the graph

/// What a link is made of; also the tiers a group can cross, from fast to slow.
enum class LinkKind : std::uint8_t {
  nvlink,
  pcie,
  nic,
  leaf_uplink,
  spine_uplink,
  switch_link,  // between groups of a dragonfly, neighbours of a torus, switches of a graph
  zone_uplink,
  host_memory,  // of a node's processors; in no route between GPUs
  storage,      // the node's own drives; nor these
};

inline constexpr std::array kLinkKinds{
    LinkKind::nvlink,      LinkKind::pcie,         LinkKind::nic,
    LinkKind::leaf_uplink, LinkKind::spine_uplink, LinkKind::switch_link,
    LinkKind::zone_uplink, LinkKind::host_memory,  LinkKind::storage};

constexpr std::string_view to_text(LinkKind kind) {
  switch (kind) {
    case LinkKind::nvlink: return "nvlink";
    case LinkKind::pcie: return "pcie";
    case LinkKind::nic: return "nic";
    case LinkKind::leaf_uplink: return "leaf_uplink";
    case LinkKind::spine_uplink: return "spine_uplink";
    case LinkKind::switch_link: return "switch_link";
    case LinkKind::zone_uplink: return "zone_uplink";
    case LinkKind::host_memory: return "host_memory";
    case LinkKind::storage: return "storage";
  }
  return {};
}

/// Between what of a node data moves without leaving it.
enum class HostPath : std::uint8_t {
  to_host,    // from the GPU's memory to the host's
  from_host,  // and back
  memory,     // inside the host's memory
  storage,    // between drives and the host's memory
};

/// GPUs first to last that compute at `speed` of what their kind does: 0.8 takes 1.25 times as
/// long.
struct SlowGpus {
  int first = 0;
  int last = 0;
  double speed = 1;
};

/// Links that carry `factor` of their nominal rate, both ways. Places first to last are GPUs
/// (nvlink and nic), leaves (leaf_uplink), groups of spines (spine_uplink), zones (zone_uplink) or
/// cables (switch_link): of a graph as it lists them; of a dragonfly the pairs of groups, first
/// those of group 0 with each later one; of a torus by router, then by dimension.
struct DegradedLinks {
  LinkKind kind = LinkKind::nic;
  int first = 0;
  int last = 0;
  double factor = 1;
};

/// Nodes that are another system: they compute by its GPUs' kernels and in their memory. Network,
/// host and layout of a node are the cluster's; what is slower there is listed as degraded.
struct OtherNodes {
  struct Range {
    int first = 0;
    int last = 0;
  };
  System system;
  std::vector<Range> nodes{};
};

struct ClusterSpec {
  System system;
  int nodes = 1;
  Fabric fabric;
  Transport transport = Transport::gpudirect;
  std::vector<int> missing_nics{};  // GPUs whose network card is gone: they use a neighbour's
  // Where several rows name one place, the lowest counts.
  std::vector<SlowGpus> slow{};
  std::vector<DegradedLinks> degraded{};
  std::vector<OtherNodes> others{};
  bool host_copies = false;  // GPUs copy to and from their host: its links are listed
};

/// What keeps a description from being built, in the words of the user: "nvlink_domain 6 neither
/// divides gpus_per_node 8 nor is a multiple of it". Nothing if it is sound.
std::optional<std::string> problem_of(const ClusterSpec& spec);

/// Places whose link of a kind may be degraded (DegradedLinks); 0 where the cluster has no such
/// links.
int count_of_places(const ClusterSpec& spec, LinkKind kind);

enum class DeviceKind : std::uint8_t {
  gpu,
  node_switch,
  host,
  nic,
  leaf_switch,
  spine,
  core,
  backbone,
  memory,
  storage
};

constexpr std::string_view to_text(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::gpu: return "gpu";
    case DeviceKind::node_switch: return "node_switch";
    case DeviceKind::host: return "host";
    case DeviceKind::nic: return "nic";
    case DeviceKind::leaf_switch: return "leaf_switch";
    case DeviceKind::spine: return "spine";
    case DeviceKind::core: return "core";
    case DeviceKind::backbone: return "backbone";
    case DeviceKind::memory: return "memory";
    case DeviceKind::storage: return "storage";
  }
  return {};
}

struct Device {
  DeviceKind kind;
  std::uint32_t index;  // number among its kind
};

/// One direction; links 2k and 2k+1 are the two directions of one pair of devices. Leaf-spine and
/// spine-core links are trunks: all cables of one leaf, or of one group of spines, in this
/// direction as one link. Adaptive routing spreads over them evenly; under ECMP the capacity is
/// what hash collisions leave of it (ecmp.h). So are the cables between two groups of a dragonfly.
struct ClusterLink {
  LinkKind kind;
  DeviceId from;
  DeviceId to;
  BytesPerSecond capacity;
};

class Cluster {
 public:
  /// The description must be sound: problem_of(spec) is nothing.
  explicit Cluster(ClusterSpec spec);

  const ClusterSpec& spec() const { return spec_; }
  const FabricPlan& fabric_plan() const { return plan_; }
  int gpu_count() const { return spec_.nodes * spec_.system.gpus_per_node; }
  int node_of(GpuId gpu) const { return place_of(gpu).node; }
  int nvlink_domain_of(GpuId gpu) const { return place_of(gpu).domain; }
  int nic_of(GpuId gpu) const { return place_of(gpu).nic; }    // among all; only with a network
  int leaf_of(GpuId gpu) const { return place_of(gpu).leaf; }  // of its NIC
  int spine_group_of(GpuId gpu) const { return place_of(gpu).spine_group; }
  /// Whether the GPU's own network card is missing.
  bool borrows_nic(GpuId gpu) const { return place_of(gpu).borrows; }
  double speed_of(GpuId gpu) const;  // 1, or less where the GPU is slow
  /// 0 of the cluster's own system, n of row n - 1 of the others.
  int kind_of(GpuId gpu) const;
  const System& system_of_kind(int kind) const;
  /// Part of its nominal rate that a link still has.
  double condition_of(LinkId link) const;
  std::span<const Device> devices() const { return devices_; }
  std::span<const ClusterLink> links() const { return links_; }  // by LinkId
  /// One way, with the switch in which it ends; 0 inside a node.
  Seconds latency_of(LinkId link) const;
  std::string name_of(DeviceId device) const;  // "node 3 gpu 5"
  std::string name_of(LinkId link) const;      // "node 3 gpu 5 -> node 3 switch"

  /// Links between a GPU and the switch of its domain, each direction. Only if the domain has two
  /// GPUs or more.
  LinkId to_domain(GpuId gpu) const;
  LinkId from_domain(GpuId gpu) const;

  /// Whether a GPU hands data to the local GPU on the destination's rail, so that it stays on it.
  bool uses_pxn() const;

  /// Links from one GPU to another, in order. Appended to `route`, which the caller reuses.
  /// Inside an NVLink domain through its switch, inside a node through the host, else NIC, leaf and
  /// as far up as needed. On a rail-optimised fabric data for GPU j of another node first crosses
  /// NVLink to the own node's GPU j (PXN).
  /// Source: NCCL 2.30.7, PXN level 2 is the default for send/recv (NCCL_P2P_PXN_LEVEL).
  void append_route(GpuId from, GpuId to, std::vector<LinkId>& route) const;

  /// Links between a GPU, its host's memory and drives; only with host_copies. Reads and writes
  /// share the bandwidth of memory and of drives, each of which is one link whatever the direction.
  void append_host_route(GpuId gpu, HostPath path, std::vector<LinkId>& route) const;

 private:
  // First number of each block. Within a block the pair of links or the device of a GPU, NIC, leaf
  // or spine group is found by its number, so a route needs no search.
  struct Blocks {
    std::uint32_t node_switch = 0, host = 0, nic = 0, leaf = 0, spine = 0, core = 0, backbone = 0;
    std::uint32_t domain_links = 0, host_links = 0, slot_links = 0, nic_links = 0;
    std::uint32_t leaf_links = 0, spine_links = 0, switch_links = 0, zone_links = 0;
    std::uint32_t copy_links = 0, memory_links = 0, storage_links = 0;
  };

  // Where a GPU is; found once: divisions would be most of the cost of a route.
  struct Place {
    int node = 0;
    int domain = 0;
    int rail = 0;  // its NIC within the node
    int nic = 0;   // among all NICs
    int leaf = 0;
    int spine_group = 0;
    bool borrows = false;  // its own NIC is missing
  };

  const Place& place_of(GpuId gpu) const { return places_[index_of(gpu)]; }
  Place find_place(int gpu) const;
  void add_devices();
  void add_node_links();
  void add_fabric_links();
  void add_copy_links();
  void add_trunks();
  void add_global_links();
  void add_torus_links();
  BytesPerSecond trunk(double cards, int cables, std::uint64_t number) const;
  int leaf_of_nic(int nic) const;
  std::uint32_t link_at(LinkKind kind, std::uint32_t place) const;
  void degrade(const DegradedLinks& links);
  std::uint32_t add_block(DeviceKind kind, int count);
  void add_pair(LinkKind kind, std::uint32_t lower, std::uint32_t upper, BytesPerSecond capacity);
  void append_exit(GpuId gpu, std::vector<LinkId>& route) const;
  void append_entry(GpuId gpu, std::vector<LinkId>& route) const;
  void append_between(const Place& here, const Place& there, std::vector<LinkId>& route) const;
  void append_over_core(const Place& here, const Place& there, std::vector<LinkId>& route) const;
  void append_torus(int from, int to, std::vector<LinkId>& route) const;
  GpuId exit_gpu(GpuId from, GpuId to) const;
  GpuId own_gpu_on_rail(const Place& here, int rail) const;
  LinkId global_link(int from, int to) const;  // between two groups of a dragonfly

  ClusterSpec spec_;
  FabricPlan plan_;
  bool domain_switches_ = false;
  bool hosts_ = false;
  Blocks first_;
  std::vector<Place> places_;               // by GpuId
  std::vector<std::uint32_t> torus_links_;  // by router and dimension: the pair to its successor
  GraphRoutes graph_routes_;
  std::vector<Device> devices_;
  std::vector<ClusterLink> links_;
  std::map<LinkId, double> conditions_;  // of degraded links
};

}  // namespace flopcast
