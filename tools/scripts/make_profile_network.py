"""The collective model of calibration/collective_time.cpp in Python, and its fit.

time = L + T + ramp * sqrt(L * T), L latency of the steps, T transfer at the reached bandwidth; the
least over ring, tree and in-switch reduction. See TierParameters in calibration/profile.h. Units
here: us, bytes, bytes per us.
"""
import math

GB_PER_S = 1e9 / 1e6
LIMITS = {"efficiency": 1.0, "ramp": 2.0}  # of a link, of perfect pipelining
HOP = 0.3  # us, one switch with its cable: what path.network_hop was in the fitted clusters


def ramped(latency, transfer, ramp):
    return latency + transfer + ramp * math.sqrt(latency * transfer)


def in_series(a, b, hardness):
    larger, smaller = max(a, b), min(a, b)
    return larger * (1 + (smaller / larger) ** hardness) ** (1 / hardness) if larger > 0 else 0.0


def bus_factor(kind, n):
    return {"all_reduce": 2 * (n - 1) / n, "all_gather": (n - 1) / n, "reduce_scatter": (n - 1) / n,
            "all_to_all": (n - 1) / n, "broadcast": 1.0, "send_recv": 1.0}[kind]


def levels(nodes):
    return int(math.log2(nodes))


def ring(m, sent, t, rounds):
    d, net = m["domain"], m["network"]
    inside = sent / (t["domain"] * d["efficiency"])
    if t["nodes"] == 1:
        return ramped(d["base"] + rounds * (t["g"] - 1) * d["hop"], inside, d["ramp"])
    n = t["g"] * t["nodes"]
    outside = sent / (t["network"] * net["efficiency"])
    latency = (net["base"] + rounds * (n - t["nodes"]) * d["hop"]
               + rounds * (t["nodes"] - 1) * (net["hop"] + HOP))
    transfer = in_series(inside, outside, m["hardness"]) if t["g"] > 1 else outside
    return ramped(latency, transfer, net["ramp"])


def tree(m, size, t):
    d, p = m["domain"], m["tree"]
    latency = p["base"] + 2 * ((t["g"] - 1) * d["hop"] + levels(t["nodes"]) * (p["hop"] + HOP))
    outside = (1 if t["nodes"] == 2 else 2) * size / (t["network"] * p["efficiency"])
    inside = 2 * size / (t["domain"] * 0.85 * d["efficiency"])
    transfer = in_series(inside, outside, m["hardness"]) if t["g"] > 1 else outside
    return ramped(latency, transfer, p["ramp"])


def switch(m, size, t):
    d, p = m["switch_domain"], m["switch_tree"]
    inside = size / (t["domain"] * d["efficiency"])
    if t["nodes"] == 1:
        return ramped(d["base"], inside, d["ramp"])
    outside = (1 if t["nodes"] == 2 else 2) * size / (t["network"] * p["efficiency"])
    latency = p["base"] + 2 * levels(t["nodes"]) * (p["hop"] + HOP)
    return ramped(latency, in_series(inside, outside, m["hardness"]), p["ramp"])


def predicted(m, t, size):
    n, kind = t["g"] * t["nodes"], t["kind"]
    if kind == "all_to_all":
        d, p = m["direct"], m["direct_network"]
        inside = (t["g"] - 1) / n * size / (t["domain"] * d["efficiency"])
        if t["nodes"] == 1:
            return ramped(d["base"] + (n - 1) * d["hop"], inside, d["ramp"])
        outside = (n - t["g"]) / n * t["g"] * size / (t["network"] * p["efficiency"])
        return ramped(p["base"] + HOP + (n - 1) * p["hop"],
                      in_series(inside, outside, m["hardness"]), p["ramp"])
    if kind == "send_recv":
        p = m["pair"] if t["nodes"] == 1 else m["pair_network"]
        if t["nodes"] == 1:
            return ramped(p["base"], size / (t["domain"] * p["efficiency"]), p["ramp"])
        return ramped(p["base"] + HOP, size / (t["network"] / t["g"] * p["efficiency"]), p["ramp"])
    if kind != "all_reduce":
        return ring(m, size * bus_factor(kind, n), t, 1)
    best = ring(m, size * bus_factor(kind, n), t, 2)
    if t["nodes"] > 1:
        best = min(best, tree(m, size, t))
    if "switch_domain" in m and t["g"] > 2:
        best = min(best, switch(m, size, t))
    return best


def nelder_mead(f, start, steps=900):
    n = len(start)
    simplex = [list(start)] + [[x + (0.3 if i == j else 0) for j, x in enumerate(start)]
                               for i in range(n)]
    simplex = sorted(((f(x), x) for x in simplex), key=lambda v: v[0])
    for _ in range(steps):
        centre = [sum(x[1][j] for x in simplex[:-1]) / n for j in range(n)]
        worst = simplex[-1]

        def at(k):
            x = [c + k * (w - c) for c, w in zip(centre, worst[1])]
            return f(x), x
        new = at(-1)
        if new[0] < simplex[0][0]:
            new = min(new, at(-2), key=lambda v: v[0])
        elif new[0] >= simplex[-2][0]:
            new = at(0.5) if new[0] >= worst[0] else min(new, at(-0.5), key=lambda v: v[0])
            if new[0] >= worst[0]:
                best = simplex[0][1]
                simplex = [simplex[0]] + [
                    (f(y), y) for y in ([(a + b) / 2 for a, b in zip(best, x)]
                                        for _, x in simplex[1:])]
                simplex.sort(key=lambda v: v[0])
                continue
        simplex[-1] = new
        simplex.sort(key=lambda v: v[0])
    return simplex[0][1]


def fit(model, tables, free, prior_weight=0.02):
    """Fits the (tier, field) pairs in `free` to the mean |log(predicted / measured)|, clipped at 1,
    each table with equal weight; a weak pull towards the start keeps idle parameters in place."""
    start = [math.log(max(model[tier][field], 1e-3)) for tier, field in free]

    def cost(x):
        for (tier, field), v in zip(free, x):
            model[tier][field] = math.exp(v)
        total = 0.0
        for t in tables:
            total += sum(min(1.0, abs(math.log(predicted(model, t, s) / us)))
                         for s, us in t["rows"]) / len(t["rows"])
        pull = sum((a - b) ** 2 for a, b in zip(x, start)) / len(start)
        bounds = sum(max(0.0, v - math.log(LIMITS[field])) * 10
                     for (_, field), v in zip(free, x) if field in LIMITS)
        return total / len(tables) + prior_weight * pull + bounds
    best = start
    for _ in range(3):
        best = nelder_mead(cost, best)
    cost(best)


def errors(model, tables, smallest=0):
    return sorted(abs(predicted(model, t, s) / us - 1)
                  for t in tables for s, us in t["rows"] if s >= smallest)


def median_p90(values):
    if not values:
        return 0.0, 0.0
    values = sorted(values)
    return values[len(values) // 2], values[min(len(values) - 1, int(0.9 * len(values)))]
