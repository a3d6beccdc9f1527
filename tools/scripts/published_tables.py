"""Tables of published runs (scenarios/published/*.json) as rows of dotted keys, and back."""

import json
import re

REMOVED = None  # a cell that takes the key of the base away


def flat(value, prefix=""):
    """Dotted keys of an object."""
    for key, member in value.items():
        if isinstance(member, dict):
            yield from flat(member, f"{prefix}{key}.")
        else:
            yield prefix + key, member


def nested(keys):
    root = {}
    for key, value in keys.items():
        *above, last = key.split(".")
        place = root
        for step in above:
            place = place.setdefault(step, {})
        place[last] = value
    return root


def read_table(file):
    """The rows of a table as dotted keys."""
    table = json.loads(re.sub(r"(?m)^\s*//.*$", "", file.read_text(encoding="utf-8")))
    texts = table.get("texts", {})

    def meant(cell):
        if isinstance(cell, list):
            return [meant(element) for element in cell]
        return texts[cell[1:]] if isinstance(cell, str) and cell.startswith("@") else cell

    base = dict(flat(table["base"]))
    for row in table["rows"]:
        cells = {key: meant(cell) for key, cell in zip(table["columns"], row)}
        yield dict(flat({key: value for key, value in (base | cells).items()
                         if value is not REMOVED}))


def packed(rows):
    """Objects that not all rows have, or that are names in some, become one cell."""
    prefixes = {key[:dot.start()] for row in rows for key in row for dot in re.finditer(r"\.", key)}

    def has(row, prefix):
        return any(key.startswith(prefix + ".") for key in row)

    whole = [prefix for prefix in sorted(prefixes) if not all(has(row, prefix) for row in rows) or
             any(prefix in row for row in rows)]
    for prefix in whole:
        for row in rows:
            below = {key[len(prefix) + 1:]: row.pop(key) for key in list(row)
                     if key.startswith(prefix + ".")}
            if below:
                row[prefix] = nested(below)
    return rows


def text_names(rows):
    """Short names of the texts that cells repeat, by first use."""
    names = {}
    for row in rows:
        for text in [row["source"], *row.get("assumptions", [])]:
            names.setdefault(text, f"t{len(names) + 1}")
    return names


def write_table(file, rows):
    """What all rows share is the base; the other keys are columns."""
    rows = packed([{"assumptions": []} | row for row in rows])
    keys = list(dict.fromkeys(key for row in rows for key in row))
    shared = {key: rows[0].get(key) for key in keys
              if key not in ("name", "mark", "assumptions", "source") and
              all(key in row and row[key] == rows[0].get(key) for row in rows)}
    first = ["name", "mark", "source", "assumptions"]
    columns = first + [key for key in keys if key not in shared and key not in first]
    columns.sort(key=lambda key: key.startswith("expect."))
    names = text_names(rows)

    def cell(row, key):
        value = row.get(key)
        if key == "source":
            return "@" + names[value]
        if key == "assumptions":
            return ["@" + names[text] for text in value]
        return value

    def line(value):
        return json.dumps(value, ensure_ascii=False)

    texts = ",\n".join(f"    {line(name)}: {line(text)}" for text, name in names.items())
    body = ",\n".join("    " + line([cell(row, key) for key in columns]) for row in rows)
    file.write_text(f'{{\n  "texts": {{\n{texts}\n  }},\n  "base": {line(nested(shared))},\n'
                    f'  "columns": {line(columns)},\n  "rows": [\n{body}\n  ]\n}}\n',
                    encoding="utf-8")
