#!/usr/bin/env python3
"""Writes calibration/profiles/*.json from published measurements.

  make_profile.py DATA [OUT]

DATA holds kernels/{fits,catalog}.json (GEMM and attention parameters per GPU with their errors on
rows that were not fitted) and collectives/{index.json,logs/*.txt} (nccl-tests output). Kernel
parameters are taken as fitted there; the network model is fitted here (make_profile_network.py).
Deterministic: same data, same bytes. Prints the errors on fitted and held-out tables.
"""
import copy
import json
import math
import pathlib
import sys

import make_profile_network as net
from make_profile_kernels import AIC, attention_json, gemm_json, memory_json
from profile_text import provenance, text

DATE = "2026-11-29"
KIND = {"ar": "all_reduce", "ag": "all_gather", "rs": "reduce_scatter", "a2a": "all_to_all",
        "sr": "send_recv"}
FIELDS = ("base", "hop", "efficiency", "ramp")
NVLINK = {"a100": 300, "h100": 450, "h200": 450, "b200": 900, "gb200": 900}  # GB/s, one direction

# Start of the fits and what stays where no data is: NCCL 2.30.7, src/graph/tuning.cc, LL latencies.
START = {
    "hardness": 4,
    "domain": dict(base=6.6, hop=0.6, efficiency=0.8, ramp=1),
    "network": dict(base=6.6, hop=2.7, efficiency=0.95, ramp=1),
    "tree": dict(base=6.8, hop=5.0, efficiency=0.9, ramp=1),
    "direct": dict(base=6.6, hop=0.3, efficiency=0.8, ramp=1),
    "direct_network": dict(base=15, hop=1.0, efficiency=0.9, ramp=1),
    "pair": dict(base=6.6, hop=0, efficiency=0.8, ramp=1),
    "pair_network": dict(base=12, hop=0, efficiency=0.5, ramp=1),
}
SWITCH = {
    "switch_domain": dict(base=20, hop=0, efficiency=0.6, ramp=1),
    "switch_tree": dict(base=25, hop=10, efficiency=0.9, ramp=1),
}


class Data:
    def __init__(self, folder):
        self.fits = json.loads((folder / "kernels/fits.json").read_text())
        self.gpus = json.loads((folder / "kernels/catalog.json").read_text())["gpus"]
        self.collectives = folder / "collectives"
        self.index = {e["id"]: e for e in
                      json.loads((self.collectives / "index.json").read_text())["tables"]}

    def table(self, name, g, nodes, network=0, smallest=1024):
        """One nccl-tests table: out-of-place time. `network` is GB/s of one node."""
        entry = self.index[name]
        assert entry["state"] == "healthy", name
        rows = []
        for line in (self.collectives / f"logs/{name}.txt").read_text().splitlines():
            words = line.split()
            if line.startswith("#") or len(words) < 6:
                continue
            numbers = words[4 if len(words) == 12 else 5:]  # Echo's logs have no root column
            if int(words[0]) >= smallest:
                rows.append((int(words[0]), float(numbers[0])))
        domain = NVLINK[name.split("_")[0].split("-")[0]]
        return dict(name=name, kind=KIND[name.split("_")[1]], g=g, nodes=nodes, rows=rows,
                    domain=domain * net.GB_PER_S, network=network * net.GB_PER_S,
                    source=entry["source"])

    def aic(self, gpu, version, kinds, counts):
        names = [(f"{gpu}_{k}_{n}gpu_aic-{version}", n) for k in kinds for n in counts]
        return [self.table(name, n, 1, smallest=512) for name, n in names if name in self.index]


def report(label, model, tables):
    for t in tables:
        all_rows = net.median_p90(net.errors(model, [t]))
        large = net.median_p90(net.errors(model, [t], 2 ** 24))
        print(f"  {label:9s} {t['name']:50s} median {100 * all_rows[0]:5.1f} % p90 "
              f"{100 * all_rows[1]:5.1f} %   from 16 MB {100 * large[0]:5.1f} / {100 * large[1]:5.1f}")


