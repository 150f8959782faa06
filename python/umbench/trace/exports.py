"""Writes traces in the formats of other tools, and as network files."""

from umbench.perfetto import counter_event, metadata_event, span_event, trace_text
from umbench.trace.findings import size_text
from umbench.trace.names import ShortNames
from umbench.trace.reader import BY_FAULT_IN, BY_FAULT_OUT, CPU_FAULTS, GPU_FAULTS, IN, OUT, AllocationFinder
from umbench.trace.residence import resident_bytes_over_time

CPU_TRACK, RANGES_TRACK, PAUSES_TRACK = "CPU: faults, and what it fetched back", "named ranges", "not counted"
# Tracks of a GPU beside its kernels: (name, quantities).
GPU_TRACKS = (("migrations to it", (*IN, "in_peer")), ("migrations to the host", OUT), ("faults", GPU_FAULTS))


def perfetto_text(processes):
    """Chrome trace (JSON): for each GPU tracks for launches, migrations each way and faults; tracks for the CPU, prefetches and named
    ranges; counters for faults and for bytes resident by allocation."""
    return trace_text(event for process_number, process in enumerate(processes, 1)
                      for event in _events(process.environment.get("process") or process_number, process))


def _events(process_number, process):
    short_names = ShortNames(process.allocations)
    track_numbers = {}
    yield metadata_event(process_number, "process_name", " ".join(process.environment.get("program") or ["program"]))
    for track, title, begin, end, amounts in sorted(_spans(process, short_names), key=lambda span: span[0]):
        if track not in track_numbers:
            track_numbers[track] = len(track_numbers) + 1
            yield metadata_event(process_number, "thread_name", track, track_number=track_numbers[track])
        yield span_event(process_number, track_numbers[track], title, begin, max(end, begin + 1), amounts)
    for piece in process.pieces:
        fault_count = piece.sum_of(*GPU_FAULTS, *CPU_FAULTS)
        if fault_count:
            yield counter_event(process_number, "faults", piece.begin, {"faults": fault_count})
            yield counter_event(process_number, "faults", piece.end, {"faults": 0})
    for time_ns, bytes_by_allocation in resident_bytes_over_time(process, AllocationFinder(process.allocations)):
        bytes_by_name = {short_names.allocation_name(allocation) if allocation else "unknown": byte_count
                         for allocation, byte_count in bytes_by_allocation.items()}
        yield counter_event(process_number, "bytes on GPUs", time_ns, bytes_by_name)


def _spans(process, short_names):
    """Yields (track, title, begin, end, facts). Movements while a kernel ran have the kernel's times."""
    for piece in process.pieces:
        amounts = _shown_amounts(piece)
        if piece.kind != "kernel":
            track = {"host": CPU_TRACK, "prefetched": "prefetches", "other": "not of a launch"}[piece.kind]
            yield track, _title_outside_kernels(piece), piece.begin, piece.end, amounts
            continue
        yield f"GPU {piece.gpu}: kernels that moved or faulted", f"{short_names.kernel_name(piece.name)} #{piece.launch}", piece.begin, piece.end, amounts
        for track, quantities in GPU_TRACKS:
            amount = piece.sum_of(*quantities)
            if amount:
                amounts_of_track = {name: amounts[name] for name in quantities if name in amounts}
                yield f"GPU {piece.gpu}: {track}", f"{amount} faults" if track == "faults" else size_text(amount), piece.begin, piece.end, amounts_of_track
    for pause in process.pauses:
        yield PAUSES_TRACK, PAUSES_TRACK, pause.begin, pause.end, pause.sums
    for named_range in process.named_ranges:
        yield RANGES_TRACK, named_range.name, named_range.begin, named_range.end, None


def _title_outside_kernels(trace_piece):
    if trace_piece.kind == "prefetched":
        return "prefetch to the host" if "out_user" in trace_piece.sums else "prefetch to a GPU"
    return "fetch back" if any(name in trace_piece.sums for name in BY_FAULT_OUT) else "faults"


def _shown_amounts(trace_piece):
    """{quantity: amount} of a piece, which is shown with its spans."""
    amounts = {name: trace_piece.sum_of(name) for name in trace_piece.sums}
    fault_bytes = trace_piece.sum_of(*BY_FAULT_IN)
    return (amounts
            | ({"waiting_ms": trace_piece.waiting_ns / 1e6} if trace_piece.waiting_ns else {})
            | ({"to GPU by faults": size_text(fault_bytes)} if fault_bytes else {}))


def network_file_text(processes):
    """A network file, for run, sweep, plan and compare."""
    from umbench import output
    from umbench.trace.costs import Costs, machine_name_for_gpu
    from umbench.trace.explain import busiest_process
    from umbench.trace.graph import network_of_process
    process = busiest_process(processes)
    network = network_of_process(process, Costs(machine_name_for_gpu(next(iter(process.gpus.values()), {}).get("name", ""))[0]))
    output.print_to_stderr(f"umbench: {network.name}: {network.summary_text()}")
    return network.as_json()


FORMATS = {"perfetto": perfetto_text, "graph": network_file_text}
