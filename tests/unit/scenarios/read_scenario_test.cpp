#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "scenarios/scenario.h"
#include "scenarios/scenario_parts.h"
#include "sim/errors.h"

using namespace flopcast;

namespace {

const std::filesystem::path kSource(FLOPCAST_SOURCE_DIR);

DataFolders shipped() {
  return {.catalogue = kSource / "scenarios/catalogue",
          .profiles = kSource / "calibration/profiles"};
}

Scenario example(const std::string& name, const std::vector<Override>& overrides = {}) {
  return read_scenario(kSource / "scenarios/examples" / (name + ".json"), overrides, shipped());
}

using Json = nlohmann::json;

/// Paths of all properties, "*" for elements of lists; objects that allow others are named too.
void collect(const Json& root, const Json& schema, const std::string& path,
             std::set<std::string>& keys) {
  if (schema.contains("$ref")) {
    const std::string target = schema.at("$ref").get<std::string>().substr(1);  // after '#'
    collect(root, root.at(Json::json_pointer(target)), path, keys);
  }
  for (const Json& option : schema.value("anyOf", Json::array())) {
    collect(root, option, path, keys);
  }
  if (schema.contains("items")) collect(root, schema.at("items"), path + "/*", keys);
  if (schema.contains("properties")) {
    CAPTURE(path);
    CHECK(schema.value("additionalProperties", true) == false);
    for (const auto& [key, value] : schema.at("properties").items()) {
      keys.insert(path + "/" + key);
      collect(root, value, path + "/" + key, keys);
    }
  }
}

}  // namespace

TEST_CASE("the 405B example becomes what the paper says") {
  const Scenario s = example("llama3.1-405b-16k-h100");
  CHECK(s.name == "llama3.1-405b-16k-h100");
  CHECK(s.cluster.nodes == 2048);
  CHECK(s.cluster.system.gpu.name == "h100-sxm");
  CHECK(s.job.model.layers == 126);
  CHECK(s.job.model.hidden == 16384);
  CHECK(s.job.layout.grid.tp == 8);
  CHECK(s.job.layout.grid.pp == 16);
  CHECK(s.job.layout.grid.dp == 128);  // Llama 3 paper, Table 4
  CHECK(s.job.layout.vpp == 8);
  CHECK(s.job.layout.schedule == ScheduleKind::interleaved);
  CHECK(s.job.layout.account_embedding_in_split);
  CHECK(s.job.training.batch.sequence == 8192);
  CHECK(s.job.training.gradient_dtype == DataType::fp32);
  CHECK(s.job.training.framework.name == "megatron");
  CHECK(s.profile.name == "h100-sxm");
  REQUIRE(s.expect.size() == 2);
  CHECK(s.expect[0].metric == "model_tflops_per_gpu");
  CHECK(s.expect[0].value == 400);
  CHECK(s.expect[0].tolerance == 0.12);
  CHECK(s.expect[1].metric == "memory_peak");
}

TEST_CASE("every example is legal") {
  for (const auto& entry : std::filesystem::directory_iterator(kSource / "scenarios/examples")) {
    if (entry.path().extension() != ".json") continue;  // ci/
    CAPTURE(entry.path());
    CHECK_NOTHROW(read_scenario(entry.path(), {}, shipped()));
  }
}

TEST_CASE("every row of the catalogue is complete") {
  Catalogue catalogue(shipped().catalogue);
  for (const Gpu& gpu : catalogue.gpus()) {
    CAPTURE(gpu.name);
    CHECK((gpu.peak(DataType::bf16) || gpu.peak(DataType::fp16)));
    CHECK_FALSE(gpu.sources.empty());
  }
  for (const System& system : catalogue.systems()) {
    CAPTURE(system.name);
    CHECK_FALSE(problem_of({.system = system, .nodes = system.nics > 0 ? 2 : 1, .fabric = {}}));
  }
  CHECK(catalogue.models().size() >= 100);
}

TEST_CASE("an inline object changes what its base leaves") {
  const Scenario s = example("what-if-inline");
  CHECK(s.job.model.layers == 96);
  CHECK(s.job.model.hidden == 8192);  // llama3-70b
  CHECK(s.cluster.system.nic_bandwidth == gigabits_per_second(800));
  CHECK(s.cluster.system.gpu.name == "h100-sxm");
  CHECK(s.cluster.fabric.oversubscription == 2);
  CHECK(s.job.training.recompute.kind == RecomputeKind::full);
  CHECK(s.job.training.recompute.layers == 1);
  CHECK(s.job.training.framework.step_overhead == milliseconds(20));
  CHECK(s.profile.level == 0.9);
}

TEST_CASE("options change a scenario as a file would") {
  const Scenario s = example("llama3-70b-64-h100", {{"parallel.vpp", "1"},
                                                    {"training.schedule", "gpipe"},
                                                    {"training.precision", "bf16"},
                                                    {"cluster.nodes", "null"},
                                                    {"cluster.gpus", "128"}});
  CHECK(s.job.layout.vpp == 1);
  CHECK(s.job.layout.schedule == ScheduleKind::gpipe);
  CHECK(s.job.training.precision == DataType::bf16);
  CHECK(s.cluster.nodes == 16);
  CHECK(s.job.layout.grid.dp == 4);  // 128 / (4 * 8)
}

