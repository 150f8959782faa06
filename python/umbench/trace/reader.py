"""Reads trace files: what each process did to managed memory, by kernel and block of 2 MiB."""

import json
from collections import namedtuple
from dataclasses import dataclass, field
from functools import cached_property

from umbench import load

BLOCK = 2 * 1024 * 1024  # bytes; the number of a block is its address // BLOCK
GRANULE = 64 * 1024
EVERY_GRANULE = 0xFFFFFFFF
HOST = None  # device of allocations and hints for the host

BY_FAULT_IN = ("in_demand", "in_tree", "in_counter", "in_unknown")
BY_FAULT_OUT = ("out_demand", "out_tree", "out_counter", "out_unknown")
GPU_FAULTS = ("gpu_read_faults", "gpu_write_faults")
CPU_FAULTS = ("cpu_read_faults", "cpu_write_faults")
IN, OUT = (*BY_FAULT_IN, "in_user", "in_eviction"), (*BY_FAULT_OUT, "out_user", "out_eviction")  # quantities that moved over the host's link
QUANTITIES = (*IN, *OUT, "in_peer", *GPU_FAULTS, *CPU_FAULTS, "thrashing", "throttling", "remote_maps")

# All times are in nanoseconds since the trace began.
class TracePiece(namedtuple("TracePiece", "kind begin end name launch gpu waiting_ns batches records sums granules place")):
    """A launch, or a group of events outside launches; `kind` is "kernel", "host", "prefetched" or "other". `sums` is {quantity: [(number
    of the first block, count of blocks, sum)]}, `granules` [(number of the first block, count, mask of their 64 KiB)] of blocks of which only a part moved or faulted."""

    __slots__ = ()

    def sum_of(self, *quantities):
        return sum(run[2] for quantity in quantities for run in self.sums.get(quantity, ()))


# `at` is the time of the call, `until` that at which the allocation was freed (None: never) or the call returned. `callers`: the code places of
# the call, innermost first. `device`: a GPU or HOST.
Allocation = namedtuple("Allocation", "number at until address bytes device memory callers")
Hint = namedtuple("Hint", "at until call address bytes device callers")
# A stretch of launches that moved nothing. kernels: [(name, count, busy_ns)], copies: {way: (count, bytes, ns)}.
Stretch = namedtuple("Stretch", "begin end gpu kernels copies")
Range = namedtuple("Range", "begin end name")
Pause = namedtuple("Pause", "begin end sums")  # a pause of counting; `sums` are the driver's: {one of DRIVER_SUMS: amount}
# Largest share of the driver's bytes that a trace may lack without a note. Pauses of counting begin and end at slightly different times for
# driver and trace.
MAX_MISSED_SHARE, MAX_MISSED_SHARE_WITH_PAUSES = 0.001, 0.01
DRIVER_SUMS = ("to_gpus", "to_host", "gpu_faults", "cpu_faults")


