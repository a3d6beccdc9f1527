#include <catch2/catch.hpp>
#include <vector>

#include "models/layer_operators.h"
#include "simple_machine.h"

// In which types ranks send each other what a layer needs; bytes by hand.

using namespace flopcast;
using namespace flopcast::test;

namespace {

constexpr double kElements = 256.0 * 128;  // tokens times hidden

/// Two tensor-parallel ranks; rows of a rank, hidden and MLP width are whole blocks of 128.
Job split_job(DataType precision) {
  Job job;
  job.model = small_model(2);
  job.model.hidden = 128;
  job.model.heads = job.model.kv_heads = 2;
  job.model.head_dim = 64;
  job.model.ffn = 256;
  job.layout.grid.tp = 2;
  job.layout.sequence_parallel = true;
  job.training.batch = {.sequence = 256, .micro_batch = 1, .global_batch = 1};
  job.training.precision = precision;
  return job;
}

OperatorContext context_of(const Job& job) { return {job.model, job.layout, job.training, 128}; }

std::vector<GroupCall> calls_of(const std::vector<Operator>& operators, CollectiveKind kind) {
  std::vector<GroupCall> calls;
  for (const Operator& op : operators) {
    const auto* call = std::get_if<GroupCall>(&op.work);
    if (call != nullptr && call->kind == kind) calls.push_back(*call);
  }
  return calls;
}

double sent(const std::vector<Operator>& operators, CollectiveKind kind) {
  double sum = 0;
  for (const GroupCall& call : calls_of(operators, kind)) sum += call.size.value;
  return sum;
}

double cast(const std::vector<Operator>& operators) {
  double sum = 0;
  for (const Operator& op : operators) {
    const auto* call = std::get_if<MemoryCall>(&op.work);
    if (call != nullptr && call->kernel == MemoryKernel::quantise) sum += call->moved.value;
  }
  return sum;
}

}  // namespace

// Forward: inputs of qkv and fc1. Backward: both again along the other direction, and gradients of
// the outputs of projection and fc2 for two products each. Sums stay in 16 bits.
TEST_CASE("tensor-parallel ranks gather what the products read") {
  struct Row {
    DataType precision;
    double element;       // of one orientation, with scales
    double orientations;  // of a gradient
  };
  const auto row = GENERATE(values<Row>({
      {DataType::bf16, 2, 1},
      {DataType::fp8, 1, 1},                                // transposed where it arrives
      {DataType::fp8_blockwise, (128 * 1 + 4) / 128.0, 2},  // an fp32 scale
      {DataType::mxfp8, (32 * 1 + 1) / 32.0, 2},
      {DataType::nvfp4, (16 * 0.5 + 1) / 16.0, 2},
  }));
  CAPTURE(to_text(row.precision));
  Job job = split_job(row.precision);
  const auto forward = layer_forward(context_of(job), 0);
  const auto backward = layer_backward(context_of(job), 0);
  CHECK(sent(forward, CollectiveKind::all_gather) == Approx(2 * kElements * row.element));
  CHECK(sent(backward, CollectiveKind::all_gather) ==
        Approx(2 * kElements * row.element * (1 + row.orientations)));
  CHECK(sent(forward, CollectiveKind::reduce_scatter) == 2 * kElements * 2);
  CHECK(sent(backward, CollectiveKind::reduce_scatter) == 2 * kElements * 2);
  job.training.tensor_dtype = DataType::bf16;
  CHECK(sent(layer_forward(context_of(job), 0), CollectiveKind::all_gather) == 2 * kElements * 2);
  CHECK(sent(layer_backward(context_of(job), 0), CollectiveKind::all_gather) == 4 * kElements * 2);
}

TEST_CASE("the framework says which scalings are gathered in fewer bits") {
  Job job = split_job(DataType::fp8);
  const auto gathered = [&job] {
    return sent(layer_forward(context_of(job), 0), CollectiveKind::all_gather);
  };
  job.training.framework = *framework_preset("fsdp2");
  CHECK(gathered() == 2 * kElements);
  job.training.precision = DataType::mxfp8;
  CHECK(gathered() == 2 * kElements * 2);
  job.training.tensor_dtype = DataType::mxfp8;
  CHECK(gathered() == 2 * kElements * 33 / 32);
}

TEST_CASE("blocks that ranks cut are gathered in 16 bits") {
  Job job = split_job(DataType::mxfp8);
  job.training.batch.sequence = 2 * 48;  // a block and a half on each rank
  CHECK(sent(layer_forward(context_of(job), 0), CollectiveKind::all_gather) == 2.0 * 96 * 128 * 2);
}