def fit_domain(data, gpu, version, held_out):
    counts = (2, 4) if gpu == "gb200" else (2, 4, 8)
    model = copy.deepcopy(START)
    free = [("domain", f) for f in FIELDS]
    if gpu != "a100-sxm":
        model.update(copy.deepcopy(SWITCH))
        free += [("switch_domain", f) for f in ("base", "efficiency", "ramp")]
    # Two GPUs use other channels and have their curves; the ring model serves the larger groups.
    rings = data.aic(gpu, version, ("ar", "ag", "rs"), counts[-2:])
    direct = data.aic(gpu, version, ("a2a",), counts)
    net.fit(model, rings, free)
    net.fit(model, direct, [("direct", f) for f in FIELDS])
    print(gpu)
    report("fit", model, rings + direct)
    tests = [data.table(*t) for t in held_out]
    report("held out", model, tests)
    source = (f"nccl-tests tables of {AIC}, NCCL {version}, {counts[-2]} and {counts[-1]} GPUs of one "
              "node, all-reduce, all-gather and reduce-scatter; fit by make_profile.py")
    fitted = net.median_p90(net.errors(model, tests or rings))
    where = {"domain": provenance("fitted", source, fitted),
             "direct": provenance("fitted", source.replace(
                 "all-reduce, all-gather and reduce-scatter", "all-to-all"),
                 net.median_p90(net.errors(model, direct)))}
    where["switch_domain"] = where["domain"]
    return model, where


def fit_network(data, model):
    """H100 tables over NDR400 InfiniBand and 200G InfiniBand; errors on other shapes and nodes."""
    cl01 = [data.table(f"h100-sxm_{k}_{10 * g}gpu_10n_cl01", g, 10, 50 * g)
            for k in ("ar", "ag", "rs") for g in (1, 2)]
    fit = cl01 + [data.table("h100-sxm_ar_16gpu_2n_ndr400x8_t309", 8, 2, 400),
                  data.table("h100-sxm_ar_64gpu_8n_ndr400x8_t309-default", 8, 8, 400),
                  data.table("h100-sxm4_ag_8gpu_2n_ib200x4_snellius", 4, 2, 100),
                  data.table("h100-sxm4_ar_8gpu_2n_ib200x4_snellius", 4, 2, 100)]
    test = [data.table(f"h100-sxm_{k}_40gpu_10n_cl01", 4, 10, 200) for k in ("ar", "ag", "rs")]
    test += [data.table("h100-sxm_rs_80gpu_10n_cl01", 8, 10, 400),
             data.table("h100-sxm_ar_16gpu_2n_ndr400x8_t309-b", 8, 2, 400),
             data.table("h100-sxm_ar_16gpu_2n_ndr400x8_t309-ring", 8, 2, 400),
             data.table("h100-sxm4_ar_8gpu_2n_ib200x4_snellius-rep2", 4, 2, 100)]
    other = [data.table("h100-sxm_ar_16gpu_2n_tcpxo200x8_gcp-a3mega", 8, 2, 200),
             data.table("h100-sxm_ag_16gpu_2n_tcpxo200x8_gcp-a3mega", 8, 2, 200),
             data.table("h100-sxm_ar_16gpu_2n_efa100x32_p5_nccl2223-a", 8, 2, 400)]
    net.fit(model, fit, [(t, f) for t in ("network", "tree", "switch_tree") for f in FIELDS])
    a2a = [data.table(f"h100-sxm_a2a_{10 * g}gpu_10n_cl01", g, 10, 50 * g) for g in (1, 2)]
    a2a_test = [data.table("h100-sxm_a2a_40gpu_10n_cl01", 4, 10, 200)]
    net.fit(model, a2a, [("direct_network", f) for f in FIELDS])
    pairs = [data.table(f"h100-sxm_sr_{10 * g}gpu_10n_cl01", g, 10, 50 * g) for g in (1, 2)]
    pairs_test = [data.table("h100-sxm_sr_40gpu_10n_cl01", 4, 10, 200)]
    net.fit(model, pairs, [("pair_network", f) for f in ("efficiency", "ramp")])
    one = [data.table(f"h100-sxm_sr_{g}gpu_cl01", g, 1) for g in (4, 8)]
    net.fit(model, one, [("pair", f) for f in ("efficiency", "ramp")])
    report("fit", model, fit + a2a + pairs + one)
    report("held out", model, test + a2a_test + pairs_test)
    report("other net", model, other)
    source = ("nccl-tests on H100 nodes with InfiniBand: NVIDIA/nccl-tests issue 309 (2 and 8 nodes, "
              "8 x 400 Gb/s), a 10-node cluster with 1 and 2 GPUs per node, and Snellius (2 nodes, "
              "4 x 200 Gb/s); fit by make_profile.py, errors on tables that were not fitted")
    where = {}
    for tier, tables in (("network", test), ("tree", test), ("switch_tree", test),
                         ("direct_network", a2a_test), ("pair_network", pairs_test), ("pair", one)):
        where[tier] = provenance("fitted", source, net.median_p90(net.errors(model, tables)))
    return where


