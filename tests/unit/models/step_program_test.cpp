#include "models/stage_program.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/model_flops.h"
#include "simple_machine.h"

// Whole steps, lowered and replayed, against numbers worked out by hand.

using namespace flopcast;
using namespace flopcast::test;

namespace {

/// Two layers of 30848 parameters: norms 2 x 64, QKV 64 x 128, output 64 x 64, gate and up 64 x
/// 192, down 96 x 64; embedding and head 128 x 64 each, final norm 64. One micro-batch is 64
/// tokens, so that an activation is 8192 bytes.
constexpr std::int64_t kHidden = 64;
constexpr std::int64_t kTokens = 64;
constexpr std::int64_t kActivation = 2 * kTokens * kHidden;
constexpr std::int64_t kLayer = 128 + 64 * 128 + 64 * 64 + 64 * 192 + 96 * 64;
constexpr std::int64_t kVocab = 128;
constexpr std::int64_t kEmbedding = kVocab * kHidden;

Job tiny_job(ParallelGrid grid, std::int64_t micro_batches) {
  Job job;
  job.model.layers = 2;
  job.model.hidden = kHidden;
  job.model.heads = 4;
  job.model.kv_heads = 2;
  job.model.head_dim = 16;
  job.model.ffn = 96;
  job.model.vocab = kVocab;
  job.layout.grid = grid;
  job.training.batch = {
      .sequence = kTokens, .micro_batch = 1, .global_batch = micro_batches * grid.dp};
  job.training.overlap_grad_reduce = job.training.overlap_param_gather = false;
  job.training.framework.host_per_operator = seconds(0);
  return job;
}

/// Forward matrix products of one layer and micro-batch: two FLOPs for each weight and token;
/// attention scores and values over the causal half.
constexpr double kLayerForward = 2.0 * kTokens * (64 * 128 + 64 * 64 + 64 * 192 + 96 * 64) +
                                 0.5 * 2 * 2 * kTokens * kTokens * (4 * 16);
constexpr double kHeadForward = 2.0 * kTokens * kVocab * kHidden;

/// What a rank's compute stream does, one letter for each core attention; a stage has one layer.
std::string passes(const Step& step, std::uint32_t rank) {
  std::string letters;
  for (const Span& span : step.timeline.spans) {
    if (span.rank != RankId{rank}) continue;
    if (step.plan.workload.labels[index_of(span.label)] != "core attention") continue;
    letters += span.category == id_of(StepCategory::forward) ? 'F' : 'B';
  }
  return letters;
}

void check_memory_returns(const Step& step) {
  std::vector<std::int64_t> last(step.result.ranks.size());
  for (const MemorySample& sample : step.timeline.memory) {
    last[index_of(sample.rank)] = sample.bytes;
  }
  for (std::size_t r = 0; r < last.size(); ++r) {
    const std::vector<std::int64_t>& peak = step.result.ranks[r].memory.pool_peak;
    const auto all = std::accumulate(peak.begin(), peak.end(), std::int64_t{0});
    CHECK(last[r] == all - peak[static_cast<std::size_t>(MemoryPool::activations)]);
  }
}

}  // namespace

// A layer forward is 4 products (1 us), attention (2 us), two norms (3 us), rotary, activation and
// two residuals (1 us): 16 us. Backward: 8 products, attention (5 us), two norms, rotary,
// activation and two residual gradients: 19 us. The embedding costs 5 us each way, as much as the
// head: norm, logits, cross-entropy forward; cross-entropy, two products, norm and residual
// gradient backward.
//   F = 21 us, B = 24 us on both stages; a hop c takes 1 us of latency and 8192 B at 8.192 GB/s.
// 1F1B on two stages with sends that hold the sender: the first forward, then M round trips of
// which each exposes a hop, and the first hop: (M + 1)(F + B + c). The step ends with the gradient
// norm (1 us), its all-reduce (4 us and 4 B, 489 ps), Adam (7 us), clearing the gradients (1 us).
TEST_CASE("a step of two equal stages takes what it takes by hand") {
  KernelTimes times;
  times.norm_forward = microseconds(3);
  times.embedding = microseconds(5);
  times.optimizer = microseconds(7);
  times.collective_latency = microseconds(4);
  times.hop_latency = microseconds(1);
  const Job job = tiny_job({.pp = 2}, 4);
  const Step step = run_step(job, times, bytes_per_second(8.192e9));
  const std::int64_t expected = 5 * (21 + 24 + 2) * 1'000'000 + (1 + 4 + 7 + 1) * 1'000'000 + 489;
  CHECK(step.result.makespan.picoseconds == expected);
  CHECK(step.rank(0).compute_busy.picoseconds == (4 * (21 + 24) + 9) * 1'000'000);
  CHECK(step.rank(1).compute_busy.picoseconds == (4 * (21 + 24) + 9) * 1'000'000);
  CHECK(passes(step, 0) == "FFBFBFBB");
  CHECK(passes(step, 1) == "FBFBFBFB");
  CHECK(step.sent(0, StepCategory::pipeline) == 4 * kActivation);
  CHECK(step.sent(1, StepCategory::pipeline) == 4 * kActivation);
  check_memory_returns(step);
}

