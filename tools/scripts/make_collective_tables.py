#!/usr/bin/env python3
"""Writes calibration/data/collectives.json: measured nccl-tests tables with their machines.

Usage: make_collective_tables.py DATA
DATA: a folder with index.json (`tables`: one entry per table with id, hardware, source) and
logs/<id>.txt (rows as nccl-tests prints them). Only figures and their sources are taken.
"""
import json
import pathlib
import re
import sys

KINDS = {"all_reduce": "all_reduce", "all_gather": "all_gather", "reduce_scatter": "reduce_scatter",
         "alltoall": "all_to_all", "sendrecv": "send_recv"}

# GB/s of one direction of a GPU's links inside its domain, NCCL's generation, name of the group.
GPUS = [("V100", 150, "volta", "V100"), ("A100-PCIe", 32, "ampere", "PCIe"),
        ("A100", 300, "ampere", "A100"), ("L40S", 32, "ampere", "PCIe"),
        ("GH200", 450, "hopper", "GH200"), ("H100", 450, "hopper", "H100"),
        ("H200", 450, "hopper", "H200"), ("GB200", 900, "blackwell", "GB200"),
        ("GB300", 900, "blackwell", "GB300"), ("B300", 900, "blackwell", "B300"),
        ("B200", 900, "blackwell", "B200"), ("RTX PRO 6000", 64, "blackwell", "PCIe"),
        ("AMD", 538, "hopper", "AMD"), ("MI300X", 448, "hopper", "AMD")]

# GB/s of one NIC, NICs of a node, class of the fabric. Where the source does not state them: from
# the plateau, as the index says.
FABRICS = {"slingshot-200x2": (25, 2, "Slingshot"), "slingshot-200x4": (25, 4, "Slingshot"),
           "rdma-400x8-inferred": (50, 8, "NDR400"), "ib-ndr400x8": (50, 8, "NDR400"),
           "ib-ndr400x8-sharp": (50, 8, "NDR400 SHARP"), "roce-400x8": (50, 8, "RoCE"),
           "roce-400x1": (50, 8, "RoCE"), "roce-400x8-inferred": (50, 8, "RoCE"),
           "roce-100x16": (12.5, 16, "RoCE"), "roce-200x16": (25, 16, "RoCE"),
           "roce-400-nogdr": (50, 8, "RoCE"), "roce-x2": (12.5, 2, "RoCE"),
           "ib-200x4": (25, 4, "HDR200"), "efa-100x32": (12.5, 32, "EFA"),
           "efa-400x8": (50, 8, "EFA"), "tcpx-200x4": (25, 4, "TCPX"),
           "tcpxo-200x8": (25, 8, "TCPX"), "tcp": (12.5, 2, "TCP"),
           "rdma-unknown": (50, 8, "unknown"), "unknown-rdma": (50, 8, "unknown")}
UNKNOWN_NODE_RATE = {"echo": 200, "h100x4_ar_8gpu_2n": 200}  # GB/s, from the plateau


def gpu(entry):
    name = entry["gpu_model"]
    return next(row for row in GPUS if name.startswith(row[0]))


def cluster(entry):
    """Tables of one machine in one set-up: what one fit may see together."""
    tag = entry["id"].split("_")[-1]
    prefix = entry["id"].split("_")[0]
    if tag.startswith(("aic-", "vtrain", "stas", "dranet", "gcp", "snellius", "rccl")):
        tag = re.sub(r"-rep2$", "", tag)
        return f"{prefix.replace('-sxm', '')}-{tag}"
    for family in ("t309", "cl01", "cl00", "echo"):
        if tag.startswith(family) and not tag.endswith(("ring", "slowpair")):
            return family
    if tag.startswith("alps-tuned"):
        return "alps"
    if "_p5_" in entry["id"]:
        return "p5-" + re.sub(r"-[ab]$", "", tag)
    return tag if "polaris" in tag or "alps" in tag else entry["id"]


def machine(entry):
    """The machine in whatever set-up: whose tables of one shape may be compared row by row."""
    name = cluster(entry)
    return next((family for family in ("alps", "cl00") if family in name), name)


