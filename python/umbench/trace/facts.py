"""Facts about each allocation and block: by which causes it moved, in which order, and which kernels waited."""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from umbench.trace.reader import (BLOCK, BY_FAULT_IN, BY_FAULT_OUT, CPU_FAULTS, EVERY_GRANULE, GPU_FAULTS, GRANULE, Allocation, AllocationFinder, TracePiece,
                                  runs_of_neighbours, granule_masks_of)

BLOCKS_AS_ALLOCATION = 64  # blocks of unknown origin count as one allocation if they lie in one aligned group of this size


@dataclass
class BlockHistory:
    """What happened to the part of an allocation in one block of 2 MiB. `events`: (event, piece) in order, where event is "in" (moved to the GPU
    by faults), "fresh" (faults that moved nothing), "host" (moved to the CPU by faults), "prefetch_in", "prefetch_out", "evicted", "cpu" (the CPU faulted on memory of its own)."""
    events: list = field(default_factory=list)
    to_gpu_mask: int = 0   # granules that moved to the GPU, a bit each
    to_host_mask: int = 0  # granules that moved back to the CPU, a bit each
    in_bytes: int = 0
    round_trips: int = 0  # number of moves to the CPU and back to the GPU by faults
    was_on_gpu: bool = False
    last_move: str = ""    # the latest of "host", "in" and "prefetch_in"
    gpu_write_faults: int = 0
    cpu_write_faults: int = 0  # those after a GPU had used the block


@dataclass
class AllocationFacts:
    """Facts about one allocation."""
    allocation: Allocation
    blocks: dict = field(default_factory=lambda: defaultdict(BlockHistory))  # by block number
    amounts: Counter = field(default_factory=Counter)   # {quantity: bytes, or number of faults}
    wait_ns_by_launch: dict = field(default_factory=lambda: defaultdict(float))  # (name, launch): ns that the kernel waited for this allocation
    begin_by_launch: dict = field(default_factory=dict)  # (name, launch): begin of that launch
    wait_ns_by_gpu: Counter = field(default_factory=Counter)  # GPU: ns that its kernels waited for this allocation
    kernel_wait_ns: float = 0                           # ns that all kernels waited for this allocation
    cpu_wait_ns: float = 0                              # ns that the CPU waited for this allocation
    cpu_wait_ns_by_place: Counter = field(default_factory=Counter)  # place in the program's code: ns that the CPU waited there
    hints: list = field(default_factory=list)

    def bytes_in_by_faults(self):
        return sum(self.amounts[name] for name in BY_FAULT_IN)

    def bytes_out_by_faults(self):
        return sum(self.amounts[name] for name in BY_FAULT_OUT)

    def distinct_bytes_in(self):
        """Bytes that were moved to the GPU at least once."""
        return sum(bin(history.to_gpu_mask).count("1") * GRANULE for history in self.blocks.values())

    def amplification(self):
        """How often the same bytes were moved to the GPU by faults, on average."""
        distinct_bytes = self.distinct_bytes_in()
        return self.bytes_in_by_faults() / distinct_bytes if distinct_bytes else 0

    def block_numbers_with(self, event):
        return [block_number for block_number, history in self.blocks.items() if any(event_name == event for event_name, _ in history.events)]

    def hints_of(self, *call_names, device="any"):
        """The hints of these calls for a device: a GPU, HOST or "any"."""
        return [hint for hint in self.hints if hint.call in call_names and device in ("any", hint.device)]

    def longest_waiting_launch(self):
        """(name, launch) of the kernel that waited longest for the allocation, or None."""
        return max(self.wait_ns_by_launch, key=self.wait_ns_by_launch.get, default=None)

    def first_waiting_launch(self):
        """(name, launch) of the first kernel that waited for the allocation, or None."""
        return min(self.wait_ns_by_launch, key=lambda key: self.begin_by_launch[key], default=None)


