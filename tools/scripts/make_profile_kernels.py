"""The kernel part of a profile, from fits.json: GEMM, attention, memory-bound kernels. For make_profile.py."""

from profile_text import provenance

AIC = "ai-dynamo/aiconfigurator 095f58a"


def gemm_json(data, key, dtype):
    row = data.fits["suggested_profiles"][key].get("gemm_" + dtype)
    if not row:
        return None
    p = row.get("params", row)
    test = row.get("test") or {"median": row["test_median_pct"], "p90": row["test_p90_pct"]}
    out = {"eff_inf": p["eff_inf"], "eff_bw": p["eff_bw"], "t0": f"{p['t0_us']} us", "k0": p["k0"],
           "c_tile": p["c_tile"], "q_wave": p["q_wave"], "p": p["p"]}
    if "eff_quant_bw" in p:
        out["quantise"] = {"efficiency": p["eff_quant_bw"], "traffic": "5 B"}
    out.update(provenance("fitted", f"{AIC}, {key}, TensorRT-LLM collector, m, n, k >= 512 and more "
                          "than 2e10 flop; CUDA graph, short runs; tile-and-wave fit, errors on rows "
                          "that were not fitted", (test["median"] / 100, test["p90"] / 100)))
    return out


def attention_row(head_dim, direction, p, evidence, source, errors=None, scale=1.0):
    return {"head_dim": head_dim, "pass": direction, "eff_inf": round(p["eff_inf"] / scale, 4),
            "s0": round(p["s0"], 1), "t0": f"{p['t0_us']:.4g} us",
            **provenance(evidence, source, errors)}


# Kernels older than the GPU's newest: kernel, head size, pass, eff_inf, s0, t0 in us (as the newest's),
# evidence and source, errors of fits to the bars of the figures.
FA1 = ("arXiv 2307.08691, section 1: FlashAttention reaches 30 to 50 %% of A100's peak forward, 25 to 35 %% "
       "backward; the least is taken at 512 keys%s")
FA2 = "arXiv 2407.08608, figures 5 and 6: FlashAttention-2 on H100 SXM5, head size %s, 512 to 16384 tokens"
AS_FA2 = "; carried to Hopper by what FlashAttention-2 gains there, 1.69 times forward, 1.78 times backward"
AMPERE = [("flash1", 128, "forward", 0.50, 341, 62.87, "assumed", FA1 % "", None),
          ("flash1", 128, "backward", 0.35, 205, 176, "assumed", FA1 % "", None)]
HOPPER = [("flash1", 128, "forward", 0.2667, 341, 14.88, "assumed", FA1 % AS_FA2, None),
          ("flash1", 128, "backward", 0.1962, 205, 31.74, "assumed", FA1 % AS_FA2, None),
          ("flash2", 64, "forward", 0.331, 80, 15.57, "fitted", FA2 % "64", (0.007, 0.009)),
          ("flash2", 64, "backward", 0.3, 256, 46.71, "fitted", FA2 % "64", (0.001, 0.002)),
          ("flash2", 128, "forward", 0.355, 204, 14.88, "fitted", FA2 % "128, causal", (0.023, 0.034)),
          ("flash2", 128, "backward", 0.333, 276, 31.74, "fitted", FA2 % "128", (0.002, 0.006))]
OLDER = {"a100_sxm": AMPERE, "h100_sxm": HOPPER, "h200_sxm": HOPPER}


def older_attention(key):
    return [{"head_dim": head_dim, "pass": direction, "kernel": kernel, "eff_inf": eff_inf, "s0": s0,
             "t0": f"{t0} us", **provenance(evidence, source, errors)}
            for kernel, head_dim, direction, eff_inf, s0, t0, evidence, source, errors in OLDER.get(key, [])]


