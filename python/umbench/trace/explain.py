"""Says why a program with managed memory is slow and which calls would help.

FILE is a trace of umbench trace or an SQLite export of Nsight Systems (nsys export --type sqlite, recorded with
--cuda-um-cpu-page-faults=true --cuda-um-gpu-page-faults=true). Savings are simulated, or estimated by a
machine file's figures; none is measured.
"""

import argparse
import sys

from umbench import arguments, load, output
from umbench.trace import files, findings, reader
from umbench.trace.costs import Costs, machine_name_for_gpu
from umbench.trace.facts import summarize
from umbench.trace.findings import RuleContext, duration_text, size_text
from umbench.trace.names import ShortNames

MAX_LINES, MAX_FINDINGS, MAX_WIDTH = 20, 4, 200
MIN_SHARE = 0.01  # share of the waiting time; smaller savings are not printed


def explain(process: reader.TracedProcess, machine_name=None):
    """(ProcessSummary, [Finding], Costs, ShortNames) of one process. `machine_name`: the name of a machine file; None: of the file for the trace's GPU."""
    gpu_name = next(iter(process.gpus.values()), {}).get("name", "")
    used_machine_name, is_for_this_gpu = (machine_name, True) if machine_name else machine_name_for_gpu(gpu_name)
    costs = Costs(used_machine_name)
    costs.is_for_this_gpu = is_for_this_gpu
    summary = summarize(process, costs)
    short_names = ShortNames(process.allocations)
    return summary, findings.find_defects(RuleContext(summary, costs, short_names)), costs, short_names


def as_lines(process, summary, found_defects, costs, short_names, other_process_count=0):
    """The lines that `umbench explain` prints. explain() returned `summary` to `short_names`; `other_process_count` is the number of other processes."""
    lines = list(_head_lines(process, summary, other_process_count))
    waiting_ns = summary.stall_ns + summary.cpu_wait_ns
    shown_findings = [finding for finding in found_defects if finding.saving_ns > MIN_SHARE * waiting_ns] or found_defects[:1]
    if not shown_findings:
        lines.append("Nothing of it waits for managed memory." if not process.lacking else "Nothing to explain.")
    lines_left = MAX_LINES - len(lines) - 2
    for finding_number, finding in enumerate(shown_findings[:MAX_FINDINGS], 1):
        finding_lines = list(_finding_lines(finding_number, finding, short_names, costs))
        if len(finding_lines) > lines_left:
            break
        lines += finding_lines
        lines_left -= len(finding_lines)
    if shown_findings:
        other_gpu_note = "" if costs.is_for_this_gpu else ", which need not fit this GPU (--machine NAME)"
        lines.append(f"Savings are simulated or estimated with machine file {costs.name}{other_gpu_note}.")
    lines += [f"The trace lacks {missing_part}." for missing_part in _missing_parts(process)][: MAX_LINES - len(lines)]
    return [line if len(line) <= MAX_WIDTH else line[: MAX_WIDTH - 3] + "..." for line in lines[:MAX_LINES]]


def _head_lines(process, summary, other_process_count):
    command_words = process.environment.get("program") or ["?"]
    gpus = ", ".join(f"{gpu.get('name') or 'GPU'}" for gpu in process.gpus.values()) or "no GPU"
    command_text = " ".join(command_words)
    command_text = command_text if len(command_text) <= 80 else command_text[:77] + "..."
    yield f"{command_text} on {gpus}: {process.last_ns / 1e9:.3g} s" + (f" (and {other_process_count} more processes)" if other_process_count else "")
    yield (f"Kernels ran {duration_text(summary.kernel_ns)}, "
           f"of it {duration_text(summary.stall_ns)} ({_percent_text(summary.stall_ns, summary.kernel_ns)}) "
           f"waiting for managed memory; the CPU waited {duration_text(summary.cpu_wait_ns)} for it"
           + (" (timed while nothing was counted)." if process.spans_in_second_run else "."))
    moved_amounts = [(f"{size_text(process.estimated_total(*reader.BY_FAULT_IN))} to GPUs by faults", process.estimated_total(*reader.BY_FAULT_IN)),
                     (f"{size_text(process.estimated_total('in_user'))} to GPUs by prefetch", process.estimated_total("in_user")),
                     (f"{size_text(process.estimated_total('in_peer'))} between GPUs", process.estimated_total("in_peer")),
                     (f"{size_text(process.estimated_total(*reader.BY_FAULT_OUT))} to the host by faults",
                      process.estimated_total(*reader.BY_FAULT_OUT)),
                     (f"{size_text(process.estimated_total('out_user'))} to the host by prefetch", process.estimated_total("out_user")),
                     (f"{size_text(process.estimated_total('out_eviction'))} evicted by the driver", process.estimated_total("out_eviction"))]
    moved_texts = [text for text, amount in moved_amounts if amount] or ["nothing"]
    yield (f"Moved: {', '.join(moved_texts)}; "
           f"{process.estimated_total(*reader.GPU_FAULTS):,} faults of GPUs, {process.estimated_total(*reader.CPU_FAULTS):,} of CPUs.")


