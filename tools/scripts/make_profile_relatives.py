#!/usr/bin/env python3
"""Writes calibration/profiles/*.json of GPUs without network tables of their own, after make_profile.py.

  make_profile_relatives.py FLOPCAST [OUT]

Each starts from the profile of its nearest relative: peaks, SMs and bandwidth from the catalogue,
shares of them, start-up times and network carried over and tagged assumed. What published numbers
say stands in OVERRIDES, each with its source. Then `FLOPCAST calibrate` fits the kernels of which
calibration/data/kernels/ has samples. Deterministic.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

from make_profile import LEVELS, level_json, share_json
from profile_text import provenance, text

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "calibration/data/kernels"
DATE = "2026-11-29"

# GPU: relative, whether reductions in the switch stay, and what is different about it.
RELATIVES = {
    "v100-sxm-16gb": ("a100-sxm", False, "NVIDIA V100 SXM2 16 GB"),
    "v100-sxm-32gb": ("a100-sxm", False, "NVIDIA V100 SXM2 32 GB"),
    "h100-sxm-500w": ("h100-sxm", True, "NVIDIA H100 SXM5 96 GB HBM2e, limited to 500 W"),
    "h20-sxm": ("h100-sxm", True, "NVIDIA H20 SXM: kernels of H100 on fewer SMs, at full clocks"),
    "b300-sxm": ("b200-sxm", True, "NVIDIA B300 SXM"),
    "gb300": ("gb200", True, "NVIDIA GB300, one GPU of a rack"),
    "l40s": ("a100-sxm", False, "NVIDIA L40S on PCIe"),
    "rtx4090": ("a100-sxm", False, "NVIDIA GeForce RTX 4090 on PCIe"),
    "mi300x": ("a100-sxm", False, "AMD Instinct MI300X"),
    "mi325x": ("mi300x", False, "AMD Instinct MI325X: shares of MI300X"),
    "mi355x": ("mi300x", False, "AMD Instinct MI355X"),
}

SAME_CHIP = {"h100-sxm-500w"}  # keep the relative's older attention kernels too

# Profiles of make_profile.py of which a kind of kernels is fitted anew: better on rows held back.
REFITTED = {"h200-sxm": ("memory",), "gb200": ("gemm", "memory")}
KINDS = ("gemm", "attention", "memory")
# Types whose curves make_profile.py does not know, or not with the casts that their tables have in them.
BLOCKS = {"h100-sxm": ("fp8_blockwise",), "h200-sxm": ("fp8_blockwise",), "b200-sxm": ("fp8_blockwise", "nvfp4"),
          "gb200": ("fp8_blockwise",)}
# Of which attention at this head size is fitted with the copy into the cache that its tables have in them.
CACHED = {"h200-sxm": 256, "b200-sxm": 256, "gb200": 256}
TAKEN_OVER = {"h800-sxm": "h100-sxm"}

# Of which samples a fit takes its words.
SOURCES = {
    "trtllm": "ai-dynamo/aiconfigurator 095f58a, TensorRT-LLM collector; CUDA graph, short runs",
    "vllm": "ai-dynamo/aiconfigurator 095f58a, vLLM collector (fp8 casts)",
    "flashinfer": "ai-dynamo/aiconfigurator 095f58a, SGLang prefill, FlashInfer",
    "fa3": "ai-dynamo/aiconfigurator 095f58a, SGLang prefill, FlashAttention-3",
    "trtllm_mha": "ai-dynamo/aiconfigurator 095f58a, SGLang prefill, TensorRT-LLM's kernels",
    "cudnn": "NVIDIA/cudnn-frontend 3929da2, cuDNN fused attention (training kernels)",
    "neusight": "sitar-lab/NeuSight 6945927, fp32, PCIe card with the same memory",
    "llmservingsim": "casys-kaist/LLMServingSim 5daddb2, Llama-3.1-8B layers, m to 2048",
    "aiter": "ROCm/aiter e404860 and ed33d78, best of its tuned kernels",
}


def gemm(eff_inf, eff_bw, t0, k0=0.0, c_tile=0.0, q_wave=0.0, p=12, evidence="assumed", source="", errors=None):
    return {"eff_inf": eff_inf, "eff_bw": eff_bw, "t0": f"{t0} us", "k0": k0, "c_tile": c_tile, "q_wave": q_wave,
            "p": p, **provenance(evidence, source, errors)}


def attention(direction, eff_inf, source, s0=222.0, t0=10.0, head_dim=128):
    return {"head_dim": head_dim, "pass": direction, "eff_inf": eff_inf, "s0": s0, "t0": f"{t0} us",
            **provenance("assumed", source)}


def memory(efficiency, source, evidence="assumed"):
    return {"efficiency": efficiency, "t0": "2.5 us", **provenance(evidence, source)}


def volta(profile):
    profile["gemm"] = {"fp16": gemm(
        0.947, 0.8505, 3.6449, 295.5224, 8.9549, 0.6138, 2.7873, "fitted",
        "baidu-research/DeepBench da81ba7, V100, fp16, more than 1e9 flop; tile-and-wave fit, errors on rows "
        "that were not fitted", (0.046, 0.305))}
    profile["gemm"]["bf16"] = dict(profile["gemm"]["fp16"], evidence="assumed",
                                   source="as fp16; V100 has no bf16: read where a curve is borrowed")


def h100_500w(profile):
    # At the power limit P ~ f V^2 and V ~ f: clocks go with the cube root of power.
    level = LEVELS["h100-sxm"] * (500 / 700) ** (1 / 3)
    profile["level"] = {"value": round(level, 3), **provenance(
        "assumed", "that of h100-sxm by the cube root of 500 W over 700 W: dynamic power is as clock times the "
        "square of voltage, which goes with the clock")}


def h20(profile):
    best = ("zzc0721/torch-performance-test-data 9d82827: best square 142 of 148 TFLOP/s; the other parameters of "
            "H100's fit")
    for curve in profile["gemm"].values():
        curve.update({"eff_inf": 0.96, **provenance("assumed", best)})
    fa3 = "Dao-AILab/flash-attention issue 1310: FA3 forward reaches 0.73 of peak at 2048 tokens, causal"
    for curve in profile["attention"]:
        if curve["pass"] == "forward" and curve["head_dim"] == 128:
            # 0.73 is what 1024 visible keys reach: eff_inf = 0.73 (1 + s0 / 1024).
            curve.update({"eff_inf": round(0.73 * (1 + curve["s0"] / 1024), 4), **provenance("assumed", fa3)})


def ada(profile):
    profile["memory"]["elementwise"] = memory(
        0.93, "te42kyfo/gpu-benches 1c36d50: STREAM triad 803 of 864 GB/s on L40, the same generation")


def l40s(profile):
    ada(profile)
    profile["l2"] = {"size": "96 MiB", "bandwidth": "5290 GB/s", **provenance(
        "fitted", "size: NVIDIA Ada GPU architecture whitepaper, AD102; bandwidth: median of 66 fp8 casts that move "
        "50 to 90 MB, ai-dynamo/aiconfigurator 095f58a")}
    # Where the fits start, and which parts of the form they have.
    start = dict(profile["gemm"]["bf16"], clock={"sag": 0.3, "settle": "2000 us"})
    profile["gemm"] = {"bf16": start, "fp8": start, "fp8_blockwise": dict(start, rereads_a=True)}


def rtx4090(profile):
    ada(profile)
    leet = "xlite-dev/LeetCUDA cb6a049: FA2 forward 145 to 163 of 165 TFLOP/s at 8192 tokens, head size 64"
    profile["attention"] = [attention("forward", 0.93, leet),
                            attention("backward", 0.83, leet + "; backward 2.8 times forward as FA2 elsewhere")]


def cdna(profile):
    best = ("stas00/ml-engineering 744d01e: best shapes reach 0.51 to 0.60 of peak; tile, wave and bandwidth "
            "parameters of the fp8 fit to ROCm/aiter's tables")
    profile["gemm"] = {"bf16": gemm(0.55, 0.2663, 4.1, 0, 39.2, 0.17, 2.05, source=best)}
    flash = "Dao-AILab/flash-attention threads, CK kernels on ROCm 6.3, head size 128, 16384 tokens: "
    profile["attention"] = [attention("forward", 0.26, flash + "0.24 to 0.27 of peak"),
                            attention("backward", 0.155, flash + "0.15 to 0.16 of peak")]
    profile["memory"]["elementwise"] = memory(
        0.8, "te42kyfo/gpu-benches 1c36d50: STREAM triad 1305 of 1638 GB/s on MI210, the same maker")


OVERRIDES = {"h100-sxm-500w": h100_500w, "v100-sxm-16gb": volta, "v100-sxm-32gb": volta, "h20-sxm": h20,
             "l40s": l40s, "rtx4090": rtx4090, "mi300x": cdna, "mi355x": cdna}


def assumed(value, relative):
    """Everything of a relative is assumed here; the source says whose it is."""
    if isinstance(value, list):
        return [assumed(v, relative) for v in value]
    if not isinstance(value, dict):
        return value
    out = {k: assumed(v, relative) for k, v in value.items() if k not in ("median_error", "p90_error")}
    if "evidence" in out:
        out["evidence"] = "assumed"
        if not out["source"].startswith("carried over from"):
            out["source"] = f"carried over from {relative}: {out['source']}"
    return out


def relative_profile(out, name, gpu):
    relative, switch, note = RELATIVES[name]
    profile = assumed(json.loads((out / f"{relative}.json").read_text()), relative)
    profile.update(name=name, gpu=name, date=DATE, description=f"{note}; what has no table of its own as {relative}",
                   peak_dense=gpu["peak_dense"], sms=gpu["sms"], memory_bandwidth=gpu["memory_bandwidth"], curves=[])
    profile["level"] = {"value": 1, **provenance("assumed", "no training run of this GPU is among scenarios/published/")}
    if name in LEVELS:
        profile["level"] = level_json(name)
    profile["gemm"] = {t: c for t, c in profile["gemm"].items() if t.removesuffix("_blockwise") in gpu["peak_dense"]}
    if name not in SAME_CHIP:
        profile["attention"] = [curve for curve in profile["attention"] if "kernel" not in curve]
    profile["network"]["compute_share"] = share_json(gpu["sms"])
    if not switch:
        profile["network"].pop("switch_reduction", None)
    OVERRIDES.get(name, lambda _: None)(profile)
    return profile


def sampled(name):
    rows = [line for f in SAMPLES.glob("*.csv") for line in f.read_text().splitlines()]
    return any(line.startswith(name + ",") for line in rows)


def in_words(value):
    """The tags of the samples' source columns, written out."""
    if isinstance(value, list):
        return [in_words(v) for v in value]
    if not isinstance(value, dict):
        return value
    out = {k: in_words(v) for k, v in value.items()}
    tags, end, rest = str(out.get("source", "")).partition("; ")
    if end and all(t in SOURCES for t in tags.split(", ")):
        out["source"] = " and ".join(SOURCES[t] for t in tags.split(", ")) + "; " + rest
    return out