@dataclass
class TracedProcess:
    """The contents of a trace for one process. Times are in nanoseconds."""
    environment: dict
    gpus: dict = field(default_factory=dict)
    allocations: list = field(default_factory=list)
    hints: list = field(default_factory=list)
    pieces: list = field(default_factory=list)  # sorted by begin
    stretches_without_moves: list = field(default_factory=list)  # stretches of launches that moved nothing
    unseen_stretches: list = field(default_factory=list)  # stretches of launches during pauses; whether they moved anything is unknown
    pauses: list = field(default_factory=list)
    driver_sums: dict = None  # the driver's sums over the whole run; None if unknown
    named_ranges: list = field(default_factory=list)
    lacking: list = field(default_factory=list)
    lost_records: int = 0
    end: int = None  # None if the process crashed or was killed
    spans_in_second_run: dict = field(default_factory=dict)  # {(GPU, kernel, launch): (begin, end)} of a second run in which nothing was counted

    def estimated_total(self, *quantities):
        """The estimated sum of the quantities over the whole run: the counted sum, scaled for the time that was not counted."""
        return sum(round(self.counted_total(quantity) * self.scale_of(quantity)) for quantity in quantities)

    def counted_total(self, *quantities):
        return sum(piece.sum_of(*quantities) for piece in self.pieces)

    def scale_of(self, quantity):
        """The factor from the counted sum to that of the whole run if counting paused or records were lost: from the driver's sums of
        bytes, else from the time of kernels."""
        return self._scales["to_gpus" if quantity in IN else "to_host" if quantity in OUT else None]

    @property
    def max_missed_share(self):
        return MAX_MISSED_SHARE_WITH_PAUSES if self.pauses else MAX_MISSED_SHARE

    @cached_property
    def _scales(self):
        if self.driver_sums:
            quantities_by_way = {"to_gpus": IN, "to_host": OUT, None: (*IN, *OUT)}
            driver_bytes = self.driver_sums | {None: self.driver_sums["to_gpus"] + self.driver_sums["to_host"]}
            counted_bytes = {way: self.counted_total(*quantities) for way, quantities in quantities_by_way.items()}
            return {way: driver_bytes[way] / counted_bytes[way]
                    if driver_bytes[way] > (1 + self.max_missed_share) * counted_bytes[way] > 0 else 1
                    for way in quantities_by_way}
        return dict.fromkeys(("to_gpus", "to_host", None), self._scale_by_time())

    def _scale_by_time(self):
        unseen_ns, seen_ns = (sum(busy_ns for stretch in stretches for _, _, busy_ns in stretch.kernels)
                              for stretches in (self.unseen_stretches, self.stretches_without_moves))
        seen_ns += sum(piece.end - piece.begin for piece in self.pieces if piece.kind == "kernel")
        return 1 + unseen_ns / seen_ns if seen_ns else 1

    @property
    def last_ns(self):
        """The last time in the trace."""
        if self.end is not None:
            return self.end
        return max([piece.end for piece in (*self.pieces, *self.stretches_without_moves, *self.unseen_stretches)], default=0)


def read_trace_file(path):
    """[TracedProcess] of a trace file. Throws BadInput. An incomplete last line, which a crash leaves, is left out."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except (OSError, ValueError) as error:
        raise load.BadInput(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    lines = data.split(b"\n")
    torn_line = lines.pop()
    processes = []
    for line_number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            entry = json.loads(line)
            _add_entry(entry, processes)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise load.BadInput(f"{path}:{line_number}: no line of a trace ({_error_text(error)}); umbench trace writes such files") from error
    if not processes:
        raise load.BadInput(f"{path}: no trace of a program; umbench trace writes such files")
    second_runs = [process for process in processes if process.environment.get("role") == "times"]
    processes = [process for process in processes if process.environment.get("role") != "times"]
    for process, second_run in zip(processes, second_runs):
        process.spans_in_second_run = second_run.spans_in_second_run
    for process in processes:
        process.pieces.sort(key=lambda piece: piece.begin)
        process.hints.sort(key=lambda hint: hint.at)
        if torn_line and not second_runs and process is processes[-1]:
            process.lacking.append("its end: the last line is torn")
    return processes


def _error_text(error):
    return f"no field {error}" if isinstance(error, KeyError) else " ".join(str(error).split())[:80]


def _add_entry(entry, processes):
    kind = entry["kind"]
    if kind == "environment":
        if entry.get("tool") != "umbench trace" or entry["schema"] != 1:
            raise ValueError("this reader knows traces of schema 1")
        processes.append(TracedProcess(entry))
        processes[-1].names = {}
        processes[-1].live_numbers = {}
        return
    if not processes:
        raise ValueError("before any environment")
    add_entry = _ADDER_BY_KIND.get(kind)
    if add_entry:
        add_entry(processes[-1], entry)


def _gpu_or_host(value):
    """A field's GPU, or HOST."""
    return HOST if value == "host" else value


def _add_name(process, entry):
    process.names[entry["id"]] = entry["name"]


def _add_gpu(process, entry):
    process.gpus[entry["gpu"]] = entry


def _add_allocation(process, entry):
    callers = tuple(process.names[name_id] for name_id in entry.get("called", []))
    process.live_numbers[entry["address"]] = len(process.allocations)
    process.allocations.append(Allocation(len(process.allocations), entry["at_ns"], None, entry["address"], entry["bytes"],
                                          _gpu_or_host(entry.get("device")), entry["memory"], callers))


def _end_allocation(process, entry):
    number = process.live_numbers.pop(entry["address"], None)
    if number is not None:
        process.allocations[number] = process.allocations[number]._replace(until=entry["at_ns"])


