#include "models/model_chunk.h"

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "models/activation_memory.h"
#include "models/parameters.h"
#include "models/pipeline_schedule.h"
#include "models/quantised_weights.h"
#include "sim/check.h"

namespace flopcast {
namespace {

std::int64_t whole_bytes(Bytes size) { return static_cast<std::int64_t>(size.value); }

/// Builds layers; equal ones are timed once.
class LayerBuilder {
 public:
  LayerBuilder(const OperatorContext& context, const RankGroups& groups, CostTables& tables,
               bool splits_backward)
      : context_(context), groups_(groups), tables_(tables), splits_(splits_backward) {}

  ChunkLayer build(std::int64_t layer, std::int64_t in_chunk) {
    const std::tuple key{fully_recomputed(context_.training.recompute, in_chunk), slides(layer),
                         context_.model.has_experts(layer)};
    const auto known = made_.find(key);
    if (known != made_.end()) return known->second;
    ChunkLayer out{
        .number = layer,
        .forward = timed_here(layer_forward(context_, layer)),
        .recompute = timed_here(layer_recompute(context_, layer, in_chunk)),
        .backward = {},
        .kept = {.saved = whole_bytes(saved_by_layer(context_, layer, in_chunk)),
                 .restored = whole_bytes(restored_by_recompute(context_, layer, in_chunk))},
        .routed = routed_part(layer, in_chunk)};
    add_backward(out, layer_backward(context_, layer), weight_operands(context_, layer));
    made_.emplace(key, out);
    return out;
  }

  ChunkLayer build_prediction(std::int64_t in_chunk) {
    ChunkLayer out{.number = context_.model.layers,
                   .forward = timed_here(prediction_forward(context_)),
                   .recompute = timed_here(prediction_recompute(context_, in_chunk)),
                   .backward = {},
                   .kept = {.saved = whole_bytes(saved_by_prediction(context_, in_chunk)),
                            .restored = whole_bytes(restored_for_prediction(context_, in_chunk))},
                   .routed = routed_part(context_.model.layers - 1, in_chunk)};
    add_backward(out, prediction_backward(context_), prediction_weight_operands(context_));
    return out;
  }

  void build_head(ModelChunk& chunk) {
    const std::vector<Operator> backward = head_backward(context_);
    chunk.head_forward = timed_here(head_forward(context_));
    chunk.head_backward = timed_here(backward);
    chunk.saved_by_ends += whole_bytes(saved_by_head(context_));
    chunk.loss_workspace = whole_bytes(loss_workspace(context_));
    if (!splits_) return;
    const BackwardHalves halves = halves_of(backward);
    const WeightOperands kept = head_weight_operands(context_);
    chunk.head_input_gradient = timed_here(halves.input_gradient);
    chunk.head_weight_gradient = timed_here(halves.weight_gradient);
    chunk.kept_by_ends = whole_bytes(kept.inputs + kept.output_gradients);
  }

  TimedOperators timed_here(const std::vector<Operator>& operators) {
    TimedOperators work = timed(operators, context_, groups_, tables_);
    return tables_.fuses_kernels() ? fused(std::move(work), tables_) : work;
  }

 private:
  void add_backward(ChunkLayer& layer, const std::vector<Operator>& backward,
                    const WeightOperands& kept) {
    layer.backward = timed_here(backward);
    if (!splits_) return;
    const BackwardHalves halves = halves_of(backward);
    layer.input_gradient = timed_here(halves.input_gradient);
    layer.weight_gradient = timed_here(halves.weight_gradient);
    layer.kept.weight_inputs = whole_bytes(kept.inputs);
    layer.kept.output_gradients = whole_bytes(kept.output_gradients);
  }
  LayerBytes routed_part(std::int64_t layer, std::int64_t in_chunk) const {
    const RoutedBytes part = routed_bytes(context_, layer, in_chunk);
    LayerBytes out{.saved = whole_bytes(part.saved), .restored = whole_bytes(part.restored)};
    if (!splits_) return out;
    out.weight_inputs = whole_bytes(part.weights.inputs);
    out.output_gradients = whole_bytes(part.weights.output_gradients);
    return out;
  }
  bool slides(std::int64_t layer) const {
    const Transformer& model = context_.model;
    return model.sliding_window > 0 && layer % std::max<std::int64_t>(model.sliding_every, 1) != 0;
  }

