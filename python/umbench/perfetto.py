"""Timelines of records as a Chrome trace (JSON), which ui.perfetto.dev and chrome://tracing open.

There is a process for each record and a track for each lane; counters show resident device memory and the budget. Faults and evictions by
the driver are known only for the whole iteration, so they are attached to the iteration's span.
"""

import json
import re

from umbench import load

# {lane of the record: (track, its name)}
TRACK_BY_LANE = {"compute": (1, "compute"), "to_device": (2, "copies to the device"), "to_host": (3, "copies to the host, evictions")}
ITERATION_TRACK = 0
US_PER_NS = 1e-3


def as_text(_, records):
    records_with_timeline = [record for record in records if (record.get("timeline") or {}).get("spans")]
    if not records_with_timeline:
        raise load.TooLittle("no record has a timeline; run cells with --timeline")
    return trace_text(event for process_number, record in enumerate(records_with_timeline, 1) for event in _events(process_number, record))


def _events(process_number, record):
    timeline = record["timeline"]
    yield metadata_event(process_number, "process_name", _process_title(record))
    yield metadata_event(process_number, "process_sort_index", process_number, "sort_index")
    for track, name in [(ITERATION_TRACK, "iteration"), *TRACK_BY_LANE.values()]:
        yield metadata_event(process_number, "thread_name", name, track_number=track)
        yield metadata_event(process_number, "thread_sort_index", track, "sort_index", track)
    end_ns = max(span["end_ns"] for span in timeline["spans"])
    yield span_event(process_number, ITERATION_TRACK, f"iteration {timeline['iteration'] + 1} of {record['iterations']}",
                     0, end_ns, _shown_amounts(record), cat="iteration")
    for span in timeline["spans"]:
        yield span_event(process_number, TRACK_BY_LANE[span["lane"]][0], span["name"], span["begin_ns"], span["end_ns"], cat=_category(span))
    yield from _memory_counter_events(process_number, record, end_ns)


def _process_title(record):
    source_text = "simulated" if record["simulated"] else "replayed" if record.get("replayed") else "measured"
    return f"{record['key']} ({source_text})"


def _category(span):
    """The category of a span: `prefetch` for "prefetch conv1.y". The name of an operator's span has no verb."""
    verb_match = re.match(r"(prefetch|evict|discard|advise)\b", span["name"])
    return verb_match[1] if verb_match else "compute"


def _shown_amounts(record):
    """The counters and decisions of a record."""
    memory = record.get("memory") or {}
    amounts = {name: memory.get(name) for name in ("budget_bytes", "footprint_bytes", "peak_device_bytes")}
    amounts |= load.last_counters(record)
    return {name: value for name, value in amounts.items() if value is not None}


def _memory_counter_events(process_number, record, end_ns):
    memory_samples = record["timeline"].get("resident") or []
    budget_bytes = (record.get("memory") or {}).get("budget_bytes")
    bytes_over_time = [(memory_sample["at_ns"], memory_sample["bytes"]) for memory_sample in memory_samples]
    for time_ns, byte_count in bytes_over_time + [(end_ns, bytes_over_time[-1][1])] * bool(bytes_over_time):
        yield counter_event(process_number, "resident on the device", time_ns, {"bytes": byte_count})
    for time_ns in (0, end_ns) if budget_bytes is not None else ():
        yield counter_event(process_number, "budget", time_ns, {"bytes": budget_bytes})


# --- events of a Chrome trace ---

def trace_text(events):
    return json.dumps({"traceEvents": list(events), "displayTimeUnit": "ms"}) + "\n"


def span_event(process_number, track_number, name, begin_ns, end_ns, amounts=None, **fields):
    """An event from `begin_ns` to `end_ns` in ns. `amounts` are shown with it."""
    event = {"ph": "X", "name": name, "pid": process_number, "tid": track_number, "ts": begin_ns * US_PER_NS, "dur": (end_ns - begin_ns) * US_PER_NS}
    return event | fields | ({"args": amounts} if amounts else {})


def counter_event(process_number, name, time_ns, values):
    """An event that sets a counter to `values`, {series: number}, at a time."""
    return {"ph": "C", "name": name, "pid": process_number, "ts": time_ns * US_PER_NS, "args": values}


def metadata_event(process_number, metadata_name, value, field="name", track_number=0):
    """An event that gives a process or track a name or a place in the order."""
    return {"ph": "M", "name": metadata_name, "pid": process_number, "tid": track_number, "args": {field: value}}
