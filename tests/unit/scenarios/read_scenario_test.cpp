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

TEST_CASE("the rank order is read innermost first") {
  const Scenario s = example("llama3-70b-64-h100", {{"parallel.order", "tp-pp-cp-ep-dp"}});
  const RankOrder expected{Dimension::tp, Dimension::pp, Dimension::cp, Dimension::ep,
                           Dimension::dp};
  CHECK(s.job.layout.grid.order == expected);
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
      {{"training.routing", R"({"kind": "measured", "counts": [[1, 2, 3, 4, 5, 6, 7, 8]]})"}},
      {{"training.routing", R"({"kind": "measured", "file": "expert_counts.json"})"}}};
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
