"""Compares two traces of the same program: does it move more, fault more or wait longer?

    umbench compare BASE.jsonl HEAD.jsonl [--limit bytes=1%] [--limit faults=20%] [--limit time=10%]

Figures are sums over all processes. A row is worse if it grew by more than its kind's limit and by more than a floor. If counting paused,
sums by cause are scaled and not judged ("about"); the driver's own are exact (umbench trace --whole never pauses). The exit code is 1 if a
row is worse, 3 if a trace lost records or ended early.
"""

import argparse
from collections import namedtuple

from umbench import arguments, load, output
from umbench.trace import explain, files, reader

EXIT_WORSE = 1
GROWTH_LIMITS = {"bytes": 0.01, "faults": 0.20, "time": 0.10}
IGNORED_GROWTH = {"bytes": 2 * 1024 * 1024, "faults": 100, "time": 1_000_000}
# Sums that the driver also counts during pauses; name: (kind, one of reader.DRIVER_SUMS).
DRIVER_ROWS = {"to GPUs, by the driver's count": ("bytes", "to_gpus"), "to the host, by the driver's count": ("bytes", "to_host")}
Row = namedtuple("Row", "name kind base head verdict")

# Rows with sums of counted events; name: (kind, quantities).
COUNTED_ROWS = {
    "to GPUs by faults": ("bytes", reader.BY_FAULT_IN), "to GPUs by prefetch": ("bytes", ("in_user",)), "between GPUs": ("bytes", ("in_peer",)),
    "to the host by faults": ("bytes", reader.BY_FAULT_OUT), "to the host by prefetch": ("bytes", ("out_user",)),
    "evicted by the driver": ("bytes", ("out_eviction",)), "faults of GPUs": ("faults", reader.GPU_FAULTS),
    "faults of CPUs": ("faults", reader.CPU_FAULTS), "thrashing": ("faults", ("thrashing",))}


def compared_rows(base_processes, head_processes, limits):
    """[Row] of two lists of processes; rows that are 0 on both sides are left out."""
    rows = [_row(name, kind, sum(p.estimated_total(*quantities) for p in base_processes),
                 sum(p.estimated_total(*quantities) for p in head_processes), limits)
            for name, (kind, quantities) in COUNTED_ROWS.items()]
    if any(p.pauses for p in (*base_processes, *head_processes)):
        rows = [row._replace(verdict="about") for row in rows]
    if all(p.driver_sums for p in (*base_processes, *head_processes)):
        rows += [_row(name, kind, sum(p.driver_sums[driver_sum] for p in base_processes), sum(p.driver_sums[driver_sum] for p in head_processes), limits)
                 for name, (kind, driver_sum) in DRIVER_ROWS.items()]
    base_times, head_times = _ns_by_row_name(base_processes), _ns_by_row_name(head_processes)
    rows += [_row(name, "time", base_times[name], head_times[name], limits) for name in base_times]
    return [row for row in rows if row.base or row.head]


def _ns_by_row_name(processes):
    """{name of a row: nanoseconds} of all processes together."""
    summaries = [explain.explain(process)[0] for process in processes]
    return {"time of kernels": sum(s.kernel_ns for s in summaries), "of it, waiting for memory": sum(s.stall_ns for s in summaries),
            "the CPU waiting for memory": sum(s.cpu_wait_ns for s in summaries)}


def _row(name, kind, base_amount, head_amount, limits):
    growth = head_amount - base_amount
    is_beyond_limits = abs(growth) > max(limits[kind] * base_amount, IGNORED_GROWTH[kind])
    return Row(name, kind, base_amount, head_amount, ("worse" if growth > 0 else "better") if is_beyond_limits else "same")


def reason_if_incomplete(processes, trace_file):
    """The reason why a trace cannot be judged, or None."""
    for process in processes:
        if process.lost_records:
            return f"{trace_file}: {process.lost_records:,} records were lost"
        if process.end is None:
            return f"{trace_file}: the program was killed or crashed"
    return None


def as_text(rows):
    table = [("", "base", "head", "change", "")] + [
        (row.name, _amount_text(row.kind, row.base), _amount_text(row.kind, row.head),
         f"{100 * (row.head - row.base) / row.base:+.1f} %" if row.base else "new", row.verdict) for row in rows]
    widths = [max(len(cells[column]) for cells in table) for column in range(5)]
    return "\n".join("  ".join(cell.ljust(width) if column in (0, 4) else cell.rjust(width)
                               for column, (cell, width) in enumerate(zip(cells, widths))).rstrip()
                     for cells in table) + "\n"


def _amount_text(kind, amount):
    if kind == "time":
        return f"{amount / 1e6:.2f} ms"
    return f"{amount / 2**20:.2f} MiB" if kind == "bytes" else f"{amount:,}"


def main(argv):
    parser = arguments.Parser(prog="umbench compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", metavar="BASE.jsonl")
    parser.add_argument("head", metavar="HEAD.jsonl")
    parser.add_argument("--limit", action="append", default=[], type=arguments.limit_parser(GROWTH_LIMITS), metavar="KIND=SHARE",
                        help="growth that is allowed (" + ", ".join(f"{kind}={100 * limit:.0f}%%" for kind, limit in GROWTH_LIMITS.items()) + ")")
    options = parser.parse_args(argv)
    base_processes, head_processes = files.read_trace(options.base), files.read_trace(options.head)
    rows = compared_rows(base_processes, head_processes, GROWTH_LIMITS | dict(options.limit))
    output.write(as_text(rows) if rows else "Nothing moved in either.\n")
    reason = reason_if_incomplete(base_processes, options.base) or reason_if_incomplete(head_processes, options.head)
    if reason:
        raise load.TooLittle(reason)
    return EXIT_WORSE if any(row.verdict == "worse" for row in rows) else 0
