// GPUs that links join two by two: what a group has of them.

#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "small_clusters.h"
#include "topology/group_path.h"

using namespace flopcast;

namespace {

System mesh_of(int gpus, BytesPerSecond nvlink) {
  System system = small_system(gpus, gpus);
  system.node_link = NodeLink::nvlink_mesh;
  system.gpu.nvlink = nvlink;
  return system;
}

/// nvidia-smi topo -m of a DGX-1 with V100: six links of 25 GB/s each.
System cube_mesh() {
  System system = mesh_of(8, gigabytes_per_second(150));
  system.mesh = {0, 1, 1, 2, 2, 0, 0, 0, 1, 0, 2, 1, 0, 2, 0, 0, 1, 2, 0, 2, 0, 0,
                 1, 0, 2, 1, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 1, 2, 0, 2, 0, 0,
                 1, 0, 2, 1, 0, 0, 1, 0, 1, 2, 0, 2, 0, 0, 0, 1, 2, 1, 2, 0};
  return system;
}

double width(const Cluster& cluster, std::vector<std::uint32_t> members) {
  return to_gigabytes_per_second(domain_bandwidth(cluster, gpus(std::move(members))));
}

std::string problem_with(std::vector<int> mesh, NodeLink link = NodeLink::nvlink_mesh) {
  ClusterSpec spec{small_system(3, 1), 1, {}};
  spec.system.node_link = link;
  spec.system.mesh = std::move(mesh);
  return problem_of(spec).value_or("sound");
}

}  // namespace

// AMD, MI300X data sheet: 7 links to the other GPUs of a node, 64 GB/s each way on each.
TEST_CASE("a group of MI300X has the links between its members") {
  const Cluster cluster({mesh_of(8, gigabytes_per_second(448)), 2, {}});
  CHECK(width(cluster, {0, 1}) == Approx(64));
  CHECK(width(cluster, {2, 7}) == Approx(64));
  CHECK(width(cluster, {0, 2, 4, 6}) == Approx(3 * 64));
  CHECK(width(cluster, {0, 1, 2, 3, 4, 5, 6, 7}) == Approx(448));
  CHECK(width(cluster, {0, 1, 8, 9}) == Approx(64));        // pairs in two nodes
  CHECK(width(cluster, {0, 1, 2, 3, 8, 9}) == Approx(64));  // the smaller part
  CHECK(width(cluster, {0, 8}) == Approx(448));             // each alone in its node
}

// Pairs have one link or two; of all eight GPUs 22, 85 and 135 GB/s are measured by the first 2, 4
// and 8 (NCCL's bus bandwidth on p3.16xlarge), nine tenths of what is here.
TEST_CASE("a group in the cube mesh of a DGX-1 waits for the GPU with the fewest links") {
  const Cluster cluster({cube_mesh(), 1, {}});
  CHECK(width(cluster, {0, 1}) == Approx(25));
  CHECK(width(cluster, {0, 3}) == Approx(50));
  CHECK(width(cluster, {0, 1, 2, 3}) == Approx(100));
  CHECK(width(cluster, {0, 1, 2, 3, 4, 5, 6, 7}) == Approx(150));
  CHECK(width(cluster, {0, 5}) == Approx(25));  // through a neighbour
}

TEST_CASE("a switch and bridges give a pair all links") {
  CHECK(width(Cluster(lone_node()), {0, 1}) == Approx(400));
  CHECK(width(Cluster(bridged_pairs()), {0, 1}) == Approx(400));
  CHECK(width(Cluster(pcie_nodes()), {0, 1}) == Approx(50));
}

TEST_CASE("meshes that cannot be") {
  CHECK(problem_with({0, 1, 1, 1, 0, 2, 1, 2, 0}) == "sound");
  CHECK(problem_with({}) == "sound");
  CHECK(problem_with({0, 1, 1, 0}) == "mesh: expected 3 rows of 3 links, found 4 numbers");
  CHECK(problem_with({0, 1, 1, 1, 1, 2, 1, 2, 0}) ==
        "mesh: GPU 1 has links to itself; expected 0 there");
  CHECK(problem_with({0, 1, 1, 1, 0, 2, 1, 3, 0}) == "mesh: 2 links from GPU 1 to 2, but 3 back");
  CHECK(problem_with({0, 1, 0, 1, 0, 0, 0, 0, 0}) == "mesh: GPU 2 has no link to any other");
  CHECK(problem_with({0, 1, 1, 1, 0, 2, 1, 2, 0}, NodeLink::nvswitch) ==
        "mesh: node_link is nvswitch; only nvlink_mesh has links between two GPUs");
}
