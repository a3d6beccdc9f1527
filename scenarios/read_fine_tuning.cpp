#include <fmt/format.h>

#include <filesystem>

#include "scenarios/fields.h"
#include "scenarios/scenario_parts.h"

// What fine-tuning asks for: "lora" and "documents" of "training".

namespace flopcast {
namespace {

constexpr std::int64_t kLargestRank = 1 << 16;
constexpr std::array kFrozenTypes{DataType::fp32, DataType::fp16,  DataType::bf16,
                                  DataType::fp8,  DataType::mxfp8, DataType::nvfp4};
constexpr Choice<AdapterTarget> kTargets[] = {{"linear_qkv", AdapterTarget::linear_qkv},
                                              {"linear_proj", AdapterTarget::linear_proj},
                                              {"linear_fc1", AdapterTarget::linear_fc1},
                                              {"linear_fc2", AdapterTarget::linear_fc2}};

void read_targets(const Node& node, LowRankAdapters& adapters) {
  adapters.targets.fill(false);
  for (const Node& name : node.items()) {
    bool& target = adapters.targets[static_cast<std::size_t>(name.one_of(kTargets))];
    if (target) name.fail("the target is named twice");
    target = true;
  }
  if (node.items().empty()) node.fail("no target; without \"lora\" all of the model is trained");
}

LowRankAdapters read_lora(const Node& node, const Layout& layout) {
  LowRankAdapters adapters;
  const Node rank = node.at("rank");
  adapters.rank = rank.integer(1, kLargestRank);
  const int tp = layout.grid.tp;
  if (adapters.rank % tp != 0) {
    const std::int64_t above = (adapters.rank + tp - 1) / tp * tp;
    rank.fail(fmt::format("a rank of {} is not split over {} tensor-parallel ranks; nearest: {}",
                          adapters.rank, tp, above));
  }
  const Fields fields(node, false);
  if (const auto targets = node.find("targets")) read_targets(*targets, adapters);
  fields.flag("separate", adapters.separate);
  fields.flag("dropout", adapters.dropout);
  fields.flag("exchanges_output", adapters.exchanges_output);
  if (const auto type = node.find("frozen_dtype")) {
    adapters.frozen_dtype = type->one_of(kFrozenTypes);
  }
  return adapters;
}

/// Sum of squared lengths over their sum.
double mean_over_tokens(const Node& lengths, double sequence) {
  double tokens = 0;
  double squares = 0;
  for (const Node& node : lengths.items()) {
    const double length = node.number(1, sequence);
    tokens += length;
    squares += length * length;
  }
  if (tokens == 0) lengths.fail("no document");
  return squares / tokens;
}

double lengths_of_file(const Node& node, double sequence) {
  const auto path = node.folder() / node.text();
  if (!std::filesystem::exists(path)) node.fail(fmt::format("no such file: {}", path.string()));
  const Document document = Document::read(path);
  return mean_over_tokens(document.root(), sequence);
}

double read_documents(const Node& node, double sequence) {
  if (node.is_array()) return mean_over_tokens(node, sequence);
  if (!node.is_object()) return node.number(1, sequence);
  if (const auto file = node.find("file")) return lengths_of_file(*file, sequence);
  const double mean = node.at("mean").number(1, sequence);
  const Node square = node.at("mean_square");
  const double value = square.number(1, sequence * sequence);
  if (value < mean * mean || value > mean * sequence) {
    square.fail(fmt::format(
        "documents of {} tokens in the mean and {} at most have a mean square of {} to {}", mean,
        sequence, mean * mean, mean * sequence));
  }
  return value / mean;
}

}  // namespace

void read_fine_tuning(const Node& node, const Layout& layout, Training& training) {
  if (const auto lora = node.find("lora")) training.adapters = read_lora(*lora, layout);
  if (const auto documents = node.find("documents")) {
    training.document = read_documents(*documents, static_cast<double>(training.batch.sequence));
  }
}

}  // namespace flopcast
