// The level that a measured step or product asks for.

#include "scenarios/anchor.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "scenarios/forecast.h"
#include "scenarios/read_profile.h"
#include "scenarios/text_file.h"
#include "sim/errors.h"

namespace flopcast {
namespace {

const std::filesystem::path kSource = FLOPCAST_SOURCE_DIR;
const DataFolders kData{kSource / "scenarios/catalogue", kSource / "calibration/profiles"};

Scenario example(const std::string& step_time) {
  return read_scenario(
      kSource / "scenarios/examples/llama3-8b-8-h100.json",
      {{"expect", R"({"step_time": {"value": ")" + step_time + R"(", "tolerance": "1%"}})"}},
      kData);
}

/// A product takes its arithmetic at the peak times the level, and nothing else.
Profile pure_compute() {
  Profile profile;
  profile.name = "pure";
  profile.sms = 1;
  profile.memory_bandwidth = bytes_per_second(1e60);
  const auto bf16 = static_cast<std::size_t>(DataType::bf16);
  profile.peak_dense[bf16] = flops_per_second(1e15);
  profile.gemm[bf16] = GemmCurve{.eff_inf = 1,
                                 .eff_bw = 1,
                                 .t0 = {},
                                 .p = 8,
                                 .eff_quantise_bw = {},
                                 .quantise_traffic = {},
                                 .provenance = {}};
  return profile;
}

}  // namespace

TEST_CASE("the level of a step is the one at which the forecast takes the measured time") {
  const double level = GENERATE(0.6, 0.84, 1.1);
  Scenario slower = example("1 s");
  slower.profile.level = level;
  const Seconds step = forecast(slower).report.step;
  const Anchor anchor = step_anchor(example(std::to_string(step.value) + " s"));
  CHECK(anchor.metric == "step_time");
  CHECK(anchor.level == Approx(level).epsilon(2e-4));
  CHECK(anchor.measured == Approx(step.value));
}

TEST_CASE("what no level meets is told") {
  CHECK_THROWS_WITH(step_anchor(example("1 us")),
                    Catch::Contains("no level meets a step_time of 1e-06 s"));
  Scenario silent = example("1 s");
  silent.expect.clear();
  CHECK_THROWS_WITH(step_anchor(silent), Catch::Contains("nothing to meet"));
}

// 8192^3 products: 2 x 8192^3 / 1e15 FLOP/s = 1.0995 ms at level 1; in 1.3744 ms at 0.8.
TEST_CASE("the level of a product is the part of its arithmetic's rate that was reached") {
  const Anchor anchor =
      gemm_anchor(pure_compute(), DataType::bf16, {8192, 8192, 8192}, milliseconds(1.37439));
  CHECK(anchor.at_profile == Approx(1.09951e-3).epsilon(1e-4));
  CHECK(anchor.level == Approx(0.8).epsilon(2e-4));
  CHECK_THROWS_WITH(
      gemm_anchor(pure_compute(), DataType::nvfp4, {8192, 8192, 8192}, milliseconds(1)),
      Catch::Contains("no products in nvfp4"));
}

TEST_CASE("a profile keeps all but its name and its level") {
  const std::string base = read_text_file(kData.profiles / "h100-sxm.json", "a profile");
  const std::string text = profile_with_level(base, "mine", 0.91234, "met by a step");
  const Profile mine = read_profile(Document::parse(text, "mine.json"));
  const Profile shipped = read_profile(Document::parse(base, "h100-sxm.json"));
  CHECK(mine.name == "mine");
  CHECK(mine.level == 0.9123);
  CHECK(mine.level_provenance.evidence == Evidence::fitted);
  CHECK(mine.level_provenance.source == "met by a step");
  CHECK(mine.memory_bandwidth == shipped.memory_bandwidth);
  CHECK(mine.attention.size() == shipped.attention.size());
}

}  // namespace flopcast