def group(entry, label):
    """Machines that are summed up together in a report."""
    if label in ("PCIe", "AMD") or entry["fabric"] in ("nvbridge", "pcie+nvbridge"):
        return label
    if entry["nodes"] == 1 or entry["fabric"] == "nvl72":
        return f"{label} one node"
    return FABRICS[entry["fabric"]][2]


def network(entry):
    """GB/s of the NICs of a node that the group uses; of one rank for send/recv."""
    if entry["nodes"] == 1 or entry["fabric"] == "nvl72":
        return 0
    rate, nics, _ = FABRICS[entry["fabric"]]
    total = UNKNOWN_NODE_RATE.get(cluster(entry), rate * nics)
    full = 4 if "slingshot" in entry["fabric"] or entry["fabric"] == "ib-200x4" else 8
    full = entry["gpus_per_node"] if "x2" in entry["fabric"] or entry["fabric"] == "tcp" else full
    share = min(entry["gpus_per_node"], full) / full
    if entry["fabric"] == "unknown-rdma":
        share = 1
    if KINDS[entry["collective"]] == "send_recv":
        share = 1 / full
    return total * share


def domain_rate(entry, label, rate):
    """GB/s of one GPU's links to the others of its group; in a mesh only some lead there: of
    V100's six NVLinks one to the first neighbour and four within the first four GPUs."""
    members = entry["gpus_per_node"]
    if label == "V100":
        return rate * {2: 1, 4: 4, 8: 6}[members] / 6
    return rate * (members - 1) / 7 if label == "AMD" else rate


def transport(fabric):
    """How NCCL reaches the NICs (calibration/regimes.h)."""
    return next((t for t in ("slingshot", "efa", "tcpx") if fabric.startswith(t)), "verbs")


def rows(path):
    sizes, out, inside = [], [], []

    def time(word):
        return None if word == "N/A" else float(word)
    for line in path.read_text().splitlines():
        words = line.split()
        if not words or line.startswith("#"):
            continue
        first = 4 if len(words) == 12 else 5  # older tables have no column "root"
        sizes.append(int(words[0]))
        out.append(time(words[first]))
        inside.append(time(words[first + 4]) if len(words) > first + 4 else None)
    return sizes, out, inside


def main():
    data = pathlib.Path(sys.argv[1])
    tables = []
    for entry in json.loads((data / "index.json").read_text())["tables"]:
        sizes, out, inside = rows(data / entry["file"])
        _, domain, generation, label = gpu(entry)
        one_domain = entry["fabric"] == "nvl72"
        table = {"id": entry["id"], "source": entry["source"] or "", "gpu": entry["gpu_model"],
                 "fabric": entry["fabric"], "library": entry["nccl_version"] or "",
                 "cluster": cluster(entry), "machine": machine(entry), "group": group(entry, label),
                 "kind": KINDS[entry["collective"]], "generation": generation,
                 "ranks_per_node": entry["gpus"] if one_domain else entry["gpus_per_node"],
                 "nodes": 1 if one_domain else entry["nodes"], "domain": f"{domain_rate(entry, label, domain):g} GB/s",
                 "network": f"{network(entry):g} GB/s",
                 "transport": transport(entry["fabric"])}
        for key, value in (("sharp", "sharp" in entry["fabric"]), ("forced", entry["forced"]),
                           ("fault", entry["fault_cause"])):
            if value:
                table[key] = value
        table["bytes"] = sizes
        table["out_of_place_us"] = out
        if any(v is not None for v in inside):
            table["in_place_us"] = inside
        tables.append(table)
    lines = ",\n".join(json.dumps(t, separators=(",", ":")) for t in tables)
    target = pathlib.Path(__file__).resolve().parents[2] / "calibration/data/collectives.json"
    target.write_text('{"format":1,"tables":[\n' + lines + "\n]}\n")
    print(f"{len(tables)} tables, {sum(len(t['bytes']) for t in tables)} rows, "
          f"{target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