TEST_CASE("every schedule of the schema can be asked for, with the chunks it takes") {
  std::ifstream file(kSource / "scenarios/scenario.schema.json");
  const Json schema = Json::parse(file);
  const Json& names = schema.at("/properties/training/properties/schedule/enum"_json_pointer);
  std::set<ScheduleKind> kinds;
  for (const std::string name : names) {
    CAPTURE(name);
    int taken = 0;
    for (const char* vpp : {"1", "2"}) {
      try {
        const Scenario s =
            example("llama3-70b-64-h100", {{"parallel.vpp", vpp}, {"training.schedule", name}});
        kinds.insert(s.job.layout.schedule);
        ++taken;
      } catch (const InputError& error) {
        CHECK(std::string(error.what()).find("schedule") != std::string::npos);
      }
    }
    CHECK(taken > 0);
  }
  CHECK(kinds.size() == names.size());
}

TEST_CASE("less than a node is a node with fewer GPUs") {
  const Scenario s =
      example("llama3-8b-8-h100", {{"cluster.nodes", "null"}, {"cluster.gpus", "2"}});
  CHECK(s.cluster.nodes == 1);
  CHECK(s.cluster.system.gpus_per_node == 2);
  CHECK(s.cluster.system.nvlink_domain == 2);
  CHECK(s.cluster.system.nics == 2);
  CHECK(s.job.layout.grid.dp == 2);
}

TEST_CASE("of one GPU's failures a job has as many times more") {
  const Scenario s =
      example("llama3-8b-8-h100",
              {{"reliability", R"({"gpu_mtbf": "80 h", "dump": "60 s", "restart": "10 min"})"}});
  REQUIRE(s.reliability.has_value());
  CHECK(s.reliability->between_failures == seconds(36000));
  CHECK(s.reliability->dump == seconds(60));
  CHECK(s.reliability->restart == seconds(600));
  CHECK_FALSE(s.reliability->between_dumps.has_value());
  CHECK_FALSE(example("llama3-8b-8-h100", {}).reliability.has_value());
}

TEST_CASE("stored types follow the training type unless they are given") {
  const auto types = [](const std::string& precision) {
    const Training t =
        example("llama3-8b-8-h100", {{"training.precision", precision}}).job.training;
    return std::pair(t.parameter_dtype, t.gradient_dtype);
  };
  CHECK(types("bf16") == std::pair(DataType::bf16, DataType::fp32));
  CHECK(types("fp8") == std::pair(DataType::bf16, DataType::fp32));
  CHECK(types("fp16") == std::pair(DataType::fp16, DataType::fp16));
  CHECK(types("tf32") == std::pair(DataType::fp32, DataType::fp32));
}

TEST_CASE("recipes of fp8 are types, or ways to scale one") {
  const auto recipe = [](const std::string& name) {
    const Training t =
        example("llama3-8b-8-h100", {{"training.precision", "fp8"}, {"training.fp8_recipe", name}})
            .job.training;
    return std::pair(t.precision, t.current_scaling);
  };
  CHECK(recipe("delayed") == std::pair(DataType::fp8, false));
  CHECK(recipe("tensorwise") == std::pair(DataType::fp8, true));
  CHECK(recipe("blockwise") == std::pair(DataType::fp8_blockwise, false));
}

TEST_CASE("the rank order is read innermost first") {
  const Scenario s = example("llama3-70b-64-h100", {{"parallel.order", "tp-pp-cp-ep-dp"}});
  const RankOrder expected{Dimension::tp, Dimension::pp, Dimension::cp, Dimension::ep,
                           Dimension::dp};
  CHECK(s.job.layout.grid.order == expected);
}

TEST_CASE("documents may be a length, lengths, or a mean and its square") {
  const auto document = [](const std::string& value) {
    return *example("llama3-8b-8-h100", {{"training.documents", value}}).job.training.document;
  };
  CHECK(document("512") == 512);
  // (1000^2 + 3000^2) / 4000
  CHECK(document("[1000, 3000]") == 2500);
  CHECK(document(R"({"mean": 200, "mean_square": 60000})") == 300);
  CHECK_FALSE(example("llama3-8b-8-h100").job.training.document);
}

TEST_CASE("the LoRA example freezes the model") {
  const Scenario s = example("llama2-70b-lora-64-h100");
  REQUIRE(s.job.training.adapters);
  const LowRankAdapters& adapters = *s.job.training.adapters;
  CHECK(adapters.rank == 16);
  CHECK(adapters.on(AdapterTarget::linear_qkv));
  CHECK(adapters.on(AdapterTarget::linear_proj));
  CHECK_FALSE(adapters.on(AdapterTarget::linear_fc1));
  CHECK(adapters.frozen_dtype == DataType::fp8);
}

