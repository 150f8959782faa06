"""Timelines of records as a Chrome trace (JSON), which ui.perfetto.dev and chrome://tracing open.

There is a process for each record and a track for each lane; counters show resident device memory and the budget. Work of the driver within
kernels (faults, evictions) is known only for the whole iteration, so it is attached to the iteration's span.
"""

import json
import re

from umbench import load

# lane: (track, name)
LANES = {"compute": (1, "compute"), "to_device": (2, "copies to the device"), "to_host": (3, "copies to the host, evictions")}
ITERATION_TRACK = 0
US_PER_NS = 1e-3


def as_text(_, records):
    drawn = [record for record in records if (record.get("timeline") or {}).get("spans")]
    if not drawn:
        raise load.TooLittle("no record has a timeline; run cells with --timeline")
    events = [event for number, record in enumerate(drawn, 1) for event in _events(number, record)]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}) + "\n"


def _events(process, record):
    timeline = record["timeline"]
    yield _metadata(process, "process_name", _title(record))
    yield _metadata(process, "process_sort_index", process, "sort_index")
    for track, name in [(ITERATION_TRACK, "iteration"), *LANES.values()]:
        yield _metadata(process, "thread_name", name, track=track)
        yield _metadata(process, "thread_sort_index", track, "sort_index", track)
    end = max(span["end_ns"] for span in timeline["spans"])
    yield _span(process, ITERATION_TRACK, f"iteration {timeline['iteration'] + 1} of {record['iterations']}", "iteration", 0, end, _facts(record))
    for span in timeline["spans"]:
        yield _span(process, LANES[span["lane"]][0], span["name"], _kind(span), span["begin_ns"], span["end_ns"])
    yield from _memory(process, record, end)


def _title(record):
    how = "simulated" if record["simulated"] else "replayed" if record.get("replayed") else "measured"
    return f"{record['key']} ({how})"


def _kind(span):
    """The kind of a span: `prefetch` for "prefetch conv1.y". The name of an operator's span has no verb."""
    verb = re.match(r"(prefetch|evict|discard|advise)\b", span["name"])
    return verb[1] if verb else "compute"


def _facts(record):
    """The counters and decisions of a record."""
    memory = record.get("memory") or {}
    facts = {name: memory.get(name) for name in ("budget_bytes", "footprint_bytes", "peak_device_bytes")}
    facts |= (record.get("counters") or {}).get("last") or {}
    return {name: value for name, value in facts.items() if value is not None}


def _memory(process, record, end):
    samples = record["timeline"].get("resident") or []
    budget = (record.get("memory") or {}).get("budget_bytes")
    held = [(sample["at_ns"], sample["bytes"]) for sample in samples]
    for at, size in held + [(end, held[-1][1])] * bool(held):
        yield {"ph": "C", "name": "resident on the device", "pid": process, "ts": at * US_PER_NS, "args": {"bytes": size}}
    for at in (0, end) if budget is not None else ():
        yield {"ph": "C", "name": "budget", "pid": process, "ts": at * US_PER_NS, "args": {"bytes": budget}}


def _span(process, track, name, kind, begin, end, facts=None):
    event = {"ph": "X", "name": name, "cat": kind, "pid": process, "tid": track, "ts": begin * US_PER_NS, "dur": (end - begin) * US_PER_NS}
    return event | {"args": facts} if facts else event


def _metadata(process, what, value, field="name", track=0):
    return {"ph": "M", "name": what, "pid": process, "tid": track, "args": {field: value}}
