#include <algorithm>
#include <catch2/catch.hpp>

#include "models/activation_memory.h"
#include "models/layer_operators.h"
#include "models/operand_casts.h"
#include "simple_machine.h"

// Which products are quantised, and what their casts move.

using namespace flopcast;
using namespace flopcast::test;

namespace {

Job small_job(DataType precision) {
  Job job;
  job.model = small_model(2);
  job.model.moe = MixtureOfExperts{.experts = 4, .top_k = 2, .expert_ffn = 32, .first_dense = 1};
  job.training.batch = {.sequence = 64, .micro_batch = 1, .global_batch = 1};
  job.training.precision = precision;
  return job;
}

OperatorContext context_of(const Job& job) { return {job.model, job.layout, job.training, 128}; }

Bytes cast_by(const std::vector<Operator>& operators) {
  Bytes sum;
  for (const Operator& op : operators) {
    const auto* call = std::get_if<MemoryCall>(&op.work);
    if (call != nullptr && call->kernel == MemoryKernel::quantise) sum += call->moved;
  }
  return sum;
}

std::vector<std::string_view> in_16_bits(const std::vector<Operator>& operators) {
  std::vector<std::string_view> names;
  for (const Operator& op : operators) {
    if (op.unquantised) names.push_back(op.name);
  }
  return names;
}

}  // namespace

TEST_CASE("a cast reads 16 bits and writes both orientations") {
  struct Row {
    DataType precision;
    bool current_scaling;
    double expected;
  };
  const auto row = GENERATE(values<Row>({
      {DataType::bf16, false, 0},
      {DataType::fp8, false, 2 + 1 + 1},
      {DataType::fp8, true, 2 + 2 + 1 + 1},
      // 128 elements: 256 bytes in, 128 out twice, each with 4 bytes of scale
      {DataType::fp8_blockwise, false, (256 + 2 * (128 + 4)) / 128.0},
      // 32 elements: 64 bytes in, 32 out twice, each with a scale that is moved three times
      {DataType::mxfp8, false, (64 + 2 * (32 + 3)) / 32.0},
      // 16 elements: 32 bytes in, twice; 8 out twice
      {DataType::nvfp4, false, (2 * 32 + 2 * (8 + 3)) / 16.0},
  }));
  Training training;
  training.precision = row.precision;
  training.current_scaling = row.current_scaling;
  CAPTURE(to_text(row.precision));
  CHECK(cast_traffic(training).value == Approx(row.expected));
}

TEST_CASE("inputs are cast forward and gradients of outputs backward, each once") {
  const Job job = small_job(DataType::fp8);
  // Dense layer, 64 tokens: inputs of qkv, projection, fc1, fc2; gradients of their outputs.
  const double inputs = 64.0 * (64 + 64 + 64 + 96);
  const double outputs = 64.0 * (3 * 64 + 64 + 2 * 96 + 64);
  CHECK(cast_by(layer_forward(context_of(job), 0)).value == Approx(4 * inputs));
  CHECK(cast_by(layer_backward(context_of(job), 0)).value == Approx(4 * outputs));
  // With experts: two of four, width 32, for each of the tokens.
  const double routed = 64.0 * (64 + 64) + 128.0 * (64 + 32);
  CHECK(cast_by(layer_forward(context_of(job), 1)).value == Approx(4 * routed));
  const Job plain = small_job(DataType::bf16);
  CHECK(cast_by(layer_forward(context_of(plain), 1)) == bytes(0));
}

TEST_CASE("sequence parallel ranks cast their rows before they gather them") {
  Job job = small_job(DataType::fp8);
  job.layout.grid.tp = 2;
  job.layout.sequence_parallel = true;
  // qkv and fc1 take half of the rows, projection and fc2 half of the width.
  const double inputs = 32.0 * (64 + 64) + 64.0 * (32 + 48);
  CHECK(cast_by(layer_forward(context_of(job), 0)).value == Approx(4 * inputs));
}

TEST_CASE("head, router and unfused attention stay in 16 bits") {
  Job job = small_job(DataType::mxfp8);
  CHECK(unquantised_type(job.training) == DataType::bf16);
  using Names = std::vector<std::string_view>;
  CHECK(in_16_bits(layer_forward(context_of(job), 1)) == Names{"router"});
  CHECK(in_16_bits(layer_backward(context_of(job), 1)) == Names{"router", "router"});
  const Names head = in_16_bits(head_backward(context_of(job)));
  CHECK(std::count(head.begin(), head.end(), "logits") == 2);
  CHECK(cast_by(head_forward(context_of(job))) == bytes(0));
  job.training.framework.fused_attention = false;
  CHECK(in_16_bits(layer_forward(context_of(job), 0)).front() == "attention scores");
  job.training.precision = DataType::fp16;
  CHECK(unquantised_type(job.training) == DataType::fp16);
}

