// The shipped rows of GPUs and systems hold together: every name resolves, every quantity has a
// unit, every row names its sources, and every system can be built.

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "topology/cluster.h"

using namespace flopcast;
using nlohmann::json;

namespace {

json load(const std::string& name) {
  std::ifstream file(FLOPCAST_SOURCE_DIR "/scenarios/catalogue/" + name);
  return json::parse(file);
}

template <class Q>
Q quantity(const json& row, const char* key) {
  CAPTURE(row.at("name"), key);
  const auto value = parse_quantity<Q>(row.at(key).get<std::string>());
  REQUIRE(value);
  return *value;
}

template <class Kind, std::size_t N>
Kind kind(const json& text, const std::array<Kind, N>& kinds) {
  const auto found = std::ranges::find(kinds, text.get<std::string>(),
                                       [](Kind k) { return std::string(to_text(k)); });
  REQUIRE(found != kinds.end());
  return *found;
}

void check_name(const json& row, std::set<std::string>& seen) {
  const std::string name = row.at("name");
  CAPTURE(name);
  CHECK(seen.insert(name).second);
  CHECK(std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  }));
}

// A source is a key of the legend, or "key (what of the row it holds for)".
void check_sources(const json& row, const json& legend) {
  CAPTURE(row.at("name"));
  CHECK_FALSE(row.at("sources").empty());
  for (const std::string source : row.at("sources")) {
    CAPTURE(source);
    CHECK(legend.contains(source.substr(0, source.find(" ("))));
  }
}

std::map<std::string, Gpu> read_gpus() {
  const json file = load("gpus.json");
  std::set<std::string> seen;
  std::map<std::string, Gpu> gpus;
  for (const json& row : file.at("gpus")) {
    check_name(row, seen);
    check_sources(row, file.at("sources"));
    Gpu gpu;
    gpu.name = row.at("name");
    gpu.memory = quantity<Bytes>(row, "memory");
    gpu.memory_bandwidth = quantity<BytesPerSecond>(row, "memory_bandwidth");
    gpu.pcie = quantity<BytesPerSecond>(row, "pcie");
    if (row.contains("nvlink")) gpu.nvlink = quantity<BytesPerSecond>(row, "nvlink");
    for (const auto& [type, text] : row.at("peak_dense").items()) {
      const DataType format = kind(json(type), kDataTypes);
      const auto peak = parse_quantity<FlopsPerSecond>(text.get<std::string>());
      REQUIRE(peak);
      gpu.peak_dense[static_cast<std::size_t>(format)] = peak;
    }
    CHECK(row.at("sms").get<int>() > 0);
    gpus.emplace(gpu.name, gpu);
  }
  return gpus;
}

}  // namespace

TEST_CASE("GPUs of the catalogue are as their sheets say") {
  const auto gpus = read_gpus();
  // NVIDIA H100 and A100 data sheets: dense bf16, memory, NVLink one way (half of 900 and 600
  // GB/s).
  CHECK(gpus.at("h100-sxm").peak(DataType::bf16) == teraflops_per_second(989.4));
  CHECK(gpus.at("h100-sxm").nvlink == gigabytes_per_second(450));
  CHECK(gpus.at("a100-sxm").peak(DataType::bf16) == teraflops_per_second(312));
  // PyTorch's "total capacity of 79.15 GiB" on an A100 of 80 GB.
  CHECK(gpus.at("a100-sxm").memory == gibibytes(79.15));
  // The same of Blackwell: more than the GB on the sheets.
  CHECK(gpus.at("b200-sxm").memory == gibibytes(178.35));
  CHECK(gpus.at("gb200").memory == gibibytes(184.31));
  CHECK(gpus.at("b300-sxm").memory == gibibytes(267.69));
  CHECK(gpus.at("gb300").memory == gibibytes(276.50));
  CHECK(gpus.at("a100-sxm").nvlink == gigabytes_per_second(300));
  CHECK_FALSE(gpus.at("v100-sxm-32gb").peak(DataType::bf16));  // Volta has no bf16
  CHECK_FALSE(gpus.at("a100-sxm").peak(DataType::fp8));        // nor Ampere fp8
}

TEST_CASE("a narrower format is never slower") {
  for (const auto& [name, gpu] : read_gpus()) {
    CAPTURE(name);
    const auto peak = [&gpu = gpu](DataType type) {
      return gpu.peak(type).value_or(FlopsPerSecond{});
    };
    CHECK(gpu.peak(DataType::fp16));
    CHECK(peak(DataType::fp16) > peak(DataType::fp32));
    if (gpu.peak(DataType::fp8)) CHECK(peak(DataType::fp8) > peak(DataType::bf16));
    if (gpu.peak(DataType::nvfp4)) CHECK(peak(DataType::nvfp4) > peak(DataType::fp8));
  }
}

TEST_CASE("every system of the catalogue can be built, alone and in a cluster") {
  const auto gpus = read_gpus();
  const json file = load("systems.json");
  std::set<std::string> seen;
  for (const json& row : file.at("systems")) {
    check_name(row, seen);
    check_sources(row, file.at("sources"));
    CAPTURE(row.at("name"));
    System system;
    system.name = row.at("name");
    REQUIRE(gpus.contains(row.at("gpu").get<std::string>()));
    system.gpu = gpus.at(row.at("gpu").get<std::string>());
    system.gpus_per_node = row.at("gpus_per_node");
    system.nvlink_domain = row.at("nvlink_domain");
    system.node_link = kind(row.at("node_link"), kNodeLinks);
    system.nics = row.at("nics");
    if (system.nics > 0) {
      system.nic_bandwidth = quantity<BytesPerSecond>(row, "nic_bandwidth");
      system.network = kind(row.at("network"), kNetworkKinds);
    }
    const int nodes = system.nics > 0 ? 40 : 1;
    for (const FabricKind fabric : kFabricKinds) {
      ClusterSpec spec{system, nodes, {.kind = fabric, .dimensions = {nodes}}};
      spec.fabric.graph.switches = {"all"};
      spec.fabric.graph.attached.assign(
          static_cast<std::size_t>(nodes * std::min(system.nics, system.gpus_per_node)), 0);
      const bool joined =
          system.node_link != NodeLink::pcie && system.nvlink_domain >= system.gpus_per_node;
      if (fabric == FabricKind::rail_only && nodes > 1 && !joined) continue;
      REQUIRE(problem_of(spec).value_or("") == "");
      CHECK(Cluster(spec).gpu_count() == nodes * system.gpus_per_node);
    }
    CHECK_FALSE(problem_of({system, 1, {}}));
  }
  for (const char* name : {"dgx-a100", "dgx-h100", "dgx-b200", "gb200-nvl72", "mi300x-8"}) {
    CHECK(seen.contains(name));
  }
}
