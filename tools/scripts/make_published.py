#!/usr/bin/env python3
"""Writes scenarios/published/*.json from a folder of measured runs.

    tools/scripts/make_published.py DATA [--renew GLOB]

DATA holds JSON files {"rows": [...]}, a published measurement each: hardware, model, layout, batch,
precision, metrics, completeness. A row that a table has already stays as it stands there, unless
its name is to be renewed, and never changes its mark. The others are added by the rules of
scenarios/published/README.md, and what they leave out is written with its reason to left_out.csv.
"""

import argparse
import csv
import fnmatch
import json
import pathlib
import re
import sys

from published_marks import mark, twin
from published_tables import read_table, write_table

ROOT = pathlib.Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "scenarios/published"
SEGMENT = 64  # GPUs of an NVL72 rack that a job of several racks takes
SEGMENTS = ("Assumed. Racks: 16 of 18 trays each, as the scheduler's segments of 64 GPUs place jobs whose "
            "size is a multiple of 64 and not of 72.")
LEARNED_POSITIONS = 2048  # of the MPT models unless the run asks for more


class LeftOut(Exception):
    """Why a row becomes no scenario."""


# The profile is that of the system's GPU.
SYSTEMS = {
    "A100-40GB": "dgx-a100-40gb", "A100-80GB": "dgx-a100", "H100": "dgx-h100", "H200": "dgx-h200",
    "B200": "dgx-b200", "GB200": "gb200-nvl72", "B300": "dgx-b300", "GB300": "gb300-nvl72",
    "V100-32GB": "dgx-1-v100", "MI300X": "mi300x-8", "MI325X": "mi325x-8", "MI355X": "mi355x-8",
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
WIDE_ATTENTION = "Differs. Attention is computed in 8 bits; 16 are simulated."
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
    ("mbridge", "megatron-bridge", NVIDIA), ("mb", "megatron-bridge", NVIDIA),
    ("mcore-moe", "mcore-moe-report", NVIDIA), ("modelzoo", "moe-modelzoo", NVIDIA),
    ("megatron", "megatron-lm", {"framework": "megatron"}), ("sc21", "megatron-lm", {}),
    ("korthikanti", "korthikanti", {}), ("primus", "amd-primus", {"framework": "megatron"}),
]


def source_of(row):
    for prefix, table, shared in SOURCES:
        if row["id"].startswith(prefix):
            return table, dict(shared)
    raise LeftOut("no rule for this source")


def precision(row):
    text = row["precision"] or ""
    if " or fp8 (both" in text or "tuned" in text:
        raise LeftOut(f"precision not known: {text}")
    for name in ("nvfp4", "mxfp8", "fp8", "bf16", "fp16"):
        if text.startswith(name):
            return name
    raise LeftOut(f"precision not known: {text or 'none'}")


def fp8_recipe(row):
    """By Megatron's names; delayed scaling is the default of the scenario and of the time."""
    text = row["precision"] or ""
    return "tensorwise" if "current scaling" in text and "not stated" not in text else \
        "blockwise" if "blockwise" in text else None


def setup(row):
    """What a publisher's recipe is for, whatever its release and global batch."""
    keys = ("tp", "pp", "vpp", "cp", "ep", "micro_batch", "seq_len", "num_gpus", "precision")
    return (row["id"].split("-")[0][:2], row["hardware"]["gpu"], row["model"]["name"], *(row[key] for key in keys))


def fill_recompute(rows):
    """Rows of model recipes that do not say what they recompute take it from their like in another release."""
    known = {setup(row): row["recompute"] for row in rows if row["recompute"]}
    for row in rows:
        if row["recompute"] is None and row["model"]["experts"] and setup(row) in known:
            row["recompute"] = known[setup(row)]
            row["recompute_of_other_release"] = True


def recompute(row, notes):
    text = row["recompute"]
    if row.get("recompute_of_other_release"):
        notes.append(OTHER_RELEASE)
    if text is None:
        if row["zero_stage"] == 3:
            raise LeftOut("recompute not published")
        notes.append(UNKNOWN_RECOMPUTE)
        return "none"
    if text.startswith("full (assumed"):
        notes.append("Assumed. Recompute: full, as the authors' simulator configuration has it.")
        return "full"
    if text in ("none", "full", "full (uniform, every layer)"):
        return text.split()[0]
    if text in ("selective (core attention)", "selective modules: core_attn"):
        return "selective"
    block = re.fullmatch(r"full, block method, (\d+) layers per \(virtual\) stage", text)
    if block:
        return {"kind": "full", "layers": int(block.group(1))}
    if text.startswith("selective modules: "):
        return {"kind": "selective", "modules": text.removeprefix("selective modules: ").split("+")}
    if text.startswith("selective op-level") or text == "selective per-op":
        return "every_other_matmul"
    raise LeftOut(f"recompute of single operators: {text}")


