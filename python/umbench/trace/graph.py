"""Makes a network file of a trace, so that other hints, sizes and machines can be simulated: run, sweep, plan and compare take it.

    umbench export RUN.jsonl --format graph --out RUN.graph.json

Each launch that moved something becomes an opaque operator that reads what it moved or faulted on, by blocks of 2 MiB, and takes the
time that it did not wait. Launches that moved nothing take their time and touch nothing: which memory they use is not known. Where the
CPU faulted on what launches had used, an operator of the label "cpu" touches it as the CPU does (core/graph.hpp); what the CPU does
with it takes no time here. The driver writes back whatever it evicts, read or written, so reads stand for writes too; strategies that
copy explicitly move less here than the program would, and have no plan if the CPU takes part.
"""

import json
import re
from collections import defaultdict

from umbench import load
from umbench.trace.facts import DurationEstimator, stall_ns_of, summarize
from umbench.trace.names import ShortNames
from umbench.trace.reader import BLOCK, BY_FAULT_IN, BY_FAULT_OUT, CPU_FAULTS, GPU_FAULTS, AllocationFinder, runs_of_neighbours

MAX_OPERATORS, MAX_TENSORS = 20_000, 20_000
TOUCHES = {"kernel": (*BY_FAULT_IN, *GPU_FAULTS, "in_peer", "in_user"), "host": (*BY_FAULT_OUT, *CPU_FAULTS)}
MIN_OPERATOR_NS = 1000
CPU_LABEL = "cpu"  # label of operators that stand for the CPU


class TraceNetwork:
    """The network made of a trace. known_ns, unknown_ns: times of launches whose memory is known, and of the others; cpu_operators: number of
    operators that stand for the CPU."""

    def __init__(self):
        self.name = ""
        self.tensors, self.operators = [], []
        self.known_ns = self.unknown_ns = 0
        self.bytes = self.cpu_operators = 0
        self.paused = False

    def summary_text(self):
        whole = self.known_ns + self.unknown_ns
        share = 100 * self.known_ns / whole if whole else 0
        text = (f"{len(self.operators)} operators, {len(self.tensors)} tensors; what launches touch is known for {share:.0f} % of the kernels' "
                "time, the rest touches nothing here")
        if self.paused:
            text += "; pauses of counting are left out"
        return text + (f"; the CPU uses it {self.cpu_operators} times" if self.cpu_operators else "")

    def as_json(self):
        return json.dumps({"schema": 1, "kind": "graph", "name": self.name, "precision": "fp32", "tensors": self.tensors, "ops": self.operators},
                          indent=1) + "\n"


def network_of_process(process, costs, only_allocation=None):
    """Converts a process; with `only_allocation`, just the launches that used that allocation. Returns a TraceNetwork. Throws TooLittle if no launch
    moved anything."""
    summary, estimator = summarize(process, costs), DurationEstimator(process, costs)
    allocation_finder = AllocationFinder(process.allocations)
    accesses = _accesses(process, allocation_finder, only_allocation)
    if not accesses:
        raise load.TooLittle("no launch of the trace moved managed memory or faulted on it, so what it touches is not known")
    if len(accesses) > MAX_OPERATORS:
        raise load.TooLittle(f"{len(accesses):,} launches moved something, more than {MAX_OPERATORS:,}; trace a shorter part")
    network = TraceNetwork()
    network.name = _network_name(process)
    network.paused = bool(process.pauses)
    short_names = ShortNames(process.allocations)
    accesses_of_block = defaultdict(list)  # (allocation, block number): numbers of accesses
    for number, (piece, block_numbers) in enumerate(accesses):
        for block_number in block_numbers:
            accesses_of_block[allocation_finder.allocation_of(block_number, piece.begin), block_number].append(number)
    reads = _add_tensors(network, accesses_of_block, short_names)
    steps = [(piece.begin, piece.kind, number, piece) for number, (piece, _) in enumerate(accesses)]
    steps += [(stretch.begin, "quiet", number, stretch) for number, stretch in enumerate(process.stretches_without_moves) if stretch.kernels]
    for _, what, number, entry in sorted(steps, key=lambda step: step[:3]):
        if what == "host":
            network.cpu_operators += 1
            _add_operator(network, f"{CPU_LABEL}.{network.cpu_operators}", reads[number], MIN_OPERATOR_NS, CPU_LABEL)
        elif what == "kernel":
            waited = stall_ns_of(entry, len(_block_numbers_of(entry)) * BLOCK, summary.shortest_ns_by_kernel, costs, estimator)
            spent = max(MIN_OPERATOR_NS, round(estimator.kernel_ns(entry) - waited))
            network.known_ns += spent
            _add_operator(network, f"{short_names.kernel_name(entry.name)}.{entry.launch}", reads[number], spent, short_names.kernel_name(entry.name))
        else:
            spent = max(MIN_OPERATOR_NS, sum(busy for _, _, busy in entry.kernels))
            network.unknown_ns += spent
            _add_operator(network, f"quiet.{number}", [], spent, "quiet")
    return network


