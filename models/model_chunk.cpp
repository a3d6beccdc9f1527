#include "models/model_chunk.h"

#include <map>
#include <utility>

#include "models/activation_memory.h"
#include "models/parameters.h"
#include "sim/check.h"

namespace flopcast {
namespace {

std::int64_t whole_bytes(Bytes size) { return static_cast<std::int64_t>(size.value); }

/// Builds layers; equal ones are timed once.
class LayerBuilder {
 public:
  LayerBuilder(const OperatorContext& context, GroupId tensor_group, CostTables& tables)
      : context_(context), tensor_group_(tensor_group), tables_(tables) {}

  ChunkLayer build(std::int64_t layer, std::int64_t in_chunk) {
    const std::pair key{fully_recomputed(context_.training.recompute, in_chunk), slides(layer)};
    const auto known = made_.find(key);
    if (known != made_.end()) return known->second;
    ChunkLayer out{.forward = timed_here(layer_forward(context_, layer)),
                   .recompute = timed_here(layer_recompute(context_, layer, in_chunk)),
                   .backward = timed_here(layer_backward(context_, layer)),
                   .saved = whole_bytes(saved_by_layer(context_, layer, in_chunk)),
                   .restored = whole_bytes(restored_by_recompute(context_, layer, in_chunk))};
    made_.emplace(key, out);
    return out;
  }

  TimedOperators timed_here(const std::vector<Operator>& operators) {
    return timed(operators, context_.training, tensor_group_, tables_);
  }

 private:
  bool slides(std::int64_t layer) const {
    const Transformer& model = context_.model;
    return model.sliding_window > 0 && layer % std::max<std::int64_t>(model.sliding_every, 1) != 0;
  }

  const OperatorContext& context_;
  GroupId tensor_group_;
  CostTables& tables_;
  std::map<std::pair<bool, bool>, ChunkLayer> made_;
};

std::vector<GradientBucket> cut_buckets(const OperatorContext& context,
                                        const std::vector<RankTensor>& tensors,
                                        const ChunkPlace& place) {
  const Training& training = context.training;
  const ParallelGrid& grid = context.layout.grid;
  const Bytes element = element_size(training.gradient_dtype);
  if (training.framework.ddp_buckets) {
    DdpBucketing bucketing{.element_size = element};
    if (training.bucket) bucketing.cap = bucketing.first_cap = *training.bucket;
    return ddp_gradient_buckets(tensors, bucketing);
  }
  const std::int64_t ranks = static_cast<std::int64_t>(grid.dp) * grid.cp;
  MegatronBucketOptions options{.overlap_grad_reduce = training.overlap_grad_reduce,
                                .bucket_size = std::nullopt,
                                .buckets = std::nullopt,
                                .pp_rank = place.pipeline_rank,
                                .chunk = place.chunk};
  if (training.bucket) options.bucket_size = static_cast<std::int64_t>(*training.bucket / element);
  const MegatronBucketing bucketing{
      .bucket_size = megatron_bucket_size(options, ranks, total_elements(tensors)),
      .distributed_optimizer = context.layout.zero >= 1,
      .data_parallel = ranks};
  return megatron_gradient_buckets(tensors, bucketing);
}

void add_buckets(ModelChunk& out, const OperatorContext& context,
                 const std::vector<GradientBucket>& cut, GroupId group, CostTables& tables) {
  const Training& training = context.training;
  const bool sharded = context.layout.zero >= 1;
  const bool scatters = sharded && !training.framework.zero_all_reduces;
  const CollectiveKind reduction =
      scatters ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
  for (const GradientBucket& bucket : cut) {
    const double elements = static_cast<double>(bucket.padded);
    ChunkBucket row{.first_tensor = bucket.first};
    row.reduce = tables.transfer(reduction, elements * element_size(training.gradient_dtype), group,
                                 StepCategory::gradient);
    if (sharded) {
      row.gather = tables.transfer(CollectiveKind::all_gather,
                                   elements * element_size(training.parameter_dtype), group,
                                   StepCategory::parameter);
    }
    out.buckets.push_back(row);
  }
}

/// Parameters that every tensor-parallel rank holds: norms, biases of row-parallel layers.
std::int64_t replicated_elements(const Transformer& model, const StageContent& content,
                                 std::int64_t vocab) {
  std::int64_t sum = 0;
  const auto add = [&sum](const std::vector<ParameterTensor>& tensors) {
    for (const ParameterTensor& tensor : tensors) {
      if (tensor.shard == Shard::replicated) sum += tensor.elements;
    }
  };
  for (std::int64_t i = 0; i < content.layers; ++i) {
    add(layer_parameters(model, content.first_layer + i));
  }
  if (content.head) add(head_parameters(model, vocab));
  return sum;
}

}  // namespace

ModelChunk build_chunk(const OperatorContext& context, const StageContent& content,
                       const ChunkPlace& place, CostTables& tables) {
  ModelChunk out;
  out.content = content;
  LayerBuilder layers(context, place.tensor, tables);
  const std::vector<RankTensor> tensors =
      rank_tensors(context.model, content, context.layout.grid, context.padded_vocab).dense;
  std::size_t tensor =
      content.embedding ? embedding_parameters(context.model, context.padded_vocab).size() : 0;
  for (std::int64_t i = 0; i < content.layers; ++i) {
    const std::int64_t layer = content.first_layer + i;
    out.layers.push_back(layers.build(layer, i));
    out.layers.back().first_tensor = tensor;
    tensor += layer_parameters(context.model, layer).size();
  }
  out.head_tensor = tensor;
  if (content.embedding) {
    out.embedding_forward = layers.timed_here(embedding_forward(context));
    out.embedding_backward = layers.timed_here(embedding_backward(context));
    out.saved_by_ends += whole_bytes(saved_by_embedding(context));
  }
  if (content.head) {
    out.head_forward = layers.timed_here(head_forward(context));
    out.head_backward = layers.timed_here(head_backward(context));
    out.saved_by_ends += whole_bytes(saved_by_head(context));
  }
  out.parameters = total_elements(tensors);
  out.replicated = replicated_elements(context.model, content, context.padded_vocab);
  for (const RankTensor& shared : tensors) {
    if (shared.shared_embedding) out.tied_embedding += shared.elements;
  }
  if (place.data != kNoGroup) {
    add_buckets(out, context, cut_buckets(context, tensors, place), place.data, tables);
  }
  return out;
}

}  // namespace flopcast