def step_seconds(row, notes):
    metrics = row["metrics"]
    if metrics.get("step_seconds"):
        return metrics["step_seconds"]
    tokens = row["seq_len"] * row["global_batch"]
    if metrics.get("tokens_per_s_per_gpu"):
        notes.append("Step time from the published token rate.")
        return tokens / metrics["tokens_per_s_per_gpu"] / row["num_gpus"]
    raise LeftOut("no step time and no token rate")


def model_keys(row, table):
    model = row["model"]
    name = model["name"]
    if table in OWN_SHAPES:
        shape = {key: model[key] for key in ("layers", "hidden", "heads", "kv_heads", "head_dim",
                                             "ffn")}
        shape["name"] = "gpt-{layers}x{hidden}x{heads}".format(**shape)
        return {f"model.{key}": value for key, value in ({"base": OWN_SHAPES[table]} | shape).items()}
    proxy = re.fullmatch(r"(.*) \((\d+)-layer proxy\)", name)
    base = MODELS.get(proxy.group(1) if proxy else name)
    if base is None:
        raise LeftOut(f"model not in the catalogue: {name}")
    if base == "deepseek-v3" and model.get("mtp_layers"):
        base = "deepseek-v3-mtp1"
    if base == "llama3.1-405b" and model["kv_heads"] == 16:
        base = "llama3.1-405b-kv16"
    if base.startswith("mpt") and row["seq_len"] > LEARNED_POSITIONS:
        return {"model": {"base": base, "max_positions": row["seq_len"]}}
    if not proxy:
        return {"model": base}
    return {"model": {"base": base, "name": f"{base}-{proxy.group(2)}-layers",
                      "layers": int(proxy.group(2))}}


def cluster_keys(row, table, notes):
    hardware = row["hardware"]
    gpu = hardware["gpu"]
    if gpu not in SYSTEMS:
        raise LeftOut(f"GPU without a system in the catalogue: {gpu}")
    system = SYSTEMS[gpu]
    keys = {"cluster.system": system}
    if "500 W" in hardware.get("variant", ""):
        keys = {"cluster.system": "grand-teton-h100-500w"}
        notes.append(LESS_POWER)
    gpus, per_node = row["num_gpus"], hardware["gpus_per_node"]
    if "nvl" in row["id"] and gpu == "H200":
        raise LeftOut("GPU without a system in the catalogue: H200 NVL")
    whole = gpus % per_node == 0 and per_node == 8 and "nvl72" not in system
    keys["cluster.nodes" if whole else "cluster.gpus"] = gpus // per_node if whole else gpus
    if "nvl72" in system and gpus > SEGMENT and gpus % SEGMENT == 0:
        keys["cluster.system"] = {"base": system, "nvlink_domain": SEGMENT}
        notes.append(SEGMENTS)
    if table in ("bigscience", "korthikanti", "megatron-lm") and gpus > per_node:
        if gpu.startswith("A100"):
            keys["cluster.fabric.kind"] = "fat_tree"
    return keys


def expert_tensor(row, table, notes):
    if row["etp"]:
        return row["etp"]
    notes.append(WHOLE_EXPERTS if table == "megatron-bridge" else EXPERT_TENSOR)
    return 1 if table == "megatron-bridge" else row["tp"]


def sharding_keys(row):
    """What of the state is sharded, over how many ranks and for how long."""
    sharding = row["overlap"].get("sharding")
    keys = {}
    sharded = row["fsdp"] and row["zero_stage"] != 2 or sharding == "SHARD_GRAD_OP"
    stage = 3 if sharded else row["zero_stage"]
    if stage:
        keys["parallel.zero"] = stage
    if sharding == "SHARD_GRAD_OP":
        keys["parallel.reshard_after_forward"] = "never"
    ranks = row["dp"] * (row["cp"] or 1)
    shard = row["overlap"].get("zero1_group") or row["fsdp"] or ranks
    if stage and shard < ranks:
        keys["parallel.shard"] = shard
    return keys