def _finding_lines(number, finding, short_names, costs):
    allocation_text = short_names.description(finding.facts.allocation, size_text)
    yield f"{number}. {allocation_text}: {findings.TITLES[finding.key]} ({finding.key}), {duration_text(finding.waste_ns)}"
    yield f"   {finding.text}"
    for call, place in finding.calls:
        is_last_call = call is finding.calls[-1][0]
        yield f"   -> {call}{', ' + place if place else ''}" + (_saving_text(finding) if is_last_call else "")


def _saving_text(finding):
    if finding.saving_ns < MIN_SHARE * finding.waste_ns:
        return ""
    return f"; saves about {duration_text(finding.saving_ns)}" + (" (simulated)" if finding.simulated else "")


def _missing_parts(process):
    """Yields texts on missing parts of the trace, each the end of a sentence "The trace lacks ..."."""
    yield from process.lacking
    if process.pauses:
        paused_s = sum(pause.end - pause.begin for pause in process.pauses) / 1e9
        yield (f"what moved in {paused_s:.3g} s of {process.last_ns / 1e9:.3g} s: counting paused, since it slows the program; sums are scaled "
               + ("to what the driver counted" if process.driver_sums else "by the time of kernels"))
    elif process.driver_sums:
        for driver_sum, quantities in (("to_gpus", reader.IN), ("to_host", reader.OUT)):
            recorded_bytes, driver_bytes = process.counted_total(*quantities), process.driver_sums[driver_sum]
            if abs(recorded_bytes - driver_bytes) > process.max_missed_share * driver_bytes:
                yield (f"some movements {driver_sum.replace('_', ' ').replace('gpu', 'GPU')}: "
                       f"recorded {size_text(recorded_bytes)}, the driver counted {size_text(driver_bytes)}; "
                       "sums are scaled")
    if process.lost_records:
        yield f"{process.lost_records:,} records that were lost"
    if process.end is None:
        yield "its end: the process was killed or crashed"


def _percent_text(part, whole):
    return f"{100 * part / whole:.0f} %" if whole else "0 %"


def as_json_value(process, summary, found_defects, costs, short_names):
    """What `umbench explain --json` writes of one process."""
    return {
        "process": process.environment.get("process"), "program": process.environment.get("program"), "machine": costs.name,
        "kernel_ns": round(summary.kernel_ns), "stall_ns": round(summary.stall_ns), "host_ns": round(summary.cpu_wait_ns),
        "findings": [{"key": f.key, "allocation": short_names.allocation_name(f.facts.allocation), "bytes": f.facts.allocation.bytes,
                      "waste_ns": round(f.waste_ns), "saving_ns": round(f.saving_ns), "simulated": f.simulated, "text": f.text,
                      "calls": [list(call) for call in f.calls]} for f in found_defects],
        "lacking": list(_missing_parts(process))}


def busiest_process(processes):
    """The process to explain: the one with the most bytes moved and faults."""
    return max(processes, key=lambda process: (process.estimated_total(*reader.QUANTITIES), process.last_ns))


def main():
    parser = arguments.Parser(prog="umbench explain", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE", help="RUN.jsonl or REPORT.sqlite")
    parser.add_argument("--machine", metavar="NAME", help="machine file whose figures tell what calls would save (that of the GPU)")
    parser.add_argument("--process", type=int, metavar="PID", help="of several processes, this one (each)")
    parser.add_argument("--json", action="store_true", help="as data, of every process")
    options = parser.parse_args()
    processes = files.read_trace(options.file)
    if options.process is not None:
        processes = [p for p in processes if p.environment.get("process") == options.process]
        if not processes:
            raise load.BadInput(f"explain: {options.file} has no process {options.process}")
    if options.json:
        import json
        output.write(json.dumps([as_json_value(p, *explain(p, options.machine)) for p in processes], indent=2) + "\n")
        return 0
    process = busiest_process(processes)
    output.write("\n".join(as_lines(process, *explain(process, options.machine), other_process_count=len(processes) - 1)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "umbench", progress_task="explaining"))
