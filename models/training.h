#pragma once

// How a model is trained: batch, precision, recompute, and the framework's behaviours.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibration/profile.h"
#include "models/layout.h"
#include "models/low_rank_adapters.h"
#include "models/step_jitter.h"
#include "models/transformer.h"
#include "sim/data_type.h"
#include "sim/units.h"

namespace flopcast {

enum class RecomputeKind : std::uint8_t {
  none,
  selective,  // modules of each layer again in the backward pass
  full,       // whole layers from their inputs
  /// Every second matrix product of a layer and all that is not one; attention is kept.
  every_other_matmul,
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

enum class RoutingKind : std::uint8_t {
  balanced,
  zipf,      // some experts are wanted more than others, in each layer and micro-batch anew
  measured,  // a histogram of each layer
};

/// Which experts the tokens of a step go to.
struct TokenRouting {
  RoutingKind kind = RoutingKind::balanced;
  /// zipf: the expert of rank r is wanted in proportion to r^-exponent; which one that is, is drawn
  /// for each layer and micro-batch.
  double exponent = 0;
  std::uint64_t seed = 1;
  /// Towards few experts, as routers without a balancing loss collapse (Shazeer et al., arXiv
  /// 1701.06538, section 4): the exponent moves in a straight line, from the first step on.
  double final_exponent = 0;
  std::int64_t drift_steps = 0;  // 0: it stays
  std::int64_t step = 0;         // of training, the one that is simulated
  /// measured: tokens of each expert, of each layer with experts, or of all alike.
  std::vector<std::vector<double>> counts{};
};

/// How the loss is computed from the logits.
enum class CrossEntropy : std::uint8_t {
  unfused,     // Megatron's, over the parts of the vocabulary, operator by operator
  fused,       // the same by fused kernels, with an all-reduce less
  torch,       // torch.nn.functional.cross_entropy on an fp32 copy of the logits
  one_kernel,  // one in each direction on 16-bit logits: flash-attn, Liger, Inductor
};
inline constexpr std::array kCrossEntropies{CrossEntropy::unfused, CrossEntropy::fused,
                                            CrossEntropy::torch, CrossEntropy::one_kernel};

constexpr std::string_view to_text(CrossEntropy kind) {
  switch (kind) {
    case CrossEntropy::unfused: return "unfused";
    case CrossEntropy::fused: return "fused";
    case CrossEntropy::torch: return "torch";
    case CrossEntropy::one_kernel: return "one_kernel";
  }
  return "";
}

/// Which quantised operands tensor-parallel ranks gather as they are; else 16 bits, cast after.
enum class QuantisedGathers : std::uint8_t {
  none,
  per_tensor,  // those with one scale
  all,
};
inline constexpr std::array kQuantisedGathers{QuantisedGathers::none, QuantisedGathers::per_tensor,
                                              QuantisedGathers::all};

constexpr std::string_view to_text(QuantisedGathers kind) {
  switch (kind) {
    case QuantisedGathers::none: return "none";
    case QuantisedGathers::per_tensor: return "per_tensor";
    case QuantisedGathers::all: return "all";
  }
  return "";
}

/// What a framework does on its own. Each field is a documented behaviour with its source beside
/// the preset in framework.cpp; a scenario may override each.
struct Framework {
  std::string name = "megatron";
  bool regather_in_backward = true;  // sequence parallel: all-gather again for the weight gradient
  bool overlap_tensor_regather = true;  // hides that all-gather behind the data-gradient GEMM
  QuantisedGathers quantised_gathers = QuantisedGathers::all;
  /// Copies of weights that products read in 8 or 4 bits stay between micro-batches.
  bool keeps_cast_weights = true;
  /// With one scale for a tensor and in mxfp8, the parameters are those copies (Megatron's
  /// --fp8-param-gather).
  bool fp8_param_gather = false;
  bool ddp_buckets = false;  // DDP's 25 MiB rule instead of Megatron's parameter count
  bool align_grad_reduce =
      true;  // pipeline: all stages but the first reduce after their last backward
  bool fused_attention = true;  // flash attention; else scores are stored and softmax is a kernel
  AttentionKernel attention_kernel = AttentionKernel::newest;  // of fused attention
  /// Norms, rotary embedding and activation by the kernels of PyTorch's own operators, not by fused
  /// or compiled ones (pointwise_traffic.h).
  bool eager_kernels = false;
  /// Queries, keys and values by a product each, so too gate and up, whose input's gradients are
  /// then added up by kernels of their own.
  bool separate_projections = false;
  CrossEntropy cross_entropy = CrossEntropy::fused;
  int loss_metrics =
      0;  // how often each micro-batch's loss is computed anew, in fp32, to be logged
  bool fused_wgrad_accumulation = true;  // weight gradient GEMM adds into the fp32 buffer
  bool blocking_p2p = false;             // pipeline sends hold the compute stream
  bool zero_all_reduces = false;         // ZeRO-1, 2: all-reduce, then keep a slice
  /// ZeRO-1, 2: a tensor's state is whole on one rank, which gets its gradient by a reduction to it
  /// and sends the tensor on by a broadcast. In no preset; InternEvo's optimizer of 2023 does so:
  /// internlm/solver/optimizer/hybrid_zero_optim.py, _partition_param_list, broadcast_params.
  bool zero_by_tensor = false;
  /// ZeRO-2 and 3: gradients are reduced after every micro-batch, not only after the last.
  bool reduces_each_micro_batch = false;
  bool defers_reductions_in_pipeline = true;  // ZeRO-3, pp > 1: after the last one
  /// Knows ZeRO-3, layer by layer; the fields after it say how.
  bool shards_parameters = false;
  bool shards_ends_apart = false;  // embedding and head by themselves, not in the root module
  int gathers_ahead = 1;           // units gathered before the one in use is done with
  bool copies_gathered = false;    // into and out of the collectives' buffers, both ways
  bool keeps_fp32_parameters =
      false;  // the sharded fp32 weight is the parameter, cast for gathers;
              // its fp32 gradient exists from reduction to optimizer step
  /// Where nothing is reduced and parameters are not resharded after the forward pass, they stay
  /// after the backward pass too.
  bool keeps_unreduced_gathered = false;
  bool replicas_reduce_each_micro_batch = true;  // HSDP; else with the last
  /// A unit's gradients are put one after another into one tensor and divided there, before they
  /// are reduced.
  bool flat_gradients = false;
  /// Full recompute ends with the last tensor that the backward pass needs, before the last product
  /// of a dense layer.
  bool recompute_stops_early = false;
  bool fused_optimizer = true;   // one kernel; else one for each operation of Adam
  bool fresh_gradients = false;  // weight gradients are written in 16 bit, not added to a buffer
  /// Host time to issue one operator: Python, dispatcher and the launches of its kernels. Where a
  /// pass over a layer takes the GPU less than its host, the GPU waits.
  /// Assumed: no public table of it; a layer of a current framework then takes some 0.3 ms to
  /// issue.
  Seconds host_per_operator = microseconds(25);
  /// Host time to launch one expert's product where grouped products are launched one by one, in a
  /// loop over the rank's experts; 0: the group is one kernel.
  Seconds host_per_expert_product;
  /// The host reads how many tokens each expert gets before it issues what depends on it, so that
  /// it is no longer ahead of the GPU; not where tokens are padded to a capacity.
  bool waits_for_token_counts = false;
  Seconds step_overhead;             // host work once a step: data, logging, scheduler
  std::int64_t vocab_divisor = 128;  // the vocabulary is padded to a multiple of this times tp
};

/// The optimizer of a part of the parameters runs on the node's processors, where its states are
/// (stage_offload.cpp). Sources: Ren et al., ZeRO-Offload, arXiv 2101.06840; Rajbhandari et al.,
/// ZeRO-Infinity, 2104.07857; Megatron-LM d98e8a64, optimizer/cpu_offloading.
struct OptimizerOffload {
  double fraction = 1;     // Megatron's --optimizer-offload-fraction
  bool to_drives = false;  // states lie on the node's drives and pass through the host's memory
  /// In pieces: one is copied while another is updated (--overlap-cpu-optimizer-d2h-h2d).
  bool overlap = true;
};

/// Presets by name: megatron, nemo, fsdp2... nothing where the name is unknown.
std::optional<Framework> framework_preset(std::string_view name);
std::vector<std::string_view> framework_names();

struct Training {
  BatchShape batch;
  DataType precision = DataType::bf16;  // of the linear layers' GEMMs
  /// fp8: scaled by this tensor's own maximum, which one pass finds before another casts; else by
  /// the maxima of past steps ("delayed"), in one pass.
  bool current_scaling = false;
  DataType parameter_dtype = DataType::bf16;  // of stored and gathered parameters
  DataType gradient_dtype = DataType::fp32;   // of the gradient buffer and its reduction
  DataType moment_dtype = DataType::fp32;     // of Adam's two moments
  /// Of tokens, and of their gradients, on the way to the experts; back they travel in
  /// parameter_dtype. Nothing: so there, too.
  std::optional<DataType> dispatch_dtype;
  /// Weights that products read in 8 bits are kept and gathered so (quantised_weights.h); nothing:
  /// as the framework has it.
  std::optional<bool> fp8_param_gather;
  /// Of the operands that tensor-parallel ranks gather: that of the products, or their 16 bits;
  /// nothing: as the framework has it. Sums stay in parameter_dtype.
  std::optional<DataType> tensor_dtype;
  /// Of what context-parallel ranks pass on, but for sums by reduce-scatter, and of what a pipeline
  /// stage sends; nothing: parameter_dtype.
  std::optional<DataType> context_dtype;
  std::optional<DataType> pipeline_dtype;
  /// In which the inputs of the experts' activation are kept for the backward pass; nothing: in
  /// parameter_dtype.
  std::optional<DataType> kept_expert_dtype;
  /// The same of a dense MLP. Megatron's activation_func_fp8_input_store.
  std::optional<DataType> kept_mlp_dtype;
  /// Of core attention's operands, where fused; nothing: parameter_dtype. Transformer Engine's
  /// fp8_dpa.
  std::optional<DataType> attention_dtype;
  Recompute recompute;
  std::optional<OptimizerOffload> offload{};
  /// The activations of so many of the first layers are on the host between the passes
  /// (activation_offload.h). Megatron's --cpu-offloading-num-layers.
  std::int64_t offloaded_layers = 0;
  bool overlap_grad_reduce = true;
  bool overlap_param_gather = true;
  bool tensor_overlap = false;  // userbuffers: TP collectives behind GEMMs (tp_overlap)
  bool overlap_p2p = true;      // interleaved: sends and receives beside compute
  std::optional<Bytes> bucket;  // overrides the framework's rule
  /// Experts: of what each rank sends to each expert, no more than this many times the balanced
  /// share; nothing: no token is dropped.
  std::optional<double> capacity_factor;
  bool pad_to_capacity = true;  // and no less
  /// The loss is computed for so many parts of the sequence in turn (head_operators.cpp).
  int loss_chunks = 1;
  TokenRouting routing;
  /// The model is frozen and these are trained; nothing: all of it is trained.
  std::optional<LowRankAdapters> adapters{};
  /// Sequences are packed from documents that attention does not look beyond: how long a token's
  /// document is, in the mean over tokens (sum of squared lengths over sum of lengths). So core
  /// attention does the work of the sum of squares, all else is by tokens. Nothing: one document.
  std::optional<double> document{};

  /// Tokens that attention of a token spans, before masks.
  double attended() const { return document.value_or(static_cast<double>(batch.sequence)); }

  bool copies_to_host() const { return offload || offloaded_layers > 0; }
  /// Whether experts get as much as they can hold, whatever the routing.
  bool pads() const { return capacity_factor && pad_to_capacity; }
  /// Per parameter: Adam's fp32 master weight and two moments. Source: Rajbhandari et al., ZeRO,
  /// arXiv 1910.02054, section 3.1 (K = 12, with fp32 moments).
  Bytes optimizer_state() const {
    return element_size(DataType::fp32) + 2.0 * element_size(moment_dtype);
  }
  Framework framework;
};

/// How collectives are simulated.
enum class NetworkDetail : std::uint8_t {
  fluid,  // one activity each, which loads all its links at once
  steps,  // as the messages of their algorithm (models/step_network.h)
};

struct Job {
  Transformer model;
  Layout layout;
  Training training;
  std::optional<StepJitter> jitter{};  // of the GPUs that it runs on
  NetworkDetail network = NetworkDetail::fluid;
};

}  // namespace flopcast
