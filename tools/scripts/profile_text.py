"""How profiles are written: tags of numbers, and JSON with short values on one line."""

import json


def provenance(evidence, source, errors=None):
    out = {"evidence": evidence, "source": source}
    if errors:
        out["median_error"], out["p90_error"] = (round(e, 4) for e in errors)
    return out


def text(value, indent=0):
    """JSON with short objects and lists on one line."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + indent <= 100 or not isinstance(value, (dict, list)):
        return flat
    pad = " " * (indent + 2)
    if isinstance(value, list):
        if value and isinstance(value[0], list):  # points: several to a line
            rows = [json.dumps(v) for v in value]
            lines = [", ".join(rows[i:i + 4]) for i in range(0, len(rows), 4)]
            return "[\n" + ",\n".join(pad + line for line in lines) + "\n" + " " * indent + "]"
        body = [pad + text(v, indent + 2) for v in value]
        return "[\n" + ",\n".join(body) + "\n" + " " * indent + "]"
    body = [f"{pad}{json.dumps(k)}: {text(v, indent + 2)}" for k, v in value.items()]
    return "{\n" + ",\n".join(body) + "\n" + " " * indent + "}"
