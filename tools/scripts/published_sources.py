"""What make_published.py knows by source: names of systems and models, settings that all runs of a
source share, and the words of assumptions."""

# The profile is that of the system's GPU.
SYSTEMS = {
    "A100-40GB": "dgx-a100-40gb", "A100-80GB": "dgx-a100", "H100": "dgx-h100", "H200": "dgx-h200",
    "B200": "dgx-b200", "GB200": "gb200-nvl72", "B300": "dgx-b300", "GB300": "gb300-nvl72",
    "V100-32GB": "dgx-2", "MI300X": "mi300x-8", "MI325X": "mi325x-8", "MI355X": "mi355x-8",
}
MODELS = {
    "GPT-3 175B": "megatron-175b", "GPT-3 20B": "nemo-gpt3-20b", "GPT-3 5B": "nemo-gpt3-5b",
    "GPT 22B": "megatron-22b", "GPT 175B": "megatron-175b",
    "GPT 1.7B": "megatron-1.7b", "GPT 3.6B": "megatron-3.6b",
    "GPT 7.5B": "megatron-7.5b", "GPT 18B": "megatron-18b", "GPT 39B": "megatron-39b",
    "GPT 76B": "megatron-76b", "GPT 145B": "megatron-145b", "GPT 310B": "megatron-310b",
    "GPT 530B": "megatron-530b", "GPT 1T": "megatron-1t", "GPT 1B": "megatron-2020-1b",
    "GPT 2B": "megatron-2020-2b", "GPT 4B": "megatron-2020-4b", "GPT 8B": "megatron-2020-8b",
    "GPT 1.5B": "zero-bubble-1.5b", "GPT 6.2B": "zero-bubble-6.2b",
    "GPT 14.6B": "zero-bubble-14.6b", "GPT 28.3B": "zero-bubble-28.3b",
    "Nemotron-4 15B": "nemotron4-15b", "Nemotron-4 340B": "nemotron4-340b",
    "Nemotron-3 8B": "nemotron3-8b", "Nemotron-3 22B": "nemotron3-22b",
    "Llama-2-7B": "llama-7b", "Llama-2-13B": "llama-13b", "Llama-2-70B": "llama2-70b",
    "CodeLlama/Llama-2-34B": "llama2-34b", "Llama-3-8B": "llama3-8b",
    "Llama-3-70B": "llama3-70b", "Llama-3.1-8B": "llama3.1-8b", "Llama-3.1-70B": "llama3.1-70b",
    "Llama-3.1-405B": "llama3.1-405b", "Grok-1 314B": "grok-1",
    "Llama-4-Maverick-17B-128E": "llama4-maverick", "Mixtral-8x7B": "mixtral-8x7b",
    "Mixtral-8x22B": "mixtral-8x22b", "Qwen3-8B": "qwen3-8b", "Qwen3-32B": "qwen3-32b",
    "Qwen3-30B-A3B": "qwen3-30b-a3b", "Qwen3-235B-A22B": "qwen3-235b-a22b",
    "GPT-OSS-120B": "gpt-oss-120b", "Kimi-K2": "kimi-k2", "Moonlight-16B-A3B": "moonlight-16b-a3b",
    "InternLM-7B": "internlm-7b", "MPT-70b": "mpt-70b", "MPT-30b": "mpt-30b",
    "MPT-13b": "mpt-13b", "MPT-7b": "mpt-7b", "MPT-3b": "mpt-3b", "MPT-1b": "mpt-1b",
    "MPT-760m": "mpt-760m", "MPT-350m": "mpt-350m", "MPT-125m": "mpt-125m",
    "DeepSeek-V3": "deepseek-v3",
}
OWN_SHAPES = {"vtrain-multi-node": "megatron-1.7b", "vtrain-single-node": "megatron-1.7b",
              "bigscience": "bloom-176b"}

NO_OVERLAP = ("Assumed. Data parallel traffic follows the backward pass, as in Megatron and "
              "DeepSpeed then.")
BF16_GRADIENTS = "Assumed. Gradients: reduced in bf16, as NVIDIA's performance recipes set it."
EXAMPLE_SCRIPT = ("Assumed. Weights are kept and gathered in fp8, gradients reduced in bf16, as in "
                  "examples/llama/train_llama3_8b_h100_fp8.sh.")
MEGATRON_FSDP = {"preset": "megatron-fsdp", "cross_entropy": "one_kernel", "fused_wgrad_accumulation": False,
                 "fp8_param_gather": True}
MEGATRON_FSDP_RULES = ("Megatron-FSDP with Megatron-Bridge's loss, whose weight gradients are added by kernels of their own, as NVIDIA's performance recipes "
                       "set it (gradient_accumulation_fusion False, fp8_param_gather).")
NETWORK = "Assumed. Network: one 400 Gb/s InfiniBand card per GPU, as in DGX H100."
TENSOR_OVERLAP = "Assumed. Tensor parallel overlap: on, as in NVIDIA's performance recipes."
FSDP_GRADIENTS = "Assumed. Gradients: reduced in bf16, as the framework's pure bf16 policy has it."
LESS_POWER = "Assumed. Clocks: those of the 700 W card by the cube root of the power limit."
WHOLE_RECOMPUTE = ("Recompute goes to the end of a layer, as before PyTorch 2.1: the publisher's sweep.sh names 2.0.1 "
                   "on H100 and 1.13.1 on A100.")
