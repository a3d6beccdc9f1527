#include "scenarios/import_topology.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/errors.h"

using namespace flopcast;
using Catch::Matchers::Contains;

namespace {

// In the form of nvidia-smi 550, four of the eight GPUs of an HGX H100.
const std::string kMatrix =
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tNIC2\tNIC3\tNIC4\tCPU Affinity\tNUMA "
    "Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV18\tNV18\tNV18\tPXB\tNODE\tNODE\tSYS\tSYS\t0-55\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tNV18\tNV18\tNODE\tPXB\tNODE\tSYS\tSYS\t0-55\t0\t\tN/A\n"
    "GPU2\tNV18\tNV18\t X \tNV18\tSYS\tSYS\tSYS\tPXB\tNODE\t56-111\t1\t\tN/A\n"
    "GPU3\tNV18\tNV18\tNV18\t X \tSYS\tSYS\tSYS\tNODE\tPXB\t56-111\t1\t\tN/A\n"
    "NIC0\tPXB\tNODE\tSYS\tSYS\t X \tNODE\tNODE\tSYS\tSYS\t\t\t\t\n"
    "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n\n"
    "NIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n  NIC2: mlx5_bond_0\n  NIC3: mlx5_4\n";

// In the form of NCCL 2.18: two A100 with a card each under one switch, on NVSwitches.
std::string xml(const std::string& speed = "200000") {
  return R"(<system version="1">
  <cpu numaid="0" affinity="ffff" arch="x86_64" vendor="AuthenticAMD">
    <pci busid="0000:01:00.0" class="0x060400" link_speed="16 GT/s" link_width="16">
      <pci busid="0000:07:00.0" class="0x030200" link_speed="16 GT/s" link_width="16">
        <gpu dev="0" sm="80" rank="0" gdr="1">
          <nvlink target="0000:c4:00.0" count="12" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:08:00.0" class="0x020700" link_speed="16 GT/s" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed=")" +
         speed + R"(" port="1" gdr="1"/>
        </nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="ffff0000" arch="x86_64" vendor="AuthenticAMD">
    <pci busid="0000:80:00.0" class="0x060400" link_speed="16 GT/s" link_width="16">
      <pci busid="0000:87:00.0" class="0x030200" link_speed="16 GT/s" link_width="16">
        <gpu dev="1" sm="80" rank="1" gdr="1">
          <nvlink target="0000:c4:00.0" count="12" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:88:00.0" class="0x020700" link_speed="16 GT/s" link_width="16">
        <nic>
          <net name="mlx5_1" dev="1" speed="200000" port="1" gdr="1"/>
        </nic>
      </pci>
    </pci>
  </cpu>
</system>
)";
}

