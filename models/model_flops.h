#pragma once

// Training FLOPs of one iteration under the conventions in use. MFU is always printed with one.

#include <cstdint>
#include <string_view>

#include "models/transformer.h"
#include "sim/units.h"

namespace flopcast {

enum class FlopConvention : std::uint8_t {
  megatron,       // matrix products, causal half of attention (core 0.12 and later)
  megatron_full,  // matrix products, full attention (to core 0.11; NeMo 24, most papers)
  palm,           // 6 N + 12 L H Q T per token
  six_n,          // 6 N per token
};

std::string_view to_text(FlopConvention convention);

/// What of a step its FLOPs depend on.
struct CountedStep {
  std::int64_t sequence = 0;
  std::int64_t global_batch = 0;
  std::int64_t padded_vocab = 0;  // width of the output projection
  double attended = 0;            // tokens of a token's document, in the mean over tokens
  bool frozen = false;            // weights have no gradient; adapters beside them are not counted
};

/// Two thirds of the work by weights where they are frozen, attention of each document by itself,
/// as Megatron-Bridge counts its LoRA runs: training/utils/flop_utils.py at 0494433b.
Flops model_flops(const Transformer& model, const CountedStep& step, FlopConvention convention);

/// Forward and backward of `global_batch` sequences of `sequence` tokens.
/// `padded_vocab` is the width of the output projection.
Flops model_flops(const Transformer& model, std::int64_t sequence, std::int64_t global_batch,
                  std::int64_t padded_vocab, FlopConvention convention);

}  // namespace flopcast
