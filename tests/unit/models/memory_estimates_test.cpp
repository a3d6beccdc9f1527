#include "models/memory_estimates.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

// Outputs of DeepSpeed's own estimators and FSDP's rules: tests/data/memory_estimates.json.

using namespace flopcast;
using nlohmann::json;

namespace {

json fixture(const char* section) {
  std::ifstream file(std::string(FLOPCAST_TEST_DATA) + "/memory_estimates.json");
  return json::parse(file).at(section);
}

void check(const EstimatedMemory& found, const json& expected) {
  CHECK(found.device.value == Approx(expected.at("device_bytes").get<double>()).margin(1));
  CHECK(found.host.value == Approx(expected.at("host_bytes").get<double>()).margin(1));
}

std::string flag(bool value) { return value ? "true" : "false"; }

}  // namespace

TEST_CASE("DeepSpeed's estimators are reproduced") {
  const json section = fixture("deepspeed_estimator");
  for (const json& row : section.at("cases")) {
    CAPTURE(row.dump());
    const json& input = row.at("input");
    const json& expected = row.at("expected");
    const EstimatedJob job{.parameters = input.at("parameters"),
                           .largest_module = input.at("largest_module_parameters"),
                           .gpus_per_node = input.at("gpus_per_node"),
                           .nodes = input.at("nodes")};
    for (const bool offload : {false, true}) {
      check(deepspeed_zero2_memory(job, offload),
            expected.at("zero2_offload_optimizer_" + flag(offload)));
    }
    for (const auto& [optimizer, parameters] :
         {std::pair{false, false}, {true, false}, {true, true}}) {
      for (const bool init : {true, false}) {
        check(deepspeed_zero3_memory(
                  job, {.optimizer = optimizer, .parameters = parameters, .zero_init = init}),
              expected.at("zero3_offload_optimizer_" + flag(optimizer) + "_param_" +
                          flag(parameters) + "_zero_init_" + flag(init)));
      }
    }
  }
}

TEST_CASE("FSDP shards states and gathers one layer at a time") {
  const json section = fixture("fsdp_rules");
  for (const json& row : section.at("cases")) {
    CAPTURE(row.dump());
    const json& expected = row.at("expected");
    const FsdpMemory memory =
        fsdp_memory(row.at("parameters"), row.at("layer_unit_parameters"), row.at("ranks"));
    CHECK(memory.sharded_state.value == Approx(expected.at("sharded_state_bytes").get<double>()));
    CHECK(memory.layer_gather.value ==
          Approx(expected.at("layer_gather_buffer_bytes").get<double>()));
    CHECK(memory.layer_reduce_scatter.value ==
          Approx(expected.at("layer_reduce_scatter_input_bytes").get<double>()));
    CHECK(2 * memory.layer_gather.value ==
          Approx(expected.at("two_layers_gathered_bytes").get<double>()));
    CHECK(memory.all_gathered.value ==
          Approx(expected.at("all_gathered_without_reshard_bytes").get<double>()));
  }
}