  const OperatorContext& context_;
  const RankGroups& groups_;
  CostTables& tables_;
  bool splits_;
  std::map<std::tuple<bool, bool, bool>, ChunkLayer> made_;
};

/// Gradients that one group reduces.
struct ReducedTensors {
  StepGroup group;
  std::int64_t ranks;
  const std::vector<RankTensor>& tensors;
};

std::vector<GradientBucket> cut_buckets(const OperatorContext& context,
                                        const ReducedTensors& reduced, ChunkPlace place) {
  const Training& training = context.training;
  const Bytes element = element_size(training.gradient_dtype);
  if (training.framework.zero_by_tensor && context.layout.zero >= 1) {
    return owner_buckets(reduced.tensors, reduced.ranks);
  }
  if (training.framework.ddp_buckets) {
    DdpBucketing bucketing{.element_size = element};
    if (training.bucket) bucketing.cap = bucketing.first_cap = *training.bucket;
    return ddp_gradient_buckets(reduced.tensors, bucketing);
  }
  MegatronBucketOptions options{.overlap_grad_reduce = training.overlap_grad_reduce,
                                .bucket_size = std::nullopt,
                                .buckets = std::nullopt,
                                .pp_rank = place.pipeline_rank,
                                .chunk = place.chunk};
  if (training.bucket) options.bucket_size = static_cast<std::int64_t>(*training.bucket / element);
  // The size follows dp * cp for experts as well: Megatron-LM d98e8a64,
  // distributed/distributed_data_parallel.py.
  const std::int64_t data_parallel =
      static_cast<std::int64_t>(context.layout.grid.dp) * context.layout.grid.cp;
  const MegatronBucketing bucketing{
      .bucket_size = megatron_bucket_size(options, data_parallel, total_elements(reduced.tensors)),
      .distributed_optimizer = context.layout.zero >= 1,
      .data_parallel = reduced.ranks};
  return megatron_gradient_buckets(reduced.tensors, bucketing);
}

/// Megatron has tensors of unlike types in buckets apart; here a bucket is as long as its bytes.
Bytes gathered_size(const GradientBucket& bucket, const std::vector<RankTensor>& tensors,
                    const WeightSizes& sizes) {
  const std::span own = std::span(tensors).subspan(bucket.first, bucket.end - bucket.first);
  return sizes.gathered_of(static_cast<double>(bucket.padded),
                           static_cast<double>(count_elements(own).linear));
}

std::vector<ChunkBucket> time_buckets(const OperatorContext& context,
                                      const std::vector<GradientBucket>& cut,
                                      const ReducedTensors& reduced, GroupId group,
                                      CostTables& tables) {
  const Training& training = context.training;
  const bool sharded = context.layout.zero >= 1;
  const bool scatters = sharded && !training.framework.zero_all_reduces;
  const CollectiveKind reduction =
      scatters ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
  // On a ring a broadcast of some bytes, or their reduction to one rank, loads each link as an
  // all-gather of them does.
  const ExchangeTraits traits{.one_rank = sharded && training.framework.zero_by_tensor};
  const WeightSizes sizes = weight_sizes(training, tables.profile());
  std::vector<ChunkBucket> out;
  for (const GradientBucket& bucket : cut) {
    const double elements = static_cast<double>(bucket.padded);
    ChunkBucket row{.first_tensor = bucket.first,
                    .group = reduced.group,
                    .gradients = elements * element_size(training.gradient_dtype)};
    row.reduce = tables.transfer(reduction, row.gradients, group, StepCategory::gradient, traits);
    if (sharded) {
      row.gather =
          tables.transfer(CollectiveKind::all_gather, gathered_size(bucket, reduced.tensors, sizes),
                          group, StepCategory::parameter, traits);
    }
    out.push_back(row);
  }
  return out;
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
  for (std::int64_t i = 0; content.head && i < model.mtp_layers; ++i) add(mtp_parameters(model));
  return sum;
}

/// Trained tensors of a chunk and where each of its layers begins among them.
struct ChunkTensors {
  StageTensors all;
  std::vector<std::size_t> dense_begin;   // by layer of the chunk, and the head
  std::vector<std::size_t> expert_begin;  // by layer of the chunk, and the end
};

ChunkTensors adapters_of_chunk(const OperatorContext& context, const StageContent& content) {
  const auto begin = [&](std::int64_t layers) {
    const StageContent before{.first_layer = content.first_layer, .layers = layers};
    return adapter_tensors(context.model, *context.training.adapters, before, context.layout.grid);
  };
  ChunkTensors out;
  for (std::int64_t layer = 0; layer <= content.layers; ++layer) {
    out.dense_begin.push_back(begin(layer).dense.size());
    out.expert_begin.push_back(0);
  }
  out.all = begin(content.layers);
  return out;
}

ChunkTensors chunk_tensors(const OperatorContext& context, const StageContent& content,
                           bool shares_embedding) {
  if (context.training.adapters) return adapters_of_chunk(context, content);
  const Transformer& model = context.model;
  const ParallelGrid& grid = context.layout.grid;
  ChunkTensors out;
  out.all = rank_tensors(model, content, grid, context.padded_vocab);
  const bool embeds = content.embedding || (content.head && model.mtp_layers > 0);
  std::size_t dense = embeds ? embedding_parameters(model, context.padded_vocab).size() : 0;
  if (shares_embedding) {
    std::erase_if(out.all.dense, [](const RankTensor& tensor) { return tensor.shared_embedding; });
    if (embeds) --dense;
  }
  std::size_t expert = 0;
  for (std::int64_t i = 0; i < content.layers; ++i) {
    const StageContent layer{.first_layer = content.first_layer + i, .layers = 1};
    const StageTensors tensors = rank_tensors(model, layer, grid, context.padded_vocab);
    out.dense_begin.push_back(dense);
    out.expert_begin.push_back(expert);
    dense += tensors.dense.size();
    expert += tensors.expert.size();
  }
  out.dense_begin.push_back(dense);
  out.expert_begin.push_back(expert);
  return out;
}

/// Where a part of the ranks shards the optimizer's states, the others all-reduce its shards.
/// Source: Megatron-LM d98e8a64, distributed/param_and_grad_buffer.py,
/// num_distributed_optimizer_instances.
void add_replicas(std::vector<ChunkBucket>& buckets, const OperatorContext& context,
                  const RankGroups& groups, CostTables& tables) {
  const GroupId replicas = groups[static_cast<std::size_t>(StepGroup::replica)];
  if (replicas == kNoGroup) return;
  for (ChunkBucket& bucket : buckets) {
    bucket.over_replicas =
        tables.transfer(CollectiveKind::all_reduce, bucket.gradients / shard_ranks(context.layout),
                        replicas, StepCategory::gradient);
  }
}

/// A bucket of expert gradients is complete with the layer in which it begins.
void place_expert_buckets(std::vector<ChunkBucket>& buckets, const ChunkTensors& tensors) {
  for (ChunkBucket& bucket : buckets) {
    const auto after = std::ranges::upper_bound(tensors.expert_begin, bucket.first_tensor);
    const auto layer = static_cast<std::size_t>(after - tensors.expert_begin.begin()) - 1;
    bucket.first_tensor = tensors.dense_begin[layer];
  }
}

/// Dense and expert gradients in the order in which backward completes them.
std::vector<ChunkBucket> chunk_buckets(const OperatorContext& context, const ChunkTensors& tensors,
                                       ChunkPlace place, const RankGroups& groups,
                                       CostTables& tables) {
  const ParallelGrid& grid = context.layout.grid;
  const int copies = model_copies(context.layout.schedule);
  std::vector<ChunkBucket> out;
  if (context.layout.zero == 3) return out;
  const auto timed_buckets = [&](const ReducedTensors& reduced) {
    const GroupId group = groups[static_cast<std::size_t>(reduced.group)];
    if (group == kNoGroup) return std::vector<ChunkBucket>{};
    return time_buckets(context, cut_buckets(context, reduced, place), reduced, group, tables);
  };
  out = timed_buckets(
      {StepGroup::data, std::int64_t{copies} * shard_ranks(context.layout), tensors.all.dense});
  add_replicas(out, context, groups, tables);
  std::vector<ChunkBucket> experts = timed_buckets(
      {StepGroup::expert_data, std::int64_t{copies} * grid.edp(), tensors.all.expert});
  place_expert_buckets(experts, tensors);
  out.insert(out.end(), experts.begin(), experts.end());
  std::ranges::stable_sort(out, std::greater{}, &ChunkBucket::first_tensor);
  return out;
}

}  // namespace

namespace {

/// Between the final norm and the output projection, which they use too.
void add_predictions(ModelChunk& chunk, const ChunkTensors& tensors, LayerBuilder& builder,
                     const OperatorContext& context) {
  ChunkLayer module = builder.build_prediction(chunk.content.layers);
  module.first_tensor = chunk.head_tensor;
  module.end_tensor = tensors.all.dense.size();
  for (std::int64_t i = 0; i < context.model.mtp_layers; ++i, ++module.number) {
    chunk.layers.push_back(module);
  }
  chunk.head_tensor = tensors.all.dense.size() - (context.model.tied_embeddings ? 0 : 1);
}

}  // namespace

ModelChunk build_chunk(const OperatorContext& context, const StageContent& content,
                       ChunkPlace place, const RankGroups& groups, CostTables& tables) {
  ModelChunk out;
  out.content = content;
  LayerBuilder layers(context, groups, tables, place.splits_backward);
  const ChunkTensors tensors = chunk_tensors(context, content, place.shares_embedding);
  for (std::int64_t i = 0; i < content.layers; ++i) {
    out.layers.push_back(layers.build(content.first_layer + i, i));
    out.layers.back().number = content.first_layer + i;
    out.layers.back().first_tensor = tensors.dense_begin[static_cast<std::size_t>(i)];
    out.layers.back().end_tensor = tensors.dense_begin[static_cast<std::size_t>(i) + 1];
  }
  out.head_tensor = tensors.dense_begin.back();
  if (content.head && context.model.mtp_layers > 0) add_predictions(out, tensors, layers, context);
  if (content.embedding) {
    out.embedding_forward = layers.timed_here(embedding_forward(context));
    out.embedding_backward = layers.timed_here(embedding_backward(context));
    out.saved_by_ends += whole_bytes(saved_by_embedding(context));
  }
  if (content.head) layers.build_head(out);
  out.expert_parameters = total_elements(tensors.all.expert);
  ElementCount trained = count_elements(tensors.all.dense);
  trained += count_elements(tensors.all.expert);
  out.parameters = trained.all;
  out.linear = trained.linear;
  if (context.training.adapters) {
    const StageTensors model =
        rank_tensors(context.model, content, context.layout.grid, context.padded_vocab);
    out.frozen = count_elements(model.dense);
    out.frozen += count_elements(model.expert);
  } else {
    out.replicated = replicated_elements(context.model, content, context.padded_vocab);
  }
  for (const RankTensor& shared : tensors.all.dense) {
    if (shared.shared_embedding) out.tied_embedding += shared.elements;
  }
  out.buckets = chunk_buckets(context, tensors, place, groups, tables);
  return out;
}

}  // namespace flopcast