// Inputs of qkv and fc1 forward, gradients of projection and fc2 backward; 4 bytes each.
TEST_CASE("ranks agree on a scale that is of the tensor as it is") {
  Job job = split_job(DataType::fp8);
  const auto reduced = [&job] {
    return sent(layer_forward(context_of(job), 0), CollectiveKind::all_reduce) +
           sent(layer_backward(context_of(job), 0), CollectiveKind::all_reduce);
  };
  CHECK(reduced() == 0);
  job.training.current_scaling = true;
  CHECK(reduced() == 4 * 4);
  job.training.precision = DataType::nvfp4;
  CHECK(reduced() == 4 * 4);
  job.training.precision = DataType::mxfp8;
  CHECK(reduced() == 0);
}

TEST_CASE("user buffers gather the columns of a gradient under its first product") {
  Job job = split_job(DataType::mxfp8);
  job.training.tensor_overlap = true;
  const auto backward = layer_backward(context_of(job), 0);
  CHECK(sent(backward, CollectiveKind::all_gather) == Approx(6 * kElements * 33 / 32));
  int beside = 0;
  for (const GroupCall& call : calls_of(backward, CollectiveKind::all_gather))
    beside += call.beside;
  CHECK(beside == 4);  // two inputs, two gradients
}

// The adapter beside a column-parallel layer reads the gathered norm, which stays in 16 bits; a
// frozen weight has no gradient that would read the other orientation.
TEST_CASE("adapters read gathered inputs in 16 bits") {
  Job job = split_job(DataType::mxfp8);
  job.training.adapters = LowRankAdapters{.rank = 8};
  job.training.adapters->targets.fill(false);
  job.training.adapters->targets[static_cast<std::size_t>(AdapterTarget::linear_qkv)] = true;
  const double rank = 256.0 * 8 * 2;  // joined in the adapter
  CHECK(sent(layer_forward(context_of(job), 0), CollectiveKind::all_gather) ==
        Approx(kElements * (2 + 33 / 32.0) + rank));
  CHECK(sent(layer_backward(context_of(job), 0), CollectiveKind::all_gather) ==
        Approx(2 * kElements * 33 / 32));
}

// 256 tokens over two ranks, 2 heads of 64: keys and values are 128 x 256 elements on a rank.
TEST_CASE("context-parallel ranks pass keys and values in a type of their own") {
  Job job = split_job(DataType::bf16);
  job.layout.grid.tp = 1;
  job.layout.sequence_parallel = false;
  job.layout.grid.cp = 2;
  const double own = 128 * 256;
  job.training.context_dtype = DataType::fp8;
  job.layout.context = ContextKind::ring;
  // One hop. Cast: own to 8 bits and those that came back; gradients as well in the backward pass.
  const auto forward = layer_forward(context_of(job), 0);
  CHECK(sent(forward, CollectiveKind::send_recv) == own);
  CHECK(cast(forward) == 2 * own * 3);
  const auto backward = layer_backward(context_of(job), 0);
  CHECK(sent(backward, CollectiveKind::send_recv) == 2 * own);
  CHECK(cast(backward) == 4 * own * 3);
  job.layout.context = ContextKind::all_gather;
  const auto gathered = layer_backward(context_of(job), 0);
  CHECK(sent(gathered, CollectiveKind::all_gather) == 2 * own);
  CHECK(sent(gathered, CollectiveKind::reduce_scatter) == 2 * own * 2);
  CHECK(cast(gathered) == 3 * own * 3);
  job.layout.context = ContextKind::all_to_all;  // queries, keys and values; then the output
  const auto exchanged = layer_forward(context_of(job), 0);
  CHECK(sent(exchanged, CollectiveKind::all_to_all) == own * 1.5 + own / 2);
  CHECK(cast(exchanged) == 2 * 2 * own * 3);
  job.training.context_dtype = DataType::fp32;
  CHECK(cast(layer_forward(context_of(job), 0)) == 0);
}

TEST_CASE("a pipeline hop has a type of its own") {
  Job job = split_job(DataType::bf16);
  CHECK(pipeline_hop_size(context_of(job)).value == kElements / 2 * 2);
  job.training.pipeline_dtype = DataType::fp32;
  CHECK(pipeline_hop_size(context_of(job)).value == kElements / 2 * 4);
}