def borrowed(model, where, source_model, source_where, tiers, words):
    for tier in tiers:
        if tier in source_model:
            model[tier] = copy.deepcopy(source_model[tier])
            where[tier] = provenance("assumed", words + ": " + source_where[tier]["source"])


def tier_json(tier, where):
    return {"base": f"{tier['base']:.4g} us", "hop": f"{tier['hop']:.4g} us",
            "efficiency": round(tier["efficiency"], 4), "ramp": round(tier["ramp"], 4), **where}


def network_json(model, where, share):
    out = {t: tier_json(model[t], where[t]) for t in
           ("domain", "network", "tree", "direct", "direct_network", "pair", "pair_network")}
    if "switch_domain" in model:
        out["switch_reduction"] = {"domain": tier_json(model["switch_domain"], where["switch_domain"]),
                                   "tree": tier_json(model["switch_tree"], where["switch_tree"])}
    out["hardness"] = model["hardness"]
    out["compute_share"] = share
    return out


def share_json(sms):
    return {"domain": round(24 / sms, 3), "network": round(16 / sms, 3),
            "point_to_point": round(4 / sms, 3),
            **provenance("assumed", "channels over SMs: 12 found and used twice in a node, 8 and twice "
                         "between nodes, 4 for send/recv; NCCL 2.30.7 src/graph/search.cc, one CTA per "
                         "channel; cost per SM taken as equal")}


def curve_json(tables):
    """Tables of one shape, joined: later ones only above the sizes of the earlier. Times that fall
    with size are spikes of the smaller size: the least of all larger sizes is taken."""
    rows = []
    for t in tables:
        rows += [r for r in t["rows"] if not rows or r[0] > rows[-1][0]]
    least = math.inf
    for i in range(len(rows) - 1, -1, -1):
        least = min(least, rows[i][1])
        rows[i] = (rows[i][0], least)
    t = tables[0]
    out = {"kind": t["kind"], "ranks_per_node": t["g"], "nodes": t["nodes"],
           "domain": f"{t['domain'] / net.GB_PER_S:g} GB/s"}
    if t["nodes"] > 1:
        out["network"] = f"{t['network'] / net.GB_PER_S:g} GB/s"
    out.update(provenance("measured", "; ".join(t["source"] for t in tables)))
    out["points"] = [[f"{s} B", f"{us:g} us"] for s, us in rows]
    return out


