"""Which published runs are one another's repetition, and which of them numbers may be fitted on."""

import hashlib
import json


def twin(row):
    """Runs of which the newest counts."""
    model = row["model"]
    return (row["hardware"]["gpu"], row["hardware"].get("variant"), row["num_gpus"], row["task"],
            model["layers"], model["hidden"],
            model["heads"], model["kv_heads"], model["ffn"], model["vocab"], model["experts"],
            row["seq_len"], row["micro_batch"], row["global_batch"], row["precision"], row["tp"],
            row["pp"], row["vpp"], row["cp"], row["ep"], row["zero_stage"], row["fsdp"],
            row["recompute"], row["framework"]["name"], json.dumps(row["overlap"], sort_keys=True))


def generation(row):
    return row["hardware"]["gpu"].split("-")[0]


def group(row):
    """Near-duplicates, which are on one side."""
    model = row["model"]
    shape = [model[key] for key in ("layers", "hidden", "heads", "ffn", "experts")]
    return generation(row), json.dumps(shape), row["tp"], row["pp"], row["vpp"] or 1


def mark(rows, marks):
    """Adds the marks of rows without one: a group's side, or of five new groups in turn, ordered by
    a hash, the first and the third `fit`."""
    sides = {group(row): marks[row["id"]] for row in rows if row["id"] in marks}
    fresh = {}
    for row in rows:
        if group(row) not in sides:
            fresh.setdefault(generation(row), set()).add(group(row))
    for groups in fresh.values():
        ordered = sorted(groups, key=lambda g: hashlib.sha256(repr(g).encode()).hexdigest())
        for i, one in enumerate(ordered):
            sides[one] = "fit" if i % 5 in (0, 2) else "test"
    return {row["id"]: marks.get(row["id"], sides[group(row)]) for row in rows}
