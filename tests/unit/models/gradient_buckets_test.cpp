#include "models/gradient_buckets.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "golden_models.h"
#include "models/parameters.h"

namespace flopcast {
namespace {

using nlohmann::json;

const json& golden() {
  static const json file =
      json::parse(std::ifstream(std::string(FLOPCAST_TEST_DATA) + "/buckets.json"));
  return file;
}

std::vector<RankTensor> equal_tensors(std::size_t count, std::int64_t elements) {
  return std::vector<RankTensor>(count, {"weight", elements});
}

std::vector<RankTensor> sized_tensors(const std::vector<std::int64_t>& sizes) {
  std::vector<RankTensor> tensors;
  for (const std::int64_t size : sizes) tensors.push_back({"weight", size});
  return tensors;
}

std::vector<std::int64_t> elements_of(const std::vector<GradientBucket>& buckets) {
  std::vector<std::int64_t> sizes;
  for (const GradientBucket& bucket : buckets) sizes.push_back(bucket.elements);
  return sizes;
}

std::vector<std::int64_t> padded_of(const std::vector<GradientBucket>& buckets) {
  std::vector<std::int64_t> sizes;
  for (const GradientBucket& bucket : buckets) sizes.push_back(bucket.padded);
  return sizes;
}

void check_against(const json& expected, const std::vector<RankTensor>& tensors,
                   std::int64_t bucket_size) {
  CHECK(total_elements(tensors) == expected["parameters"].get<std::int64_t>());
  const std::int64_t data_parallel = expected["data_parallel"];
  const auto sliced = megatron_gradient_buckets(
      tensors, {.bucket_size = bucket_size, .data_parallel = data_parallel});
  CHECK(elements_of(sliced) ==
        expected["distributed_optimizer"]["elements"].get<std::vector<std::int64_t>>());
  CHECK(padded_of(sliced) ==
        expected["distributed_optimizer"]["padded"].get<std::vector<std::int64_t>>());
  const auto whole = megatron_gradient_buckets(
      tensors,
      {.bucket_size = bucket_size, .distributed_optimizer = false, .data_parallel = data_parallel});
  CHECK(elements_of(whole) == expected["all_reduce"]["elements"].get<std::vector<std::int64_t>>());
  CHECK(padded_of(whole) == elements_of(whole));
}

template <class T>
std::optional<T> optional_of(const json& value) {
  return value.is_null() ? std::optional<T>() : value.get<T>();
}

}  // namespace

// InternLM's optimizer: whole tensors to ranks.
TEST_CASE("owners get whole tensors, one each where there are enough owners") {
  const std::vector<RankTensor> tensors = sized_tensors({50, 1, 30, 40, 1, 60});
  CHECK(elements_of(owner_buckets(tensors, 8)) == std::vector<std::int64_t>{60, 1, 40, 30, 1, 50});
  // 182 over 3: 61 each at least.
  CHECK(elements_of(owner_buckets(tensors, 3)) == std::vector<std::int64_t>{61, 70, 51});
  CHECK(owner_buckets(tensors, 3).front().first == 4);
  CHECK(elements_of(owner_buckets(tensors, 1)) == std::vector<std::int64_t>{182});
}

TEST_CASE("Megatron's bucket size follows the data parallel ranks") {
  for (const json& c : golden()["megatron_bucket_size"]) {
    CAPTURE(c.dump());
    const MegatronBucketOptions options{.overlap_grad_reduce = c["overlap_grad_reduce"],
                                        .bucket_size = optional_of<std::int64_t>(c["bucket_size"]),
                                        .buckets = optional_of<std::int64_t>(c["num_buckets"])};
    CHECK(megatron_bucket_size(options, c["dp_cp_ranks"], c["parameters"]) ==
          optional_of<std::int64_t>(c["expected_bucket_parameters"]));
  }
}

// Megatron-LM d98e8a64, distributed_data_parallel.py and training.py: bucketing is off elsewhere.
TEST_CASE("only the first chunk of the first stage is cut into buckets") {
  CHECK(megatron_bucket_size({}, 8, 1'000'000'000) == 40'000'000);
  CHECK_FALSE(megatron_bucket_size({.pp_rank = 1}, 8, 1'000'000'000));
  CHECK_FALSE(megatron_bucket_size({.chunk = 1}, 8, 1'000'000'000));
}

TEST_CASE("real models get the buckets that Megatron gives them") {
  for (const json& c : golden()["megatron_gradient_buckets"]) {
    CAPTURE(c["model"].get<std::string>(), c["stage"].get<int>());
    const Transformer model = golden_model(c["model"]);
    const Layout layout{
        .grid = {.tp = c["tp"], .ep = c["ep"], .dp = c["dp"], .pp = c["pp"], .etp = c["etp"]}};
    const auto stage = split_layers(model, layout)[c["stage"].get<std::size_t>()];
    const std::int64_t vocab = padded_vocab(model.vocab, 128, layout.grid.tp);
    const StageTensors tensors = rank_tensors(model, stage, layout.grid, vocab);
    check_against(c["dense"], tensors.dense, c["bucket_parameters"]);
    CHECK(tensors.expert.empty() != c.contains("expert"));
    if (c.contains("expert")) {
      check_against(c["expert"], tensors.expert, c["bucket_parameters"]);
    }
  }
}

// By hand: lcm(8, 128) = 128. Filled from the back, 100 takes [0, 100), 70 starts at 128 and ends
// at 198, which closes the bucket at 256; 10 is alone in [256, 266), padded to 384.
TEST_CASE("tensors start on 64 and buckets end on lcm(ranks, 128)") {
  const auto buckets = megatron_gradient_buckets(sized_tensors({10, 70, 100}),
                                                 {.bucket_size = 150, .data_parallel = 8});
  CHECK(elements_of(buckets) == std::vector<std::int64_t>{198, 10});
  CHECK(padded_of(buckets) == std::vector<std::int64_t>{256, 128});
  CHECK(buckets[0].first == 1);
  CHECK(buckets[0].end == 3);
  CHECK(buckets[1].first == 0);
  CHECK(buckets[1].end == 1);
  const auto odd = megatron_gradient_buckets(sized_tensors({10}), {.data_parallel = 3});
  CHECK(padded_of(odd) == std::vector<std::int64_t>{384});
}

TEST_CASE("without a size there is one bucket, without tensors none") {
  const auto tensors = equal_tensors(10, 128);
  const auto one = megatron_gradient_buckets(tensors, {.data_parallel = 8});
  REQUIRE(one.size() == 1);
  CHECK(one[0].elements == 1280);
  CHECK(megatron_gradient_buckets({}, {.data_parallel = 8}).empty());
  CHECK(ddp_gradient_buckets({}, {}).empty());
}

TEST_CASE("a shared embedding is alone in its bucket under the distributed optimizer") {
  std::vector<RankTensor> tensors = equal_tensors(3, 128);
  tensors[1].shared_embedding = true;
  const auto sliced = megatron_gradient_buckets(tensors, {.data_parallel = 1});
  CHECK(elements_of(sliced) == std::vector<std::int64_t>{128, 128, 128});
  const auto whole =
      megatron_gradient_buckets(tensors, {.distributed_optimizer = false, .data_parallel = 1});
  CHECK(elements_of(whole) == std::vector<std::int64_t>{384});
}

TEST_CASE("DDP closes a bucket once it has reached the cap") {
  struct Row {
    std::string parameters;
    std::size_t count;
    std::int64_t mebibytes;
  };
  const auto row = GENERATE(values<Row>(
      {{"20x4MiB", 20, 4}, {"100x1MiB", 100, 1}, {"8x64MiB", 8, 64}, {"40x4MiB cap50", 40, 4}}));
  CAPTURE(row.parameters);
  constexpr std::int64_t kElements = 1024 * 1024 / 4;  // fp32 in a mebibyte
  for (const json& c : golden()["ddp_buckets"]) {
    if (c["parameters"] != row.parameters) continue;
    const Bytes cap = mebibytes(c["bucket_cap_mib"]);
    const auto buckets = ddp_gradient_buckets(equal_tensors(row.count, row.mebibytes * kElements),
                                              {.cap = cap, .first_cap = cap});
    std::vector<double> sizes;
    for (const std::int64_t elements : elements_of(buckets)) {
      sizes.push_back(static_cast<double>(elements) / kElements);
    }
    CHECK(sizes == c["buckets_later_mib"].get<std::vector<double>>());
    return;
  }
  FAIL("no golden case");
}

// PyTorch 2.14.1, torch/nn/parallel/distributed.py: where no cap is given the first bucket closes
// at 1 MiB, so that the first reduction starts early.
TEST_CASE("DDP's default first bucket is small") {
  constexpr std::int64_t kMebibyte = 1024 * 1024 / 4;
  const auto buckets = ddp_gradient_buckets(equal_tensors(10, 4 * kMebibyte), {});
  CHECK(elements_of(buckets) ==
        std::vector<std::int64_t>{4 * kMebibyte, 28 * kMebibyte, 8 * kMebibyte});
}

}  // namespace flopcast