LATER_KERNELS = "Attention by FlashAttention-2 kernels, as the publisher's sweep.py has it for this model."
COMPILED = {"preset": "fsdp2", "eager_kernels": False}  # in 2024 without the loss
WITH_LOSS = {"cross_entropy": "one_kernel"}
UNKNOWN_RECOMPUTE = "Assumed. Recompute: none; the source does not say."
GRAPHS = "Assumed. Host time: none, as CUDA graphs hold whole layers."
OTHER_RELEASE = "Assumed. Recompute: that of the same setup in another release, whose recipe is published."
EXPERT_TENSOR = "Assumed. Expert tensor parallelism: as tp, Megatron's default where nothing is set."
WHOLE_EXPERTS = ("Assumed. Expert tensor parallelism: none; only so ep divides the ranks of the source's "
                 "smallest run.")

SQUAD = 206  # tokens
DOCUMENTS = (f"Assumed. Documents: SQuAD's, of which a token's has {SQUAD} tokens in the mean, by the publisher's count of "
             "FLOPs; attention stays inside of them and is less than 1 % of the work.")
WHOLE_SAMPLES = ("Attention looks at whole packed samples, as the publisher's configuration has it "
                 "(packed_sequence_return_cu_seqlen false).")
WIDE_GATHER = ("Tensor-parallel ranks gather 16 bits: torchtitan, models/llama3/infra/parallelize.py, gathers in float8 by tensor-wise "
               "scales alone.")
NARROW_ATTENTION = "Attention's operands are in 8 bits (FP8_DPA), as the publisher's configuration has it."
NARROW_ACTIVATION = ("Inputs of the MLP's activation are kept in 8 bits, as configurations of this GPU and split state it "
                     "(FP8_ACTIVATION in 4.0, NVIDIA, config_DGXH200_1x8x2xtp2pp1cp1.sh, and 5.0, Dell, "
                     "config_XE9680x8H200-SXM-141GB_1x8x2xtp1pp1cp2.sh; FP8_ACT in 5.0, GigaComputing, config_GB200_2x4x1xtp1pp1cp1.sh, "
                     "and 5.1, config_G894-AD1_1x8x1xtp1pp1cp1.sh).")
# Adapters by source: Megatron-Bridge's performance recipes (llama3_70b_peft_*), NeMo 24's default, MLPerf's rules.
ADAPTERS = {
    "megatron-bridge": ({"rank": 16, "targets": ["linear_qkv"]}, "Adapters beside queries, keys and values, rank 16: the recipe."),
    "dgx-cloud": ({"rank": 16, "targets": ["linear_qkv"]},
                  "Assumed. Adapters beside queries, keys and values, rank 16, as in the framework's recipes."),
    "nemo": ({"rank": 32, "targets": ["linear_qkv"]},
             "Assumed. Adapters beside queries, keys and values, rank 32, the framework's default then."),
    "mlperf": ({"rank": 16, "targets": ["linear_qkv", "linear_proj"], "dropout": True, "exchanges_output": True,
                "frozen_dtype": "fp8"},
               "Adapters beside attention's layers, rank 16, with dropout; frozen weights in 8 bits: the publisher's configuration."),
}

# Table and what all runs of a source share; the first prefix of the id that fits.
NVIDIA = {"framework": "nemo", "training.gradient_dtype": "bf16"}
SOURCES = [
    ("vtrain-single", "vtrain-single-node", {"framework": "megatron-deepspeed"}),
    ("vtrain-multi", "vtrain-multi-node", {
        "framework": "megatron-deepspeed", "cluster.nics": 4, "cluster.nic_bandwidth": "200 Gb/s"}),
    ("bigscience", "bigscience", {
        "framework": "megatron-deepspeed", "cluster.system": "jean-zay-a100",
        "model.dropout": True}),
    ("internevo", "internevo", {
        "framework": {"preset": "megatron", "zero_by_tensor": True},
        "cluster.system": "hgx-a100-roce", "cluster.nics": 4,
        "cluster.nic_bandwidth": "100 Gb/s", "training.gradient_dtype": "bf16",
        "training.overlap_param_gather": False}),
    ("mosaic", "mosaicml", {"framework": "mosaicml", "training.gradient_dtype": "bf16"}),
    ("torchtitan", "torchtitan", {"framework": "fsdp2"}),
    ("fms", "fms-fsdp", {"framework": "fsdp1", "training.gradient_dtype": "bf16"}),
    ("jaxtb", "jax-toolbox", {"framework": "fsdp1"}),
    ("zb", "zero-bubble", {
        "framework": "megatron-2021", "cluster.system": "hgx-a100-roce",
        "training.overlap_p2p": False, "parallel.account_embedding_in_split": True,
        "parallel.account_loss_in_split": True}),
    ("dgxc", "dgx-cloud", NVIDIA), ("nemo", "nemo", NVIDIA), ("mlperf", "mlperf", NVIDIA),
    ("mb", "megatron-bridge", NVIDIA | {"framework": "megatron-bridge"}),
    ("mcore-moe", "mcore-moe-report", NVIDIA), ("modelzoo", "moe-modelzoo", NVIDIA),
    ("megatron", "megatron-lm", {"framework": "megatron"}), ("sc21", "megatron-lm", {}),
    ("korthikanti", "korthikanti", {}), ("primus", "amd-primus", {"framework": "megatron"}),
]


def keeps_narrow_activation(row):
    """Of MLPerf's LoRA: where a GPU has the model, or half of it, and little room beside it."""
    if row["hardware"]["gpu"] == "H200":
        return (row["tp"], row["cp"]) in ((1, 2), (2, 1))
    return row["hardware"]["gpu"] in ("B200", "GB200") and row["tp"] == row["cp"] == 1 and row["precision"] == "fp8"