def attention_json(data, key):
    fits = data.fits
    forward = {}
    for d in (64, 128, 256):
        for name, fit in fits["attention_forward"].items():
            if f"|{key}|sglang" in name and f"|bfloat16|d{d}|" in name and "b*h" in name:
                forward[d] = fit["saturating"]
    rows = []
    cudnn = {"h100_sxm": "NVIDIA H200", "h800_sxm": "NVIDIA H200", "h200_sxm": "NVIDIA H200",
             "b200_sxm": "NVIDIA GB200", "gb200": "NVIDIA GB200"}.get(key)
    for d, fit in forward.items():
        # These fits count the whole length of causal rows; the profile counts the keys seen.
        p, test = dict(fit["params"], s0=fit["params"]["s0"] / 2), fit["test"]
        source = f"{AIC}, {key}, SGLang prefill (FA2 on A100, FA3 on Hopper), causal, length >= 1024"
        if cudnn and d == 128:
            break_down = fits["attention_train_cudnn"]
            for direction, short in (("forward", "fwd"), ("backward", "bwd")):
                row = break_down[f"cudnn_frontend|{cudnn}|bfloat16|{short}|d128"]["saturating"]
                same = cudnn.split()[1].lower() in key
                rows.append(attention_row(
                    d, direction, row["params"], "fitted" if same or key == "h100_sxm" else "assumed",
                    f"NVIDIA/cudnn-frontend 3929da2, cuDNN fused attention on {cudnn} (training "
                    "kernels; error in sample)" + ("" if same else ", carried over by peak"),
                    [row["in_sample"][e] / 100 for e in ("median", "p90")]))
            continue
        rows.append(attention_row(d, "forward", p, "fitted", source,
                                  (test["median"] / 100, test["p90"] / 100)))
        ratio, why = (3.0, "3.0 times forward as cuDNN on H200") if cudnn else (
            2.8, "2.8 times forward: FA2 shows 2.6 to 3.2 elsewhere")
        slow = dict(p, t0_us=p["t0_us"] * ratio)
        rows.append(attention_row(d, "backward", slow, "assumed", f"time {why}; forward: {source}",
                                  scale=ratio / 2.5))
    return rows + older_attention(key)


def memory_json(data, key):
    best = data.fits["suggested_profiles"].get(key, {}).get("hbm_eff", 0.91)
    ampere = key.startswith("a100")
    norm = data.fits["memory_bound"]["cudnn_frontend_norm|NVIDIA H200|cudnn|fwd"]["bw_plus_t0"]
    back = data.fits["memory_bound"]["cudnn_frontend_norm|NVIDIA H200|cudnn|bwd"]["bw_plus_t0"]
    carried = "fitted" if key == "h200_sxm" else "assumed"

    def row(efficiency, t0, evidence, source, errors=None):
        return {"efficiency": round(efficiency, 4), "t0": f"{t0:.4g} us",
                **provenance(evidence, source, errors)}
    cudnn = "NVIDIA/cudnn-frontend 3929da2, RMSNorm %s on H200"
    return {
        "elementwise": row(best, 2.5, "fitted", "reached share of HBM by copies and casts (NeuSight "
                           "fp32 on A100, aiconfigurator fp8 casts on Hopper and Blackwell); t0 inside "
                           "a CUDA graph", (0.01, 0.05)),
        "norm_forward": row(norm["params"]["eff_bw"], norm["params"]["t0_us"], carried,
                            cudnn % "forward", (norm["test"]["median"] / 100, norm["test"]["p90"] / 100)),
        "norm_backward": row(back["params"]["eff_bw"], back["params"]["t0_us"], carried,
                             cudnn % "backward", (back["test"]["median"] / 100, back["test"]["p90"] / 100)),
        "rotary": row(0.8, 2.5, "fitted" if ampere else "assumed", "linkedin/Liger-Kernel ead96b6, RoPE "
                      "forward on A100: 671 MB in 411 us"),
        "softmax": row(0.78, 5, "fitted" if ampere else "assumed", "NeuSight 6945927, fp32 softmax on "
                       "A100 80GB PCIe: 0.78 of bandwidth; start-up taken lower than its 32 us"),
        "embedding": row(0.305, 5, "fitted" if ampere else "assumed", "linkedin/Liger-Kernel ead96b6, "
                         "torch embedding forward on A100: 537 MB in 863 us"),
        "optimizer": row(0.85, 5, "assumed", "pytorch issue 119842, fused Adam on a 500 W H100 with "
                         "HBM2e: 2.1 TB/s"),
        "permute": row(0.6, 5, "assumed", "no table: between gather (0.3) and copy (0.9)"),
        "quantise": row(0.73, 0, "fitted" if key == "b200_sxm" else "assumed", "pytorch/ao 36027d8, mxfp8 casts "
                        "along and across rows on B200: 5.40 to 6.46 TB/s of 8") if "b200" in key else
                    row(0.83, 0, "fitted" if key == "h100_sxm" else "assumed", "pytorch/ao 36027d8, 1 x 128 and "
                        "128 x 128 casts of 0.4 to 1.6 GB on H100: 2.70 to 2.90 TB/s of 3.35"),
    }