def curves(data, gpu, version):
    out = []
    for k in KIND:
        for n in (2, 4, 8):
            tables = data.aic(gpu, version, (k,), (n,))
            large = f"{gpu}_{k}_{n}gpu_cl01"
            if tables and large in data.index:
                tables.append(data.table(large, n, 1))
            if tables:
                out.append(curve_json(tables))
    if gpu == "h100-sxm":
        out.append(curve_json([data.table("h100-sxm_ar_16gpu_2n_ndr400x8_t309", 8, 2, 400)]))
    return out


def peak_json(gpu):
    names = {"fp32": "fp32", "tf32": "tf32", "fp16": "fp16", "bf16": "bf16", "fp8": "fp8",
             "mxfp8": "fp8", "nvfp4": "fp4"}
    blackwell = gpu["arch"] == "Blackwell"
    return {ours: f"{gpu['peak_dense_tflops'][theirs]:g} TFLOP/s" for ours, theirs in names.items()
            if gpu["peak_dense_tflops"].get(theirs) and (ours not in ("mxfp8", "nvfp4") or blackwell)}


# Part of the kernel tables' speed that long training keeps: the tables come from short runs in CUDA
# graphs, training clocks lower at the power limit. By fit_level; every other GPU is assumed to keep
# all of it until runs on it are among scenarios/published/.
LEVELS = {"a100-sxm": 0.84, "a100-sxm-40gb": 0.84, "h100-sxm": 0.84, "b200-sxm": 0.78, "gb200": 0.78,
          "b300-sxm": 0.88, "gb300": 0.88}
SHARED = {"a100": "A100 40 GB with the 80 GB card", "h100": "H100 alone", "b200": "B200 with GB200",
          "gb200": "B200 with GB200", "b300": "B300 with GB300", "gb300": "B300 with GB300"}
SAME_CHIP = {"h800-sxm": "h100-sxm", "h200-sxm": "h100-sxm"}  # at the same power limit, 700 W


def level_json(name):
    if name in SAME_CHIP:
        return {"value": LEVELS[SAME_CHIP[name]], **provenance(
            "assumed", f"that of {SAME_CHIP[name]}, the same chip at the same power limit")}
    if name not in LEVELS:
        return {"value": 1, **provenance("assumed", "kernel tables come from short runs in CUDA "
                                         "graphs; long training at the power limit clocks lower")}
    return {"value": LEVELS[name], **provenance(
        "fitted", "least median absolute error of step time on the fit runs of scenarios/published/ "
        f"(tools/scripts/fit_level); {SHARED[name.split('-')[0]]}")}


def profile_json(data, name, catalogue, key, network, own_curves, note):
    gpu = data.gpus[catalogue]
    gemm = {d: gemm_json(data, key, d) for d in ("bf16", "fp8", "nvfp4")}
    return {
        "format": 1, "name": name, "gpu": name, "date": DATE,
        "description": note,
        "level": level_json(name),
        "peak_dense": peak_json(gpu), "sms": gpu["sm_count"],
        "memory_bandwidth": f"{gpu['hbm_gbyte_per_s']} GB/s",
        "gemm": {d: g for d, g in gemm.items() if g},
        "attention": attention_json(data, key), "memory": memory_json(data, key),
        "launch": {"time": "5 us", **provenance(
            "assumed", "host work per eager kernel; te42kyfo/gpu-benches 1c36d50 has 2.4 us (H200) to "
            "2.6 us (A100) for a bare stream launch, a framework adds its dispatch")},
        "network": network, "curves": own_curves,
    }


