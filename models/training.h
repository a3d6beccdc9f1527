#pragma once

// How a model is trained: batch, precision, recompute, and the framework's behaviours.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "models/layout.h"
#include "models/transformer.h"
#include "sim/data_type.h"
#include "sim/units.h"

namespace flopcast {

enum class RecomputeKind : std::uint8_t {
  none,
  selective,  // modules of each layer again in the backward pass
  full,       // whole layers from their inputs
};

/// Parts of a layer that selective recompute computes again, by Megatron's names; the inputs of a
/// module are kept, its output where nothing but the backward pass needs it is not. Source:
/// Megatron-LM d98e8a64, megatron/core/transformer/transformer_config.py, recompute_modules.
enum class RecomputeModule : std::uint8_t {
  core_attn,       // Korthikanti et al., arXiv 2205.05198, section 5
  layernorm,       // both norms of a layer
  mla_up_proj,     // latent attention: from the latents to queries, keys and values
  mlp,             // the dense MLP
  moe,             // router, exchanges and experts
  moe_act,         // the experts' activation
  shared_experts,  // their MLP
};
inline constexpr std::array<std::string_view, 7> kRecomputeModuleNames{
    "core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts"};

struct Recompute {
  RecomputeKind kind = RecomputeKind::none;
  /// full: layers of each chunk that are recomputed (Megatron's "block"); empty: all.
  std::optional<std::int64_t> layers{};
  /// selective: by RecomputeModule.
  std::array<bool, kRecomputeModuleNames.size()> modules{true};

  bool selects(RecomputeModule module) const {
    return kind == RecomputeKind::selective && modules[static_cast<std::size_t>(module)];
  }
};

/// Mixed-precision Adam: fp32 master weight and two fp32 moments of every parameter.
/// Source: Rajbhandari et al., ZeRO, arXiv 1910.02054, section 3.1 (K = 12).
inline constexpr double kOptimizerStateBytes = 12;

/// What a framework does on its own. Each field is a documented behaviour with its source beside
/// the preset in framework.cpp; a scenario may override each.
struct Framework {
  std::string name = "megatron";
  bool regather_in_backward = true;  // sequence parallel: all-gather again for the weight gradient
  bool overlap_tensor_regather = true;  // hides that all-gather behind the data-gradient GEMM
  bool ddp_buckets = false;             // DDP's 25 MiB rule instead of Megatron's parameter count
  bool align_grad_reduce =
      true;  // pipeline: all stages but the first reduce after their last backward
  bool fused_attention = true;  // flash attention; else scores are stored and softmax is a kernel
  bool fused_cross_entropy = true;        // 2 all-reduces instead of 3, fewer logits kept
  bool fused_wgrad_accumulation = true;   // weight gradient GEMM adds into the fp32 buffer
  bool blocking_p2p = false;              // pipeline sends hold the compute stream
  bool zero_all_reduces = false;          // ZeRO-1, 2: all-reduce, then keep a slice
  bool reduces_each_micro_batch = false;  // ZeRO-2 with accumulation: DeepSpeed; FSDP2: at the last
  /// Host time to issue one operator: Python, dispatcher and the launches of its kernels. Where a
  /// pass over a layer takes the GPU less than its host, the GPU waits.
  /// Assumed: no public table of it; a layer of a current framework then takes some 0.3 ms to
  /// issue.
  Seconds host_per_operator = microseconds(25);
  Seconds step_overhead;             // host work once a step: data, logging, scheduler
  std::int64_t vocab_divisor = 128;  // the vocabulary is padded to a multiple of this times tp
};

/// Presets by name: megatron, nemo, fsdp... nothing where the name is unknown.
std::optional<Framework> framework_preset(std::string_view name);
std::vector<std::string_view> framework_names();

struct Training {
  BatchShape batch;
  DataType precision = DataType::bf16;        // of the GEMMs
  DataType parameter_dtype = DataType::bf16;  // of stored and gathered parameters
  DataType gradient_dtype = DataType::fp32;   // of the gradient buffer and its reduction
  Recompute recompute;
  bool overlap_grad_reduce = true;
  bool overlap_param_gather = true;
  bool tensor_overlap = false;  // userbuffers: TP collectives behind GEMMs (tp_overlap)
  bool overlap_p2p = true;      // interleaved: sends and receives beside compute
  std::optional<Bytes> bucket;  // overrides the framework's rule
  /// Experts: what each rank sends to each expert is padded, or dropped, to this many times its
  /// balanced share; nothing: no token is dropped and nothing padded.
  std::optional<double> capacity_factor;
  Framework framework;
};

struct Job {
  Transformer model;
  Layout layout;
  Training training;
};

}  // namespace flopcast