// A dense layer has four linear products and eight gradients of them; two layers, one micro-batch.
TEST_CASE("sums of fp8 gradients are promoted where tensor cores know no scaled formats") {
  Job job = small_job(DataType::fp8);
  job.model.moe.reset();
  job.training.framework.host_per_operator = seconds(0);
  Profile profile = simple_profile({});
  const auto at = [](DataType type) { return static_cast<std::size_t>(type); };
  for (const DataType type : {DataType::fp8, DataType::fp8_blockwise}) {
    profile.peak_dense[at(type)] = flops_per_second(kEndless);
    profile.gemm[at(type)] = profile.gemm[at(DataType::bf16)];
    profile.gemm[at(type)]->t0 = microseconds(1);
  }
  profile.gemm[at(DataType::fp8_blockwise)]->t0 = microseconds(3);
  profile.memory[static_cast<std::size_t>(MemoryKernel::quantise)] = fixed_time(seconds(0));
  const Cluster cluster(simple_cluster(1, gigabytes_per_second(100)));
  const auto makespan = [&] { return run(lower(job, cluster, profile).workload).makespan; };
  const SimTime promoted = makespan();
  profile.peak_dense[at(DataType::mxfp8)] = flops_per_second(kEndless);
  const SimTime plain = makespan();
  CHECK(promoted - plain == after(SimTime{}, microseconds(16 * 2)) - SimTime{});
}

namespace {

Bytes kept(const Job& job, std::string_view name) {
  Bytes sum;
  for (const SavedTensor& tensor : saved_tensors(context_of(job), 0)) {
    if (tensor.name == name) sum += tensor.size;
  }
  return sum;
}

}  // namespace

// 64 tokens; queries, keys, values and output have a width of 64 each.
TEST_CASE("attention in 8 bits keeps its operands so, and casts what comes and goes") {
  Job job = small_job(DataType::fp8);
  const Bytes forward = cast_by(layer_forward(context_of(job), 0));
  const Bytes backward = cast_by(layer_backward(context_of(job), 0));
  CHECK(kept(job, "queries, keys, values").value == 64 * 3 * 64 * 2);
  CHECK(kept(job, "attention output").value == 64 * 64 * 2);
  const Bytes operand = kept(job, "attention output input");  // of the product after it
  job.training.attention_dtype = DataType::fp8;
  CHECK(kept(job, "queries, keys, values").value == 64 * 3 * 64);
  CHECK(kept(job, "attention output").value == 64 * 64);
  CHECK(kept(job, "attention output input") == operand);
  // All four in each direction: 16 bits on one side, 8 on the other.
  const double casts = 64.0 * 4 * 64 * (2 + 1);
  CHECK((cast_by(layer_forward(context_of(job), 0)) - forward).value == Approx(casts));
  CHECK((cast_by(layer_backward(context_of(job), 0)) - backward).value == Approx(casts));
}

// FlashAttention-3: 1.2 PFLOP/s forward against 740 TFLOP/s; a forward pass takes 2 us here.
TEST_CASE("a forward pass of attention is faster in 8 bits") {
  Job job = small_job(DataType::fp8);
  job.model.moe.reset();
  job.training.framework.host_per_operator = seconds(0);
  Profile profile = simple_profile({});
  const auto fp8 = static_cast<std::size_t>(DataType::fp8);
  profile.peak_dense[fp8] = flops_per_second(kEndless);
  profile.gemm[fp8] = profile.gemm[static_cast<std::size_t>(DataType::bf16)];
  profile.memory[static_cast<std::size_t>(MemoryKernel::quantise)] = fixed_time(seconds(0));
  const Cluster cluster(simple_cluster(1, gigabytes_per_second(100)));
  const auto makespan = [&] {
    return to_seconds(run(lower(job, cluster, profile).workload).makespan).value;
  };
  const double wide = makespan();
  job.training.attention_dtype = DataType::fp8;
  CHECK(wide - makespan() == Approx(2 * 2e-6 * (1 - 740.0 / 1200)).epsilon(1e-4));
}

TEST_CASE("an adapter keeps the output that attention keeps in 8 bits") {
  Job job = small_job(DataType::fp8);
  job.training.adapters = LowRankAdapters{.rank = 8};
  job.training.adapters->targets.fill(false);
  job.training.adapters->targets[static_cast<std::size_t>(AdapterTarget::linear_proj)] = true;
  CHECK(kept(job, "adapter input").value == 0);
  job.training.attention_dtype = DataType::fp8;
  CHECK(kept(job, "adapter input").value == 64 * 64 * 2);
}

TEST_CASE("inputs of a dense MLP's activation are kept in a type of their own") {
  Job job = small_job(DataType::fp8);
  const Bytes wide = kept(job, "activation input");
  CHECK(wide.value == 64 * 2 * 96 * 2);  // gate and up
  job.training.kept_mlp_dtype = DataType::fp8;
  CHECK(kept(job, "activation input") == 0.5 * wide);
}