def make_all(data):
    h100, h100_where = fit_domain(data, "h100-sxm", "2.29.2", [
        ("h100-sxm4_ag_4gpu_snellius", 4, 1), ("h100-sxm4_ar_4gpu_snellius", 4, 1),
        ("h100-sxm4_rs_4gpu_snellius", 4, 1), ("h100-sxm_ar_8gpu_cl01", 8, 1),
        ("h100-sxm_ag_8gpu_cl01", 8, 1), ("h100-sxm_rs_8gpu_cl01", 8, 1)])
    h100_where.update(fit_network(data, h100))
    outer = ("network", "tree", "switch_tree", "direct_network", "pair", "pair_network")
    held_out = {"a100-sxm": [("a100-sxm_ar_2gpu_vtrain", 2, 1), ("a100-sxm_ar_4gpu_vtrain", 4, 1),
                             ("a100-sxm_ar_8gpu_vtrain", 8, 1)],
                "gb200": [("gb200-nvl72_ar_72gpu_coreweave", 72, 1)]}
    shapes = {"h100-sxm": (h100, h100_where)}
    for gpu, version in (("a100-sxm", "2.27.3"), ("h200-sxm", "2.29.2"), ("b200-sxm", "2.29.2"),
                         ("gb200", "2.29.2")):
        model, where = fit_domain(data, gpu, version, held_out.get(gpu, []))
        if gpu == "a100-sxm":
            # 12 NVLink channels of 20 GB/s carry 8 rings of 24 GB/s without loss: no slow meeting.
            model["hardness"] = 8
            tiers = tuple(t for t in outer if t != "switch_tree")
        else:
            tiers = outer
        borrowed(model, where, h100, h100_where, tiers, "carried over from H100")
        shapes[gpu] = (model, where)
    report("held out", shapes["a100-sxm"][0],
           [data.table("a100-40-sxm_ar_16gpu_2n_roce100x16_oci-b4", 8, 2, 200)])
    report("held out", shapes["b200-sxm"][0],
           [data.table("b200-sxm_ar_32gpu_4n_efa400x8_stas-torch", 8, 4, 400)])

    def one(name, catalogue, key, shape, version, note, own_curves=True):
        model, where = shapes[shape]
        network = network_json(model, where, share_json(data.gpus[catalogue]["sm_count"]))
        return profile_json(data, name, catalogue, key, network,
                            curves(data, shape, version) if own_curves else [], note)
    yield one("a100-sxm", "a100_sxm4_80gb", "a100_sxm", "a100-sxm", "2.27.3",
              "NVIDIA A100 SXM4 80 GB; InfiniBand behaviour carried over from H100")
    yield one("a100-sxm-40gb", "a100_sxm4_40gb", "a100_sxm", "a100-sxm", "2.27.3",
              "NVIDIA A100 SXM4 40 GB: kernels of the 80 GB part with its own memory bandwidth")
    yield one("h100-sxm", "h100_sxm5", "h100_sxm", "h100-sxm", "2.29.2",
              "NVIDIA H100 SXM5 80 GB with InfiniBand")
    yield one("h200-sxm", "h200_sxm", "h200_sxm", "h200-sxm", "2.29.2",
              "NVIDIA H200 SXM; InfiniBand behaviour carried over from H100")
    yield one("b200-sxm", "b200_sxm", "b200_sxm", "b200-sxm", "2.29.2",
              "NVIDIA B200 SXM; InfiniBand behaviour carried over from H100")
    yield one("gb200", "gb200", "gb200", "gb200", "2.29.2",
              "NVIDIA GB200, one GPU of a rack; InfiniBand behaviour carried over from H100")
    h800 = one("h800-sxm", "h800_sxm", "h100_sxm", "h100-sxm", "2.29.2",
               "NVIDIA H800 SXM: kernels and protocols of H100, NVLink of 200 GB/s", False)
    yield assumed(h800)


def assumed(value):
    if isinstance(value, dict):
        return {k: "assumed" if k == "evidence" else assumed(v) for k, v in value.items()
                if k not in ("median_error", "p90_error")}
    return [assumed(v) for v in value] if isinstance(value, list) else value


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    root = pathlib.Path(__file__).resolve().parents[2]
    out = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else root / "calibration/profiles"
    for profile in make_all(Data(pathlib.Path(sys.argv[1]))):
        (out / f"{profile['name']}.json").write_text(text(profile) + "\n")


if __name__ == "__main__":
    main()
