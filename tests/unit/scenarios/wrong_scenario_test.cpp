#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/scenario.h"
#include "sim/errors.h"

using namespace flopcast;

namespace {

const std::filesystem::path kWrong = std::filesystem::path(FLOPCAST_TEST_DATA) / "wrong";
const std::filesystem::path kGood =
    std::filesystem::path(FLOPCAST_SOURCE_DIR) / "scenarios/examples/llama3-70b-64-h100.json";

DataFolders shipped() {
  const std::filesystem::path source(FLOPCAST_SOURCE_DIR);
  return {.catalogue = source / "scenarios/catalogue", .profiles = source / "calibration/profiles"};
}

/// The message of the InputError that reading the file throws.
std::optional<std::string> complaint(const std::filesystem::path& file,
                                     const std::vector<Override>& overrides = {}) {
  try {
    read_scenario(file, overrides, shipped());
  } catch (const InputError& error) {
    return error.what();
  }
  return std::nullopt;
}

struct Row {
  std::string file;                // in tests/data/wrong, without .json
  std::string place;               // line:column of the mistake, counted in the file
  std::vector<std::string> parts;  // of the message
};

// clang-format off
const std::vector<Row> kRows{
    // not JSON
    {"binary", "", {"a binary file"}},
    {"empty", "", {"an empty file"}},
    {"not_utf8", "1:11", {"UTF-8"}},
    {"unclosed_brace", "9:1", {"expected ',' or '}'", "the end of the file"}},
    {"missing_comma", "3:3", {"expected ',' or '}'", "found \"cluster\""}},
    {"trailing_comma", "3:47", {"a comma before '}'"}},
    {"bare_word", "2:12", {"llama3-8b", "text stands in double quotes"}},
    {"not_a_number", "5:28", {"NaN"}},
    {"too_large_number", "5:28", {"1e999", "too large"}},
    {"nested_too_deep", "1:74", {"nested deeper than 64"}},
    {"duplicate_key", "5:14", {"duplicate key \"tp\"", "duplicate_key.json:4:16"}},
    // keys
    {"unknown_key", "3:49", {"/cluster/fabrik", "unknown key", "did you mean \"fabric\"?"}},
    {"unknown_key_deep", "3:80", {"/cluster/fabric/oversubscribtion", "did you mean \"oversubscription\"?"}},
    {"unknown_section", "6:3", {"/profil", "unknown key", "did you mean \"profile\"?"}},
    {"unknown_metric", "7:14", {"/expect/mfuu", "unknown key", "did you mean \"mfu\"?"}},
    {"byte_order_mark", "2:3", {"/modell", "did you mean \"model\"?"}},
    {"missing_key", "5:15", {"/training", "\"global_batch\" is missing"}},
    {"misspelt_required", "5:34", {"/training/global_bach", "did you mean \"global_batch\"?"}},
    // kinds, units and ranges
    {"a_list", "1:1", {"expected an object, found a list"}},
    {"list_for_object", "3:14", {"/cluster", "expected an object, found a list"}},
    {"missing_unit", "3:66", {"/cluster/nic_bandwidth", "400 has no unit", "\"400 Gb/s\""}},
    {"wrong_unit", "3:66", {"/cluster/nic_bandwidth", "a bandwidth such as", "found \"400 GB\""}},
    {"unknown_unit", "5:64", {"/training/bucket", "found \"25 Mib\"", "\"25 MiB\""}},
    {"negative_size", "5:64", {"/training/bucket", "\"-25 MiB\" is negative"}},
    {"negative_count", "3:46", {"/cluster/nodes", "at least 1, found -2"}},
    {"fraction_for_count", "4:22", {"/parallel/tp", "a whole number, found 2.5"}},
    {"text_for_number", "5:28", {"/training/sequence", "a whole number, found \"4096\""}},
    {"boolean_for_number", "4:22", {"/parallel/tp", "a whole number, found true"}},
    {"number_for_boolean", "4:69", {"/parallel/sequence_parallel", "true or false, found 1"}},
    {"null_value", "3:46", {"/cluster/nodes", "found null"}},
    {"bad_order", "4:57", {"/parallel/order", "innermost first", "found \"tp-dp-pp\""}},
    {"value_without_tolerance", "7:31", {"/expect/mfu/value", "needs a \"tolerance\""}},
    {"min_above_max", "7:29", {"/expect/mfu/min", "min is above max"}},
    // names and files
    {"unknown_gpu", "3:53", {"/cluster/system/gpu", "\"h100-smx\"", "did you mean \"h100-sxm\"?"}},
    {"unknown_system", "3:25", {"/cluster/system", "\"dgx-h1000\"", "did you mean \"dgx-h100\"?"}},
    {"unknown_model", "2:12", {"/model", "\"llama-3-8b\"", "did you mean \"llama3-8b\"?"}},
    {"unknown_framework", "6:16", {"/framework", "megatron-2021", "did you mean \"megatron\"?"}},
    {"unknown_profile", "6:14", {"/profile", "\"h100_sxm\"", "did you mean \"h100-sxm\"?"}},
    {"unknown_fabric", "3:68", {"/cluster/fabric/kind", "did you mean \"fat_tree\"?"}},
    {"lora_rank_not_split", "7:22", {"/training/lora/rank", "8 tensor-parallel ranks", "16"}},
    {"unknown_lora_target", "6:52", {"/training/lora/targets/1", "did you mean \"linear_proj\"?"}},
    {"document_beyond_sequence", "6:24", {"/training/documents/1", "9000"}},
    {"documents_mean_square", "6:47", {"/training/documents/mean_square", "40000"}},
    {"offload_unknown_host", "6:16", {"/training/offload", "mi300x-8", "cluster.host_memory"}},
    {"offload_unknown_drives", "6:16", {"/training/offload", "dgx-h100", "cluster.storage"}},
    {"offload_without_place", "6:16", {"/training/offload", "\"to\" is missing"}},
    {"offload_unknown_size", "6:16", {"/training/offload", "mi300x-8", "cluster.host_memory_size"}},
    {"offload_all_layers", "6:43", {"/training/offload/activations/layers", "32 layers cannot be offloaded", "nearest legal layers: 31"}},
    {"offload_activations_pipeline", "4:31", {"/parallel/pp", "only without a pipeline", "nearest legal pp: 1"}},
    {"offload_activations_recompute", "7:18", {"/training/recompute", "either recomputed or offloaded", "\"none\""}},
    {"unknown_recompute_module", "6:65", {"/training/recompute/modules/1", "did you mean \"layernorm\"?"}},
    {"routing_of_dense_model", "6:16", {"/training/routing", "the model has no experts"}},
    {"counts_of_other_model", "6:48", {"/training/routing/counts/0", "4 counts for 8 experts"}},
    {"recompute_modules_of_full", "6:46", {"/training/recompute/modules", "only \"selective\" recomputes modules"}},
    {"missing_model_file", "2:12", {"/model", "no such file", "missing/config.json"}},
    {"missing_profile_file", "6:14", {"/profile", "no such file", "missing.json"}},
    // slow and degraded parts
    {"slow_gpu_beyond", "3:68", {"/cluster/slow/0/gpus/0", "at most 15", "found 16"}},
    {"slow_range_beyond", "3:68", {"/cluster/slow/0/gpus/0", "16 is beyond the last, 15"}},
    {"slow_no_range", "3:68", {"/cluster/slow/0/gpus/0", "a number or a range such as \"8-15\"", "found \"8 to 9\""}},
    {"slow_range_backwards", "3:68", {"/cluster/slow/0/gpus/0", "\"9-8\" is no range from low to high"}},
    {"slow_faster", "3:81", {"/cluster/slow/0/speed", "found 1.2"}},
    {"other_nodes_beyond", "3:76", {"/cluster/other_nodes/0/nodes/0", "8 is beyond the last, 7"}},
    {"other_nodes_twice", "3:65", {"/cluster/other_nodes/0", "node 7 is named twice"}},
    {"other_nodes_of_four", "3:65", {"/cluster/other_nodes/0", "have 4 GPUs", "have 8"}},
    {"other_nodes_without_fp8", "5:67", {"/training/precision", "a100-sxm has no fp8"}},
    {"degraded_unknown_link", "3:71", {"/cluster/degraded/0/link", "did you mean \"nic\"?"}},
    {"degraded_leaf_by_gpu", "3:62", {"/cluster/degraded/0", "\"leaves\" is missing"}},
    {"degraded_no_uplink", "3:108", {"/cluster/degraded/0/link", "the cluster has no leaf_uplink"}},
    {"degraded_no_zone", "3:71", {"/cluster/degraded/0/link", "the cluster has no zone_uplink"}},
    {"degraded_spine_by_leaf", "3:131", {"/cluster/degraded/0", "\"spine_groups\" is missing"}},
    {"degraded_spine_beyond", "3:188", {"/cluster/degraded/0/spine_groups/0", "at most 1", "found 2"}},
    // which card a GPU uses
    {"gpu_nic_beyond", "3:68", {"/cluster/system/gpu_nic", "GPU 7 uses card 4, but cards are 0 to 3"}},
    {"gpu_nic_too_few", "3:68", {"/cluster/system/gpu_nic", "expected a card for each of 8 GPUs, found 4"}},
    // links of a mesh
    {"mesh_short_row", "3:57", {"/cluster/system/mesh/0", "links to each of 8 GPUs, found 2"}},
    {"mesh_one_way", "3:105", {"/cluster/system/mesh", "1 links from GPU 0 to 1, but 2 back"}},
    // switches that reduce
    {"sharp_on_torus", "3:108", {"/cluster/fabric/sharp", "which a torus is not; expected kind single_switch"}},
    {"sharp_on_roce", "3:98", {"/cluster/fabric/sharp", "only InfiniBand switches reduce", "dgx-h100 speak roce"}},
    {"sharp_over_sockets", "3:14", {"/cluster", "reduce what RDMA sends, but transport is socket"}},
    // jitter
    {"jitter_of_nothing", "7:13", {"/jitter", "nothing varies", "kernel_sigma"}},
    {"jitter_not_measured", "7:30", {"/jitter/kernel_sigma", "h100-sxm has no kernel_spread"}},
    {"jitter_without_source", "7:13", {"/jitter", "not assumed has a \"source\""}},
    // reliability
    {"reliability_of_both", "6:18", {"/reliability", "\"mtbf\" of the whole job or \"gpu_mtbf\""}},
    {"reliability_without_dump", "6:42", {"/reliability/dump", "\"0 s\" is zero"}},
    // what cannot be
    {"nodes_and_gpus", "3:57", {"/cluster/gpus", "\"nodes\" is given too"}},
    {"gpus_not_whole_nodes", "3:45", {"/cluster/gpus", "nodes of 8", "8 or 16"}},
    {"illegal_tp", "4:22", {"/parallel/tp", "does not divide the 32 attention heads", "nearest legal tp: 2, 4"}},
    {"illegal_shard", "4:36", {"/parallel/shard", "does not divide the dp * cp = 16 * 1", "nearest legal shard: 4, 8"}},
    {"unknown_cp_split", "4:37", {"/parallel/cp_split", "\"zig_zag\"", "did you mean \"zigzag\"?"}},
    {"cp_a2a_of_ring", "4:35", {"/parallel/cp_a2a", "only cp_kind \"a2a+p2p\""}},
    {"illegal_cp_a2a", "4:57", {"/parallel/cp_a2a", "cp_a2a = 3 does not cut cp = 8", "nearest legal cp_a2a: 2, 4"}},
    {"ep_inner_without_levels", "4:37", {"/parallel/ep_inner", "only the dispatcher \"hierarchical\""}},
    {"window_on_a_ring", "4:22", {"/parallel/cp", "rings of keys and values take no windows", "nearest legal cp: 1"}},
    {"reshard_nothing_gathered", "4:52", {"/parallel/reshard_after_forward", "only zero = 3"}},
    {"unknown_reshard", "4:52", {"/parallel/reshard_after_forward", "\"nevr\"", "did you mean \"never\"?"}},
    {"illegal_dp", "4:40", {"/parallel/dp", "is not the 16 GPUs", "nearest legal dp: 4"}},
    {"illegal_batch", "5:50", {"/training/global_batch", "global_batch = 63", "64, 60"}},
    {"precision_not_on_gpu", "5:47", {"/training/precision", "h100-sxm has no nvfp4", "fp8"}},
    {"endless_model", "2:12", {"/model", "more than 10^17 parameters"}},
    {"heads_of_model", "2:12", {"/model", "32 heads are not a multiple of the 5 kv_heads"}},
};
// clang-format on

}  // namespace

