#!/usr/bin/env python3
"""Does a trace of `umbench run --strategy managed...` agree with what that very run counted by itself?

    umbench trace --out RUN.jsonl -- umbench run ... --out RECORD.jsonl
    trace/programs/agree.py RUN.jsonl RECORD.jsonl

umbench and the library each read their own queue of the driver's events; where the driver refuses these, the library hands CUPTI's records
on. umbench counts an iteration at a time and checks its sums against the driver's; the trace has a range for each. Exit code 1 where a byte or
a fault differs.
"""
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from umbench.trace import explain, reader  # noqa: E402

# counter of a record: quantities of a trace
SAME = {"fault_to_device_bytes": reader.BY_FAULT_IN, "prefetch_to_device_bytes": ("in_user",), "plan_evict_bytes": ("out_user",),
        "driver_evict_bytes": ("out_eviction",), "faults": reader.GPU_FAULTS}
RANGE = "counted by the program, too"


def compare(process, record):
    """[(what, counted by umbench, in the trace, whether they agree)]"""
    # A range an iteration, and one behind them. Where records were lost, umbench counted again, so the last ones count.
    begins_and_ends = sorted(each[:2] for each in process.named_ranges if each.name == RANGE)[-record["iterations"] - 1:-1]
    rows = []
    for name, (begin, end) in (("first", begins_and_ends[0]), ("last", begins_and_ends[-1])) if begins_and_ends else ():
        pieces = [piece for piece in process.pieces if begin <= piece.begin < end]
        for counter, quantities in SAME.items():
            own = record["counters"][name][counter]
            traced = sum(piece.sum_of(*quantities) for piece in pieces)
            same = traced == (own or 0)
            rows.append((f"{name} {counter}", own, traced, same))
    return rows


def main():
    trace, records = sys.argv[1:]
    process = explain.busiest_process(reader.read_trace_file(trace))
    with open(records, encoding="utf-8") as file:
        record = [line for line in map(json.loads, file) if line["kind"] == "record"][-1]
    rows = compare(process, record)
    for what, own, traced, same in rows:
        print(f"{what}: counted {own}, traced {traced}{'' if same else '  OFF'}")
    return 0 if rows and all(same for _, _, _, same in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
