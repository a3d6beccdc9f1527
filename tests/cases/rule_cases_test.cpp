// Reports from issue trackers whose answer is a rule or a closed form. README.md lists all cases.

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "calibration/profile.h"
#include "models/expert_routing.h"
#include "models/goodput.h"
#include "models/layout.h"
#include "models/memory_estimates.h"
#include "models/model_flops.h"
#include "scenarios/catalogue.h"
#include "scenarios/expectation.h"
#include "scenarios/read_profile.h"
#include "topology/gpu.h"

namespace flopcast {
namespace {

Transformer dense_model(std::int64_t layers) {
  Transformer model;
  model.layers = layers;
  model.hidden = 1536;
  model.heads = model.kv_heads = 48;
  model.head_dim = 32;
  model.ffn = 6144;
  model.vocab = 50304;
  return model;
}

/// Whether a pipeline over `pp` stages takes the layers or micro-batches.
bool legal(const Transformer& model, const Layout& layout, const BatchShape& batch) {
  const ParallelGrid& grid = layout.grid;
  return layout_is_legal(model, layout, batch, grid.tp * grid.cp * grid.pp * grid.dp);
}

}  // namespace

TEST_CASE("sch-interleaved-divisible: interleaving wants micro-batches in whole groups of stages") {
  const auto valid = [](int stages, std::int64_t micro_batches) {
    Layout layout;
    layout.grid.pp = stages;
    layout.vpp = 2;
    layout.schedule = ScheduleKind::interleaved;
    return legal(dense_model(48), layout,
                 {.sequence = 1024, .micro_batch = 1, .global_batch = micro_batches});
  };
  CHECK(valid(4, 8));
  CHECK_FALSE(valid(4, 10));
  CHECK_FALSE(valid(8, 12));
  CHECK(valid(2, 6));
}

TEST_CASE("sch-layers-30-pp4, sch-dropped-remainder-layers: no layer is lost without a word") {
  Layout layout;
  layout.grid.pp = 4;
  const BatchShape batch{.sequence = 1024, .micro_batch = 1, .global_batch = 8};
  CHECK_FALSE(legal(dense_model(30), layout, batch));
  CHECK_FALSE(legal(dense_model(27), layout, batch));
  layout.layers_per_stage = {7, 8, 8, 7};
  CHECK(legal(dense_model(30), layout, batch));
  std::int64_t layers = 0;
  for (const StageContent& stage : split_layers(dense_model(30), layout)) layers += stage.layers;
  CHECK(layers == 30);
}

// The least length whose multiples are legal: cp * lcm(2, tp).
TEST_CASE("sch-seq-divisor-cp-tp: what a sequence must be a multiple of") {
  const auto least = [](int cp, int tp) {
    Layout layout;
    layout.grid.cp = cp;
    layout.grid.tp = tp;
    layout.sequence_parallel = tp > 1;
    for (std::int64_t length = 1;; ++length) {
      if (legal(dense_model(4), layout,
                {.sequence = length, .micro_batch = 1, .global_batch = 1})) {
        return length;
      }
    }
  };
  CHECK(least(4, 4) == 16);
  CHECK(least(2, 3) == 12);
  CHECK(least(2, 1) == 4);
  CHECK(least(8, 8) == 64);
  CHECK(least(1, 4) == 4);
}

TEST_CASE("sch-moe-tp-needs-sp: experts beside tensor parallelism need sequence parallelism") {
  Transformer model = dense_model(4);
  model.moe.emplace();
  model.moe->experts = 8;
  model.moe->top_k = 2;
  model.moe->expert_ffn = 1024;
  Layout layout;
  layout.grid.tp = 2;
  layout.grid.dp = 4;
  layout.grid.ep = 4;
  const BatchShape batch{.sequence = 1024, .micro_batch = 1, .global_batch = 8};
  CHECK_FALSE(legal(model, layout, batch));
  layout.sequence_parallel = true;
  CHECK(legal(model, layout, batch));
}

TEST_CASE("sch-bridge-gpt-oss-ga: micro-batches of published rows that do not add up") {
  const auto accumulated = [](int gpus, int pp, std::int64_t micro_batch, std::int64_t batch) {
    Layout layout;
    layout.grid.pp = pp;
    layout.grid.dp = gpus / pp;
    return micro_batches(layout,
                         {.sequence = 4096, .micro_batch = micro_batch, .global_batch = batch});
  };
  CHECK(accumulated(64, 4, 4, 512) == 8);     // printed: 2
  CHECK(accumulated(256, 4, 2, 8192) == 64);  // printed: 32
  CHECK(accumulated(64, 1, 4, 512) == 2);
}

TEST_CASE("mem-ds-zero2-bytes: only the 16-bit weights stay whole, 18 bytes are shared out") {
  constexpr std::int64_t kParameters = 6050000000;
  for (const int gpus : {2, 4, 16}) {
    const EstimatedMemory memory = deepspeed_zero2_memory(
        {.parameters = kParameters, .largest_module = 0, .gpus_per_node = gpus, .nodes = 1}, false);
    CHECK(memory.device.value / kParameters == Approx(2 + 18.0 / gpus).epsilon(0.01));
  }
}

TEST_CASE("moe-capacity-formula: tokens that one expert takes") {
  const auto capacity = [](std::int64_t tokens, int top_k, int experts, double factor) {
    MixtureOfExperts moe;
    moe.experts = experts;
    moe.top_k = top_k;
    return expert_capacity(tokens, moe, factor);
  };
  CHECK(capacity(4096, 2, 8, 1.0) == 1024);
  CHECK(capacity(4096, 2, 8, 1.25) == 1280);
  CHECK(capacity(8192, 8, 256, 1.0) == 256);
}

TEST_CASE("thr-mfu-sparse-peak: MFU is of the dense peak") {
  const std::filesystem::path source = FLOPCAST_SOURCE_DIR;
  Catalogue catalogue(source / "scenarios/catalogue");
  const std::vector<Gpu> gpus = catalogue.gpus();
  const auto gpu = std::ranges::find(gpus, "h100-sxm", &Gpu::name);
  REQUIRE(gpu != gpus.end());
  CHECK(9600 * 0.05e12 / gpu->peak(DataType::bf16)->value == Approx(0.485).margin(0.01));
}

// A kernel of 189 TFLOP/s by the causal count would reach 1.21 of A100's peak by the full one.
TEST_CASE("thr-mfu-over-100: causal attention counted in full is counted twice") {
  Transformer model = dense_model(1);
  const std::int64_t sequence = 1 << 22;  // all else vanishes beside attention
  const Flops full = model_flops(model, sequence, 1, 128, FlopConvention::megatron_full);
  const Flops causal = model_flops(model, sequence, 1, 128, FlopConvention::megatron);
  CHECK(189.0 / 312 * (full / causal) == Approx(1.21).margin(0.01));
}

TEST_CASE("gp-8b-checkpoint-6min: with a failure a day a dump of 6 minutes is due every 2.19 h") {
  const Reliability job{.between_failures = seconds(86400), .dump = seconds(360), .restart = {}};
  CHECK(young_interval(job).value / 3600 == Approx(2.19).epsilon(0.02));
}

TEST_CASE("par-ci-threshold-fail: which rows of a gate fail") {
  StepReport report;
  Expectation expected;
  expected.metric = "tokens_per_second_per_gpu";
  const auto passes = [&](double measured, double baseline) {
    report.tokens_per_second_per_gpu = measured;
    expected.value = baseline;
    expected.tolerance = 0.1;
    return evaluate(std::vector{expected}, report).front().passed;
  };
  CHECK_FALSE(passes(242.994, 298.886));  // -18.7 %
  CHECK(passes(1130.042, 1188.752));      // -4.9 %
  CHECK_FALSE(passes(32.923, 26.766));    // +23.0 %
}

// 510 steps of a ring over 256 ranks that all wait 4 us longer would add 2 ms to 23 ms; of 32 nodes
// only the steps between nodes do.
TEST_CASE("com-simai-send-latency: 4 us more per send do not cost 18 times the bandwidth") {
  NetworkPath path{.domain = gigabytes_per_second(450),
                   .network = gigabytes_per_second(8 * 50),
                   .network_hop = microseconds(2)};
  const std::filesystem::path source = FLOPCAST_SOURCE_DIR;
  const Profile profile =
      read_profile(Document::read(source / "calibration/profiles/h100-sxm.json"));
  const auto time = [&] {
    return collective_time(profile, CollectiveKind::all_reduce, mebibytes(512),
                           {.ranks_per_node = 8, .nodes = 32}, path)
        .total();
  };
  const Seconds near = time();
  path.network_hop = microseconds(6);
  CHECK(time() / near < 1.15);
  CHECK(time() > near);
}

}  // namespace flopcast
