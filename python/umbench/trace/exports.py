"""A trace in the formats of other tools, and as a network file."""

import json

from umbench.trace.findings import size
from umbench.trace.names import Names
from umbench.trace.reader import BY_FAULT_IN, BY_FAULT_OUT, CPU_FAULTS, GPU_FAULTS, Owners
from umbench.trace.residence import resident_over_time

US_PER_NS = 1e-3
# track: name
TRACKS = {1: "kernels that moved or faulted", 2: "CPU: faults, and what it fetched back", 3: "prefetches", 4: "not of a launch",
          5: "named ranges"}
TRACK_OF = {"kernel": 1, "host": 2, "prefetched": 3, "other": 4}


def perfetto(processes):
    """Chrome trace (JSON): tracks for launches, migrations and ranges; counters for bytes moved and bytes resident by allocation."""
    events = [event for number, process in enumerate(processes, 1) for event in _events(process.environment.get("process") or number, process)]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}) + "\n"


def _events(number, process):
    names = Names(process.allocations)
    yield _named(number, "process_name", " ".join(process.environment.get("program") or ["program"]))
    for track, name in TRACKS.items():
        yield _named(number, "thread_name", name, track)
    for piece in process.pieces:
        title = f"{names.kernel(piece.name)} #{piece.launch}" if piece.kind == "kernel" else _verb(piece)
        yield _span(number, TRACK_OF[piece.kind], title, piece.begin, piece.end, _facts(piece))
        faults = sum(run[2] for name in GPU_FAULTS + CPU_FAULTS for run in piece.sums.get(name, ()))
        if faults:
            yield {"ph": "C", "name": "faults", "pid": number, "ts": piece.begin * US_PER_NS, "args": {"faults": faults}}
            yield {"ph": "C", "name": "faults", "pid": number, "ts": piece.end * US_PER_NS, "args": {"faults": 0}}
    for pause in process.pauses:
        yield _span(number, 4, "not counted", pause.begin, pause.end, pause.sums)
    for part in process.ranges:
        yield _span(number, 5, part.name, part.begin, part.end)
    for at, resident in resident_over_time(process, Owners(process.allocations)):
        held = {names.allocation(a) if a else "unknown": amount for a, amount in resident.items()}
        yield {"ph": "C", "name": "bytes on GPUs", "pid": number, "ts": at * US_PER_NS, "args": held}


def _verb(piece):
    if piece.kind == "prefetched":
        return "prefetch to the host" if "out_user" in piece.sums else "prefetch to a GPU"
    return "fetch back" if any(name in piece.sums for name in BY_FAULT_OUT) else "faults"


def _facts(piece):
    facts = {name: sum(run[2] for run in runs) for name, runs in piece.sums.items()}
    moved = sum(facts.get(name, 0) for name in BY_FAULT_IN)
    return facts | ({"waiting_ms": piece.waiting / 1e6} if piece.waiting else {}) | ({"to GPU by faults": size(moved)} if moved else {})


def _span(process, track, name, begin, end, facts=None):
    event = {"ph": "X", "name": name, "pid": process, "tid": track, "ts": begin * US_PER_NS, "dur": max(end - begin, 1) * US_PER_NS}
    return event | {"args": facts} if facts else event


def _named(process, what, value, track=0):
    return {"ph": "M", "name": what, "pid": process, "tid": track, "args": {"name": value}}


def graph(processes):
    """A network file, for run, sweep, plan and compare."""
    from umbench import output
    from umbench.trace.costs import Costs, machine_of
    from umbench.trace.explain import busiest
    from umbench.trace.graph import convert
    process = busiest(processes)
    made = convert(process, Costs(machine_of(next(iter(process.gpus.values()), {}).get("name", ""))[0]))
    output.say(f"umbench: {made.name}: {made.said()}")
    return made.as_json()


FORMATS = {"perfetto": perfetto, "graph": graph}
