#include <catch2/catch.hpp>
#include <filesystem>

#include "sim/errors.h"
#include "tests/unit/calibration/table.h"

namespace flopcast {
namespace {

std::string text_of(const std::string& name) {
  std::ifstream file(std::string(FLOPCAST_SOURCE_DIR) + "/calibration/profiles/" + name + ".json");
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("every shipped profile is complete") {
  int profiles = 0;
  for (const auto& file : std::filesystem::directory_iterator(std::string(FLOPCAST_SOURCE_DIR) +
                                                              "/calibration/profiles")) {
    const Profile profile = shipped_profile(file.path().stem().string());
    CAPTURE(profile.name);
    CHECK(profile.name == file.path().stem().string());
    const auto& peak = profile.peak_dense[static_cast<std::size_t>(DataType::bf16)];
    CHECK(has_gemm(profile, DataType::bf16) == peak.has_value());  // Volta has none
    CHECK(has_gemm(profile, DataType::fp16));
    for (const CollectiveCurve& curve : profile.curves) {
      CHECK(curve.provenance.evidence == Evidence::measured);
      CHECK_FALSE(curve.provenance.source.empty());
    }
    ++profiles;
  }
  CHECK(profiles >= 17);
}

TEST_CASE("the H100 profile holds the published figures") {
  const Profile profile = shipped_profile("h100-sxm");
  CHECK(profile.sms == 132);
  CHECK(to_gigabytes_per_second(profile.memory_bandwidth) == Approx(3350));
  const GemmCurve& gemm = *profile.gemm[static_cast<std::size_t>(DataType::bf16)];
  CHECK(gemm.eff_inf == Approx(0.812));
  CHECK(to_microseconds(gemm.t0) == Approx(2.6659));
  CHECK(gemm.provenance.median_error == Approx(0.036));
  // h100_sxm, NCCL 2.29.2, all-reduce on 8 GPUs: 64 MiB in 324.5 us.
  const NetworkPath path{.domain = gigabytes_per_second(450), .network = {}, .network_hop = {}};
  const CollectiveTime time =
      collective_time(profile, CollectiveKind::all_reduce, mebibytes(64), {8, 1}, path);
  CHECK(to_microseconds(time.total()) == Approx(324.5).epsilon(0.001));
  CHECK(time.evidence == Evidence::measured);
}

TEST_CASE("a wrong profile is refused with the place") {
  const std::string good = text_of("h100-sxm");
  struct Case {
    std::string from;
    std::string to;
    std::string message;
  };
  const auto item = GENERATE(values<Case>({
      {"\"eff_inf\"", "\"eff_imf\"", "eff_inf"},
      {"\"3350 GB/s\"", "\"3350\"", "memory_bandwidth"},
      {"\"q_wave\": 0.1479", "\"q_wave\": 1.5", "q_wave"},
      {"\"evidence\": \"fitted\"", "\"evidence\": \"guessed\"", "guessed"},
      {"[\"1024 B\",", "[\"512 B\",", "above the one before"},
  }));
  const std::string wrong = replaced(good, item.from, item.to);
  CHECK_THROWS_WITH(read_profile(Document::parse(wrong, "wrong.json")),
                    Catch::Contains(item.message));
}

}  // namespace flopcast
