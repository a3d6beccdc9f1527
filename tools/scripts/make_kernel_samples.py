#!/usr/bin/env python3
"""Writes calibration/data/kernels/*.csv: samples of published kernel times.

  make_kernel_samples.py DATA [OUT]

DATA holds the tables as they were collected (gemm_aic_GPU.csv, attention_fwd_causal_aic_GPU.csv,
attention_train_cudnn_frontend.csv, moe_fwd_aic_GPU.csv, quantize_aic.csv, ...). Of each GPU, kernel and
data type the rows of the sizes that are fitted are kept, at most as many as stated below, chosen by
a hash of the row. Deterministic: same data, same bytes.
"""
import csv
import hashlib
import pathlib
import sys

AIC = "ai-dynamo/aiconfigurator 095f58a (Apache-2.0)"
CUDNN = "NVIDIA/cudnn-frontend 3929da2 (MIT)"
NEUSIGHT = "sitar-lab/NeuSight 6945927 (MIT)"
AITER = "ROCm/aiter e404860 and ed33d78 (MIT)"
SERVING = "casys-kaist/LLMServingSim 5daddb2 (MIT)"
AIC_GPUS = {"a100_sxm": "a100-sxm", "h100_sxm": "h100-sxm", "h200_sxm": "h200-sxm", "b200_sxm": "b200-sxm",
            "gb200": "gb200", "b300_sxm": "b300-sxm", "gb300": "gb300", "l40s": "l40s"}
CUDNN_GPUS = {"NVIDIA H200": "h200-sxm", "NVIDIA GB200": "gb200", "NVIDIA GB300": "gb300"}


def rows(folder, name):
    path = folder / name
    return list(csv.DictReader(path.open())) if path.exists() else []


def some(lines, most):
    """At most so many, by hash, in the order of the file."""
    chosen = sorted(lines, key=lambda line: hashlib.sha256(line.encode()).digest())[:most]
    keep = set(chosen)
    return [line for line in dict.fromkeys(lines) if line in keep]


def trains(r):
    m, n, k = int(r["m"]), int(r["n"]), int(r["k"])
    return min(m, n, k) >= 512 and 2.0 * m * n * k > 2e10


def gemm_line(gpu, type_, r, quantise, source):
    return f"{gpu},{type_},{r['m']},{r['n']},{r['k']},{quantise},{float(r['time_us']):.5g},{source}"


def gemm(folder):
    out = []
    for key, gpu in AIC_GPUS.items():
        table = [r for r in rows(folder, f"gemm_aic_{key}.csv") if r["framework"].startswith("trtllm") and trains(r)]
        for theirs, ours, quantise, most in (("bfloat16", "bf16", 0, 1500), ("fp8", "fp8", 5, 700),
                                             ("fp8_block", "fp8_blockwise", 3, 400), ("nvfp4", "nvfp4", 2.5625, 400)):
            out += some([gemm_line(gpu, ours, r, quantise, "trtllm") for r in table if r["dtype"] == theirs], most)
    table = [r for r in rows(folder, "gemm_llmservingsim_rtx4090.csv") if trains(r)]
    out += some([gemm_line("rtx4090", "bf16", r, 0, "llmservingsim") for r in table], 600)
    table = [r for r in rows(folder, "gemm_aiter_amd.csv") if trains(r) and r["batch"] in ("", "1")]
    for gpu in ("mi300x", "mi355x"):
        for theirs, ours in (("a8w8_blockscale", "fp8"), ("bfloat16", "bf16")):
            out += some([gemm_line(gpu, ours, r, 0, "aiter") for r in table
                         if r["gpu"] == gpu and r["dtype"] == theirs], 500)
    return ("gpu,type,m,n,k,quantise_bytes,time_us,source", [AIC + ": trtllm", SERVING, AITER], out)


