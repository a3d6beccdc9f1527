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
from published_sources import (ADAPTERS, BF16_GRADIENTS, COMPILED, DOCUMENTS, EXAMPLE_SCRIPT, EXPERT_TENSOR,
                               FSDP_GRADIENTS, GRAPHS, LATER_KERNELS, LESS_POWER, MEGATRON_FSDP, MEGATRON_FSDP_RULES, MODELS, NARROW_ACTIVATION,
                               NARROW_ATTENTION, NETWORK, NO_OVERLAP, OTHER_RELEASE, OWN_SHAPES, SOURCES, SQUAD, SYSTEMS,
                               TENSOR_OVERLAP, UNKNOWN_RECOMPUTE, WHOLE_EXPERTS, WHOLE_RECOMPUTE, WHOLE_SAMPLES, WIDE_GATHER, WITH_LOSS,
                               keeps_narrow_activation)
from published_tables import read_table, write_table

ROOT = pathlib.Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "scenarios/published"
SEGMENT = 64  # GPUs of an NVL72 rack that a job of several racks takes
SEGMENTS = ("Assumed. Racks: 16 of 18 trays each, as the scheduler's segments of 64 GPUs place jobs whose "
            "size is a multiple of 64 and not of 72.")
LEARNED_POSITIONS = 2048  # of the MPT models unless the run asks for more


class LeftOut(Exception):
    """Why a row becomes no scenario."""


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
    if table == "torchtitan" and "rowwise" in row["precision"] and row["tp"] > 1:
        keys["training.tensor_dtype"] = "bf16"
        notes.append(WIDE_GATHER)
    if table == "megatron-lm" and precision(row) == "fp8":
        keys["training.fp8_param_gather"] = True
        keys["training.gradient_dtype"] = "bf16"
        notes.append(EXAMPLE_SCRIPT)
    if table == "fms-fsdp":
        keys["framework"] = dict(COMPILED, preset="fsdp1")
    if keys.get("framework") in ("nemo", "megatron-bridge"):
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
        if row["zero_stage"] == 3 and table == "megatron-bridge":
            keys["framework"] = MEGATRON_FSDP
            notes.append(MEGATRON_FSDP_RULES)
        elif row["zero_stage"] == 3:
            keys["framework"] = "megatron-fsdp"
    if row["overlap"].get("cpu_offloading_num_layers"):
        keys["training.offload.activations.layers"] = row["overlap"]["cpu_offloading_num_layers"]


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
            keys["training.attention_dtype"] = "fp8"
            notes.append(NARROW_ATTENTION)
        if keeps_narrow_activation(row):
            keys["training.kept_mlp_dtype"] = "fp8"
            notes.append(NARROW_ACTIVATION)
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