TEST_CASE("a wrong scenario is told where, what and what else") {
  for (const Row& row : kRows) {
    CAPTURE(row.file);
    const auto path = kWrong / (row.file + ".json");
    const auto message = complaint(path);
    REQUIRE(message.has_value());
    CAPTURE(*message);
    const std::string place = path.string() + (row.place.empty() ? ": " : ":" + row.place + ": ");
    CHECK(message->rfind(place, 0) == 0);
    for (const std::string& part : row.parts) {
      CAPTURE(part);
      CHECK(message->find(part) != std::string::npos);
    }
  }
}

TEST_CASE("every wrong scenario file is in the table") {
  for (const auto& entry : std::filesystem::directory_iterator(kWrong)) {
    const std::string name = entry.path().stem().string();
    CAPTURE(name);
    CHECK(
        std::any_of(kRows.begin(), kRows.end(), [&](const Row& row) { return row.file == name; }));
  }
}

TEST_CASE("a file that is not there or not a file is the user's mistake") {
  CHECK(complaint(kWrong / "nowhere.json")->find("no such file") != std::string::npos);
  CHECK(complaint(kWrong)->find("a folder") != std::string::npos);
}

TEST_CASE("a wrong option is named as it was given") {
  struct OptionRow {
    Override option;
    std::string message;  // its beginning
  };
  const std::vector<OptionRow> rows{
      {{"parallel.tpp", "4"}, "--set parallel.tpp=4: /parallel/tpp: unknown key; did you mean"},
      {{"paralel.tp", "4"},
       "--set paralel.tp=4: /paralel: unknown key; did you mean \"parallel\"?"},
      {{"parallel.tp", "three"}, "--set parallel.tp=three: /parallel/tp: expected a whole number"},
      {{"parallel.tp", "3"}, "--set parallel.tp=3: /parallel/tp: tp = 3 does not divide"},
      {{"training.bucket", "25"}, "--set training.bucket=25: /training/bucket: 25 has no unit"},
      {{"cluster.system", "dgx-h10"}, "--set cluster.system=dgx-h10: /cluster/system: no system"},
      {{"training.fp8_recipe", "tensorwize"},
       "--set training.fp8_recipe=tensorwize: /training/fp8_recipe: expected one of delayed, "
       "tensorwise, blockwise, mxfp8, found \"tensorwize\""},
      {{"training.tensor_dtype", "mxfp8"},
       "--set training.tensor_dtype=mxfp8: /training/tensor_dtype: products read fp8; gathered is "
       "that or bf16"},
      {{"training.attention_dtype", "mxfp8"},
       "--set training.attention_dtype=mxfp8: /training/attention_dtype: with precision fp8 "
       "attention is in fp8 or bf16"},
      {{"training.loss_chunks", "3"},
       "--set training.loss_chunks=3: /training/loss_chunks: a sequence of 8192 in 3 parts, each "
       "of which 4 ranks share, does not divide; nearest: 2"},
      {{"training.pipeline_dtype", "fp8"},
       "--set training.pipeline_dtype=fp8: /training/pipeline_dtype: expected one of fp32, fp16, "
       "bf16, found \"fp8\""},
      {{"training.overlap_expert_exchange", "true"},
       "--set training.overlap_expert_exchange=true: /training/overlap_expert_exchange: the model "
       "has no experts"},
      {{"parallel.dispatcher", "deepep"},
       "--set parallel.dispatcher=deepep: /parallel/dispatcher: the model has no experts"},
      {{"jitter.kernel_sgima", "0.02"},
       "--set jitter.kernel_sgima=0.02: /jitter/kernel_sgima: unknown key; did you mean"},
      {{"network.model", "step"},
       "--set network.model=step: /network/model: expected one of fluid, steps, found \"step\""},
      {{"training", "{}"}, "--set training={}: /training: the key \"sequence\" is missing"},
      {{"parallel..tp", "4"}, "--set parallel..tp=4: expected a path of keys"},
      {{"", "4"}, "--set =4: expected a path of keys"},
  };
  for (const OptionRow& row : rows) {
    CAPTURE(row.message);
    const auto message = complaint(kGood, {row.option});
    REQUIRE(message.has_value());
    CAPTURE(*message);
    CHECK(message->rfind(row.message, 0) == 0);
  }
}

