"""Says why a program with managed memory is slow and which calls would help.

FILE is a trace of umbench trace or an SQLite export of Nsight Systems (nsys export --type sqlite, recorded with
--cuda-um-cpu-page-faults=true --cuda-um-gpu-page-faults=true). Savings are simulated, or estimated by a
machine file's figures; none is measured.
"""

import argparse
import sys

from umbench import arguments, load, output
from umbench.trace import files, findings, reader
from umbench.trace.costs import Costs, machine_of
from umbench.trace.facts import summarize
from umbench.trace.findings import Context, duration, size
from umbench.trace.names import Names

MAX_LINES, MAX_FINDINGS, WIDEST = 20, 4, 200
WORTH_NAMING = 0.01  # minimum share of all waiting for which a finding is listed


def explain(process, machine=None):
    """(Summary, [Finding], Costs, Names) of one process. `machine`: name of a machine file; None chooses by the GPU."""
    gpu = next(iter(process.gpus.values()), {}).get("name", "")
    name, fits = (machine, True) if machine else machine_of(gpu)
    costs = Costs(name)
    costs.fits = fits
    summary = summarize(process, costs)
    names = Names(process.allocations)
    return summary, findings.find(Context(summary, costs, names)), costs, names


def as_lines(process, summary, found, costs, names, others=0):
    lines = list(_head(process, summary, others))
    waiting = summary.stall_ns + summary.host_ns
    worth = [finding for finding in found if finding.saving_ns > WORTH_NAMING * waiting] or found[:1]
    if not worth:
        lines.append("Nothing of it waits for managed memory." if not process.lacking else "Nothing to explain.")
    room = MAX_LINES - len(lines) - 2
    for number, finding in enumerate(worth[:MAX_FINDINGS], 1):
        part = list(_finding(number, finding, names, costs))
        if len(part) > room:
            break
        lines += part
        room -= len(part)
    if worth:
        fit = "" if costs.fits else ", which need not fit this GPU (--machine NAME)"
        lines.append(f"Savings are simulated or estimated with machine file {costs.name}{fit}.")
    lines += [f"The trace lacks {what}." for what in _lacks(process)][: MAX_LINES - len(lines)]
    return [line if len(line) <= WIDEST else line[: WIDEST - 3] + "..." for line in lines[:MAX_LINES]]


def _head(process, summary, others):
    program = process.environment.get("program") or ["?"]
    gpus = ", ".join(f"{gpu.get('name') or 'GPU'}" for gpu in process.gpus.values()) or "no GPU"
    title = " ".join(program)
    title = title if len(title) <= 80 else title[:77] + "..."
    yield f"{title} on {gpus}: {process.last / 1e9:.3g} s" + (f" (and {others} more processes)" if others else "")
    yield (f"Kernels ran {duration(summary.kernel_ns)}, of it {duration(summary.stall_ns)} ({_percent(summary.stall_ns, summary.kernel_ns)}) "
           f"waiting for managed memory; the CPU waited {duration(summary.host_ns)} for it"
           + (" (timed while nothing was counted)." if process.times else "."))
    moved = [(f"{size(process.total(*reader.BY_FAULT_IN))} to GPUs by faults", process.total(*reader.BY_FAULT_IN)),
             (f"{size(process.total('in_user'))} to GPUs by prefetch", process.total("in_user")),
             (f"{size(process.total('in_peer'))} between GPUs", process.total("in_peer")),
             (f"{size(process.total(*reader.BY_FAULT_OUT))} to the host by faults", process.total(*reader.BY_FAULT_OUT)),
             (f"{size(process.total('out_user'))} to the host by prefetch", process.total("out_user")),
             (f"{size(process.total('out_eviction'))} evicted by the driver", process.total("out_eviction"))]
    shown = [text for text, amount in moved if amount] or ["nothing"]
    yield (f"Moved: {', '.join(shown)}; {process.total(*reader.GPU_FAULTS):,} faults of GPUs, {process.total(*reader.CPU_FAULTS):,} of CPUs.")


def _finding(number, finding, names, costs):
    where = names.description(finding.facts.allocation, size)
    yield f"{number}. {where}: {findings.TITLES[finding.key]} ({finding.key}), {duration(finding.waste_ns)}"
    yield f"   {finding.text}"
    for call, place in finding.calls:
        last = call is finding.calls[-1][0]
        yield f"   -> {call}{', ' + place if place else ''}" + (_saves(finding) if last else "")


def _saves(finding):
    if finding.saving_ns < WORTH_NAMING * finding.waste_ns:
        return ""
    return f"; saves about {duration(finding.saving_ns)}" + (" (simulated)" if finding.simulated else "")


def _lacks(process):
    yield from process.lacking
    if process.pauses:
        paused = sum(pause.end - pause.begin for pause in process.pauses) / 1e9
        yield (f"what moved in {paused:.3g} s of {process.last / 1e9:.3g} s: counting paused, since it slows the program; sums are scaled "
               + ("to what the driver counted" if process.driver else "by the time of kernels"))
    elif process.driver:
        for name, way in (("to_gpus", reader.IN), ("to_host", reader.OUT)):
            told, moved = process.counted(*way), process.driver[name]
            if abs(told - moved) > process.most_missed * moved:
                yield (f"some movements {name.replace('_', ' ').replace('gpu', 'GPU')}: recorded {size(told)}, the driver counted {size(moved)}; "
                       "sums are scaled")
    if process.lost:
        yield f"{process.lost:,} records that were lost"
    if process.end is None:
        yield "its end: the process was killed or crashed"


def _percent(part, whole):
    return f"{100 * part / whole:.0f} %" if whole else "0 %"


def as_data(process, summary, found, costs, names):
    return {
        "process": process.environment.get("process"), "program": process.environment.get("program"), "machine": costs.name,
        "kernel_ns": round(summary.kernel_ns), "stall_ns": round(summary.stall_ns), "host_ns": round(summary.host_ns),
        "findings": [{"key": f.key, "allocation": names.allocation(f.facts.allocation), "bytes": f.facts.allocation.bytes,
                      "waste_ns": round(f.waste_ns), "saving_ns": round(f.saving_ns), "simulated": f.simulated, "text": f.text,
                      "calls": [list(call) for call in f.calls]} for f in found],
        "lacking": list(_lacks(process))}


def busiest(processes):
    """The process to explain: the one with the most bytes moved and faults."""
    return max(processes, key=lambda process: (process.total(*reader.QUANTITIES), process.last))


def main():
    parser = arguments.Parser(prog="umbench explain", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE", help="RUN.jsonl or REPORT.sqlite")
    parser.add_argument("--machine", metavar="NAME", help="machine file whose figures tell what calls would save (that of the GPU)")
    parser.add_argument("--process", type=int, metavar="PID", help="of several processes, this one (each)")
    parser.add_argument("--json", action="store_true", help="as data, of every process")
    options = parser.parse_args()
    processes = files.read(options.file)
    if options.process is not None:
        processes = [p for p in processes if p.environment.get("process") == options.process]
        if not processes:
            raise load.BadInput(f"explain: {options.file} has no process {options.process}")
    if options.json:
        import json
        output.write(json.dumps([as_data(p, *explain(p, options.machine)) for p in processes], indent=2) + "\n")
        return 0
    process = busiest(processes)
    output.write("\n".join(as_lines(process, *explain(process, options.machine), others=len(processes) - 1)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "umbench", progress="explaining"))
