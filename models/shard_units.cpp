#include "models/shard_units.h"

#include "models/quantised_weights.h"

namespace flopcast {
namespace {

/// Elements of a unit on one rank.
struct UnitElements {
  ElementCount dense;
  ElementCount expert{};
};

class UnitBuilder {
 public:
  UnitBuilder(const OperatorContext& context, const RankGroups& groups, CostTables& tables)
      : context_(context), groups_(groups), tables_(tables) {}

  ShardUnit build(UnitElements elements) {
    ShardUnit unit;
    unit.elements = elements.dense.all + elements.expert.all;
    const ParallelGrid& grid = context_.layout.grid;
    add(unit, StepGroup::data, {elements.dense, shard_ranks(context_.layout)});
    if (elements.expert.all > 0) add(unit, StepGroup::expert_data, {elements.expert, grid.edp()});
    return unit;
  }

 private:
  struct Share {
    ElementCount elements;
    std::int64_t ranks;
  };

  /// The last shard is padded.
  void add(ShardUnit& unit, StepGroup slot, Share share) {
    const std::int64_t shard = (share.elements.all + share.ranks - 1) / share.ranks;
    unit.shard += shard;
    const GroupId group = id(slot);
    const GroupId replicas = id(StepGroup::replica);
    if (group == kNoGroup && replicas == kNoGroup) return;
    const Training& training = context_.training;
    const auto padded = static_cast<double>(shard * share.ranks);
    const Bytes parameters = parameter_bytes(share.elements, padded);
    const Bytes gradients = padded * element_size(training.gradient_dtype);
    UnitPart part{.group = slot, .gathered = group != kNoGroup};
    if (part.gathered) {
      unit.gathered =
          unit.gathered + parameter_bytes(share.elements, static_cast<double>(share.elements.all));
      part.gather =
          tables_.transfer(CollectiveKind::all_gather, parameters, group, StepCategory::parameter);
      part.reduce = tables_.transfer(CollectiveKind::reduce_scatter, gradients, group,
                                     StepCategory::gradient);
    }
    if (id(StepGroup::reshard) != kNoGroup) {
      part.regather = tables_.transfer(CollectiveKind::all_gather, parameters,
                                       id(StepGroup::reshard), StepCategory::parameter);
    }
    if (replicas != kNoGroup) {
      part.replicated = true;
      part.all_reduce =
          tables_.transfer(CollectiveKind::all_reduce, gradients / static_cast<double>(share.ranks),
                           replicas, StepCategory::gradient);
    }
    unit.parts.push_back(part);
  }

  /// Of `all` elements, the count with what pads it.
  Bytes parameter_bytes(const ElementCount& count, double all) const {
    return weight_sizes(context_.training, tables_.profile())
        .gathered_of(all, static_cast<double>(count.linear));
  }

  GroupId id(StepGroup slot) const { return groups_[static_cast<std::size_t>(slot)]; }

  const OperatorContext& context_;
  const RankGroups& groups_;
  CostTables& tables_;
};

UnitElements elements_of(const OperatorContext& context, const StageContent& content) {
  const StageTensors tensors =
      rank_tensors(context.model, content, context.layout.grid, context.padded_vocab);
  return {.dense = count_elements(tensors.dense), .expert = count_elements(tensors.expert)};
}

}  // namespace

ChunkUnits shard_units(const OperatorContext& context, const StageContent& content,
                       const RankGroups& groups, CostTables& tables) {
  UnitBuilder builder(context, groups, tables);
  ChunkUnits out;
  UnitElements ends = elements_of(context, content);
  std::vector<UnitElements> layers;
  layers.reserve(static_cast<std::size_t>(content.layers));
  for (std::int64_t i = 0; i < content.layers; ++i) {
    layers.push_back(elements_of(context, {.first_layer = content.first_layer + i, .layers = 1}));
    ends.dense -= layers.back().dense;
    ends.expert -= layers.back().expert;
  }
  const bool apart = context.training.framework.shards_ends_apart && !context.model.tied_embeddings;
  const bool two = apart && content.embedding && content.head;
  if (two) {
    const ElementCount embedding =
        elements_of(context, {.first_layer = content.first_layer, .embedding = true}).dense;
    out.units.push_back(builder.build({.dense = embedding}));
    ends.dense -= embedding;
  } else if (content.embedding || content.head) {
    out.units.push_back(builder.build(ends));
  }
  out.first_layer = out.units.size();
  if (content.embedding) out.embedding = 0;
  for (const UnitElements& layer : layers) out.units.push_back(builder.build(layer));
  if (two) out.units.push_back(builder.build(ends));
  if (content.head) out.head = two ? out.units.size() - 1 : 0;
  return out;
}

}  // namespace flopcast