TEST_CASE("an object that only options created is told by the first of them") {
  const auto message = complaint(kGood, {{"cluster.nics", "8"}, {"cluster.fabrc.kind", "torus"}});
  REQUIRE(message.has_value());
  CHECK(*message ==
        "--set cluster.fabrc.kind=torus: /cluster/fabrc: unknown key; did you mean \"fabric\"?");
}

TEST_CASE("GPUs that a layout does not fill are told at the layout") {
  // tp * pp = 4 * 8 = 32 needs four nodes; dp follows, so what hangs on it is not told.
  const auto message = complaint(kGood, {{"cluster.nodes", "1"}});
  REQUIRE(message.has_value());
  CHECK(message->find("/parallel/pp: tp * cp * pp = 4 * 1 * 8 does not divide the 8 GPUs") !=
        std::string::npos);
  CHECK(message->find("global_batch") == std::string::npos);
}

TEST_CASE("parameters are in fp8 only where products read that") {
  const auto message =
      complaint(kGood, {{"training.precision", "bf16"}, {"training.fp8_param_gather", "true"}});
  REQUIRE(message.has_value());
  CHECK(*message ==
        "--set training.fp8_param_gather=true: /training/fp8_param_gather: products read bf16: "
        "only those in fp8 have weights in fp8");
}
