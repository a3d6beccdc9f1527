#pragma once

// How frameworks cut the gradients of one rank into buckets, each reduced by one collective.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "models/stage_parameters.h"
#include "sim/units.h"

namespace flopcast {

/// Tensors [first, end) in registration order. Backward fills a bucket from end - 1 down to first.
struct GradientBucket {
  std::int64_t elements = 0;  // of the tensors and the gaps that align them
  std::int64_t padded = 0;    // what the collective moves
  std::size_t first = 0;
  std::size_t end = 0;
};

/// How a Megatron job sets its bucket size.
struct MegatronBucketOptions {
  bool overlap_grad_reduce = true;
  std::optional<std::int64_t> bucket_size{};  // elements
  std::optional<std::int64_t> buckets{};      // wanted number, from which the size follows
  int pp_rank = 0;
  int chunk = 0;  // of the rank
};

/// Elements at which a bucket closes; nothing: all in one bucket. `data_parallel` is dp * cp,
/// `parameters` those of the rank.
std::optional<std::int64_t> megatron_bucket_size(const MegatronBucketOptions& options,
                                                 std::int64_t data_parallel,
                                                 std::int64_t parameters);

struct MegatronBucketing {
  std::optional<std::int64_t> bucket_size{};  // as above
  bool distributed_optimizer = true;          // aligns and pads, so that every rank owns a slice
  std::int64_t data_parallel = 1;             // ranks that reduce these tensors
};

/// In the order in which backward fills them. Dense and expert tensors are bucketed apart.
std::vector<GradientBucket> megatron_gradient_buckets(std::span<const RankTensor> tensors,
                                                      const MegatronBucketing& bucketing);

struct DdpBucketing {
  Bytes cap = mebibytes(25);
  Bytes first_cap = mebibytes(1);  // of the bucket that fills first; the cap where a job sets one
  Bytes element_size = bytes(4);
};

/// torch's DistributedDataParallel from the second iteration on, in the order of filling.
std::vector<GradientBucket> ddp_gradient_buckets(std::span<const RankTensor> tensors,
                                                 const DdpBucketing& bucketing);

/// Whole tensors for each of `owners`, as evenly as they go in a row; no more than one each where
/// there are no more tensors than owners. In the order of filling.
std::vector<GradientBucket> owner_buckets(std::span<const RankTensor> tensors, std::int64_t owners);

}  // namespace flopcast
