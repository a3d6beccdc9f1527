#pragma once

// Fine-tuning by low-rank adapters (LoRA: Hu et al., arXiv 2106.09685): the model is frozen, and
// beside some of its linear layers run two thin products, y = W x + B (A x), which are trained.
//
// The model's weights have no gradient, no optimizer state, no fp32 copy and no collectives; the
// backward pass through a frozen linear layer is the product for its input's gradient alone, so
// that its input is kept only where an adapter reads it.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "models/transformer.h"
#include "sim/data_type.h"

namespace flopcast {

/// Linear layers beside which an adapter may run, by Megatron's names.
enum class AdapterTarget : std::uint8_t { linear_qkv, linear_proj, linear_fc1, linear_fc2 };
inline constexpr std::array<std::string_view, 4> kAdapterTargetNames{"linear_qkv", "linear_proj",
                                                                     "linear_fc1", "linear_fc2"};

/// Defaults are those of Megatron-Bridge: peft/lora.py at 2afd2d34.
struct LowRankAdapters {
  std::int64_t rank = 32;
  std::array<bool, kAdapterTargetNames.size()> targets{true, true, true, true};  // by AdapterTarget
  /// Queries, keys and values, gate and up have an adapter each, as in PEFT and Megatron-Bridge's
  /// CanonicalLoRA; else a fused layer has one ("performant").
  bool separate = false;
  bool dropout = false;  // of the adapter's input
  /// Sequence parallel: outputs beside a row-parallel layer go from parts of their width to parts
  /// of the sequence by an all-to-all (a2a_experimental), not by an all-gather and a cut.
  bool exchanges_output = false;
  /// In which the frozen weights lie in memory; nothing: in the parameter type.
  std::optional<DataType> frozen_dtype{};

  bool on(AdapterTarget target) const { return targets[static_cast<std::size_t>(target)]; }
};

constexpr bool is_column_parallel(AdapterTarget target) {
  return target == AdapterTarget::linear_qkv || target == AdapterTarget::linear_fc1;
}

/// Widths of a layer that an adapter runs beside, whole; an output for each adapter.
struct AdapterWidths {
  std::int64_t input = 0;
  std::vector<std::int64_t> outputs{};

  std::int64_t output() const;  // of all
};
AdapterWidths adapter_widths(const Transformer& model, const LowRankAdapters& adapters,
                             AdapterTarget target);

}  // namespace flopcast