def attention(folder):
    out = []
    for key, gpu in AIC_GPUS.items():
        table = [r for r in rows(folder, f"attention_fwd_causal_aic_{key}.csv")
                 if r["framework"].startswith("sglang") and r["dtype"] == "bfloat16"
                 and int(r["seqlen"]) >= 1024 and int(r["batch_size"]) * int(r["heads"]) >= 32]
        best = {"l40s": "flashinfer", "b200_sxm": "trtllm_mha", "gb200": "trtllm_mha"}.get(key)
        for dim in ("64", "128", "256"):
            if dim == "128" and gpu in CUDNN_GPUS.values():
                continue  # the training kernels below
            lines = {}
            for r in table:
                if r["head_dim"] == dim and (best is None or r["kernel"] == best):
                    line = (f"{gpu},forward,1,{r['batch_size']},{r['heads']},{r['seqlen']},{r['seqlen']},{dim},{dim},"
                            f"{float(r['time_us']):.5g},{r['kernel']}")
                    # Keys and values in 16 bits, read and written to the paged cache.
                    elements = 2 * int(r["batch_size"]) * int(r["seqlen"]) * int(r["kv_heads"]) * int(dim)
                    lines.setdefault(line, 2 * 2 * elements)
            out += [f"{line},{lines[line]}" for line in some(list(lines), 500)]
    for r in rows(folder, "attention_train_cudnn_frontend.csv"):
        gpu = CUDNN_GPUS.get(r["gpu"])
        # The other models stay out of every fit; at other head sizes there are five rows.
        if (gpu and r["dtype"] == "bfloat16" and r["deterministic_bwd"] == "False" and r["dim_qk"] == "128"
                and r["model"] in ("llama3.1", "ltx2", "wan22_a14b")):
            causal = int(r["mask"] != "no_mask")
            line = (f"{gpu},{'forward' if r['pass'] == 'fwd' else 'backward'},{causal},{r['batch']},{r['heads']},"
                    f"{r['seq_q']},{r['seq_kv']},{r['dim_qk']},{r['dim_v']},{float(r['time_us']):.5g},cudnn,0")
            out.append(line)
    return ("gpu,pass,causal,batch,heads,seq_q,seq_kv,dim_qk,dim_v,time_us,source,cache_bytes",
            [AIC + ": flash_attention, fa3, trtllm_mha, flashinfer (SGLang)", CUDNN + ": cudnn"], out)


def memory(folder):
    out = []

    def add(gpu, op, r, source):
        moved = float(r["gbps"]) * float(r["time_us"]) * 1e3
        if moved >= 150e6:
            out.append(f"{gpu},{op},{moved:.6g},{float(r['time_us']):.5g},{source}")
    for r in rows(folder, "quantize_aic.csv"):
        wanted = "vllm" if "b200" in r["gpu"] else "trtllm"  # the faster of two kernels on Blackwell
        if r["op"] == "scale_matrix" and r["framework"].startswith(wanted):
            add(AIC_GPUS[r["gpu"]], "elementwise", r, wanted)
    # The memory of the SXM parts. Norms and softmax are left out: eager kernels of many launches.
    neusight = {"NVIDIA A100-PCIE-40GB": "a100-sxm-40gb", "Tesla V100-PCIE-32GB": "v100-sxm-32gb"}
    for r in rows(folder, "memops_neusight_fp32.csv"):
        if r["gpu"] in neusight and r["op"] in ("add", "mul", "relu"):
            add(neusight[r["gpu"]], "elementwise", r, "neusight")
    return ("gpu,op,moved_bytes,time_us,source",
            [AIC + ": trtllm, vllm (fp8 casts)", NEUSIGHT + ": neusight (fp32; PCIe cards)"],
            list(dict.fromkeys(out)))


def experts(folder):
    out = []
    for key, gpu in AIC_GPUS.items():
        for theirs, ours in (("bfloat16", "bf16"), ("fp8", "fp8"), ("nvfp4", "nvfp4")):
            lines = [f"{gpu},{ours},{r['num_tokens']},{r['hidden_size']},{r['inter_size']},{r['topk']},"
                     f"{r['num_experts']},{r['moe_tp']},{r['moe_ep']},{float(r['time_us']):.5g},trtllm"
                     for r in rows(folder, f"moe_fwd_aic_{key}.csv")
                     if r["framework"].startswith("trtllm") and r["distribution"] == "balanced"
                     and r["dtype"] == theirs and int(r["num_tokens"]) >= 1024 and int(r["moe_ep"]) <= 8]
            out += some(lines, 400)
    return ("gpu,type,tokens,hidden,inner,topk,experts,tp,ep,time_us,source",
            [AIC + ": trtllm (CUTLASS), even loads, EP up to 8"], out)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    root = pathlib.Path(__file__).resolve().parents[2]
    folder = pathlib.Path(sys.argv[1])
    out = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else root / "calibration/data/kernels"
    for name, table in (("gemm", gemm), ("attention", attention), ("memory", memory), ("experts", experts)):
        header, sources, lines = table(folder)
        text = "".join(f"# {s}\n" for s in ["Times as published, written by tools/scripts/make_kernel_samples.py"] + sources)
        (out / f"{name}.csv").write_text(text + header + "\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
