#pragma once

// Exact parameter counts of a transformer, whole and by part.

#include <cstdint>
#include <string>
#include <vector>

#include "models/transformer.h"

namespace flopcast {

/// One tensor of a layer or of the ends: how many elements, and over what it is split.
enum class Shard : std::uint8_t {
  replicated,  // on every tensor-parallel rank (norms, router, biases of row-parallel layers)
  tensor,      // divided by tp (column- or row-parallel, vocabulary)
  expert,      // routed experts: divided by ep and etp
};

struct ParameterTensor {
  std::string name;           // Megatron's words: "linear_qkv.weight"
  std::int64_t elements = 0;  // of the whole tensor; for experts of all experts together
  Shard shard = Shard::replicated;
  bool linear = false;  // weight of a linear layer whose products may be in 8 or 4 bits
};

/// Tensors in the order in which Megatron registers them (the order its gradient buckets reverse).
/// Layer `layer` of the stack, 0-based.
std::vector<ParameterTensor> layer_parameters(const Transformer& model, std::int64_t layer);
/// Word (vocabulary as given, so that a padded one can be asked for) and position embedding, norm.
std::vector<ParameterTensor> embedding_parameters(const Transformer& model, std::int64_t vocab);
/// One multi-token prediction module; it shares embedding and output projection with the model.
std::vector<ParameterTensor> mtp_parameters(const Transformer& model);
/// Final norm; the output projection unless tied.
std::vector<ParameterTensor> head_parameters(const Transformer& model, std::int64_t vocab);

struct ParameterCount {
  std::int64_t total = 0;  // tied weights once, no buffers
  std::int64_t routed_experts = 0;
  std::int64_t active_per_token = 0;  // total - routed experts * (1 - top_k / experts)
  std::int64_t embedding_and_head =
      0;  // word and position embedding with its norm, output projection
};

ParameterCount parameter_count(const Transformer& model);

/// Megatron's padding: the next multiple of `divisor` * tp.
std::int64_t padded_vocab(std::int64_t vocab, std::int64_t divisor, int tp);

}  // namespace flopcast
