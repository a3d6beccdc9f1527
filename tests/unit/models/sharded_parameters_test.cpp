#include "models/sharded_parameters.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "golden_models.h"
#include "simple_machine.h"

// Sharded data parallelism against calls counted on PyTorch's own wrappers, the volumes of the ZeRO
// paper and of DeepSpeed (tests/data/sharded_data_parallel.json, each section with its source), and
// closed forms of what is held.

using namespace flopcast;
using namespace flopcast::test;
using nlohmann::json;

namespace {

json fixture(const char* file, const char* section) {
  std::ifstream in(std::string(FLOPCAST_TEST_DATA) + "/" + file);
  return json::parse(in).at(section);
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// Four layers and a root module with embedding and head, as counted.
Job five_units(int ranks, std::int64_t micro_batches) {
  Job job;
  job.model = transformer_of({4, 1024, 8, 8, 4096, 1024});
  job.layout.zero = 3;
  job.layout.grid.dp = ranks;
  job.training.batch = {
      .sequence = 64, .micro_batch = 1, .global_batch = micro_batches * job.layout.grid.dp};
  job.training.framework = *framework_preset("fsdp2");
  job.training.framework.shards_ends_apart = false;
  return job;
}

Job counted_job(const json& row) {
  const std::string id = row.at("id");
  Job job = five_units(row.at("ranks"), row.at("micro_batches"));
  Framework& framework = job.training.framework;
  if (id.starts_with("fsdp1")) framework = *framework_preset("fsdp1");
  if (id.starts_with("fsdp2_zero3")) job.layout.reshard = Reshard::always;
  if (id.starts_with("fsdp2_zero2") || has(id, "SHARD_GRAD_OP")) {
    job.layout.reshard = Reshard::never;
  }
  if (id.starts_with("hsdp_2x4")) job.layout.shard = 4;
  if (has(id, "NO_SHARD")) job.layout.shard = 1;
  if (has(id, "nosyncTrue") || id.ends_with("_nosync") || has(id, "_nosync_")) {
    framework.reduces_each_micro_batch = false;
  }
  if (has(id, "noreshard")) framework.keeps_unreduced_gathered = true;
  if (has(id, "allreduce_last")) framework.replicas_reduce_each_micro_batch = false;
  // Nothing runs ahead, so that each call falls into its own micro-batch.
  job.training.overlap_grad_reduce = job.training.overlap_param_gather = false;
  return job;
}

using Calls = std::map<std::string, int>;

/// A gather comes after the embedding's gradient of the micro-batch before its own, a reduction
/// after its own micro-batch's embedding.
std::vector<Calls> calls_by_micro_batch(const Step& step, std::size_t count) {
  const auto label = [&step](const Span& span) {
    return step.plan.workload.labels[index_of(span.label)];
  };
  const auto passed = [&](std::string_view name, SimTime time) {
    std::size_t sum = 0;
    for (const Span& span : step.timeline.spans) {
      if (label(span) == name && span.begin < time) ++sum;
    }
    return sum;
  };
  std::vector<Calls> calls(count);
  for (const Span& span : step.timeline.spans) {
    const std::string name = label(span);
    if (name == "gather parameters") {
      ++calls.at(passed("embedding gradient", span.begin))["all_gather"];
    } else if (name == "reduce gradients") {
      ++calls.at(passed("embedding", span.begin) - 1)["reduce_scatter"];
    } else if (name == "reduce over replicas") {
      ++calls.at(passed("embedding", span.begin) - 1)["all_reduce"];
    }
  }
  return calls;
}

/// Ring bytes that a rank sends for gradients and parameters in one step.
double volume(const Job& job) {
  const Step step = run_step(job);
  return step.sent(0, StepCategory::gradient) + step.sent(0, StepCategory::parameter);
}

Job volume_job(const char* framework, int zero, int ranks) {
  Job job;
  job.layout.grid.dp = ranks;
  job.layout.zero = zero;
  job.layout.reshard = Reshard::always;
  job.training.framework = *framework_preset(framework);
  job.training.gradient_dtype = DataType::bf16;
  job.training.batch = {.sequence = 64, .micro_batch = 1, .global_batch = ranks};
  return job;
}

double seconds_of(const Step& step) { return to_seconds(step.result.makespan).value; }

}  // namespace

TEST_CASE("FSDP issues the collectives counted on PyTorch's wrappers") {
  const json section = fixture("sharded_data_parallel.json", "sharded_data_parallel_calls");
  for (const json& row : section.at("cases")) {
    CAPTURE(row.at("id").get<std::string>());
    const auto expected = row.at("calls_per_micro_batch").get<std::vector<Calls>>();
    CHECK(calls_by_micro_batch(run_step(counted_job(row)), expected.size()) == expected);
  }
}

TEST_CASE("each stage of ZeRO sends what the paper and DeepSpeed's code say") {
  const json section = fixture("sharded_data_parallel.json", "zero_volume");
  for (const json& row : section.at("cases")) {
    CAPTURE(row.dump());
    const int ranks = row.at("ranks");
    const bool small = row.at("parameters").get<double>() < 1e10;
    const auto sent = [&](const char* framework, int zero) {
      Job job = volume_job(framework, zero, ranks);
      job.model = golden_model(small ? "llama3-8b" : "llama3-70b");
      job.training.framework.vocab_divisor = 1;
      return volume(job);
    };
    const auto expected = [&row](const char* key) {
      return Approx(row.at("expected_ring_bytes_per_rank_per_step").at(key).get<double>())
          .epsilon(1e-12);
    };
    CHECK(sent("torch-ddp", 0) == expected("ddp"));
    CHECK(sent("megatron", 1) == expected("zero1_reduce_scatter_and_all_gather"));
    CHECK(sent("megatron", 2) == expected("zero2"));
    CHECK(sent("deepspeed", 1) == expected("deepspeed_zero1_zero2_default"));
    CHECK(sent("deepspeed", 2) == expected("deepspeed_zero1_zero2_default"));
    CHECK(sent("deepspeed", 3) == expected("zero3_reshard_after_forward"));
    CHECK(sent("fsdp2", 3) == expected("zero3_reshard_after_forward"));
    CHECK(sent("megatron-fsdp", 3) == expected("zero3_reshard_after_forward"));
  }
}

// w = (n-1)/n of the parameters: DeepSpeed's stage 1 sends 3 w whatever the accumulation, stage 2 2
// w for each micro-batch and w at the end, stage 3 3 w for each; a bucket is reduced whole each
// time.
// NCCL's ring over 8 GPUs of a node, protocol Simple: 8.4 us and 7 hops of 3.4 us each.
TEST_CASE("states by tensor are sent on by broadcasts, each through the whole ring") {
  Job job = volume_job("megatron", 1, 8);
  job.training.framework.zero_by_tensor = true;
  job.model = transformer_of({1, 1024, 8, 8, 4096, 1024});
  job.training.overlap_param_gather = false;
  const Step step = run_step(job);
  double spent = 0;
  int broadcasts = 0;
  for (const Span& span : step.timeline.spans) {
    if (step.plan.workload.labels[index_of(span.label)] != "gather parameters") continue;
    ++broadcasts;
    spent += to_seconds(span.end).value - to_seconds(span.begin).value;
  }
  REQUIRE(broadcasts > 1);
  CHECK(broadcasts <= 8);
  CHECK(spent >= broadcasts * (8.4 + 7 * 3.4) * 1e-6);
}

TEST_CASE("accumulation changes how often gradients are reduced, not the bytes of one reduction") {
  const int micro_batches = GENERATE(1, 2, 5);
  const int ranks = 8;
  const auto step_of = [&](const char* framework, int zero) {
    Job job = volume_job(framework, zero, ranks);
    job.model = transformer_of({4, 1024, 8, 8, 4096, 1024});
    job.training.batch.global_batch *= micro_batches;
    return run_step(job);
  };
  const double parameters =
      4 * (4 * 1024.0 * 1024 + 3 * 4096 * 1024 + 2 * 1024) + 2 * 1024 * 1024 + 1024;
  const double w = 7.0 / 8 * 2 * parameters;
  const auto gradients = [](const Step& step) { return step.sent(0, StepCategory::gradient); };
  const auto gathers = [](const Step& step) { return step.sent(0, StepCategory::parameter); };
  CAPTURE(micro_batches);
  CHECK(gradients(step_of("deepspeed", 1)) == Approx(2 * w));
  CHECK(gathers(step_of("deepspeed", 1)) == Approx(w));
  CHECK(gradients(step_of("deepspeed", 2)) == Approx(micro_batches * 2 * w));
  CHECK(gathers(step_of("deepspeed", 2)) == Approx(w));
  CHECK(gradients(step_of("deepspeed", 3)) == Approx(micro_batches * w));
  CHECK(gathers(step_of("deepspeed", 3)) == Approx(micro_batches * 2 * w));
  CHECK(gradients(step_of("megatron-fsdp", 3)) == Approx(micro_batches * w));
  CHECK(gathers(step_of("megatron-fsdp", 3)) == Approx(micro_batches * 2 * w));
  CHECK(step_of("deepspeed", 2).calls(0, StepCategory::gradient) ==
        static_cast<std::uint64_t>(micro_batches) *
            step_of("deepspeed", 1).calls(0, StepCategory::gradient));
}

// A shard group of s of n ranks sends (s-1)/s of the whole both ways and 2 (n/s-1)/(n/s) of a
// shard.
TEST_CASE("hybrid sharding reduces a shard over the replicas") {
  Job job = five_units(8, 1);
  job.layout.shard = 4;
  job.layout.reshard = Reshard::always;
  job.training.gradient_dtype = DataType::fp32;
  const double parameters =
      4 * (4 * 1024.0 * 1024 + 3 * 4096 * 1024 + 2 * 1024) + 2 * 1024 * 1024 + 1024;
  const Step step = run_step(job);
  CHECK(step.sent(0, StepCategory::parameter) == Approx(2 * 3.0 / 4 * 2 * parameters));
  CHECK(step.sent(0, StepCategory::gradient) ==
        Approx(3.0 / 4 * 4 * parameters + 2 * 1.0 / 2 * 4 * parameters / 4));
}

// Forward over all 8 ranks, backward over 2: 7/8 and 1/2 of the parameters; the root is kept.
TEST_CASE("parameters kept over a few neighbours are gathered from them") {
  Job job = five_units(8, 1);
  job.layout.reshard_ranks = 2;
  const double layers = 4 * (4 * 1024.0 * 1024 + 3 * 4096 * 1024 + 2 * 1024);
  const double root = 2 * 1024 * 1024 + 1024;
  CHECK(run_step(job).sent(0, StepCategory::parameter) ==
        Approx(2 * (7.0 / 8 * (layers + root) + 1.0 / 2 * layers)));
}

TEST_CASE(
    "ZeRO-3 costs more than ZeRO-1 where communication is tight and nothing where it is not") {
  const auto step_time = [](int zero, BytesPerSecond nvlink) {
    Job job = volume_job("deepspeed", zero, 8);
    job.model = transformer_of({8, 1024, 8, 8, 4096, 1024});
    job.training.framework.host_per_operator = seconds(0);
    job.training.framework.zero_all_reduces = false;
    return seconds_of(run_step(job, {.gemm = microseconds(100)}, nvlink));
  };
  const BytesPerSecond tight = gigabytes_per_second(1);
  // Gathers twice instead of once: 3 w against 2 w.
  CHECK(step_time(3, tight) / step_time(1, tight) == Approx(1.5).epsilon(0.05));
  const BytesPerSecond ample = gigabytes_per_second(1e6);
  CHECK(step_time(3, ample) / step_time(1, ample) == Approx(1).epsilon(0.01));
}

// Peaks of the buffers when the network takes no time: L is a layer, R the root module; bytes per
// parameter are 2 gathered, 2 as a gradient, 4 as the input of a reduction. The root is gathered
// and has a gradient throughout the backward pass.
TEST_CASE("memory of FSDP is the shards and the units in flight") {
  const json section = fixture("memory_estimates.json", "fsdp_rules");
  for (const json& row : section.at("cases")) {
    CAPTURE(row.dump());
    Job job;
    const bool small = row.at("model") == "llama-3-8b";
    job.model = golden_model(small ? "llama3-8b" : "llama3-70b");
    job.layout.zero = 3;
    job.layout.grid.dp = row.at("ranks");
    job.training.batch = {.sequence = 128, .micro_batch = 1, .global_batch = row.at("ranks")};
    job.training.framework = *framework_preset("fsdp2");
    job.training.framework.shards_ends_apart = false;
    const json& expected = row.at("expected");
    const auto held = [](const Step& step, MemoryPool pool) {
      return static_cast<double>(step.peak(0, pool));
    };
    const double layer = expected.at("layer_gather_buffer_bytes");
    const double scattered = expected.at("layer_reduce_scatter_input_bytes");
    const double two_layers = expected.at("two_layers_gathered_bytes");
    const double all = expected.at("all_gathered_without_reshard_bytes");
    const double root = row.at("root_unit_parameters").get<double>() * 2;
    const BytesPerSecond endless = gigabytes_per_second(1e12);
    {
      const Step step = run_step(job, {}, endless);
      CHECK(held(step, MemoryPool::parameters) + held(step, MemoryPool::gradients) +
                held(step, MemoryPool::optimizer) ==
            Approx(expected.at("sharded_state_bytes").get<double>()).epsilon(1e-9));
      const double in_layer = 2 * root + two_layers + layer;
      const double after_layer = 2 * root + layer + layer + scattered;
      const double at_end = root + 2 * root;
      CHECK(held(step, MemoryPool::buffers) ==
            Approx(std::max({in_layer, after_layer, at_end})).epsilon(1e-9));
    }
    {
      job.layout.reshard = Reshard::never;
      CHECK(held(run_step(job, {}, endless), MemoryPool::buffers) ==
            Approx(all + root + scattered).epsilon(1e-9));
    }
  }
}

TEST_CASE("a step gives back what its sharded units held") {
  for (const char* framework : {"fsdp2", "fsdp1", "mosaicml", "deepspeed", "megatron-fsdp"}) {
    for (const bool each : {true, false}) {
      for (const Reshard reshard : {Reshard::all_but_last, Reshard::always, Reshard::never}) {
        CAPTURE(framework, each, static_cast<int>(reshard));
        Job job = five_units(8, 3);
        job.training.framework = *framework_preset(framework);
        job.training.framework.reduces_each_micro_batch = each;
        job.layout.reshard = reshard;
        const Step step = run_step(job);
        const MemorySample& last = step.timeline.memory.back();
        const auto kept = [&](MemoryPool pool) { return step.peak(0, pool); };
        const bool fsdp = job.training.framework.keeps_fp32_parameters;
        CHECK(last.bytes == kept(MemoryPool::parameters) + kept(MemoryPool::optimizer) +
                                (fsdp ? 0 : kept(MemoryPool::gradients)));
      }
    }
  }
}

// Megatron-LM, core/distributed/fsdp: src/README.md: of each parameter the shard has a weight (2),
// its main gradient (4), the main weight and two moments (12). src/docs/runtime_schedule.md: weight
// gradients are written where they are reduced (4), and two such buffers are alive at once, one
// being reduced and one being filled. Gathers follow the reduction on their stream: meanwhile one
// layer is gathered, else two with one layer's gradients. The root has weights and gradients.
TEST_CASE("Megatron-FSDP adds weight gradients into the input of their reduction") {
  Job job = five_units(8, 1);
  job.training.framework = *framework_preset("megatron-fsdp");
  const double layer = 4 * 1024.0 * 1024 + 3 * 4096 * 1024 + 2 * 1024;
  const double root = 2 * 1024 * 1024 + 1024;
  const Step step = run_step(job, {}, gigabytes_per_second(1e12));
  const auto held = [&step](MemoryPool pool) { return static_cast<double>(step.peak(0, pool)); };
  CHECK(held(MemoryPool::parameters) + held(MemoryPool::gradients) + held(MemoryPool::optimizer) ==
        Approx(18 * (4 * layer + root) / 8));
  const double bytes_of_layer = std::max(2 + 2 * 4, 2 * 2 + 4);
  CHECK(held(MemoryPool::buffers) == Approx((2 + 4) * root + bytes_of_layer * layer));
  for (const Span& span : step.timeline.spans) {
    CHECK_FALSE(step.plan.workload.labels[index_of(span.label)].starts_with("copy"));
  }
}

TEST_CASE("in a pipeline Megatron-FSDP reduces after every micro-batch, PyTorch's after the last") {
  const auto reductions = [](const char* framework, std::int64_t micro_batches) {
    Job job = five_units(4, micro_batches);
    job.layout.grid.pp = 2;
    job.training.framework = *framework_preset(framework);
    return run_step(job).calls(0, StepCategory::gradient);
  };
  CHECK(reductions("megatron-fsdp", 3) == 3 * reductions("megatron-fsdp", 1));
  CHECK(reductions("fsdp2", 3) == reductions("fsdp2", 1));
}
