#include <catch2/catch.hpp>
#include <cmath>

#include "tests/unit/calibration/table.h"

namespace flopcast {
namespace {

// 100 SMs of 1 TFLOP/s, 1 TB/s: easy to work by hand.
Profile simple_profile() {
  Profile profile;
  profile.sms = 100;
  profile.memory_bandwidth = gigabytes_per_second(1000);
  const auto bf16 = static_cast<std::size_t>(DataType::bf16);
  profile.peak_dense[bf16] = teraflops_per_second(100);
  GemmCurve& gemm = profile.gemm[bf16].emplace();
  gemm.eff_inf = 1;
  gemm.eff_bw = 1;
  gemm.p = 100;
  profile.level_provenance.evidence = Evidence::fitted;
  profile.attention.resize(3);
  AttentionCurve& narrow = profile.attention[0];
  narrow.head_dim = 64;
  narrow.eff_inf = 0.25;
  AttentionCurve& forward = profile.attention[1];
  forward.eff_inf = 0.5;
  forward.s0 = 1000;
  forward.t0 = microseconds(10);
  forward.provenance.evidence = Evidence::fitted;
  AttentionCurve& backward = profile.attention[2];
  backward.pass = AttentionPass::backward;
  backward.eff_inf = 0.5;
  return profile;
}

}  // namespace

TEST_CASE("one full wave of large tiles runs at peak") {
  Profile profile = simple_profile();
  // 10 x 10 tiles of 256 x 128, one on each SM: 2 * 2560 * 1280 * 4096 flop at 100 TFLOP/s.
  const GemmShape shape{.m = 2560, .n = 1280, .k = 4096};
  const double expected = 2.0 * 2560 * 1280 * 4096 / 100e12;
  CHECK(gemm_time(profile, DataType::bf16, shape).time.value == Approx(expected).epsilon(1e-9));

  SECTION("a batch is more tiles") {
    const GemmShape four{.m = 2560, .n = 1280, .k = 4096, .batch = 4};
    CHECK(gemm_time(profile, DataType::bf16, four).time.value == Approx(4 * expected));
  }
  SECTION("level scales compute") {
    profile.level = 0.8;
    CHECK(gemm_time(profile, DataType::bf16, shape).time.value == Approx(expected / 0.8));
  }
  SECTION("k0 is paid once per tile") {
    profile.gemm[static_cast<std::size_t>(DataType::bf16)]->k0 = 4096;
    CHECK(gemm_time(profile, DataType::bf16, shape).time.value == Approx(2 * expected));
  }
  SECTION("a tenth of a second wave costs more the harder the quantisation") {
    // With all of the cost in c_tile and k0, smaller tiles and split-K cannot fill the wave better.
    GemmCurve& curve = *profile.gemm[static_cast<std::size_t>(DataType::bf16)];
    curve.q_wave = 0.5;
    curve.c_tile = 1e9;
    curve.k0 = 1e6;
    const double wave = 2.0 * 256 * 128 * (4096 + 1e6) / 1e12;
    const GemmShape rest{.m = 2560 + 256, .n = 1280, .k = 4096};  // 110 tiles on 100 SMs
    CHECK(gemm_time(profile, DataType::bf16, rest).time.value ==
          Approx((0.5 * 1.1 + 0.5 * 2) * wave));
  }
}

TEST_CASE("a result that is added up in fp32 is moved after the products") {
  Profile profile = simple_profile();
  profile.memory[static_cast<std::size_t>(MemoryKernel::elementwise)].efficiency = 0.5;
  GemmShape shape{.m = 2560, .n = 1280, .k = 4096};
  const Seconds plain = gemm_time(profile, DataType::bf16, shape).time;
  shape.result_traffic = bytes(8);
  // 6 bytes more for each of 2560 x 1280 elements at half of 1 TB/s.
  const Seconds added = gemm_time(profile, DataType::bf16, shape).time - plain;
  CHECK(added.value == Approx(6.0 * 2560 * 1280 / 0.5e12));
}

TEST_CASE("a thin GEMM is bound by memory") {
  const Profile profile = simple_profile();
  const GemmShape shape{.m = 1, .n = 8192, .k = 8192};
  const double traffic = 2.0 * (8192.0 + 8192.0 * 8192.0 + 8192.0);
  CHECK(gemm_time(profile, DataType::bf16, shape).time.value ==
        Approx(traffic / 1e12).epsilon(0.01));
}

TEST_CASE("types without a curve borrow one and say so") {
  Profile profile = simple_profile();
  const auto bf16 = static_cast<std::size_t>(DataType::bf16);
  profile.gemm[bf16]->provenance.evidence = Evidence::fitted;
  CHECK(has_gemm(profile, DataType::bf16));
  CHECK_FALSE(has_gemm(profile, DataType::tf32));
  CHECK_FALSE(has_gemm(profile, DataType::fp8));
  profile.peak_dense[static_cast<std::size_t>(DataType::tf32)] = teraflops_per_second(50);
  const GemmShape shape{.m = 25600, .n = 12800, .k = 8192};
  const TimeEstimate half = gemm_time(profile, DataType::bf16, shape);
  const TimeEstimate full = gemm_time(profile, DataType::tf32, shape);
  CHECK(full.time / half.time == Approx(2).epsilon(1e-6));
  CHECK(half.evidence == Evidence::fitted);
  CHECK(full.evidence == Evidence::assumed);
}

TEST_CASE("attention saturates with the key length") {
  const Profile profile = simple_profile();
  const AttentionShape shape{.batch = 2, .heads = 8, .queries = 1000, .keys = 1000};
  // 4 b h s^2 d / 2 flop; a query sees 500 keys: s0 = 1000 triples the time at 50 TFLOP/s; 10 us on
  // top.
  const double work = 4.0 * 2 * 8 * 1000 * 1000 * 128 / 2;
  CHECK(attention_flops(shape, AttentionPass::forward).value == Approx(work));
  CHECK(attention_flops(shape, AttentionPass::backward).value == Approx(2.5 * work));
  const TimeEstimate forward =
      attention_time(profile, DataType::bf16, shape, AttentionPass::forward);
  CHECK(forward.time.value == Approx(work * 3 / 50e12 + 10e-6));
  CHECK(forward.evidence == Evidence::fitted);
  AttentionShape narrow = shape;
  narrow.qk_dim = narrow.v_dim = 80;  // nearest curve: 64
  CHECK(attention_time(profile, DataType::bf16, narrow, AttentionPass::forward).time.value ==
        Approx(work * 80 / 128 / 25e12));
  CHECK(attention_time(profile, DataType::fp8, shape, AttentionPass::backward).time.value ==
        Approx(2.5 * work / 50e12));
}

TEST_CASE("attention by an older kernel, or by the newest where it has no curve") {
  Profile profile = simple_profile();
  AttentionCurve older = profile.attention[1];
  older.kernel = AttentionKernel::flash2;
  older.eff_inf = 0.1;
  older.s0 = 0;
  older.t0 = {};
  profile.attention.push_back(older);
  const AttentionShape shape{.batch = 2, .heads = 8, .queries = 1000, .keys = 1000};
  const auto time = [&](AttentionKernel kernel) {
    return attention_time(profile, DataType::bf16, shape, AttentionPass::forward, kernel);
  };
  const double work = 4.0 * 2 * 8 * 1000 * 1000 * 128 / 2;
  CHECK(time(AttentionKernel::flash2).time.value == Approx(work / 10e12));
  CHECK(time(AttentionKernel::flash2).evidence == Evidence::fitted);
  CHECK(time(AttentionKernel::flash1).time == time(AttentionKernel::newest).time);
  CHECK(time(AttentionKernel::flash1).evidence == Evidence::assumed);
}

TEST_CASE("clocks sink under lasting work, and in part during one kernel") {
  Profile profile = simple_profile();
  const GemmShape shape{.m = 8192, .n = 8192, .k = 8192};
  const double cold = gemm_time(profile, DataType::bf16, shape).time.value;
  GemmCurve& curve = *profile.gemm[static_cast<std::size_t>(DataType::bf16)];
  REQUIRE(curve.t0.value == 0);
  REQUIRE(tabled_gemm_time(profile, DataType::bf16, shape, true).value == Approx(cold));
  // A kernel that takes as long as clocks need to settle has sunk by half.
  curve.clock = {.sag = 0.4, .settle = seconds(cold)};
  CHECK(gemm_time(profile, DataType::bf16, shape).time.value == Approx(1.4 * cold).epsilon(1e-3));
  CHECK(tabled_gemm_time(profile, DataType::bf16, shape, true).value ==
        Approx(1.2 * cold).epsilon(1e-3));
}

TEST_CASE("a matrix that exceeds the cache is read again for each wave's columns") {
  // A of 16384 x 8192 in 16 bits: 268 MB, of which a cache of 1 GB keeps all and one of 1 MB none.
  Profile profile = simple_profile();
  GemmCurve& curve = *profile.gemm[static_cast<std::size_t>(DataType::bf16)];
  curve.eff_bw = 1e-3;  // bound by memory
  const GemmShape shape{.m = 16384, .n = 4096, .k = 8192};
  const double once = gemm_time(profile, DataType::bf16, shape).time.value;
  curve.rereads_a = true;
  profile.l2 = {.size = gigabytes(1), .bandwidth = gigabytes_per_second(1000), .provenance = {}};
  CHECK(gemm_time(profile, DataType::bf16, shape).time.value == Approx(once).epsilon(1e-3));
  profile.l2->size = megabytes(1);
  // Waves of one tile in each row, or less, of 128 columns: A 32 times, B and C once.
  REQUIRE(profile.sms * 128 <= shape.m);
  const double a = 2.0 * 16384 * 8192;
  const double others = 2.0 * 8192 * 4096 + 2.0 * 16384 * 4096;
  CHECK(gemm_time(profile, DataType::bf16, shape).time.value / once ==
        Approx((32 * a + others) / (a + others)).epsilon(0.01));
}

TEST_CASE("casts timed with a product go through the cache where they fit it") {
  Profile profile = simple_profile();
  GemmCurve& curve = *profile.gemm[static_cast<std::size_t>(DataType::bf16)];
  curve.eff_quantise_bw = 1;
  curve.quantise_traffic = bytes(5);
  const GemmShape shape{.m = 4096, .n = 4096, .k = 4096};
  const auto casts = [&] {
    return tabled_gemm_time(profile, DataType::bf16, shape, true) -
           tabled_gemm_time(profile, DataType::bf16, shape, false);
  };
  const double elements = 4096.0 * 4096;
  const double slow = elements / profile.memory_bandwidth.value;  // one byte of each
  CHECK(casts().value == Approx(5 * slow));
  // Twice the bandwidth within a cache that keeps both passes, or the one of 2 bytes alone.
  profile.l2 = {.size = gigabytes(1), .bandwidth = 2 * profile.memory_bandwidth, .provenance = {}};
  CHECK(casts().value == Approx(2.5 * slow));
  profile.l2->size = megabytes(1);
  CHECK(casts().value == Approx(5 * slow));
  profile.l2->size = bytes(std::sqrt(2.0 * 3.0) * elements);  // between the two
  CHECK(casts().value == Approx((3 + 1) * slow).epsilon(0.05));
}

TEST_CASE("a copy into a cache is timed with prefill attention and not by attention_time") {
  Profile profile = simple_profile();
  const Bytes moved = megabytes(80);
  CHECK(cache_copy_in_tables(profile, 128, AttentionPass::forward, moved).value == 0);
  for (AttentionCurve& one : profile.attention) one.eff_cache_bw = 0.5;
  CHECK(cache_copy_in_tables(profile, 128, AttentionPass::forward, moved).value ==
        Approx(80e6 / (0.5 * profile.memory_bandwidth.value)));
}

TEST_CASE("memory-bound kernels move bytes at their share of the bandwidth") {
  Profile profile = simple_profile();
  profile.memory[static_cast<std::size_t>(MemoryKernel::optimizer)] = {
      .efficiency = 0.5, .t0 = microseconds(3), .provenance = {}};
  CHECK(memory_time(profile, MemoryKernel::optimizer, gigabytes(1)).time.value ==
        Approx(2e-3 + 3e-6));
  CHECK(memory_time(profile, MemoryKernel::optimizer, bytes(0)).time.value == 0);
}

// The figures beside the rows are the medians that the published fits state for rows that were not
// fitted, plus a margin for the sample of 40.
TEST_CASE("GEMM times meet the published tables") {
  struct Case {
    std::string profile;
    std::string framework;
    DataType type;
    double median_error;
  };
  const auto item = GENERATE(values<Case>({
      {"a100-sxm", "trtllm", DataType::bf16, 0.028 + 0.01},
      {"h100-sxm", "trtllm", DataType::bf16, 0.036 + 0.01},
      {"h100-sxm", "sglang", DataType::bf16,
       0.07},  // another framework: no row was fitted, 0.044 over the whole table
      {"h100-sxm", "trtllm", DataType::fp8, 0.025 + 0.01},
      {"b200-sxm", "trtllm", DataType::bf16, 0.044 + 0.01},
  }));
  Profile profile = shipped_profile(item.profile);
  profile.level = 1;  // the tables are short runs; the level is that of long training
  std::vector<double> errors;
  for (const Row& row : read_table("gemm_rows.csv")) {
    if (row.at("profile") == item.profile && row.at("framework") == item.framework &&
        row.at("dtype") == to_text(item.type)) {
      const GemmShape shape{
          .m = std::stoll(row.at("m")), .n = std::stoll(row.at("n")), .k = std::stoll(row.at("k"))};
      const Seconds measured = microseconds(std::stod(row.at("time_us")));
      const Seconds forecast = tabled_gemm_time(profile, item.type, shape, true);
      errors.push_back(std::abs(forecast / measured - 1));
    }
  }
  CAPTURE(item.profile, item.framework, to_text(item.type), errors.size(), median(errors));
  REQUIRE(errors.size() == 40);
  CHECK(median(errors) < item.median_error);
}

// deepseek-ai/DeepGEMM, README of March 2025: TFLOP/s on H800 with operands already cast. Nothing
// was fitted to them; the curve is that of another library on H100.
TEST_CASE("blockwise fp8 meets the rates of DeepGEMM on H800") {
  struct Rate {
    GemmShape shape;
    double teraflops;
  };
  const std::vector<Rate> rates{
      {{.m = 4096, .n = 2112, .k = 7168}, 1058},
      {{.m = 4096, .n = 24576, .k = 1536}, 990},
      {{.m = 4096, .n = 32768, .k = 512}, 590},
      {{.m = 4096, .n = 7168, .k = 16384}, 1358},
      {{.m = 4096, .n = 4096, .k = 7168}, 1304},
      {{.m = 4096, .n = 7168, .k = 2048}, 1025},
      {{.m = 8192, .n = 4096, .k = 7168, .batch = 4}, 1297},
      {{.m = 8192, .n = 7168, .k = 2048, .batch = 4}, 1099},
      {{.m = 4096, .n = 4096, .k = 7168, .batch = 8}, 1288},
      {{.m = 4096, .n = 7168, .k = 2048, .batch = 8}, 1093},
  };
  Profile profile = shipped_profile("h800-sxm");
  profile.level = 1;
  std::vector<double> errors;
  for (const Rate& rate : rates) {
    const GemmShape& s = rate.shape;
    const double work = 2.0 * static_cast<double>(s.m * s.n * s.k * s.batch);
    const double found =
        work / gemm_time(profile, DataType::fp8_blockwise, s).time.value / 1e12 / rate.teraflops;
    CAPTURE(s.m, s.n, s.k, s.batch, found);
    CHECK(found == Approx(1).margin(0.15));
    errors.push_back(std::abs(found - 1));
  }
  CHECK(median(errors) < 0.10);
}

TEST_CASE("attention times meet the published tables") {
  struct Case {
    std::string profile;
    AttentionPass pass;
    std::string name;
    double median_error;
  };
  const auto item = GENERATE(values<Case>({
      {"a100-sxm", AttentionPass::forward, "forward", 0.022 + 0.02},
      {"h200-sxm", AttentionPass::forward, "forward", 0.003 + 0.02},
      {"h200-sxm", AttentionPass::backward, "backward", 0.024 + 0.02},
  }));
  Profile profile = shipped_profile(item.profile);
  profile.level = 1;  // the tables are short runs; the level is that of long training
  std::vector<double> errors;
  for (const Row& row : read_table("attention_rows.csv")) {
    if (row.at("profile") == item.profile && row.at("pass") == item.name) {
      const std::int64_t length = std::stoll(row.at("length"));
      const AttentionShape shape{.batch = std::stoll(row.at("batch")),
                                 .heads = std::stoll(row.at("heads")),
                                 .queries = length,
                                 .keys = length};
      const Seconds measured = microseconds(std::stod(row.at("time_us")));
      errors.push_back(
          std::abs(attention_time(profile, DataType::bf16, shape, item.pass).time / measured - 1));
    }
  }
  CAPTURE(item.profile, item.name, errors.size());
  REQUIRE_FALSE(errors.empty());
  CHECK(median(errors) < item.median_error);
}

TEST_CASE("FlashAttention-2 on Hopper meets the figures of its successor's paper") {
  Profile profile = shipped_profile("h100-sxm");
  profile.level = 1;  // the figures are short runs
  constexpr double kTokens = 16384;
  std::vector<double> errors;
  for (const Row& row : read_table("older_attention_rows.csv")) {
    const std::int64_t length = std::stoll(row.at("length"));
    const std::int64_t head_dim = std::stoll(row.at("head_dim"));
    const AttentionShape shape{.batch = static_cast<std::int64_t>(kTokens) / length,
                               .heads = 2048 / head_dim,
                               .queries = length,
                               .keys = length,
                               .qk_dim = head_dim,
                               .v_dim = head_dim,
                               .causal = row.at("causal") == "1"};
    const AttentionPass pass =
        row.at("pass") == "forward" ? AttentionPass::forward : AttentionPass::backward;
    const Seconds time =
        attention_time(profile, DataType::bf16, shape, pass, AttentionKernel::flash2).time;
    const double rate = attention_flops(shape, pass).value / time.value;
    errors.push_back(std::abs(rate / 1e12 / std::stod(row.at("tflops")) - 1));
  }
  REQUIRE(errors.size() == 21);
  CHECK(median(errors) < 0.05);
}

}  // namespace flopcast