std::string complaint(const std::string& text) {
  try {
    parse_topology(text, "node", gigabits_per_second(400));
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

std::string replaced(std::string text, const std::string& old, const std::string& fresh) {
  text.replace(text.find(old), old.size(), fresh);
  return text;
}

}  // namespace

TEST_CASE("nvidia-smi's matrix becomes a system") {
  const ImportedSystem node = parse_topology(kMatrix, "node", gigabits_per_second(400));
  CHECK(node.system.gpus_per_node == 4);
  CHECK(node.system.nvlink_domain == 4);
  CHECK(node.system.node_link == NodeLink::nvswitch);  // 54 links are more than a GPU has
  CHECK(node.system.nics == 4);                        // the bond is nobody's nearest
  REQUIRE(node.nearest.size() == 4);
  CHECK(node.nearest[0].card == "mlx5_0");
  CHECK(node.nearest[2].card == "mlx5_4");
  CHECK(node.nearest[3].card == "NIC4");  // not in the legend
  CHECK(node.nearest[3].path == "PXB");
  const auto json = nlohmann::json::parse(system_json(node, "h100-sxm"));
  CHECK(json.at("gpu") == "h100-sxm");
  CHECK(json.at("node_link") == "nvswitch");
  CHECK(json.at("nic_bandwidth") == "50.00 GB/s");
  CHECK(json.at("gpu_nic") == std::vector{0, 1, 2, 3});
}

TEST_CASE("which card a GPU uses is part of the system") {
  // Cards 0 and 3 near the first pair of GPUs, 1 and 2 near nobody and the second pair: the order
  // of GPUs is not that of cards, and card 1 is left out.
  const std::string crossed =
      "\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tNIC2\tNIC3\tCPU Affinity\n"
      "GPU0\t X \tNV18\tNV18\tNV18\tSYS\tSYS\tSYS\tPIX\t0-31\n"
      "GPU1\tNV18\t X \tNV18\tNV18\tPIX\tSYS\tSYS\tNODE\t0-31\n"
      "GPU2\tNV18\tNV18\t X \tNV18\tSYS\tSYS\tPIX\tSYS\t32-63\n"
      "GPU3\tNV18\tNV18\tNV18\t X \tSYS\tSYS\tPIX\tSYS\t32-63\n";
  const ImportedSystem node = parse_topology(crossed, "node", gigabits_per_second(400));
  CHECK(node.system.nics == 3);
  CHECK(node.system.gpu_nic == std::vector{2, 0, 1, 1});
  CHECK(node.nearest[0].card == "NIC3");
  CHECK(node.nearest[3].card == "NIC2");
  const auto json = nlohmann::json::parse(system_json(node, "h100-sxm"));
  CHECK(json.at("gpu_nic") == std::vector{2, 0, 1, 1});
  CHECK_FALSE(problem_of_affinity(node.system));
}

TEST_CASE("bridged pairs, and GPUs on PCIe alone") {
  const std::string pairs =
      "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\n"
      "GPU0\t X \tNV12\tSYS\tSYS\t0-31\nGPU1\tNV12\t X \tSYS\tSYS\t0-31\n"
      "GPU2\tSYS\tSYS\t X \tNV12\t32-63\nGPU3\tSYS\tSYS\tNV12\t X \t32-63\n";
  const System bridged = parse_topology(pairs, "node", std::nullopt).system;
  CHECK(bridged.node_link == NodeLink::nvlink_mesh);
  CHECK(bridged.nvlink_domain == 2);
  CHECK(bridged.nics == 0);
  const System plain =
      parse_topology("\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X \n", "node", std::nullopt).system;
  CHECK(plain.node_link == NodeLink::pcie);
  CHECK(plain.nvlink_domain == 2);
}

TEST_CASE("a mesh of unequal links is part of the system") {
  const std::string unequal =
      "\tGPU0\tGPU1\tGPU2\n"
      "GPU0\t X \tNV1\tNV2\nGPU1\tNV1\t X \tNV2\nGPU2\tNV2\tNV2\t X \n";
  const ImportedSystem node = parse_topology(unequal, "node", std::nullopt);
  CHECK(node.system.node_link == NodeLink::nvlink_mesh);
  CHECK(node.system.mesh == std::vector{0, 1, 2, 1, 0, 2, 2, 2, 0});
  const auto json = nlohmann::json::parse(system_json(node, "v100-sxm-32gb"));
  CHECK(json.at("mesh") == nlohmann::json::parse("[[0, 1, 2], [1, 0, 2], [2, 2, 0]]"));
  const std::string equal = "\tGPU0\tGPU1\nGPU0\t X \tNV2\nGPU1\tNV2\t X \n";
  CHECK(parse_topology(equal, "node", std::nullopt).system.mesh.empty());
}

TEST_CASE("NCCL's XML becomes a system") {
  const ImportedSystem node = parse_topology(xml(), "node", std::nullopt);
  CHECK(node.system.gpus_per_node == 2);
  CHECK(node.system.nvlink_domain == 2);
  CHECK(node.system.node_link == NodeLink::nvswitch);
  CHECK(node.system.nics == 2);
  CHECK(node.system.nic_bandwidth == gigabits_per_second(200));
  CHECK(node.nearest[0].card == "mlx5_0");
  CHECK(node.nearest[1].card == "mlx5_1");
  CHECK(node.nearest[1].path == "PIX");
}

TEST_CASE("mistakes in a node's wiring are told with their place") {
  CHECK(complaint("") == "node:1:1: an empty file");
  CHECK_THAT(complaint("hello\n"), Contains("node:1:1: no matrix of nvidia-smi topo -m"));
  CHECK_THAT(complaint(replaced(kMatrix, "GPU1\tNV18", "GPU1\tNVX")),
             Contains("node:3:6: expected a path (NV<n>, PIX, PXB, PHB, NODE, SYS), found NVX"));
  CHECK_THAT(complaint(replaced(kMatrix, "GPU2\tNV18", "GPU3\tNV18")),
             Contains("node:4:1: expected the row of GPU2, found GPU3"));
  CHECK_THAT(complaint("\tGPU0\tGPU1\nGPU0\t X \n"),
             Contains("expected 2 paths for GPU0, found 1"));
  CHECK_THAT(complaint("\tGPU0\tGPU1\nGPU0\t X \tSYS\n"), Contains("expected rows of 2 GPUs"));
  CHECK_THAT(complaint(xml("fast")),
             Contains("node:11:11: speed of <net>: expected a whole number from 1 to 10000000, "
                      "found \"fast\""));
  CHECK_THAT(complaint(replaced(xml(), " busid=\"0000:80:00.0\"", "")),
             Contains("node:17:5: <pci> has no busid"));
  CHECK_THAT(complaint(replaced(xml(), "</system>", "")), Contains("node:"));
  CHECK_THAT(complaint("<other/>"), Contains("expected NCCL's <system>"));
  CHECK_THROWS_WITH(parse_topology(kMatrix, "node", std::nullopt), Contains("--nic-bandwidth"));
}
