"""What the report works out from single records."""

from umbench.plots.common import load
from umbench import iteration_times

# part: (colour, hatch); the last one is what is not told apart without a timeline.
TIME_PARTS = {"compute": ("#C8C8C8", ""), "to the GPU": ("#56B4E9", "////"), "to the CPU": ("#E69F00", "...."),
              "stall": ("#B00020", "xxxx"), "waiting": ("#F0E442", "\\\\\\\\")}

LITTLE = 1.05  # times a time: what a verdict takes for the same

TO_DEVICE = ("fault_to_device_bytes", "prefetch_to_device_bytes", "copy_to_device_bytes")
TO_HOST = ("driver_evict_bytes", "plan_evict_bytes", "copy_to_host_bytes")


def moved(record):
    """(bytes to the device, bytes to the host) of the last iteration; None unless all causes were observed."""
    last = (record.get("counters") or {}).get("last") or {}
    if any(last.get(name) is None for name in TO_DEVICE + TO_HOST):
        return None
    return sum(last[name] for name in TO_DEVICE), sum(last[name] for name in TO_HOST)


def time_parts(record):
    """{part: ns}, which add up to the time of an iteration."""
    total = load.steady_ns(record)
    compute = min(record.get("compute_ns") or total, total)
    spans = (record.get("timeline") or {}).get("spans")
    if not spans:
        return {"compute": compute, "waiting": total - compute}
    total = max(span["end_ns"] for span in spans)
    compute = min(compute, total)
    busy = {lane: _merged([s for s in spans if s["lane"] == lane]) for lane in ("compute", "to_device", "to_host")}
    idle = _without([(0, total)], busy["compute"])
    fetching = _overlap(idle, busy["to_device"])
    writing = _overlap(_without(idle, busy["to_device"]), busy["to_host"])
    return {"compute": compute, "to the GPU": min(fetching, total - compute),
            "to the CPU": min(writing, total - compute - min(fetching, total - compute)),
            "stall": max(0, total - compute - fetching - writing)}


def telling_ratio(cells):
    """The highest at which most strategies ran, above 1 if there is one."""
    ran = {}
    for record, label in zip(cells, load.strategy_labels(cells)):
        if load.steady_ns(record) and record["ratio"] is not None:
            ran.setdefault(record["ratio"], set()).add(label)
    most = max(len(labels) for ratio, labels in ran.items() if ratio > 1) if any(r > 1 for r in ran) else 0
    return max(ratio for ratio, labels in ran.items() if len(labels) >= most)