@dataclass
class ProcessSummary:
    """Facts about one process."""
    process: object
    facts: list                  # AllocationFacts of those that moved, faulted or were advised
    kernel_ns: float = 0         # sum of all kernels' times
    stall_ns: float = 0          # the part of kernel_ns in which kernels waited for faults
    cpu_wait_ns: float = 0       # time that the CPU waited for memory that was on a GPU
    scale: float = 1             # factor of times: the whole run divided by its counted part
    launch_counts: dict = field(default_factory=Counter)        # number of launches by kernel name
    shortest_ns_by_kernel: dict = field(default_factory=dict)  # kernel name: ns of launches that moved nothing, the shortest mean of a stretch


class DurationEstimator:
    """Estimates durations as if nothing were counted: from the second run of the trace if it has one; else the time of counting is
    subtracted, up to half of the duration."""

    def __init__(self, process, costs):
        self.second_run_spans, self.costs = process.spans_in_second_run, costs
        self.launches = [piece for piece in process.pieces if piece.kind == "kernel"]
        self.launch_begins = [piece.begin for piece in self.launches]

    def _span_in_second_run(self, launch):
        """(begin, end) of a launch in the second run, or None."""
        return self.second_run_spans.get((launch.gpu, launch.name, launch.launch))

    def kernel_ns(self, launch):
        """The time of a launch, a TracePiece of kind "kernel"."""
        duration_ns = launch.end - launch.begin
        second_span = self._span_in_second_run(launch)
        if second_span:
            return min(duration_ns, second_span[1] - second_span[0])
        ns_per_record = self.costs.FAULTING_LAUNCH_RECORD_NS if launch.batches else self.costs.FAULTLESS_LAUNCH_RECORD_NS
        return duration_ns - min(duration_ns / 2, launch.records * ns_per_record)

    def cpu_wait_ns(self, host_events: TracePiece):
        """The time that the CPU waited for memory between two launches. `host_events` is a TracePiece of kind "host"."""
        duration_ns = host_events.end - host_events.begin
        next_index = bisect_right(self.launch_begins, host_events.begin)
        if 0 < next_index < len(self.launches):
            launch_before, launch_after = self.launches[next_index - 1], self.launches[next_index]
            second_spans = self._span_in_second_run(launch_before), self._span_in_second_run(launch_after)
            if all(second_spans):
                counting_ns = (launch_after.begin - launch_before.end) - (second_spans[1][0] - second_spans[0][1])
                return max(0, min(duration_ns, duration_ns - counting_ns))
        fault_count = host_events.sum_of(*CPU_FAULTS)
        return duration_ns - min(duration_ns / 2, fault_count * self.costs.CPU_FAULT_RECORD_NS)


def stall_ns_of(launch, touched_bytes, shortest_ns_by_kernel, costs, estimator=None):
    """The nanoseconds that a launch waited for faults. The trace has the time in which the driver serviced them; between two batches the
    kernel also waits for the interrupt. So if a launch mostly waited, all its time counts except its time with everything resident."""
    if not any(name in launch.sums for name in GPU_FAULTS) and not any(name in launch.sums for name in BY_FAULT_IN):
        return 0
    counted_ns = launch.end - launch.begin
    duration_ns = estimator.kernel_ns(launch) if estimator else counted_ns
    resident_ns = min(shortest_ns_by_kernel.get(launch.name, costs.min_kernel_ns(touched_bytes)), duration_ns)
    if not launch.batches:  # faults were not counted
        return duration_ns - resident_ns
    serviced_ns = min(launch.waiting_ns, counted_ns)
    return (max(0, duration_ns - resident_ns) if serviced_ns > counted_ns / 3
            else min(duration_ns - resident_ns, 1.5 * serviced_ns * duration_ns / counted_ns))


