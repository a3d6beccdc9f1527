#include "models/gradient_buckets.h"

#include <algorithm>
#include <numeric>

namespace flopcast {

namespace {

// Source of all of Megatron's numbers below: Megatron-LM d98e8a64,
// megatron/core/distributed/distributed_data_parallel.py and
// megatron/core/optimizer/param_layout.py.
constexpr std::int64_t kBucketElements = 40'000'000;
constexpr std::int64_t kBucketElementsPerRank = 1'000'000;  // a ring's pieces stay bandwidth-bound
constexpr std::int64_t kTensorAlignment = 64;               // elements: 128 B of bf16
constexpr std::int64_t kBucketAlignment = 128;              // elements: 256 B of bf16

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

// One bucket on all but the first chunk of the first stage: only its reduction can be exposed, the
// others run while the pipeline drains.
std::optional<std::int64_t> megatron_bucket_size(const MegatronBucketOptions& options,
                                                 std::int64_t data_parallel,
                                                 std::int64_t parameters) {
  if (!options.overlap_grad_reduce || options.pp_rank > 0 || options.chunk > 0) return {};
  if (options.buckets) return parameters / *options.buckets;
  if (options.bucket_size) return options.bucket_size;
  return std::max(kBucketElements, kBucketElementsPerRank * data_parallel);
}

// One flat buffer is filled from the last registered tensor to the first. A bucket closes once it
// has reached the size, so one large tensor makes one large bucket. Under the distributed optimizer
// tensors start aligned, a bucket ends where it divides by the ranks, and a shared embedding has a
// bucket of its own, so that both stages that hold it cut it alike.
std::vector<GradientBucket> megatron_gradient_buckets(std::span<const RankTensor> tensors,
                                                      const MegatronBucketing& bucketing) {
  const bool sliced = bucketing.distributed_optimizer;
  const std::int64_t multiple = std::lcm(bucketing.data_parallel, kBucketAlignment);
  std::vector<GradientBucket> buckets;
  std::int64_t begin = 0;     // of the bucket in the buffer
  std::int64_t position = 0;  // where the next tensor would start
  std::size_t end = tensors.size();
  const auto close = [&](std::size_t first) {
    const std::int64_t bucket_end = sliced ? round_up(position, multiple) : position;
    buckets.push_back({position - begin, bucket_end - begin, first, end});
    begin = position = bucket_end;
    end = first;
  };
  for (std::size_t i = tensors.size(); i-- > 0;) {
    const bool alone = sliced && tensors[i].shared_embedding;
    if (sliced) position = round_up(position, kTensorAlignment);
    if (alone && end > i + 1) close(i + 1);
    position += tensors[i].elements;
    const bool full = bucketing.bucket_size && position - begin >= *bucketing.bucket_size;
    if (full || alone) close(i);
  }
  if (end > 0) close(0);
  return buckets;
}

// Gradients become ready in about reverse order of registration. The first iteration has one
// bucket. Source: PyTorch 2.14.1, torch/nn/parallel/distributed.py and
// torch/csrc/distributed/c10d/reducer.cpp, compute_bucket_assignment_by_size.
std::vector<GradientBucket> ddp_gradient_buckets(std::span<const RankTensor> tensors,
                                                 const DdpBucketing& bucketing) {
  std::vector<GradientBucket> buckets;
  GradientBucket open{.first = tensors.size(), .end = tensors.size()};
  while (open.first > 0) {
    open.elements += tensors[--open.first].elements;
    const Bytes cap = buckets.empty() ? bucketing.first_cap : bucketing.cap;
    const Bytes filled = bucketing.element_size * static_cast<double>(open.elements);
    if (filled < cap && open.first > 0) continue;
    open.padded = open.elements;
    buckets.push_back(open);
    open = {.first = open.first, .end = open.first};
  }
  return buckets;
}

std::vector<GradientBucket> owner_buckets(std::span<const RankTensor> tensors,
                                          std::int64_t owners) {
  std::int64_t total = 0;
  for (const RankTensor& tensor : tensors) total += tensor.elements;
  const bool one_each = std::ssize(tensors) <= owners;
  const std::int64_t share = one_each ? 1 : (total + owners - 1) / owners;
  std::vector<GradientBucket> buckets;
  GradientBucket open{.first = tensors.size(), .end = tensors.size()};
  while (open.first > 0) {
    open.elements += tensors[--open.first].elements;
    if (open.elements < share && open.first > 0) continue;
    open.padded = open.elements;
    buckets.push_back(open);
    open = {.first = open.first, .end = open.first};
  }
  return buckets;
}

}  // namespace flopcast