def _add_hint(process, entry):
    callers = tuple(process.names[name_id] for name_id in entry.get("called", []))
    process.hints.append(Hint(entry["at_ns"], entry["until_ns"], entry["call"], entry["address"], entry["bytes"],
                              _gpu_or_host(entry["device"]), callers))


def _block_runs(triples):
    return [(int(first_block), int(block_count), int(amount)) for first_block, block_count, amount in triples]


def _add_piece(process, entry):
    kind = entry["kind"]
    place = process.names[entry["place"]] if "place" in entry else None
    process.pieces.append(TracePiece(
        kind, entry["begin_ns"], entry["end_ns"], process.names[entry["name"]] if kind == "kernel" else None, entry.get("launch"),
        entry.get("gpu"), entry.get("waiting_ns", 0), entry.get("batches", 0),
        entry.get("records", 0), {name: _block_runs(entry[name]) for name in QUANTITIES if name in entry}, _block_runs(entry.get("granules", [])), place))


def _add_span_in_second_run(process, entry):
    process.spans_in_second_run[entry["gpu"], process.names[entry["name"]], entry["launch"]] = (entry["begin_ns"], entry["end_ns"])


def _add_stretch(process, entry):
    kernels = [(process.names[name_id], launch_count, busy_ns) for name_id, launch_count, busy_ns in entry["kernels"]]
    stretches = process.stretches_without_moves if entry["kind"] == "quiet" else process.unseen_stretches
    stretches.append(Stretch(entry["begin_ns"], entry["end_ns"], entry["gpu"], kernels,
                             {way: tuple(sums) for way, sums in entry.get("copies", {}).items()}))


def _add_pause(process, entry):
    process.pauses.append(Pause(entry["begin_ns"], entry["end_ns"], {name: entry[name] for name in DRIVER_SUMS}))


def _add_range(process, entry):
    process.named_ranges.append(Range(entry["begin_ns"], entry["end_ns"], process.names[entry["name"]]))


def _add_lacking(process, entry):
    process.lacking.append(entry["what"])


def _set_end(process, entry):
    process.end = entry["at_ns"]
    process.lost_records += entry.get("lost_records", 0)
    if "to_gpus" in entry:
        process.driver_sums = {name: entry[name] for name in DRIVER_SUMS}


_ADDER_BY_KIND = {
    "name": _add_name, "gpu": _add_gpu, "allocation": _add_allocation, "free": _end_allocation, "hint": _add_hint, "kernel": _add_piece,
    "host": _add_piece, "prefetched": _add_piece, "other": _add_piece, "quiet": _add_stretch, "unseen": _add_stretch, "uncounted": _add_pause,
    "timed": _add_span_in_second_run, "range": _add_range, "lacking": _add_lacking, "end": _set_end}


class AllocationFinder:
    """Finds the managed allocation of a block at a time. If several share the block, that with the most bytes of the block counts."""

    def __init__(self, allocations):
        self.managed = sorted((a for a in allocations if a.memory == "managed"), key=lambda a: (a.address, a.at))
        self.allocations_by_block = {}
        for allocation in self.managed:
            last_block = (allocation.address + max(allocation.bytes, 1) - 1) // BLOCK
            for block_number in range(allocation.address // BLOCK, last_block + 1):
                self.allocations_by_block.setdefault(block_number, []).append(allocation)

    def allocation_of(self, block_number, time_ns):
        candidates = self.allocations_by_block.get(block_number)
        if not candidates:
            return None
        if len(candidates) == 1:
            return candidates[0]
        live_candidates = [a for a in candidates if a.at <= time_ns and (a.until is None or time_ns <= a.until)] or candidates
        begin_address, end_address = block_number * BLOCK, (block_number + 1) * BLOCK
        return max(live_candidates, key=lambda a: (min(end_address, a.address + a.bytes) - max(begin_address, a.address), -a.address))


def granule_masks_of(trace_piece):
    """{block number: mask of the granules that moved or faulted} of the blocks of which only a part moved or faulted."""
    return {block_number: mask for first_block, count, mask in trace_piece.granules for block_number in range(first_block, first_block + count)}


def runs_of_neighbours(block_numbers):
    """[(number of the first block, count of blocks)] of the runs of neighbouring blocks in a set."""
    runs = []
    for block_number in sorted(block_numbers):
        if runs and runs[-1][0] + runs[-1][1] == block_number:
            runs[-1][1] += 1
        else:
            runs.append([block_number, 1])
    return [tuple(run) for run in runs]