def parallel_keys(row, table, notes):
    keys = {f"parallel.{key}": row[key] for key in ("tp", "pp", "dp")}
    for key in ("vpp", "cp", "ep"):
        if (row[key] or 1) > 1:
            keys[f"parallel.{key}"] = row[key]
    if row["model"]["experts"] and row["tp"] > 1:
        keys["parallel.etp"] = expert_tensor(row, table, notes)
    keys |= sharding_keys(row)
    if row["overlap"].get("moe_dispatcher") in ("deepep", "hybridep") and keys.get("parallel.ep"):
        keys["parallel.dispatcher"] = "deepep"
    if row["overlap"].get("moe_a2a_overlap") and keys.get("parallel.ep"):
        keys["training.overlap_expert_exchange"] = True
    if row["sequence_parallel"] and row["tp"] > 1:
        keys["parallel.sequence_parallel"] = True
    schedule = row["overlap"].get("pp_schedule")
    known = {None: None, "1F1B": None, "1F1B-I": None, "interleaved": None, "interleaved 1F1B": None,
             "ZB-1p": "zb-h1", "ZB-2p": "zb-h2", "zb-1p": "zb-h1", "zb-2p": "zb-h2"}
    if schedule not in known:
        raise LeftOut(f"schedule {schedule}")
    if known[schedule]:
        keys["training.schedule"] = known[schedule]
    return keys


def split_over_stages(row, keys, notes):
    """Embedding and loss count as layers where only that makes the stages even."""
    chunks = row["pp"] * (row["vpp"] or 1)
    layers = row["model"]["layers"]
    if layers % chunks == 0 or keys.get("parallel.account_loss_in_split"):
        return
    if (layers + 2) % chunks:
        raise LeftOut("layers do not divide over the stages and the split is not published")
    keys["parallel.account_embedding_in_split"] = keys["parallel.account_loss_in_split"] = True
    notes.append("Assumed. Embedding and loss count as a layer each in the split.")


def source_keys(row, table, keys, notes):
    """What depends on the source and on more than it."""
    if table in ("vtrain-single-node", "vtrain-multi-node", "bigscience") and row["dp"] > 1:
        keys["training.overlap_grad_reduce"] = False
        notes.append(NO_OVERLAP)
    if table == "bigscience" and row["dp"] > 1:
        keys["training.overlap_param_gather"] = False
    if table == "bigscience":
        notes.append("Assumed. Dropout: the launch script gives none, so Megatron's default of 0.1 "
                     "holds.")
    if table == "internevo":
        notes.append("Assumed. Gradients are reduced in bf16 and overlap the backward pass, the "
                     "parameter gather does not.")
    if table in ("mosaicml", "fms-fsdp"):
        notes.append(FSDP_GRADIENTS)
    if table == "mosaicml":
        large = "Large Scale" in row["source"]["table"]
        if large and row["model"]["name"] in ("MPT-1b", "MPT-3b", "MPT-7b", "MPT-70b"):
            keys["framework"] = {"preset": "mosaicml", "attention_kernel": "flash2"}
            notes.append(LATER_KERNELS)
        if not large and row["recompute"] == "full":
            keys["framework"] = {"preset": "mosaicml", "recompute_stops_early": False}
            notes.append(WHOLE_RECOMPUTE)
    if table == "torchtitan" and row["overlap"].get("torch_compile"):
        keys["framework"] = COMPILED | (WITH_LOSS if row["framework"]["version"] >= "2025" else {})
    if table == "torchtitan" and row["overlap"].get("async_tp"):
        keys["training.tensor_overlap"] = True
    if table == "fms-fsdp":
        keys["framework"] = dict(COMPILED, preset="fsdp1")
    if keys.get("framework") == "nemo":
        notes.append(BF16_GRADIENTS)
        if "not stated" in (row["hardware"]["network"] or "not stated"):
            notes.append(NETWORK)
        overlap = row["overlap"].get("tp_comm_overlap")
        if overlap is None and row["tp"] > 1 and not row["model"]["experts"]:
            overlap = True
            notes.append(TENSOR_OVERLAP)
        if overlap and keys.get("parallel.sequence_parallel"):
            keys["training.tensor_overlap"] = True
        if re.search("token ?drop[:,]", " ".join(row["notes"])) or row["model"]["name"].startswith("Grok"):
            keys["training.capacity_factor"] = 1


def graph_keys(row, keys, notes):
    """Megatron's own graphs hold whole layers, or the step: the host launches no kernel."""
    if row["overlap"].get("cuda_graph_impl") in ("local", "full_iteration") and row["model"]["experts"]:
        keys["framework"] = {"preset": keys["framework"], "host_per_operator": "0 us", "host_per_expert_product": "0 us"}
        notes.append(GRAPHS)