TEST_CASE("GPipe runs all forwards first") {
  Job job = tiny_job({.pp = 2}, 3);
  job.layout.schedule = ScheduleKind::gpipe;
  const Step step = run_step(job);
  CHECK(passes(step, 0) == "FFFBBB");
  CHECK(passes(step, 1) == "FFFBBB");
}

TEST_CASE("a lone rank communicates with nobody") {
  const Step step = run_step(tiny_job({}, 3));
  for (const auto category : {StepCategory::tensor, StepCategory::pipeline, StepCategory::gradient,
                              StepCategory::parameter, StepCategory::synchronize}) {
    CHECK(step.calls(0, category) == 0);
    CHECK(step.sent(0, category) == 0);
  }
  CHECK(step.result.makespan == step.rank(0).compute_busy);
  check_memory_returns(step);
}

TEST_CASE("plain data parallelism all-reduces every gradient once a step") {
  // 2 (n-1)/n Psi bytes of ring, whatever the number of micro-batches.
  Job job = tiny_job({.dp = 4, .pp = 2}, 3);
  const double first = kEmbedding + kLayer;
  const double last = kLayer + kHidden + kEmbedding;
  for (const auto type : {DataType::fp32, DataType::bf16}) {
    job.training.gradient_dtype = type;
    const double size = element_size(type).value;
    const Step step = run_step(job);
    CHECK(step.sent(0, StepCategory::gradient) == Approx(2 * 0.75 * first * size).epsilon(1e-12));
    CHECK(step.sent(1, StepCategory::gradient) == Approx(2 * 0.75 * last * size).epsilon(1e-12));
    CHECK(step.calls(0, StepCategory::gradient) == 1);
    CHECK(step.calls(0, StepCategory::parameter) == 0);
  }
}

