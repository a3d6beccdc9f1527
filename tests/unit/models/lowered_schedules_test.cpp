#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "golden_schedules.h"
#include "models/activation_memory.h"
#include "models/operator_timing.h"
#include "simple_machine.h"

// Programs of all schedules: golden orders of tests/data/schedules.json, lowered from a job whose
// chunks take one unit forward and one for each gradient, and run by the engine.

using namespace flopcast;
using namespace flopcast::test;
using nlohmann::json;

namespace {

constexpr BytesPerSecond kEndlessLink = bytes_per_second(1e30);

/// One layer per stage, of four products each, and nothing else takes time.
constexpr int kProducts = 4;
constexpr std::int64_t kHidden = 64;
constexpr std::int64_t kTokens = 64;

KernelTimes only_products() {
  KernelTimes times;
  times.gemm = microseconds(1);
  times.attention_forward = times.attention_backward = seconds(0);
  times.elementwise = times.norm_forward = times.norm_backward = times.rotary = seconds(0);
  times.softmax = times.embedding = times.optimizer = seconds(0);
  return times;
}

Job job_of(ScheduleKind kind, const ScheduleShape& shape) {
  Job job;
  job.layout.schedule = kind;
  job.layout.grid.pp = shape.ranks;
  job.layout.vpp = shape.chunks;
  job.layout.micro_batch_group = shape.group;
  job.model.layers = stage_count({placement_of(kind), shape.ranks, shape.chunks});
  job.model.hidden = kHidden;
  job.model.heads = job.model.kv_heads = 4;
  job.model.head_dim = 16;
  job.model.ffn = 96;
  job.model.vocab = 128;
  job.training.batch = {.sequence = kTokens, .micro_batch = 1, .global_batch = shape.micro_batches};
  job.training.framework.host_per_operator = seconds(0);
  return job;
}

/// The head's product takes no time either, and nothing that does is rounded up to a picosecond.
void silence(Workload& workload) {
  for (Kernel& kernel : workload.kernels) {
    if (kernel.duration < nanoseconds(1)) kernel.duration = seconds(0);
  }
  for (Transfer& transfer : workload.transfers) transfer.size = bytes(0);
  const auto label = std::ranges::find(workload.labels, "logits") - workload.labels.begin();
  const auto nothing = static_cast<std::uint32_t>(workload.kernels.size());
  workload.kernels.push_back({seconds(0)});
  for (Program& program : workload.programs) {
    for (Op& op : program.streams[index_of(StepStream::compute)]) {
      if (op.kind == OpKind::compute && index_of(op.label) == static_cast<unsigned>(label)) {
        op.row = nothing;
      }
    }
  }
}

Step unit_step(const Job& job) {
  const Cluster cluster(simple_cluster(job.layout.grid.world(), kEndlessLink));
  Step step{
      .plan = lower(job, cluster, simple_profile(only_products())), .result = {}, .timeline = {}};
  silence(step.plan.workload);
  step.result = run(step.plan.workload, &step.timeline);
  return step;
}

/// Bytes of one layer, and of the head where a chunk has it.
struct PassBytes {
  std::int64_t saved;
  std::int64_t inputs;
  std::int64_t gradients;
  std::int64_t head;
  std::int64_t head_kept;
};

PassBytes pass_bytes(const Job& job) {
  const OperatorContext context{job.model, job.layout, job.training, 128};
  const WeightOperands kept = weight_operands(context, 0);
  const WeightOperands head = head_weight_operands(context);
  const auto whole = [](Bytes size) { return static_cast<std::int64_t>(size.value); };
  return {whole(saved_by_layer(context, 0, 0)), whole(kept.inputs), whole(kept.output_gradients),
          whole(saved_by_head(context)), whole(head.inputs + head.output_gradients)};
}

/// Most bytes that the ops of a rank hold, one after another.
class Replayed {
 public:
  Replayed(const PassBytes& bytes, const PipelineShape& pipeline, int rank)
      : bytes_(bytes), pipeline_(pipeline), rank_(rank) {}

