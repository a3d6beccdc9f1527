#include <array>

#include "models/training.h"

namespace flopcast {
namespace {

/// Megatron-LM / Megatron-Core with Transformer Engine (2023 and later).
/// Source: Megatron-LM d98e8a64: tensor_parallel/layers.py (re-gather, overlap), optimizer and
/// distributed/ (buckets, align_grad_reduce), arguments.py (make_vocab_size_divisible_by = 128).
/// Transformer Engine v2, GroupedLinear: one cuBLASLt product after another over four streams
/// (nvte_multi_stream_cublas_gemm), so each has its descriptors, heuristic and launch. The time of
/// one is assumed: a kernel launch takes some 5 us, and what cuBLASLt does before it as much.
Framework megatron() {
  Framework framework;
  framework.host_per_expert_product = microseconds(10);
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
  framework.fused_attention = false;
  framework.fused_cross_entropy = false;
  framework.fused_wgrad_accumulation = false;
  // Assumed after vTrain's small fit runs, whose layers take some 0.9 ms a pass whatever their
  // size.
  framework.host_per_operator = microseconds(50);
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

/// NeMo 24.x on Megatron-Core: the same rules.
Framework nemo() {
  Framework framework = megatron();
  framework.name = "nemo";
  return framework;
}

/// PyTorch tensor parallel and DDP: gathered inputs are kept, buckets by bytes.
/// Source: PyTorch 2.14.1, torch.distributed.tensor.parallel, DistributedDataParallel.
Framework torch_ddp() {
  Framework framework = megatron();
  framework.name = "torch-ddp";
  framework.regather_in_backward = false;
  framework.ddp_buckets = true;
  framework.align_grad_reduce = false;
  return framework;
}

using Preset = Framework (*)();
struct NamedPreset {
  std::string_view name;
  Preset make;
};
constexpr std::array<NamedPreset, 5> kPresets{{{"megatron", megatron},
                                               {"megatron-2021", megatron_2021},
                                               {"megatron-deepspeed", megatron_deepspeed},
                                               {"nemo", nemo},
                                               {"torch-ddp", torch_ddp}}};

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
