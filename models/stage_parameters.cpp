#include "models/stage_parameters.h"

#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "models/parameters.h"
#include "sim/check.h"

namespace flopcast {

namespace {

std::int64_t exact_share(std::int64_t elements, std::int64_t ranks) {
  FLOPCAST_CHECK(elements % ranks == 0, "layout_violations lets no other layout pass");
  return elements / ranks;
}

/// Splits whole tensors over the ranks of a stage and keeps experts apart.
class TensorSplitter {
 public:
  TensorSplitter(const Transformer& model, const ParallelGrid& grid) : model_(model), grid_(grid) {}

  void add(const std::string& scope, const std::vector<ParameterTensor>& tensors) {
    for (const ParameterTensor& tensor : tensors) add(scope + tensor.name, tensor);
  }
  void add_shared(std::string name, std::int64_t elements) {
    stage_.dense.push_back({std::move(name), exact_share(elements, grid_.tp), true});
  }
  StageTensors take() { return std::move(stage_); }

 private:
  void add(std::string name, const ParameterTensor& tensor) {
    const bool linear = tensor.linear;
    switch (tensor.shard) {
      case Shard::replicated:
        stage_.dense.push_back({std::move(name), tensor.elements, false, linear});
        return;
      case Shard::tensor:
        stage_.dense.push_back(
            {std::move(name), exact_share(tensor.elements, grid_.tp), false, linear});
        return;
      case Shard::expert: add_experts(name, tensor); return;
    }
  }

  // A grouped GEMM registers one tensor per local expert: megatron/core/extensions/
  // transformer_engine.py, TEGroupedLinear. Without expert parallelism and with etp = tp the
  // experts are reduced like all else: megatron/core/transformer/moe/experts.py, `allreduce`.
  void add_experts(const std::string& name, const ParameterTensor& tensor) {
    const bool apart = grid_.ep > 1 || grid_.etp != grid_.tp;
    const std::int64_t local = exact_share(model_.moe->experts, grid_.ep);
    const std::int64_t each = exact_share(tensor.elements, model_.moe->experts * grid_.etp);
    for (std::int64_t expert = 0; expert < local; ++expert) {
      (apart ? stage_.expert : stage_.dense)
          .push_back({fmt::format("{}{}", name, expert), each, false, tensor.linear});
    }
  }

  const Transformer& model_;
  const ParallelGrid& grid_;
  StageTensors stage_;
};

}  // namespace

// Order: embedding, layers, final norm, multi-token prediction, output projection. Over several
// stages, tied ends mean a copy of the word embedding on the last stage, and so does multi-token
// prediction, which embeds tokens there. Source: Megatron-LM d98e8a64,
// megatron/core/models/gpt/gpt_model.py; megatron/core/models/common/language_module/
// language_module.py, setup_embeddings_and_output_layer.
StageTensors rank_tensors(const Transformer& model, const StageContent& stage,
                          const ParallelGrid& grid, std::int64_t vocab) {
  TensorSplitter builder(model, grid);
  const bool predicts_more = model.mtp_layers > 0;
  const bool copied = !(stage.embedding && stage.head) && (model.tied_embeddings || predicts_more);
  if (stage.embedding || (stage.head && predicts_more)) {
    std::vector<ParameterTensor> tensors = embedding_parameters(model, vocab);
    if (copied) {
      builder.add_shared(tensors.front().name, tensors.front().elements);
      tensors.erase(tensors.begin());
    }
    builder.add("", tensors);
  }
  for (std::int64_t layer = stage.first_layer; layer < stage.first_layer + stage.layers; ++layer) {
    builder.add(fmt::format("decoder.layers.{}.", layer), layer_parameters(model, layer));
  }
  if (stage.head) {
    std::vector<ParameterTensor> head = head_parameters(model, vocab);
    const std::size_t norms = head.size() - (model.tied_embeddings ? 0 : 1);
    const auto output = head.begin() + static_cast<std::ptrdiff_t>(norms);
    builder.add("", {head.begin(), output});
    for (std::int64_t module = 0; module < model.mtp_layers; ++module) {
      builder.add(fmt::format("mtp.layers.{}.", module), mtp_parameters(model));
    }
    builder.add("", {output, head.end()});
    if (copied && model.tied_embeddings && !predicts_more) {
      builder.add_shared("output_layer.weight", vocab * model.hidden);
    }
  }
  return builder.take();
}

StageTensors adapter_tensors(const Transformer& model, const LowRankAdapters& adapters,
                             const StageContent& stage, const ParallelGrid& grid) {
  // linear_proj is registered before linear_qkv: parameters.cpp.
  constexpr std::array kOrder{AdapterTarget::linear_proj, AdapterTarget::linear_qkv,
                              AdapterTarget::linear_fc1, AdapterTarget::linear_fc2};
  StageTensors out;
  for (std::int64_t layer = stage.first_layer; layer < stage.first_layer + stage.layers; ++layer) {
    for (const AdapterTarget target : kOrder) {
      if (!adapters.on(target)) continue;
      const AdapterWidths widths = adapter_widths(model, adapters, target);
      const std::string_view name = kAdapterTargetNames[static_cast<std::size_t>(target)];
      const std::string at = fmt::format("decoder.layers.{}.{}.adapter.", layer, name);
      for (const std::int64_t width : widths.outputs) {
        out.dense.push_back(
            {at + "linear_in.weight", exact_share(widths.input * adapters.rank, grid.tp)});
        out.dense.push_back(
            {at + "linear_out.weight", exact_share(width * adapters.rank, grid.tp)});
      }
    }
  }
  return out;
}

ElementCount count_elements(std::span<const RankTensor> tensors) {
  ElementCount count;
  for (const RankTensor& tensor : tensors) {
    count += {.all = tensor.elements, .linear = tensor.linear ? tensor.elements : 0};
  }
  return count;
}

std::int64_t total_elements(std::span<const RankTensor> tensors) {
  return count_elements(tensors).all;
}

}  // namespace flopcast
