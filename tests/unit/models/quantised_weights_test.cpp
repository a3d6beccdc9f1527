#include <catch2/catch.hpp>
#include <vector>

#include "models/quantised_weights.h"
#include "simple_machine.h"

// Weights of linear layers that products read in 8 or 4 bits: bytes by hand.

using namespace flopcast;
using namespace flopcast::test;

namespace {

std::size_t at(DataType type) { return static_cast<std::size_t>(type); }

/// Every precision takes the time of bf16.
Profile any_precision(bool scaled_formats) {
  Profile profile = simple_profile({});
  for (const DataType type : {DataType::fp8, DataType::fp8_blockwise, DataType::nvfp4}) {
    profile.gemm[at(type)] = profile.gemm[at(DataType::bf16)];
    profile.peak_dense[at(type)] = profile.peak_dense[at(DataType::bf16)];
  }
  profile.gemm[at(DataType::mxfp8)] = profile.gemm[at(DataType::bf16)];
  if (scaled_formats) profile.peak_dense[at(DataType::mxfp8)] = flops_per_second(kEndless);
  profile.memory[static_cast<std::size_t>(MemoryKernel::quantise)] = fixed_time({});
  return profile;
}

/// Two layers with untied ends on two data-parallel ranks.
Job small_job(DataType precision, int zero) {
  Job job;
  job.model = small_model(2);
  job.layout.grid.dp = 2;
  job.layout.zero = zero;
  job.training.batch = {.sequence = 64, .micro_batch = 1, .global_batch = 2};
  job.training.precision = precision;
  return job;
}

// Of hidden 64, MLP 96 with a gate: qkv, projection, fc1 and fc2.
constexpr double kLinear = 2 * (64.0 * 3 * 64 + 64.0 * 64 + 64.0 * 2 * 96 + 96.0 * 64);
// Word embedding and output projection of 128 words, two norms of each layer and the last one.
constexpr double kOthers = 2 * 128.0 * 64 + 5 * 64.0;

constexpr double kMx = 33.0 / 32;  // a byte of scale for 32 elements
constexpr double kNv = 9.0 / 16;   // 16 elements of 4 bits and a byte of scale

}  // namespace

TEST_CASE("weights are kept as the parameter and as what products read, or as that alone") {
  struct Row {
    DataType precision;
    bool param_gather;
    bool scaled_formats;  // Blackwell; else Hopper, whose fp8 products read rows alone
    double kept;
    double gathered;
    double cast;
  };
  const auto row = GENERATE(values<Row>({
      {DataType::bf16, false, false, 2, 2, 0},
      {DataType::fp8, false, false, 2 + 1 + 1, 2, 2 + 1 + 1},
      {DataType::fp8, false, true, 2 + 1, 2, 2 + 1},
      {DataType::fp8, true, false, 1 + 1, 1, 1 + 1},
      {DataType::fp8, true, true, 1, 1, 0},
      {DataType::fp8_blockwise, false, false, 2 + 1 + 1, 2, 2 + 1 + 1},
      {DataType::fp8_blockwise, true, false, 1 + 1, 1, 1 + 1},
      {DataType::mxfp8, false, true, 2 + 2 * kMx, 2, 2 + 2 * kMx},
      {DataType::mxfp8, true, true, 2 * kMx, 2, 2 + 2 * kMx},
      {DataType::nvfp4, false, true, 2 + 2 * kNv, 2, 2 + 2 * kNv},
  }));
  Training training;
  training.precision = row.precision;
  if (row.param_gather) training.fp8_param_gather = true;
  CAPTURE(to_text(row.precision), row.param_gather, row.scaled_formats);
  const WeightSizes sizes = weight_sizes(training, any_precision(row.scaled_formats));
  CHECK(sizes.plain.value == 2);
  CHECK(sizes.kept.value == Approx(row.kept));
  CHECK(sizes.gathered.value == Approx(row.gathered));
  CHECK(sizes.cast.value == Approx(row.cast));
}

TEST_CASE("NeMo's recipes have parameters in fp8 but for blocks of 128; torchao keeps no copies") {
  struct Row {
    const char* framework;
    DataType precision;
    double kept;
  };
  const auto row = GENERATE(values<Row>({
      {"nemo", DataType::fp8, 2},
      {"megatron-bridge", DataType::mxfp8, 2 * kMx},
      {"megatron-bridge", DataType::fp8_blockwise, 4},
      {"megatron-bridge", DataType::nvfp4, 2 + 2 * kNv},
      {"megatron", DataType::fp8, 4},
      {"fsdp2", DataType::fp8, 2},
  }));
  Training training;
  training.precision = row.precision;
  training.framework = *framework_preset(row.framework);
  CAPTURE(row.framework, to_text(row.precision));
  CHECK(weight_sizes(training, any_precision(false)).kept.value == Approx(row.kept));
}

TEST_CASE("a step holds and gathers weights in 8 bits, ends and norms in 16") {
  const int zero = GENERATE(1, 3);
  Job job = small_job(DataType::fp8, zero);
  if (zero == 3) job.training.framework = *framework_preset("megatron-fsdp");
  const Profile profile = any_precision(false);
  const Step plain = run_step_by(profile, job);
  job.training.fp8_param_gather = true;
  const Step fp8 = run_step_by(profile, job);
  CAPTURE(zero);
  if (zero == 1) {
    CHECK(plain.peak(0, MemoryPool::parameters) == Approx(4 * kLinear + 2 * kOthers));
    CHECK(fp8.peak(0, MemoryPool::parameters) == Approx(2 * kLinear + 2 * kOthers));
  } else {
    CHECK(plain.peak(0, MemoryPool::parameters) == Approx((2 * kLinear + 2 * kOthers) / 2));
    CHECK(fp8.peak(0, MemoryPool::parameters) == Approx((kLinear + 2 * kOthers) / 2));
  }
  // Of two ranks each sends its half: once, or, where parameters are sharded, twice but for the
  // ends. Of what is sent in 16 bits that of linear layers is half.
  const double times = zero == 1 ? 1 : 2;
  const double saved =
      plain.sent(0, StepCategory::parameter) - fp8.sent(0, StepCategory::parameter);
  CHECK(saved == Approx(times * kLinear / 2));
}

TEST_CASE("a frozen model is kept as it is read, or in the type asked for") {
  Job job = small_job(DataType::fp8, 1);
  job.training.adapters = LowRankAdapters{};
  const Profile profile = any_precision(false);
  CHECK(frozen_weight_sizes(job.training, profile).kept.value == Approx(4));
  job.training.adapters->frozen_dtype = DataType::fp8;
  const WeightSizes stored = frozen_weight_sizes(job.training, profile);
  CHECK(stored.kept.value == Approx(1));
  CHECK(stored.plain.value == Approx(1));
}
