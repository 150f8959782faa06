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
TOUCHING_QUANTITIES = {"kernel": (*BY_FAULT_IN, *GPU_FAULTS, "in_peer", "in_user"), "host": (*BY_FAULT_OUT, *CPU_FAULTS)}
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
        self.has_pauses = False

    def summary_text(self):
        total_ns = self.known_ns + self.unknown_ns
        known_percent = 100 * self.known_ns / total_ns if total_ns else 0
        text = (f"{len(self.operators)} operators, {len(self.tensors)} tensors; "
                f"what launches touch is known for {known_percent:.0f} % of the kernels' "
                "time, the rest touches nothing here")
        if self.has_pauses:
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
    network.has_pauses = bool(process.pauses)
    short_names = ShortNames(process.allocations)
    accesses_of_block = defaultdict(list)  # (allocation, block number): numbers of accesses
    for access_number, (piece, block_numbers) in enumerate(accesses):
        for block_number in block_numbers:
            accesses_of_block[allocation_finder.allocation_of(block_number, piece.begin), block_number].append(access_number)
    tensor_names_by_access = _add_tensors(network, accesses_of_block, short_names)
    entries = [(piece.begin, piece.kind, access_number, piece) for access_number, (piece, _) in enumerate(accesses)]
    entries += [(stretch.begin, "quiet", stretch_number, stretch)
                for stretch_number, stretch in enumerate(process.stretches_without_moves) if stretch.kernels]
    for _, kind, number, entry in sorted(entries, key=lambda each: each[:3]):
        if kind == "host":
            network.cpu_operators += 1
            _add_operator(network, f"{CPU_LABEL}.{network.cpu_operators}", tensor_names_by_access[number], MIN_OPERATOR_NS, CPU_LABEL)
        elif kind == "kernel":
            waited_ns = stall_ns_of(entry, len(_block_numbers_of(entry)) * BLOCK, summary.shortest_ns_by_kernel, costs, estimator)
            spent_ns = max(MIN_OPERATOR_NS, round(estimator.kernel_ns(entry) - waited_ns))
            network.known_ns += spent_ns
            _add_operator(network, f"{short_names.kernel_name(entry.name)}.{entry.launch}",
                          tensor_names_by_access[number], spent_ns, short_names.kernel_name(entry.name))
        else:
            spent_ns = max(MIN_OPERATOR_NS, sum(busy_ns for _, _, busy_ns in entry.kernels))
            network.unknown_ns += spent_ns
            _add_operator(network, f"quiet.{number}", [], spent_ns, "quiet")
    return network


def _accesses(process, allocation_finder, only_allocation):
    """[(piece, numbers of the blocks that it touches)] of launches, and of faults of the CPU on blocks that launches used before."""
    accesses, used_block_numbers = [], set()
    for piece in process.pieces:
        block_numbers = _block_numbers_of(piece)
        if only_allocation:
            block_numbers = {block_number for block_number in block_numbers
                             if allocation_finder.allocation_of(block_number, piece.begin) == only_allocation}
        if piece.kind == "kernel":
            used_block_numbers |= block_numbers
        else:
            block_numbers &= used_block_numbers
        if block_numbers:
            accesses.append((piece, block_numbers))
    return accesses


def _block_numbers_of(trace_piece):
    return {block_number for quantity in TOUCHING_QUANTITIES.get(trace_piece.kind, ())
            for first_block, block_count, _ in trace_piece.sums.get(quantity, ()) for block_number in range(first_block, first_block + block_count)}


def _add_tensors(network, accesses_of_block, short_names):
    """Adds one tensor for each run of neighbouring blocks that the same accesses touch. Returns {number of the access: names of its tensors}."""
    block_numbers_by_use = defaultdict(set)
    for (allocation, block_number), access_numbers in accesses_of_block.items():
        block_numbers_by_use[allocation, tuple(access_numbers)].add(block_number)
    tensor_names_by_access = defaultdict(list)
    block_runs = []
    for (allocation, access_numbers), block_numbers in block_numbers_by_use.items():
        block_runs += [(first_block, block_count, allocation, access_numbers) for first_block, block_count in runs_of_neighbours(block_numbers)]
    if len(block_runs) > MAX_TENSORS:
        raise load.TooLittle(f"the launches touch {len(block_runs):,} separate parts of memory, more than {MAX_TENSORS:,}; trace a shorter part")
    tensor_counts = defaultdict(int)
    for first_block, block_count, allocation, access_numbers in sorted(block_runs, key=lambda block_run: block_run[:2]):
        label = short_names.allocation_name(allocation) if allocation else f"0x{first_block * BLOCK:x}"
        tensor_name = f"{label}.{tensor_counts[label]}"
        tensor_counts[label] += 1
        byte_count = block_count * BLOCK if not allocation else min(block_count * BLOCK, max(4, allocation.bytes))
        network.tensors.append({"name": tensor_name, "shape": [1, max(1, byte_count // 4), 1, 1], "use": "parameter"})
        network.bytes += byte_count
        for access_number in access_numbers:
            tensor_names_by_access[access_number].append(tensor_name)
    return tensor_names_by_access


def _add_operator(network, name, tensor_names_read, duration_ns, label):
    operator_number = len(network.operators)
    output_name = f"step.{operator_number}"
    network.tensors.append({"name": output_name, "shape": [1, 1, 1, 1], "use": "output"})
    network.operators.append({"name": f"{operator_number}.{name}", "kind": "opaque", "label": label, "flops": 0,
                              "bytes": 4, "duration_ns": duration_ns, "in": tensor_names_read, "out": [output_name], "repeatable": False})


def _network_name(process):
    command_words = (process.environment.get("program") or ["program"])
    program_word = next((w for w in reversed(command_words[:2]) if not w.startswith("-")), command_words[0])
    name = re.sub(r"[^a-z0-9_.-]+", "_", re.sub(r"\.\w+$", "", program_word.rsplit("/", 1)[-1]).lower()).strip("._-")
    return f"trace-{name or 'program'}"