def summarize(process, costs):
    """The ProcessSummary of a process."""
    allocation_finder = AllocationFinder(process.allocations)
    facts_by_key = {}
    summary = ProcessSummary(process, [])
    for stretch in (*process.stretches_without_moves, *process.unseen_stretches):
        for name, launch_count, busy_ns in stretch.kernels:
            summary.kernel_ns += busy_ns
            summary.launch_counts[name] += launch_count
    for stretch in process.stretches_without_moves:
        for name, launch_count, busy_ns in stretch.kernels:
            summary.shortest_ns_by_kernel[name] = min(summary.shortest_ns_by_kernel.get(name, busy_ns / launch_count), busy_ns / launch_count)

    def facts_of(block_number, time_ns):
        allocation = allocation_finder.allocation_of(block_number, time_ns)
        allocation_key = allocation.number if allocation else ("unknown", block_number // BLOCKS_AS_ALLOCATION)
        if allocation_key not in facts_by_key:
            facts_by_key[allocation_key] = AllocationFacts(allocation or Allocation(None, 0, None, block_number * BLOCK, 0, None, "managed", ()))
        facts = facts_by_key[allocation_key]
        if not allocation:
            begin_address = min(facts.allocation.address, block_number * BLOCK)
            end_address = max(facts.allocation.address + facts.allocation.bytes, (block_number + 1) * BLOCK)
            facts.allocation = facts.allocation._replace(address=begin_address, bytes=end_address - begin_address)
        return facts

    estimator = DurationEstimator(process, costs)
    summary.scale = _scale_to_whole_run(process, estimator)
    for piece in process.pieces:
        if piece.kind == "kernel":
            summary.kernel_ns += estimator.kernel_ns(piece)
            summary.launch_counts[piece.name] += 1
        _add_piece(piece, facts_of, summary, costs, estimator)
    summary.facts = list(facts_by_key.values())
    _add_hints(process, allocation_finder, facts_by_key, summary)
    return summary


def _scale_to_whole_run(process, estimator):
    """The factor from counted times to the whole run: the time of all kernels divided by the time of counted ones, both from the first
    launch on that moved something."""
    launches = [piece for piece in process.pieces if piece.kind == "kernel"]
    if not process.unseen_stretches or not launches:
        return 1
    unseen_ns, seen_ns = (sum(busy_ns for stretch in stretches if stretch.end >= launches[0].begin for _, _, busy_ns in stretch.kernels)
                          for stretches in (process.unseen_stretches, process.stretches_without_moves))
    return 1 + unseen_ns / (seen_ns + sum(estimator.kernel_ns(piece) for piece in launches))


def _add_piece(piece, facts_of, summary, costs, estimator):
    """Adds a piece to the facts of allocations: the sums and events of its blocks, and its time, which is divided among allocations by their
    bytes. If counting paused, sums and times are scaled to the whole run."""
    granule_masks, scale, scale_of = granule_masks_of(piece), summary.scale, summary.process.scale_of
    weights = Counter()
    sums_of_block = defaultdict(dict)  # {block number: {quantity: sum}}
    for name, runs in piece.sums.items():
        for first_block, block_count, amount in runs:
            amount_each, remainder = divmod(amount, block_count)
            for block_number in range(first_block, first_block + block_count):
                sums_of_block[block_number][name] = amount_each + (remainder if block_number == first_block else 0)
    facts_of_block = {}
    for block_number, sums in sorted(sums_of_block.items()):
        facts = facts_of_block[block_number] = facts_of(block_number, piece.begin)
        facts.amounts.update({name: round(amount * scale_of(name)) for name, amount in sums.items()})
        granule_mask = granule_masks.get(block_number, EVERY_GRANULE)
        weights[id(facts)] += _add_events(facts.blocks[block_number], sums, granule_mask, piece)
    facts_by_id = {id(facts): facts for facts in facts_of_block.values()}
    total_weight = sum(weights.values())
    waited_ns = 0
    if piece.kind == "kernel":
        waited_ns = scale * stall_ns_of(piece, len(sums_of_block) * BLOCK, summary.shortest_ns_by_kernel, costs, estimator)
        summary.stall_ns += waited_ns
    elif piece.kind == "host" and any(name in piece.sums for name in BY_FAULT_OUT):
        waited_ns = scale * estimator.cpu_wait_ns(piece)
        summary.cpu_wait_ns += waited_ns
    for facts_id, weight in weights.items():
        part_ns = waited_ns * weight / total_weight if total_weight else 0
        facts = facts_by_id[facts_id]
        if piece.kind == "kernel" and part_ns > 0:
            facts.kernel_wait_ns += part_ns
            facts.wait_ns_by_gpu[piece.gpu] += part_ns
            facts.wait_ns_by_launch[piece.name, piece.launch] += part_ns
            facts.begin_by_launch.setdefault((piece.name, piece.launch), piece.begin)
        elif piece.kind == "host":
            facts.cpu_wait_ns += part_ns
            if piece.place and part_ns > 0:
                facts.cpu_wait_ns_by_place[piece.place] += part_ns


def _add_events(history, amounts, granule_mask, piece):
    """Adds the events of a piece to the history of a block. Returns the block's weight in the piece's waiting: the bytes that it moved, and a granule for
    each GPU fault if nothing moved to the GPU."""
    bytes_in = sum(amounts.get(name, 0) for name in BY_FAULT_IN)
    bytes_out = sum(amounts.get(name, 0) for name in BY_FAULT_OUT)
    gpu_faults = sum(amounts.get(name, 0) for name in GPU_FAULTS)
    cpu_faults = sum(amounts.get(name, 0) for name in CPU_FAULTS)
    history.gpu_write_faults += amounts.get("gpu_write_faults", 0)
    if history.was_on_gpu:
        history.cpu_write_faults += amounts.get("cpu_write_faults", 0)
    if amounts.get("out_eviction"):
        history.events.append(("evicted", piece))
    if amounts.get("in_user"):
        history.events.append(("prefetch_in", piece))
        history.last_move = "prefetch_in"
        history.to_gpu_mask |= granule_mask
    if amounts.get("out_user"):
        history.events.append(("prefetch_out", piece))
    if bytes_in:
        history.round_trips += history.last_move == "host"
        history.events.append(("in", piece))
        history.last_move = "in"
        history.to_gpu_mask |= granule_mask
        history.in_bytes += bytes_in
    elif gpu_faults:
        history.events.append(("fresh", piece))
    if bytes_out:
        history.events.append(("host", piece))
        history.last_move = "host"
        history.to_host_mask |= granule_mask
    elif cpu_faults:
        history.events.append(("cpu", piece))
    history.was_on_gpu = history.was_on_gpu or bool(bytes_in or gpu_faults or amounts.get("in_user"))
    return bytes_in + bytes_out + (gpu_faults * GRANULE if not bytes_in else 0) + (cpu_faults if not bytes_out else 0)


def _add_hints(process, allocation_finder, facts_by_allocation, summary):
    """Adds each hint to the AllocationFacts of the allocations whose memory it names. `facts_by_allocation` is {number of the allocation: AllocationFacts}."""
    largest_bytes = max((allocation.bytes for allocation in allocation_finder.managed), default=0)
    addresses = [allocation.address for allocation in allocation_finder.managed]
    for hint in process.hints:
        first_index = bisect_left(addresses, hint.address - largest_bytes)
        end_index = bisect_left(addresses, hint.address + hint.bytes)
        nearby_allocations = allocation_finder.managed[first_index:end_index]
        for allocation in nearby_allocations:
            is_at_other_time = allocation.at > hint.until or (allocation.until is not None and allocation.until < hint.at)
            if is_at_other_time or allocation.address + allocation.bytes <= hint.address:
                continue
            if allocation.number not in facts_by_allocation:
                facts_by_allocation[allocation.number] = AllocationFacts(allocation)
                summary.facts.append(facts_by_allocation[allocation.number])
            facts_by_allocation[allocation.number].hints.append(hint)


def ranges_of_blocks_with(facts: AllocationFacts, event):
    """[(address, bytes)] of the contiguous blocks of an allocation that have that event."""
    begin_address, end_address = facts.allocation.address, facts.allocation.address + facts.allocation.bytes
    ranges = []
    for first_block, block_count in runs_of_neighbours(facts.block_numbers_with(event)):
        range_begin, range_end = max(begin_address, first_block * BLOCK), min(end_address, (first_block + block_count) * BLOCK)
        if range_end > range_begin:
            ranges.append((range_begin, range_end - range_begin))
    return ranges
