#include <catch2/catch.hpp>
#include <vector>

#include "models/activation_memory.h"
#include "models/layer_operators.h"
#include "simple_machine.h"

// A loss that is computed for parts of the sequence in turn: products, bytes and memory by hand.

using namespace flopcast;
using namespace flopcast::test;

namespace {

constexpr double kTokens = 256;
constexpr double kVocab = 128;
constexpr double kHidden = 64;
constexpr double kLogit = 2 + 4;  // bytes that Megatron's fused cross-entropy keeps: 16 and 32 bits

Job job_in(int chunks, int tp = 1) {
  Job job;
  job.model = small_model(2);
  job.layout.grid.tp = tp;
  job.layout.sequence_parallel = tp > 1;
  job.training.batch = {.sequence = 256, .micro_batch = 1, .global_batch = 1};
  job.training.loss_chunks = chunks;
  return job;
}

OperatorContext context_of(const Job& job) { return {job.model, job.layout, job.training, 128}; }

Flops products(const std::vector<Operator>& operators, OperatorPhase phase) {
  Flops sum;
  for (const Operator& op : operators) {
    if (op.phase == phase && std::holds_alternative<GemmShape>(op.work)) sum += executed_flops(op);
  }
  return sum;
}

double sent(const std::vector<Operator>& operators, CollectiveKind kind) {
  double sum = 0;
  for (const Operator& op : operators) {
    const auto* call = std::get_if<GroupCall>(&op.work);
    if (call != nullptr && call->kind == kind) sum += call->size.value;
  }
  return sum;
}

}  // namespace

TEST_CASE("the logits of each part are made once forward and once more backward") {
  const Job job = job_in(4);
  const auto forward = head_forward(context_of(job));
  const auto backward = head_backward(context_of(job));
  const double logits = 2 * kTokens * kVocab * kHidden;
  CHECK(products(forward, OperatorPhase::forward).value == logits);
  CHECK(products(backward, OperatorPhase::recompute).value == logits);
  CHECK(products(backward, OperatorPhase::data_gradient).value == logits);
  CHECK(products(backward, OperatorPhase::weight_gradient).value == logits);
  for (const Operator& op : backward) {
    const auto* shape = std::get_if<GemmShape>(&op.work);
    if (shape != nullptr && op.phase == OperatorPhase::recompute) CHECK(shape->m == 256 / 4);
  }
}

TEST_CASE("no more than one part's logits are kept") {
  const Job whole = job_in(1);
  const Job parts = job_in(4);
  CHECK(saved_by_head(context_of(whole)).value - saved_by_head(context_of(parts)).value ==
        kTokens * kVocab * kLogit);
  CHECK(loss_workspace(context_of(whole)).value == 0);
  CHECK(loss_workspace(context_of(parts)).value == kTokens * kVocab * kLogit / 4);
  const auto peak = [](const Job& job) { return run_step(job).peak(0, MemoryPool::activations); };
  CHECK(peak(whole) - peak(parts) == static_cast<std::int64_t>(kTokens * kVocab * kLogit * 3 / 4));
}

TEST_CASE("tensor-parallel ranks send as much for parts as for the whole, and the loss twice") {
  const Job whole = job_in(1, 2);
  const Job parts = job_in(4, 2);
  for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter}) {
    CHECK(sent(head_forward(context_of(parts)), kind) ==
          sent(head_forward(context_of(whole)), kind));
    CHECK(sent(head_backward(context_of(parts)), kind) ==
          sent(head_backward(context_of(whole)), kind));
  }
  // Maximum, target and sum of each token in fp32.
  CHECK(sent(head_forward(context_of(parts)), CollectiveKind::all_reduce) == 3 * 4 * kTokens);
  CHECK(sent(head_backward(context_of(parts)), CollectiveKind::all_reduce) == 3 * 4 * kTokens);
  CHECK(sent(head_backward(context_of(whole)), CollectiveKind::all_reduce) == 0);
}
