#include "tools/answer.h"

#include <catch2/catch.hpp>

#include "sample_answer.h"

using namespace flopcast;

TEST_CASE("another convention changes model FLOPs and MFU, not HFU") {
  Answer sample = sample_answer();
  Transformer& model = sample.scenario.job.model;
  // Llama 3 8B (arXiv 2407.21783, table 3).
  model.layers = 32;
  model.hidden = 4096;
  model.heads = 32;
  model.kv_heads = 8;
  model.head_dim = 128;
  model.ffn = 14336;
  model.vocab = 128256;
  const StepReport report =
      in_convention(sample.report, sample.scenario.job, FlopConvention::six_n);
  // 6 * 8,030,261,248 parameters * 131,072 tokens, in 10 s on 16 GPUs of 1000 TFLOP/s.
  const double flop = 6.0 * 8030261248 * 131072;
  CHECK(report.convention == FlopConvention::six_n);
  CHECK(report.model_flops.value == Approx(flop).epsilon(1e-12));
  CHECK(report.model_flops_per_gpu.value == Approx(flop / 160).epsilon(1e-12));
  CHECK(report.mfu == Approx(flop / 160 / 1e15).epsilon(1e-12));
  CHECK(report.hfu == sample.report.hfu);
}

TEST_CASE("expectations are looked at after the convention was chosen") {
  Answer sample = sample_answer();
  Expectation expectation;
  expectation.metric = "mfu";
  expectation.min = 0.3;
  sample.scenario.expect = {expectation};
  CHECK(answer(sample.scenario, sample.report, std::nullopt).passed());
  sample.report.mfu = 0.2;
  CHECK_FALSE(answer(sample.scenario, sample.report, std::nullopt).passed());
}
