#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/layer_operators.h"
#include "models/layout.h"
#include "simple_machine.h"

// Context parallelism: bytes against the closed forms of tests/data/context_expert.json, each with
// its source; time by hand.

using namespace flopcast;
using namespace flopcast::test;
using nlohmann::json;

namespace {

json fixture(const char* section) {
  std::ifstream file(std::string(FLOPCAST_TEST_DATA) + "/context_expert.json");
  return json::parse(file).at(section);
}

Job job_of(const json& row, ContextKind kind) {
  Job job;
  job.model.layers = 1;
  job.model.heads = row.at("heads");
  job.model.kv_heads = row.at("kv_heads");
  job.model.head_dim = row.at("head_dim");
  job.model.hidden = job.model.heads * job.model.head_dim;
  job.model.ffn = 4 * job.model.hidden;
  job.model.vocab = 1024;
  job.layout.grid.cp = row.at("cp");
  job.layout.context = kind;
  job.training.batch = {
      .sequence = row.at("sequence"), .micro_batch = row.at("micro_batch"), .global_batch = 1};
  return job;
}

struct Sent {
  double gathered = 0;
  double reduced = 0;
  double passed = 0;  // send/recv and all-to-all
};

Sent sent_in(const std::vector<Operator>& operators, int cp) {
  Sent sent;
  for (const Operator& op : operators) {
    const auto* call = std::get_if<GroupCall>(&op.work);
    if (call == nullptr) continue;
    CHECK(call->group == StepGroup::context);
    const double size = call->size.value * bus_factor(call->kind, cp);
    if (call->kind == CollectiveKind::all_gather) {
      sent.gathered += size;
    } else if (call->kind == CollectiveKind::reduce_scatter) {
      sent.reduced += size;
    } else {
      sent.passed += size;
    }
  }
  return sent;
}

double attention_flops_of(const std::vector<Operator>& operators) {
  double sum = 0;
  for (const Operator& op : operators) {
    if (std::holds_alternative<AttentionCall>(op.work)) sum += executed_flops(op).value;
  }
  return sum;
}

}  // namespace

TEST_CASE("context parallelism sends the bytes of its closed forms") {
  for (const json cases = fixture("context_parallel_volume").at("cases"); const json& row : cases) {
    CAPTURE(row.dump());
    const json& expected = row.at("expected");
    const int cp = row.at("cp");
    const auto number = [&expected](const char* key) {
      return Approx(expected.at(key).get<double>()).epsilon(1e-12);
    };
    const auto sent = [&row, cp](ContextKind kind, bool forward) {
      const Job job = job_of(row, kind);
      const OperatorContext context{job.model, job.layout, job.training, 1024};
      return sent_in(forward ? layer_forward(context, 0) : layer_backward(context, 0), cp);
    };
    CHECK(sent(ContextKind::ring, true).passed == number("ring_forward_bytes_sent_per_rank"));
    CHECK(sent(ContextKind::ring, false).passed == number("ring_backward_bytes_sent_per_rank"));
    const Sent gathered = sent(ContextKind::all_gather, false);
    CHECK(sent(ContextKind::all_gather, true).gathered ==
          number("all_gather_forward_bytes_received_per_rank"));
    CHECK(gathered.gathered == number("all_gather_backward_regather_bytes"));
    CHECK(gathered.reduced == number("all_gather_backward_reduce_scatter_bytes_sent_per_rank"));
    if (expected.at("all_to_all_forward_bytes_sent_per_rank").is_null()) {
      const Job job = job_of(row, ContextKind::all_to_all);  // more ranks than key-value heads
      CHECK_FALSE(layout_is_legal(job.model, job.layout, job.training.batch, cp));
      continue;
    }
    CHECK(sent(ContextKind::all_to_all, true).passed ==
          number("all_to_all_forward_bytes_sent_per_rank"));
    CHECK(sent(ContextKind::all_to_all, false).passed ==
          number("all_to_all_backward_bytes_sent_per_rank"));
  }
}

// 2 b a s^2 (d + d) / 2 forward over the causal half, 2.5 times that backward, cp-th part each.
TEST_CASE("context parallelism splits core attention evenly") {
  const json row = fixture("context_parallel_volume").at("cases").at(1);
  const auto kind = GENERATE(ContextKind::ring, ContextKind::all_gather, ContextKind::all_to_all);
  const Job job = job_of(row, kind);
  const OperatorContext context{job.model, job.layout, job.training, 1024};
  const double whole = 2.0 * 32 * 32768 * 32768 * 128;
  CHECK(attention_flops_of(layer_forward(context, 0)) == Approx(whole / 4));
  CHECK(attention_flops_of(layer_backward(context, 0)) == Approx(2.5 * whole / 4));
}

// Four ranks, one layer: attention takes 2 us forward and 5 us backward whatever its block. A hop
// takes a latency of 1 us and 64 tokens x 2 x 16 x 2 B = 4096 B (twice that backward) at 4.096
// GB/s: 2 us and 3 us, hidden behind a block. At a tenth of the bandwidth 11 us and 21 us: three
// hops forward wait 9 us each, three backward 16 us each.
TEST_CASE("the ring hides behind attention as long as a hop is shorter than a block") {
  Job job;
  job.model = small_model(1);
  job.model.kv_heads = 1;
  job.layout.grid.cp = 4;
  job.training.batch = {.sequence = 256, .micro_batch = 1, .global_batch = 1};
  job.training.overlap_grad_reduce = job.training.overlap_param_gather = false;
  job.training.framework.host_per_operator = seconds(0);
  KernelTimes times;
  times.hop_latency = microseconds(1);
  const auto exposed = [&](double bytes_a_second) {
    const Step step = run_step(job, times, bytes_per_second(bytes_a_second));
    const auto category = static_cast<std::size_t>(StepCategory::context);
    return to_seconds(step.rank(0).by_category[category].exposed).value * 1e6;
  };
  CHECK(exposed(4.096e9) == Approx(0).margin(1e-3));
  CHECK(exposed(4.096e8) == Approx(3 * 9 + 3 * 16).epsilon(1e-3));
}

TEST_CASE("gradients are reduced over data and context ranks") {
  Job job;
  job.model = small_model(1);
  job.layout.grid.cp = 2;
  job.layout.grid.dp = 2;
  job.training.batch = {.sequence = 256, .micro_batch = 1, .global_batch = 2};
  const Step step = run_step(job);
  const double parameters = 2 * 64 + 64 * 192 + 64 * 64 + 64 * 192 + 96 * 64 + 64 + 2 * 128 * 64;
  CHECK(step.sent(0, StepCategory::gradient) == Approx(2.0 * 3 / 4 * 4 * parameters));
}

TEST_CASE("heads cannot be exchanged over more ranks than there are") {
  Job job = job_of(fixture("context_parallel_volume").at("cases").at(0), ContextKind::all_to_all);
  const auto legal = [&job](int cp) {
    job.layout.grid.cp = cp;
    return layout_is_legal(job.model, job.layout, job.training.batch, cp);
  };
  CHECK(legal(8));
  CHECK_FALSE(legal(16));  // of 8 key-value heads
  job.layout.context = ContextKind::ring;
  CHECK(legal(16));
}
