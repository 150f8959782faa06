"""Values that the report computes from single records."""

from umbench.plots.common import load

# {part of an iteration's time: (colour, hatch)}
TIME_PARTS = {"compute": ("#C8C8C8", ""), "computing again": ("#7D9B76", "\\\\\\\\"),
              "waiting for copies to the GPU": ("#56B4E9", "////"), "waiting for copies to the CPU": ("#E69F00", "...."),
              "faults and evictions": ("#B00020", "xxxx"), "slower kernels": ("#A57BB5", "++"), "launches and gaps": ("#FFFFFF", ""),
              "waiting for copies": ("#56B4E9", ""), "copies or computing again": ("#F0E442", "--"), "copies or faults": ("#D98880", "//")}


def time_by_part(record):
    """{part of TIME_PARTS: ns} of an iteration, by the GPU's work or the reason for its waiting. Without a timeline all time beyond
    `compute` is a single part, named after what the plan does."""
    total = load.steady_ns(record)
    compute = min(record.get("compute_ns") or total, total)
    spans = (record.get("timeline") or {}).get("spans")
    if not spans:
        return {"compute": compute, _part_beyond_compute(record): total - compute}
    total = max(span["end_ns"] for span in spans)
    compute = min(compute, total)
    busy = {lane: _busy_intervals([s for s in spans if s["lane"] == lane]) for lane in ("compute", "to_device", "to_host")}
    idle = _subtract([(0, total)], busy["compute"])
    parts = {"compute": compute}
    left = max(0, total - compute)
    kernels = max(0, sum(end - begin for begin, end in busy["compute"]) - compute)
    recomputed = min(_recomputed_ns(spans), kernels) if _plan_of_bounds(record).get("repeats", True) else 0
    for name, time in (("computing again", recomputed), ("faults and evictions" if _waited_for_driver(record) else "slower kernels", kernels - recomputed),
                       ("waiting for copies to the GPU", _overlap_ns(idle, busy["to_device"])),
                       ("waiting for copies to the CPU", _overlap_ns(_subtract(idle, busy["to_device"]), busy["to_host"]))):
        parts[name] = min(time, left)
        left -= parts[name]
    return parts | {"launches and gaps": left}


def _part_beyond_compute(record):
    """The part of TIME_PARTS that all time beyond `compute` counts as."""
    plan = _plan_of_bounds(record)
    if _waited_for_driver(record):
        return "faults and evictions"
    if record["family"] == "managed" and load.last_counters(record).get("faults") is None:
        return "copies or faults"
    if not plan or plan.get("swaps") and plan.get("repeats"):
        return "copies or computing again"
    return "computing again" if plan.get("repeats") else "waiting for copies" if plan.get("swaps") else "launches and gaps"


def _plan_of_bounds(record):
    """The entry on the record's plan in its bounds; empty if there is none."""
    return (record.get("bounds") or {}).get("plan") or {}


def _waited_for_driver(record):
    """Whether kernels of the last iteration waited for the Unified Memory driver."""
    last = load.last_counters(record)
    return any(last.get(name) for name in ("faults", "remote_bytes", "driver_evict_bytes"))


def _recomputed_ns(spans):
    """The time of operators that ran before in the iteration. Later parts of a batch count, too, so callers limit it to the time of kernels
    beyond `compute`."""
    seen, time = set(), 0
    for span in spans:
        if span["lane"] == "compute":
            time += (span["end_ns"] - span["begin_ns"]) * (span["name"] in seen)
            seen.add(span["name"])
    return time


def ratio_with_most_strategies(cells):
    """The highest of the ratios at which the largest number of strategies ran. Ratios above 1 are preferred."""
    ran = {}
    for record, label in zip(cells, load.strategy_labels(cells)):
        if load.steady_ns(record) and record["ratio"] is not None:
            ran.setdefault(record["ratio"], set()).add(label)
    most = max(len(labels) for ratio, labels in ran.items() if ratio > 1) if any(r > 1 for r in ran) else 0
    return max(ratio for ratio, labels in ran.items() if len(labels) >= most)


def _busy_intervals(spans):
    """[(begin, end)] of the time in which any of the spans runs, without overlaps."""
    found = []
    for begin, end in sorted((span["begin_ns"], span["end_ns"]) for span in spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def _subtract(intervals, removed):
    """[(begin, end)] of the parts of intervals that no interval of `removed` covers."""
    left = []
    for begin, end in intervals:
        for cut_begin, cut_end in removed:
            if cut_end <= begin or end <= cut_begin:
                continue
            if begin < cut_begin:
                left.append((begin, cut_begin))
            begin = max(begin, cut_end)
        if begin < end:
            left.append((begin, end))
    return left


def _overlap_ns(intervals, others):
    """The length of the overlap of two lists of [(begin, end)]."""
    return sum(max(0, min(end, other_end) - max(begin, other_begin))
               for begin, end in intervals for other_begin, other_end in others)


def pairs_of_measured_and_simulated(records):
    """[(measured, simulated)] of the same work, strategy, knobs and ratio."""
    def key_of_work(record):
        group = load.group_of(record)
        return (*group[:8], record["strategy"], tuple(sorted((record.get("strategy_knobs") or {}).items())),
                record["ratio"])

    timed = [record for record in records if load.steady_ns(record)]
    simulated = {}
    for record in timed:
        if record["simulated"]:
            simulated.setdefault(key_of_work(record), []).append(record)
    return [(record, other) for record in timed if not record["simulated"] for other in simulated.get(key_of_work(record), [])]


def slowdown_of(record, default_baseline_ns=None):
    """The slowdown of a record; None if it has no time. `default_baseline_ns` is for records without a `baseline_ns`."""
    time, base = load.steady_ns(record), record.get("baseline_ns") or default_baseline_ns
    return time / base if time and base else None


def fastest_first(records_by_label, slowdown_of, axis_value_of):
    """{axis_value_of(record): [(slowdown, label, record), ...]}, fastest first, of the cells with a time in {label: records}."""
    found = {}
    for label, line in records_by_label.items():
        for record in line:
            value = slowdown_of(record)
            if value:
                found.setdefault(axis_value_of(record), []).append((value, label, record))
    return {axis_value: sorted(cells, key=lambda cell: cell[:2]) for axis_value, cells in sorted(found.items())}