def fitted(flopcast, name, profile, kinds=KINDS):
    with tempfile.TemporaryDirectory() as folder:
        base, out = pathlib.Path(folder) / "base.json", pathlib.Path(folder) / f"{name}.json"
        base.write_text(text(profile))
        for kind in kinds:  # one by one: each fit then names its own source
            rows = (SAMPLES / f"{kind}.csv").read_text().splitlines()
            if not any(row.startswith(name + ",") for row in rows):
                continue
            subprocess.run([flopcast, "calibrate", "--from", SAMPLES / f"{kind}.csv", "--where", f"gpu={name}",
                            "--base", base, "-o", out], check=True, stdout=subprocess.DEVNULL)
            base.write_text(out.read_text())
        fresh = json.loads(base.read_text())
    fresh["name"] = name
    fresh["level"] = profile["level"]
    return in_words(fresh)


def add_blocks(flopcast, out):
    rows = SAMPLES / "gemm.csv"
    for name, types in BLOCKS.items():
        file = out / f"{name}.json"
        profile = json.loads(file.read_text())
        for kind in types:
            with tempfile.TemporaryDirectory() as folder:
                fresh = pathlib.Path(folder) / "fresh.json"
                subprocess.run([flopcast, "calibrate", "--from", rows, "--where", f"gpu={name}", "--where",
                                f"type={kind}", "--base", file, "-o", fresh], check=True, stdout=subprocess.DEVNULL)
                profile["gemm"][kind] = in_words(json.loads(fresh.read_text())["gemm"][kind])
        file.write_text(text(profile) + "\n")
    for name, relative in TAKEN_OVER.items():
        file = out / f"{name}.json"
        profile = json.loads(file.read_text())
        known = json.loads((out / f"{relative}.json").read_text())["gemm"]["fp8_blockwise"]
        profile["gemm"]["fp8_blockwise"] = {k: v for k, v in known.items() if k not in ("median_error", "p90_error")} | {
            "evidence": "assumed"}
        file.write_text(text(profile) + "\n")