def _accesses(process, allocation_finder, only_allocation):
    """[(piece, numbers of the blocks that it touches)] of launches, and of faults of the CPU on blocks that launches used before."""
    found, used = [], set()
    for piece in process.pieces:
        block_numbers = _block_numbers_of(piece)
        if only_allocation:
            block_numbers = {number for number in block_numbers if allocation_finder.allocation_of(number, piece.begin) == only_allocation}
        if piece.kind == "kernel":
            used |= block_numbers
        else:
            block_numbers &= used
        if block_numbers:
            found.append((piece, block_numbers))
    return found


def _block_numbers_of(trace_piece):
    return {number for name in TOUCHES.get(trace_piece.kind, ()) for first, count, _ in trace_piece.sums.get(name, ()) for number in range(first, first + count)}


def _add_tensors(network, accesses_of_block, short_names):
    """Adds one tensor for each run of neighbouring blocks that the same accesses touch. Returns {number of the access: names of its tensors}."""
    by_users = defaultdict(set)
    for (allocation, block_number), launches in accesses_of_block.items():
        by_users[allocation, tuple(launches)].add(block_number)
    reads = defaultdict(list)
    found = []
    for (allocation, launches), block_numbers in by_users.items():
        found += [(first, count, allocation, launches) for first, count in runs_of_neighbours(block_numbers)]
    if len(found) > MAX_TENSORS:
        raise load.TooLittle(f"the launches touch {len(found):,} separate parts of memory, more than {MAX_TENSORS:,}; trace a shorter part")
    taken = defaultdict(int)
    for first, count, allocation, launches in sorted(found, key=lambda part: part[:2]):
        label = short_names.allocation_name(allocation) if allocation else f"0x{first * BLOCK:x}"
        name = f"{label}.{taken[label]}"
        taken[label] += 1
        size = count * BLOCK if not allocation else min(count * BLOCK, max(4, allocation.bytes))
        network.tensors.append({"name": name, "shape": [1, max(1, size // 4), 1, 1], "use": "parameter"})
        network.bytes += size
        for launch in launches:
            reads[launch].append(name)
    return reads


def _add_operator(network, name, tensors_read, duration_ns, label):
    number = len(network.operators)
    out = f"step.{number}"
    network.tensors.append({"name": out, "shape": [1, 1, 1, 1], "use": "output"})
    network.operators.append({"name": f"{number}.{name}", "kind": "opaque", "label": label, "flops": 0,
                           "bytes": 4, "duration_ns": duration_ns, "in": tensors_read, "out": [out], "repeatable": False})


def _network_name(process):
    program = (process.environment.get("program") or ["program"])
    word = next((w for w in reversed(program[:2]) if not w.startswith("-")), program[0])
    name = re.sub(r"[^a-z0-9_.-]+", "_", re.sub(r"\.\w+$", "", word.rsplit("/", 1)[-1]).lower()).strip("._-")
    return f"trace-{name or 'program'}"

