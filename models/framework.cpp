#include <array>

#include "models/training.h"

namespace flopcast {
namespace {

/// Megatron-LM / Megatron-Core with Transformer Engine (2023 and later).
/// Transformer Engine gathers inputs and gradients in the type of its products, but for a norm's
/// output that an adapter reads as well: v2, pytorch/distributed.py, gather_along_first_dim,
/// module/linear.py, module/layernorm_linear.py (return_layernorm_output_gathered).
/// Source: Megatron-LM d98e8a64: tensor_parallel/layers.py (re-gather, overlap), optimizer and
/// distributed/ (buckets, align_grad_reduce), arguments.py (make_vocab_size_divisible_by = 128).
/// Transformer Engine v2, GroupedLinear: one cuBLASLt product after another over four streams
/// (nvte_multi_stream_cublas_gemm), so each has its descriptors, heuristic and launch, and around
/// them the expert's weights by name, views and casts of its rows, and a Python hook for each of
/// its weight gradients. The time of one is fitted: of 10, 40, 60 and 80 us the last has the least
/// median error on the published `fit` runs that wait for the host (Qwen3 235B, tp 4 on H100 and pp
/// 8 on B300). Where CUDA graphs hold whole layers, there is none.
Framework megatron() {
  Framework framework;
  framework.host_per_expert_product = microseconds(80);
  framework.waits_for_token_counts = true;
  return framework;
}

/// Megatron-LM of 2021 and early 2022: scores, softmax and values as separate kernels, no fused
/// cross-entropy, gradients added to the main gradient by a hook.
/// Source: Narayanan et al. 2104.04473; Korthikanti et al. 2205.05198 (unfused core attention);
/// Megatron-LM v2.5, model/distributed.py.
Framework megatron_2021() {
  Framework framework = megatron();
  framework.name = "megatron-2021";
  framework.keeps_cast_weights = false;
  framework.quantised_gathers = QuantisedGathers::none;
  framework.fused_attention = false;
  framework.cross_entropy = CrossEntropy::unfused;
  framework.fused_wgrad_accumulation = false;
  // Fitted: of steps of 2 us the least median error of vTrain's small fit runs, whose layers take
  // some 1 ms a pass whatever their size.
  framework.host_per_operator = microseconds(62);
  return framework;
}

/// Megatron-DeepSpeed as BigScience ran it: 2021's kernels, DeepSpeed's ZeRO-1.
/// Source: DeepSpeed edaa7221, runtime/zero/stage_1_and_2.py: use_multi_rank_bucket_allreduce is on
/// by default, so a bucket is all-reduced before each rank keeps its slice.
Framework megatron_deepspeed() {
  Framework framework = megatron_2021();
  framework.name = "megatron-deepspeed";
  framework.zero_all_reduces = true;
  framework.reduces_each_micro_batch = true;
  return framework;
}

/// NeMo 24.x on Megatron-Core: the same rules; parameters in 8 bits. Source: NVIDIA/NeMo,
/// collections/llm/recipes/precision/mixed_precision.py (fp8_params); NVIDIA-NeMo/Megatron-Bridge,
/// src/megatron/bridge/training/mixed_precision.py (fp8_param_gather: delayed, tensorwise, mxfp8).
Framework nemo() {
  Framework framework = megatron();
  framework.name = "nemo";
  framework.fp8_param_gather = true;
  return framework;
}

/// Megatron-Bridge, NeMo's successor of 2025: the loss is Transformer Engine's one kernel. Source:
/// NVIDIA-NeMo/Megatron-Bridge, src/megatron/bridge/recipes: cross_entropy_fusion_impl "te".
Framework megatron_bridge() {
  Framework framework = nemo();
  framework.name = "megatron-bridge";
  framework.cross_entropy = CrossEntropy::one_kernel;
  return framework;
}

/// Megatron-FSDP (--use-megatron-fsdp) with optim_grads_params: a unit is a layer, what is left is
/// embedding, last norm and head. Units are gathered into one buffer, in place, and there is memory
/// for two (fsdp_double_buffer). A weight gradient is added into the input of its reduction, which
/// follows every micro-batch, in a pipeline, too; of replicas only the last (is_last_microbatch).
/// Source: Megatron-LM, core/distributed/fsdp: mcore_fsdp_adapter.py (fsdp_unit_modules),
/// src/README.md, src/docs/runtime_schedule.md, src/megatron_fsdp/param_and_grad_buffer.py
/// (optim_grads_params: weights, main weights and gradients are distributed).
Framework megatron_fsdp() {
  Framework framework = megatron();
  framework.name = "megatron-fsdp";
  framework.shards_parameters = true;
  framework.reduces_each_micro_batch = true;
  framework.defers_reductions_in_pipeline = false;
  framework.replicas_reduce_each_micro_batch = false;
  return framework;
}

/// PyTorch tensor parallel and DDP: gathered inputs are kept, buckets by bytes.
/// scaled_dot_product_attention prefers FlashAttention-2 up to Hopper. Of fp8, torchao gathers
/// tensors with one scale in 8 bits. Source: PyTorch 2.14.1, torch.distributed.tensor.parallel,
/// DistributedDataParallel; torchtitan, models/attention.py; torchao,
/// float8/float8_tensor_parallel.py, Float8ColwiseParallel, Float8RowwiseParallel.
Framework torch_ddp() {
  Framework framework = megatron();
  framework.name = "torch-ddp";
  framework.quantised_gathers = QuantisedGathers::per_tensor;
  framework.keeps_cast_weights = false;  // torchao casts them in every forward pass
  framework.regather_in_backward = false;
  framework.ddp_buckets = true;
  framework.align_grad_reduce = false;
  framework.attention_kernel = AttentionKernel::flash2;
  return framework;
}

/// FSDP2 as torchtitan wraps a model: each layer, the embedding, and norm and head together.
/// Sources: PyTorch 2.14.1, torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py (prefetch, one
/// unit ahead), _fsdp_collectives.py (copies into and out of the collectives), _fsdp_state.py;
/// torchtitan, models/llama3/infra/parallelize.py, apply_fsdp. The vocabulary is not padded; tensor
/// parallelism keeps the gathered inputs. Checkpoints are not reentrant, which since PyTorch 2.1
/// stop early: torch/utils/checkpoint.py, set_checkpoint_early_stop. models/llama3/model.py has wq,
/// wk, wv, w1 and w3 apart.
Framework fsdp2() {
  Framework framework = torch_ddp();
  framework.name = "fsdp2";
  framework.cross_entropy = CrossEntropy::torch;
  framework.overlap_tensor_regather = false;
  framework.reduces_each_micro_batch = true;
  framework.shards_parameters = true;
  framework.shards_ends_apart = true;
  framework.copies_gathered = true;
  framework.keeps_fp32_parameters = true;
  framework.fresh_gradients = true;
  framework.vocab_divisor = 1;
  framework.eager_kernels = true;
  framework.fused_optimizer = false;
  framework.recompute_stops_early = true;
  framework.separate_projections = true;
  return framework;
}

/// FSDP1 with a wrapped module for each layer and the rest in the root: flat parameters, which need
/// no copies where they are gathered; the gradient of their views is a concatenation, and is
/// divided by the root of the number of ranks before its reduction, by the rest after it (read and
/// written, twice). Source: PyTorch 2.14.1, torch/distributed/fsdp/_runtime_utils.py
/// (_should_free_in_backward: SHARD_GRAD_OP keeps parameters under no_sync; _div_if_needed),
/// limit_all_gathers; _flat_param.py, _get_unflat_views.
Framework fsdp1() {
  Framework framework = fsdp2();
  framework.name = "fsdp1";
  framework.shards_ends_apart = false;
  framework.copies_gathered = false;
  framework.flat_gradients = true;
  framework.keeps_unreduced_gathered = true;
  return framework;
}

/// Composer and llm-foundry: FSDP1, which reduces after every micro-batch since Composer's no_sync
/// is for DDP only. Sources: composer, distributed/dist_strategy.py, ddp_sync_context; llm-foundry,
/// scripts/train/benchmarking: submit_benchmarks.py asks for the Triton kernels of FlashAttention
/// where nothing else is said; models/mpt/modeling_mpt.py: flash-attn's cross-entropy,
/// and as metrics of training cross-entropy and perplexity, which composer, trainer/trainer.py,
/// updates after each micro-batch under autocast.
Framework mosaicml() {
  Framework framework = fsdp1();
  framework.name = "mosaicml";
  framework.attention_kernel = AttentionKernel::flash1;
  framework.cross_entropy = CrossEntropy::one_kernel;
  framework.loss_metrics = 2;
  framework.separate_projections = false;  // Wqkv; its MLP has no gate
  return framework;
}

/// DeepSpeed without Megatron. Stages 1 and 2 all-reduce buckets of which a rank keeps a slice,
/// stage 2 after every micro-batch; stage 3 reduce-scatters. Gradients travel in the parameters'
/// type. Sources: DeepSpeed edaa7221, runtime/zero/stage_1_and_2.py, runtime/zero/stage3.py,
/// runtime/zero/mics.py (replicas are reduced at the end of accumulation).
Framework deepspeed() {
  Framework framework = torch_ddp();
  framework.name = "deepspeed";
  framework.quantised_gathers = QuantisedGathers::none;
  framework.zero_all_reduces = true;
  framework.reduces_each_micro_batch = true;
  framework.shards_parameters = true;
  framework.shards_ends_apart = true;
  framework.replicas_reduce_each_micro_batch = false;
  framework.cross_entropy = CrossEntropy::torch;
  framework.fresh_gradients = true;
  framework.vocab_divisor = 1;
  return framework;
}

using Preset = Framework (*)();
struct NamedPreset {
  std::string_view name;
  Preset make;
};
constexpr std::array<NamedPreset, 11> kPresets{{{"megatron", megatron},
                                                {"megatron-2021", megatron_2021},
                                                {"megatron-deepspeed", megatron_deepspeed},
                                                {"nemo", nemo},
                                                {"megatron-bridge", megatron_bridge},
                                                {"megatron-fsdp", megatron_fsdp},
                                                {"torch-ddp", torch_ddp},
                                                {"fsdp2", fsdp2},
                                                {"fsdp1", fsdp1},
                                                {"mosaicml", mosaicml},
                                                {"deepspeed", deepspeed}}};

}  // namespace

std::optional<Framework> framework_preset(std::string_view name) {
  for (const NamedPreset& preset : kPresets) {
    if (preset.name == name) return preset.make();
  }
  return std::nullopt;
}

std::vector<std::string_view> framework_names() {
  std::vector<std::string_view> names;
  names.reserve(kPresets.size());
  for (const NamedPreset& preset : kPresets) names.push_back(preset.name);
  return names;
}

}  // namespace flopcast