def _merged(spans):
    found = []
    for begin, end in sorted((span["begin_ns"], span["end_ns"]) for span in spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def _without(spans, taken):
    left = []
    for begin, end in spans:
        for cut_begin, cut_end in taken:
            if cut_end <= begin or end <= cut_begin:
                continue
            if begin < cut_begin:
                left.append((begin, cut_begin))
            begin = max(begin, cut_end)
        if begin < end:
            left.append((begin, end))
    return left


def _overlap(spans, others):
    return sum(max(0, min(end, other_end) - max(begin, other_begin))
               for begin, end in spans for other_begin, other_end in others)


def pairs_of_measured_and_simulated(records):
    """[(measured, simulated)] of the same work, strategy, knobs and ratio."""
    def work(record):
        group = load.group_of(record)
        return (*group[:8], record["strategy"], tuple(sorted((record.get("strategy_knobs") or {}).items())),
                record["ratio"])

    good = [record for record in records if load.steady_ns(record)]
    simulated = {}
    for record in good:
        if record["simulated"]:
            simulated.setdefault(work(record), []).append(record)
    return [(record, other) for record in good if not record["simulated"] for other in simulated.get(work(record), [])]


# --- the verdict ---

def over(record, baseline=None):
    """Its slowdown, None where it has no time; `baseline` counts where the record has none of its own."""
    time, base = load.steady_ns(record), record.get("baseline_ns") or baseline
    return time / base if time and base else None


def best_first(lines, over_of, key):
    """{key(record): [(slowdown, label, record), ...], fastest first} of {label: records}: the cells with a time."""
    found = {}
    for label, line in lines.items():
        for record in line:
            value = over_of(record)
            if value:
                found.setdefault(key(record), []).append((value, label, record))
    return {at: sorted(cells, key=lambda cell: cell[:2]) for at, cells in sorted(found.items())}


def verdict(group, cells, baseline):
    """Sentences about one group of cells, in plain words."""
    found = load.lines(cells)
    if not baseline:
        return ["There is no cell with everything on the device, so nothing can be called slow or fast."] + _failures(cells)
    at = {}
    for label, line in found.items():
        for record in line:
            slowdown = over(record, baseline)
            if slowdown and label != "device":
                at.setdefault(record["ratio"], {})[label] = slowdown
    sentences = _free_range(found, baseline)
    tight = [ratio for ratio in sorted(at) if ratio > 1]
    for ratio in dict.fromkeys(tight[:1] + tight[-1:]):
        sentences.append(_at_ratio(ratio, at[ratio]))
    hints = {label for label, line in found.items() if load.family_of(line[0]) == "managed"} - {"managed"}
    sentences += _harm({ratio: {label: at[ratio][label] for label in hints & set(at[ratio])} for ratio in tight},
                       {ratio: at[ratio].get("managed") for ratio in tight})
    beyond = sorted({record["ratio"] for line in found.values() for record in line} - set(at))
    beyond = [ratio for ratio in beyond if ratio > max([1, *at])]
    if beyond:
        sentences.append(f"Nothing ran at ratio {beyond[0]:g}" + (" and above." if len(beyond) > 1 else "."))
    return sentences + _failures(cells)


def _free_range(found, baseline):
    free, dear = None, None
    for record in found.get("managed", []):
        slowdown = over(record, baseline)
        if not slowdown or slowdown > LITTLE:
            dear = record["ratio"] if slowdown else None
            break
        free = record["ratio"]
    if free:
        return [f"Managed memory costs less than 5 % up to ratio {free:.4g}."]
    return [f"Managed memory costs more than 5 % at ratio {dear:.4g} already."] if dear and dear <= 1 else []


def _at_ratio(ratio, over):
    best, plain = min(over, key=over.get), over.get("managed")
    if plain and best != "managed" and plain < LITTLE * over[best]:
        return (f"At ratio {ratio:g} nothing is faster than plain managed memory by 5 %, which takes "
                f"{_times(plain)} the time with everything on the device.")
    text = f"At ratio {ratio:g} the fastest is {best}: {_times(over[best])} the time with everything on the device"
    if plain and best != "managed":
        text += f"; plain managed memory takes {_times(plain)} that time, {_times(plain / over[best])} as long as {best}"
    return text + "."


def _times(value):
    """Three digits: what spread allows more is in the tables."""
    return f"{value:.{iteration_times.decimals(value, 0)}f} times"


def _harm(at, plain):
    """Of {ratio: {label: slowdown}} of hints and {ratio: slowdown} of none: which make it slower, where and by how much."""
    found = {}
    for ratio, over in at.items():
        for label in over:
            if over[label] > LITTLE * (plain[ratio] or float("inf")):
                found.setdefault(label, {})[ratio] = over[label] / plain[ratio]
    return [f"{label} does harm at {'ratio' if len(times) == 1 else 'ratios'} {_listed([f'{ratio:g}' for ratio in times])}: "
            f"{'' if len(times) == 1 else 'up to '}{max(times.values()):.2f} times the time of plain managed memory."
            for label, times in sorted(found.items())]


def _failures(cells):
    failed = [record for record in cells if record["outcome"] not in ("ok", "infeasible")]
    if not failed:
        return []
    kinds = _listed(sorted({record["outcome"] for record in failed}))
    return [f"{len(failed)} of {len(cells)} cells failed ({kinds})."]


def _listed(names):
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