def add_cached(flopcast, out):
    for name, head_dim in CACHED.items():
        file = out / f"{name}.json"
        profile = json.loads(file.read_text())
        with tempfile.TemporaryDirectory() as folder:
            fresh = pathlib.Path(folder) / "fresh.json"
            subprocess.run([flopcast, "calibrate", "--from", SAMPLES / "attention.csv", "--where", f"gpu={name}",
                            "--where", f"dim_qk={head_dim}", "--base", file, "-o", fresh], check=True,
                           stdout=subprocess.DEVNULL)
            curves = in_words(json.loads(fresh.read_text())["attention"])
        forward = next(c for c in curves if (c["head_dim"], c["pass"]) == (head_dim, "forward"))
        # As make_profile_kernels.py derives it: 3.0 times forward, 2.5 times its work.
        t0 = float(forward["t0"].split()[0])
        backward = {"head_dim": head_dim, "pass": "backward", "eff_inf": round(forward["eff_inf"] * 2.5 / 3.0, 4),
                    "s0": forward["s0"], "t0": f"{3.0 * t0:.4g} us", **provenance(
                        "assumed", f"time 3.0 times forward as cuDNN on H200; forward: {forward['source']}")}
        fitted_ones = {"forward": forward, "backward": backward}
        profile["attention"] = [fitted_ones[c["pass"]] if c["head_dim"] == head_dim and "kernel" not in c else c
                                for c in profile["attention"]]
        file.write_text(text(profile) + "\n")


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else ROOT / "calibration/profiles"
    gpus = {g["name"]: g for g in json.loads((ROOT / "scenarios/catalogue/gpus.json").read_text())["gpus"]}
    for name, kinds in REFITTED.items():
        file = out / f"{name}.json"
        file.write_text(text(fitted(sys.argv[1], name, json.loads(file.read_text()), kinds)) + "\n")
    add_blocks(sys.argv[1], out)
    add_cached(sys.argv[1], out)
    for name in RELATIVES:  # MI300X before those that start from it
        profile = relative_profile(out, name, gpus[name])
        (out / f"{name}.json").write_text(text(fitted(sys.argv[1], name, profile) if sampled(name) else profile) + "\n")


if __name__ == "__main__":
    main()