def tuning_keys(row, table, keys, notes):
    """What is trained, and how long the documents are that samples are packed from."""
    if row["task"] == "pretrain":
        return
    if table == "mlperf":
        notes.append(WHOLE_SAMPLES)
        if row["overlap"].get("fp8_attention"):
            notes.append(WIDE_ATTENTION)
    else:
        keys["training.documents"] = SQUAD
        notes.append(DOCUMENTS)
    if row["task"] == "lora":
        if table not in ADAPTERS:
            raise LeftOut("adapters not published")
        adapters, note = ADAPTERS[table]
        keys["training.lora"] = adapters
        notes.append(note)


def source_text(row):
    source = row["source"]
    place = f"{source.get('repo') or ''} {source['path']}".strip()
    commit = source.get("commit") or ""
    at = f" at {commit.removeprefix('tag ')[:8] if not commit.startswith('tag ') else commit[4:]}" if commit else ""
    return f"{source['title']}: {place}{at}"


def scenario_of(row):
    """Table and dotted keys of a row; LeftOut where it becomes no scenario."""
    table, keys = source_of(row)
    if row["completeness"]["level"] == "partial":
        raise LeftOut("not published: " + ", ".join(row["completeness"]["missing"]))
    if row["overlap"].get("cpu_offloading_num_layers"):
        raise LeftOut("activations offloaded to the host")
    notes = []
    keys = {"name": row["id"], "source": source_text(row)} | model_keys(row, table) | \
        cluster_keys(row, table, notes) | keys | parallel_keys(row, table, notes)
    keys |= {"training.sequence": row["seq_len"], "training.micro_batch": row["micro_batch"],
             "training.global_batch": row["global_batch"], "training.precision": precision(row),
             "training.recompute": recompute(row, notes)}
    if precision(row) == "fp8" and fp8_recipe(row):
        keys["training.fp8_recipe"] = fp8_recipe(row)
    if row["global_batch"] % (row["micro_batch"] * row["dp"]):
        raise LeftOut("the global batch does not divide into the micro-batches")
    micro_batches = row["global_batch"] // (row["micro_batch"] * row["dp"])
    if row.get("grad_accum") not in (None, micro_batches):
        raise LeftOut(f"its columns disagree: {row['grad_accum']} micro-batches, but {micro_batches} by batch and layout")
    source_keys(row, table, keys, notes)
    graph_keys(row, keys, notes)
    tuning_keys(row, table, keys, notes)
    split_over_stages(row, keys, notes)
    keys["expect.step_time.value"] = f"{step_seconds(row, notes):.6g} s"
    keys["expect.step_time.tolerance"] = "12%"
    peak = row["metrics"].get("peak_memory_gib")
    if peak:
        keys["expect.memory_peak"] = {"value": f"{peak} GiB", "tolerance": "5%",
                                      "allow_failure": True}
    keys["assumptions"] = notes
    return "fine-tuning" if row["task"] != "pretrain" else table, keys


def measured_rows(folder):
    rows = []
    for file in sorted(folder.glob("*.json")):
        rows += json.loads(file.read_text(encoding="utf-8"))["rows"]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=pathlib.Path, metavar="DATA")
    parser.add_argument("--renew", default="", metavar="GLOB", help="make rows of such names anew")
    options = parser.parse_args()
    rows = measured_rows(options.data)
    if not rows:
        sys.exit("no rows")
    fill_recompute(rows)
    tables = {file.stem: list(read_table(file)) for file in sorted(PUBLISHED.glob("*.json"))}
    marks = mark(rows, {keys["name"]: keys["mark"] for table in tables.values() for keys in table})
    tables = {name: [keys for keys in table if not fnmatch.fnmatch(keys["name"], options.renew)]
              for name, table in tables.items()}
    kept = {keys["name"] for table in tables.values() for keys in table}
    newest = {}
    for row in rows:
        if newest.get(twin(row)) not in kept:
            newest[twin(row)] = row["id"]
    left_out = []
    for row in rows:
        if row["id"] in kept:
            continue
        try:
            table, keys = scenario_of(row)
            if newest[twin(row)] != row["id"]:
                raise LeftOut(f"the same run as {newest[twin(row)]}")
        except LeftOut as reason:
            left_out.append((row["id"], str(reason)))
            continue
        tables.setdefault(table, []).append(keys | {"mark": marks[row["id"]]})
    for name, table in tables.items():
        if not table:
            (PUBLISHED / f"{name}.json").unlink()
            continue
        write_table(PUBLISHED / f"{name}.json", table)
    with (PUBLISHED / "left_out.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("run", "reason"), *sorted(left_out)])
    print(f"{sum(map(len, tables.values()))} runs, {len(left_out)} left out")


if __name__ == "__main__":
    main()