TEST_CASE("an optimizer on the host asks for links to it") {
  CHECK_FALSE(example("llama3-8b-8-h100").cluster.host_copies);
  const Scenario s = example("llama3-8b-8-h100", {{"training.offload", R"("host")"}});
  CHECK(s.cluster.host_copies);
  CHECK(s.job.training.offload->fraction == 1);
}

TEST_CASE("other nodes have GPUs, kernels and slower links of their own") {
  const Scenario s = example("llama3-8b-64-h100-and-a100");
  REQUIRE(s.cluster.others.size() == 1);
  CHECK(s.cluster.others[0].system.gpu.name == "a100-sxm");
  REQUIRE(s.other_profiles.size() == 1);
  CHECK(s.profile.name == "h100-sxm");
  CHECK(s.other_profiles[0].name == "a100-sxm");
  // 600 of 900 GB/s of NVLink both ways, HDR of 200 beside NDR of 400 Gb/s; GPUs 48 to 63.
  REQUIRE(s.cluster.degraded.size() == 2);
  for (const DegradedLinks& links : s.cluster.degraded) {
    CHECK(links.first == 48);
    CHECK(links.last == 63);
    CHECK(links.factor == Approx(links.kind == LinkKind::nvlink ? 300.0 / 450 : 200.0 / 400));
  }
}

TEST_CASE("activations go to the host with the optimizer or without it") {
  Scenario s =
      example("llama3-8b-8-h100", {{"training.offload", R"({"activations": {"layers": 12}})"}});
  CHECK(s.cluster.host_copies);
  CHECK_FALSE(s.job.training.offload);
  CHECK(s.job.training.offloaded_layers == 12);
  s = example("llama3-8b-8-h100",
              {{"training.offload", R"({"to": "host", "activations": {"layers": 12}})"}});
  CHECK(s.job.training.offload);
  CHECK(s.job.training.offloaded_layers == 12);
}

TEST_CASE("schema and reader know the same keys") {
  // Fabrics that are no tree and measured routing have keys of their own.
  const std::vector<std::vector<Override>> variants{
      {},
      {{"cluster.fabric",
        R"({"kind": "dragonfly", "switch_ports": 7, "group_nodes": 2, "global_links": 3})"}},
      {{"cluster.fabric",
        R"({"kind": "torus", "dimensions": [2, 2], "link_bandwidth": "10 GB/s"})"}},
      {{"cluster.fabric", R"({"kind": "graph", "graph": {"switches": ["a", "b"],
        "links": [{"from": "a", "to": "b", "bandwidth": "10 GB/s", "latency": "1 us", "cables": 2}],
        "nodes": [{"count": 2, "switches": ["a"]}, {"count": 2, "switches": ["a", "b"]}]}})"},
       {"cluster.degraded", R"([{"link": "switch_link", "cables": [1], "factor": 0.5}])"}},
      {{"training.offload", R"({"activations": {"layers": 2}})"},
       {"training.recompute", "none"},
       {"training.schedule", "1f1b"},
       {"parallel.pp", "1"},
       {"parallel.vpp", "1"},
       {"parallel.dp", "8"},
       {"parallel.layers_per_stage", "null"}},
      {{"training.offload", "null"},
       {"cluster.other_nodes",
        R"([{"nodes": [1], "profile": "a100-sxm", "system": {"base": "dgx-a100",
             "gpus_per_node": 4, "nvlink_domain": 4, "node_link": "pcie",
             "gpu": {"base": "h100-sxm", "peak_dense": {"bf16": "100 TFLOP/s"}}}}])"}},
      {{"reliability", R"({"gpu_mtbf": "50000 h", "dump": "60 s", "restart": "10 min"})"}},
      {{"training.routing", R"({"kind": "measured", "counts": [[1, 2, 3, 4, 5, 6, 7, 8]]})"}},
      {{"training.routing", R"({"kind": "measured", "file": "expert_counts.json"})"}},
      {{"training.documents", R"({"file": "document_lengths.json"})"}}};
  std::set<std::string> read;
  for (const std::vector<Override>& variant : variants) {
    auto document = Document::read(std::filesystem::path(FLOPCAST_TEST_DATA) / "every_key.json");
    for (const Override& change : variant) {
      document.set(change.path, change.value);
      // There are no uplinks.
      if (change.path == "cluster.fabric") document.set("cluster.degraded", "null");
    }
    ShippedData data(shipped());
    read_scenario_document(document, data);
    for (const std::string& key : document.asked()) read.insert(key);
  }

  std::ifstream file(kSource / "scenarios/scenario.schema.json");
  const Json schema = Json::parse(file);
  std::set<std::string> known;
  collect(schema, schema, "", known);

  for (const std::string& key : read) {
    CAPTURE(key);
    CHECK(known.count(key) == 1);
  }
  for (const std::string& key : known) {
    CAPTURE(key);
    CHECK(read.count(key) == 1);
  }
}