  void add(const ScheduleOp& op) {
    const bool head = has_head(op.chunk);
    switch (op.pass) {
      case Pass::forward: move(bytes_.saved + (head ? bytes_.head : 0)); return;
      case Pass::backward: move(-bytes_.saved - (head ? bytes_.head : 0)); return;
      case Pass::input_gradient:
        move(bytes_.gradients);
        move(bytes_.inputs - bytes_.saved);
        if (!head) return;
        move(bytes_.head_kept);
        move(-bytes_.head);
        return;
      case Pass::weight_gradient:
        move(-bytes_.inputs - bytes_.gradients - (head ? bytes_.head_kept : 0));
        return;
      case Pass::overlapped:
        add({.pass = Pass::forward, .micro_batch = op.micro_batch, .chunk = op.chunk});
        add({.pass = Pass::backward, .chunk = op.beside_chunk});
        return;
    }
  }
  bool has_head(int chunk) const {
    return stage_of(pipeline_, {rank_, chunk}) == stage_count(pipeline_) - 1;
  }
  std::int64_t peak() const { return peak_; }

 private:
  void move(std::int64_t size) {
    held_ += size;
    peak_ = std::max(peak_, held_);
  }

  PassBytes bytes_;
  PipelineShape pipeline_;
  int rank_;
  std::int64_t held_ = 0;
  std::int64_t peak_ = 0;
};

bool splits(const std::vector<ScheduleOp>& ops) {
  return std::ranges::any_of(ops,
                             [](const ScheduleOp& op) { return op.pass == Pass::weight_gradient; });
}

}  // namespace

TEST_CASE("every schedule is lowered to a step of the reference's makespan") {
  for (const json& c : golden_schedules()["cases"]) {
    CAPTURE(c["id"].get<std::string>());
    const Step step = unit_step(job_of(schedule_kind(c), schedule_shape(c)));
    const json& expected = c["expected"];
    const bool pairs = expected.contains("makespan_overlap_atomic");
    const std::int64_t units = expected[pairs ? "makespan_overlap_atomic" : "makespan"];
    CHECK(step.result.makespan.picoseconds == units * kProducts * 1'000'000);
    for (const RankSummary& rank : step.result.ranks) {
      CHECK(rank.compute_busy.picoseconds ==
            expected["work_per_rank"].get<std::int64_t>() * kProducts * 1'000'000);
    }
  }
}

TEST_CASE(
    "every schedule holds what its order implies, and whole passes as many as the reference") {
  for (const json& c : golden_schedules()["cases"]) {
    const ScheduleKind kind = schedule_kind(c);
    const ScheduleShape shape = schedule_shape(c);
    const Job job = job_of(kind, shape);
    const Step step = unit_step(job);
    const PassBytes bytes = pass_bytes(job);
    const auto order = pipeline_schedule(kind, shape);
    for (int r = 0; r < shape.ranks; ++r) {
      CAPTURE(c["id"].get<std::string>(), r);
      const auto row = static_cast<std::size_t>(r);
      Replayed replayed(bytes, {placement_of(kind), shape.ranks, shape.chunks}, r);
      for (const ScheduleOp& op : order[row]) replayed.add(op);
      const std::int64_t peak = step.peak(r, MemoryPool::activations);
      CHECK(peak == replayed.peak());
      bool head = false;
      for (int chunk = 0; chunk < shape.chunks; ++chunk) head |= replayed.has_head(chunk);
      if (head || splits(order[row])) continue;
      CHECK(peak == c["expected"]["peak_activations"][row].get<std::int64_t>() * bytes.saved);
    }
  }
}

// Down the V and up again: each rank but the last sends one activation and one gradient per
// micro-batch to the next, each but the first one of both to the previous; none at the turn.
TEST_CASE("a V sends nothing at its turn") {
  const Step step = run_step(job_of(ScheduleKind::zb_v, {3, 7, 2}));
  const double activation = 2.0 * kTokens * kHidden;
  CHECK(step.sent(0, StepCategory::pipeline) == 2 * 7 * activation);
  CHECK(step.sent(1, StepCategory::pipeline) == 4 * 7 * activation);
  CHECK(step.sent(2, StepCategory::pipeline) == 2 * 7 * activation);
}