// Three ranks own a bucket in equal slices: it ends at a multiple of lcm(3, 128) = 384 elements.
TEST_CASE("the distributed optimizer scatters gradients and gathers parameters") {
  Job job = tiny_job({.dp = 3, .pp = 2}, 2);
  job.layout.zero = 1;
  const bool overlap = GENERATE(false, true);
  job.training.overlap_grad_reduce = job.training.overlap_param_gather = overlap;
  job.training.bucket = bytes(4 * 10'000);  // 10 000 gradients
  const Step step = run_step(job);
  // One bucket of 39040 and 39104 elements. Under overlap the first stage fills three: fc2 and fc1
  // (18432 elements), norm, QKV and output projection (12352), norm and embedding (8256).
  const double padded[2] = {overlap ? 18432.0 + 12672 + 8448 : 39168.0, 39168};
  const std::uint64_t buckets[2] = {overlap ? 3u : 1u, 1};
  for (const int rank : {0, 1}) {
    CAPTURE(rank, overlap);
    CHECK(step.sent(rank, StepCategory::gradient) == Approx(2.0 / 3 * padded[rank] * 4));
    CHECK(step.sent(rank, StepCategory::parameter) == Approx(2.0 / 3 * padded[rank] * 2));
    CHECK(step.calls(rank, StepCategory::gradient) == buckets[rank]);
    CHECK(step.calls(rank, StepCategory::parameter) == buckets[rank]);
  }
  check_memory_returns(step);
}

TEST_CASE("a group that lies unevenly on nodes sends what its ranks send") {
  // Three ranks on two nodes of two GPUs: (3-1)/3 of 78336 elements, a multiple of 384.
  Job job = tiny_job({.dp = 3}, 1);
  job.layout.zero = 1;
  ClusterSpec spec = simple_cluster(2, gigabytes_per_second(100));
  spec.nodes = 2;
  spec.system.nics = 2;
  spec.system.nic_bandwidth = spec.system.gpu.pcie = gigabytes_per_second(50);
  const Plan plan = lower(job, Cluster(spec), simple_profile({}));
  const Result result = run(plan.workload);
  const auto& sent = result.ranks.front().bytes_by_category;
  CHECK(sent[static_cast<std::size_t>(StepCategory::gradient)] == Approx(2.0 / 3 * 78336 * 4));
  CHECK(sent[static_cast<std::size_t>(StepCategory::parameter)] == Approx(2.0 / 3 * 78336 * 2));
}

TEST_CASE("DeepSpeed's stage 1 all-reduces before it keeps a slice") {
  // 2 (n-1)/n Psi gradients, (n-1)/n Psi parameters; 78144 elements padded to a multiple of 128.
  Job job = tiny_job({.dp = 4}, 3);
  job.layout.zero = 1;
  job.training.framework.zero_all_reduces = true;
  const Step step = run_step(job);
  REQUIRE(kEmbedding + 2 * kLayer + kHidden + kEmbedding == 78144);
  CHECK(step.sent(0, StepCategory::gradient) == Approx(2 * 0.75 * 78208 * 4));
  CHECK(step.sent(0, StepCategory::parameter) == Approx(0.75 * 78208 * 2));
}

TEST_CASE("reducing gradients beside the backward pass never costs time by itself") {
  // Without latency and interference the same bytes only move earlier.
  const int zero = GENERATE(0, 1);
  const int pp = GENERATE(1, 2);
  Job job = tiny_job({.dp = 4, .pp = pp}, 2);
  job.layout.zero = zero;
  job.training.bucket = kilobytes(40);
  const Step after_backward = run_step(job, {}, gigabytes_per_second(1));
  job.training.overlap_grad_reduce = true;
  const Step beside = run_step(job, {}, gigabytes_per_second(1));
  CAPTURE(zero, pp);
  CHECK(beside.result.makespan < after_backward.result.makespan);
}

TEST_CASE("tensor parallelism sends what the layers send, through the whole pipeline") {
  const auto fixture = nlohmann::json::parse(
      std::ifstream(std::string(FLOPCAST_TEST_DATA) + "/tensor_parallel.json"));
  for (const auto& row : fixture.at("tensor_parallel_volume").at("cases")) {
    const int tp = row.at("tp");
    Job job = tiny_job({.tp = tp, .pp = 4}, 2);
    job.model.layers = 8;  // two for each stage
    job.model.hidden = row.at("hidden");
    job.model.heads = job.model.kv_heads = job.model.hidden / 128;
    job.model.head_dim = 128;
    job.model.ffn = 4 * job.model.hidden;
    job.training.batch.sequence = row.at("sequence");
    const auto& expected = row.at("expected");
    const double activation = expected.at("activation_bytes");
    const double part = (tp - 1.0) / tp;
    struct Mode {
      bool sequence_parallel;
      bool regather;
      double layer;                 // golden ring bytes
      double head;                  // activations around the logits, in units of (tp-1)/tp
      std::uint64_t layer_calls{};  // a layer, both passes
    };
    const auto bytes_of = [&](const char* kind) {
      return expected.at(kind).at("ring_bytes_per_rank_per_layer").template get<double>();
    };
    const std::vector<Mode> modes{
        {false, true, expected.at("plain_ring_bytes_per_rank_per_layer"), 2, 4},
        {true, true, bytes_of("sp_megatron"), 3, 10},
        {true, false, bytes_of("sp_saving_gathered_input"), 2, 8}};
    for (const Mode& mode : modes) {
      CAPTURE(row.dump(), mode.sequence_parallel, mode.regather);
      job.layout.sequence_parallel = mode.sequence_parallel;
      job.training.framework.regather_in_backward = mode.regather;
      const Step step = run_step(job);
      const double layers = 2 * 2 * mode.layer;
      const auto sent = [&step](int rank) { return step.sent(rank, StepCategory::tensor); };
      CHECK(sent(1) == Approx(layers).epsilon(1e-12));
      CHECK(sent(2) == Approx(layers).epsilon(1e-12));
      CHECK(step.calls(1, StepCategory::tensor) == 2 * 2 * mode.layer_calls);
      // The embedding's output is reduced, or its pieces are scattered and gathered again.
      CHECK(sent(0) == Approx(layers + 2 * 2 * part * activation).epsilon(1e-12));
      // Cross-entropy reduces three fp32 numbers per token.
      const double loss = 2 * part * 3 * 4 * row.at("sequence").get<double>();
      CHECK(sent(3) == Approx(layers + 2 * (mode.head * part * activation + loss)).epsilon(1e-12));
    }
  }
}

TEST_CASE("a step executes the model's FLOPs") {
  const ParallelGrid grid =
      GENERATE(ParallelGrid{}, ParallelGrid{.pp = 2}, ParallelGrid{.tp = 2, .dp = 3, .pp = 2});
  Job job = tiny_job(grid, 3);
  job.training.framework.vocab_divisor = 64;  // no padding: 128 entries
  const double batch = 3.0 * grid.dp;
  const auto counted = [&job](FlopConvention convention) {
    const BatchShape& b = job.training.batch;
    return model_flops(job.model, b.sequence, b.global_batch, kVocab, convention).value;
  };
  CAPTURE(grid.tp, grid.pp);
  // Fused attention computes the scores once more in its backward pass: a quarter of the forward
  // and backward work of attention on top of Megatron's count, half a forward pass.
  const double scores_again = batch * 2 * 0.5 * (0.5 * 2 * 2 * kTokens * kTokens * 4 * 16);
  const Step fused = run_step(job);
  CHECK(fused.plan.executed.value ==
        Approx(counted(FlopConvention::megatron) + scores_again).epsilon(1e-12));
  CHECK(fused.plan.executed.value ==
        Approx(batch * 3 * (2 * kLayerForward + kHeadForward) + scores_again).epsilon(1e-12));
  CHECK(fused.plan.recomputed.value == 0);
  // Kernels that write the scores out compute all of them.
  job.training.framework.fused_attention = false;
  CHECK(run_step(job).plan.executed.value ==
        Approx(counted(FlopConvention::megatron_full)).epsilon(1e-12));
}

TEST_CASE("full recompute adds one forward pass of the layers that it names") {
  Job job = tiny_job({}, 3);
  const Step stored = run_step(job);
  const std::int64_t layers = GENERATE(1, 2);
  job.training.recompute = {.kind = RecomputeKind::full, .layers = layers};
  const Step again = run_step(job);
  const double forward = 3.0 * static_cast<double>(layers) * kLayerForward;
  CHECK(again.plan.recomputed.value == Approx(forward).epsilon(1e-12));
  CHECK((again.plan.executed - stored.plan.executed).value == Approx(forward).epsilon(1e-12));
  // 4 products, attention of 2 us and 6 kernels of 1 us each.
  const SimTime longer = again.result.makespan - stored.result.makespan;
  CHECK(longer.picoseconds == 3 * layers * 12 * 1'000'000);
  check_memory_returns(again);
}

TEST_CASE("a pass over a layer takes no less than its host") {
  // 11 operators forward; backward as many and a weight gradient for each of the 4 products, 15
  // kernels of 19 us in all; the embedding is one operator each way, the head 3 and 5.
  Job job = tiny_job({}, 3);
  const Step free = run_step(job);
  job.training.framework.host_per_operator = microseconds(10);
  const Step held = run_step(job);
  const SimTime longer = held.result.makespan - free.result.makespan;
  const std::int64_t host = 2 * (11 + 15) + 1 + 1 + 3 + 5;
  CHECK(longer.picoseconds == 3 * (10 * host - (2 * (12 + 19) + 1 + 1 + 3 + 5)) * 1'000'000);
}

TEST_CASE("selective recompute runs core attention twice") {
  Job job = tiny_job({}, 3);
  const Step stored = run_step(job);
  job.training.recompute.kind = RecomputeKind::selective;
  const Step again = run_step(job);
  CHECK((again.result.makespan - stored.result.makespan).picoseconds == 3 * 2 * 2 * 1'000'000);
  CHECK(again.plan.recomputed.value == 3 * 2 * 0.5 * 2 * 2 * kTokens * kTokens * (4 * 16));
}

TEST_CASE("interleaved stages pass each micro-batch around the ring of ranks") {
  Job job = tiny_job({.pp = 2}, 4);
  job.model.layers = 4;
  job.layout.vpp = 2;
  job.layout.schedule = ScheduleKind::interleaved;
  const Step step = run_step(job);
  // Four stages on two ranks: three hops each way for each of 4 micro-batches; the first rank sends
  // two activations and one gradient of a micro-batch, the second one and two.
  CHECK(step.sent(0, StepCategory::pipeline) == 4 * 3 * kActivation);
  CHECK(step.sent(1, StepCategory::pipeline) == 4 * 3 * kActivation);
  CHECK(passes(step, 0).size() == 4 * 2 * 2);
  CHECK(passes(step, 0).substr(0, 6) == "FFFFFB");  // 2 (P-1) + (V-1) P of warm-up, then in turn
  CHECK(passes(step, 1).substr(0, 4) == "FFFB");
  check_memory_returns(step);
}

TEST_CASE("the tied embedding is reduced between the ends of the pipeline") {
  Job job = tiny_job({.pp = 2}, 2);
  job.model.tied_embeddings = true;
  const Step step = run_step(job);
  // An all-reduce of two ranks sends the buffer once: fp32 gradients; and 4 bytes of gradient norm.
  CHECK(step.sent(0, StepCategory::synchronize) == 4.0 * kEmbedding + 4);
  CHECK(step.sent(1, StepCategory::synchronize) == 4.0 * kEmbedding + 4);
}