// Two pipelines of two ranks, each with the whole model of one layer, embedding and head per end:
// all ranks hold the same, and all four reduce each of its two halves: 2 * 3/4 bytes per byte.
TEST_CASE("DualPipe holds the model twice and reduces both copies together") {
  Job job = job_of(ScheduleKind::dualpipe, {2, 4, 2});
  job.layout.grid.dp = 2;
  job.training.batch.global_batch *= 2;
  const std::int64_t layer = 2 * 64 + 64 * 192 + 64 * 64 + 64 * 192 + 96 * 64;
  const std::int64_t model = 2 * layer + 2 * 128 * 64 + 64;
  const int zero = GENERATE(0, 1);
  job.layout.zero = zero;
  const Step step = run_step(job);
  const int sharers = zero == 0 ? 1 : 4;
  for (int r = 0; r < 2; ++r) {
    CHECK(step.peak(r, MemoryPool::parameters) == 2 * model);
    CHECK(step.peak(r, MemoryPool::optimizer) == 12 * model / sharers);
    const double sent = (zero == 0 ? 2 : 1) * 0.75 * 4 * static_cast<double>(model);
    CHECK(step.sent(r, StepCategory::gradient) == Approx(sent).epsilon(0.01));  // padding
  }
}

// Rank 0 runs F F F B F&B B I W: six passes by themselves expose their two exchanges of 1 us each;
// the four of the pair lie under products and attention.
TEST_CASE("a pair of passes hides its exchanges of tokens") {
  Job job = job_of(ScheduleKind::dualpipe, {2, 4, 2});
  job.layout.grid.dp = job.layout.grid.ep = 2;
  job.layout.dispatcher = TokenDispatcher::once_per_node;
  job.training.batch.global_batch *= 2;
  job.model.moe = MixtureOfExperts{.experts = 4, .top_k = 2, .expert_ffn = 32};
  KernelTimes times;
  times.collective_latency = microseconds(1);
  const Step step = run_step(job, times, kEndlessLink);
  for (int r = 0; r < 2; ++r) {
    const auto row = static_cast<std::size_t>(StepCategory::expert);
    CHECK(step.calls(r, StepCategory::expert) == 16);
    CHECK(step.rank(r).by_category[row].exposed.picoseconds == Approx(12'000'000).epsilon(1e-5));
    CHECK(step.rank(r).by_category[row].busy.picoseconds == Approx(16'000'000).epsilon(1e-5));
  }
}

// Source: Qi et al., arXiv 2401.10241, section 2.2: the weight gradients of a GPT layer need 32 sbh
// of the 34 sbh + 5 a s^2 b that its backward pass does; 14 of them are activations.
TEST_CASE("weight gradients keep inputs of linear layers and gradients of their outputs") {
  Job job = job_of(ScheduleKind::zb_h1, {2, 4, 1});
  job.model.ffn = 4 * kHidden;
  job.model.gated_mlp = false;
  job.model.dropout = true;
  const OperatorContext context{job.model, job.layout, job.training, 128};
  const WeightOperands kept = weight_operands(context, 0);
  CHECK(kept.inputs.value == 14.0 * kTokens * kHidden);
  CHECK(kept.output_gradients.value == 18.0 * kTokens * kHidden);
}

TEST_CASE("the halves of a backward pass are the whole of it") {
  Job job = job_of(ScheduleKind::zb_h1, {2, 4, 1});
  job.layout.grid.tp = 2;
  job.layout.sequence_parallel = true;
  const OperatorContext context{job.model, job.layout, job.training, 256};
  const auto whole = layer_backward(context, 0);
  const BackwardHalves halves = halves_of(whole);
  const auto products = [](const std::vector<Operator>& operators) {
    return std::ranges::count_if(
        operators, [](const Operator& op) { return std::holds_alternative<GemmShape>(op.work); });
  };
  const auto gathers = [](const std::vector<Operator>& operators) {
    return std::ranges::count_if(operators, [](const Operator& op) {
      const auto* call = std::get_if<GroupCall>(&op.work);
      return call != nullptr && call->kind == CollectiveKind::all_gather;
    });
  };
  CHECK(halves.input_gradient.size() + halves.weight_gradient.size() == whole.size());
  CHECK(products(halves.input_gradient) == kProducts);
  CHECK(products(halves.weight_gradient) == kProducts);
  CHECK(gathers(halves.input_gradient) == 2);   // gradients of outputs of row-parallel layers
  CHECK(gathers(halves.weight_gradient) == 2);  // inputs of column-parallel ones
}
