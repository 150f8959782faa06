"""Finds defects in a program's use of managed memory by a table of rules on the facts of one allocation. A rule decides whether the facts
show a pattern, and gives the calls that fix it and the time that they would save. The first rule that applies explains an allocation, so
rules on harmful calls precede rules on missing ones. Savings are simulated (simulated.py) or estimated from a machine file's figures: the
measured waiting minus the time in which the driver moves the same bytes by calls.
"""

from collections import namedtuple

from umbench.trace import simulated
from umbench.trace.facts import ranges_of_blocks_with
from umbench.trace.reader import BLOCK, GRANULE, HOST

MAX_SHARED_GRANULES = 8  # the CPU accesses at most this number of the 32 granules of a shared block
MAX_SPARSE_SHARE = 0.55  # sparse memory moved at most this share of the bytes of its touched blocks
MIN_LEAD_NS = 200_000  # a prefetch is late if it is called less than this before the kernel
MIN_ROUND_TRIPS = 0.25  # least mean number for each block of an allocation that CPU and GPU use in turns
MAX_MOVED_SHARE = 0.25  # largest share that moved of the bytes that kernels touch first, in the rule first_touch
MAX_SIMULATED = 6  # number of allocations, those with the largest savings, whose savings are simulated
REMOTE_READ_RANGE = (0.5, 2.0)  # range of the quotient of a kernel's time and the time to read the allocation over the link

# waste_ns: the waiting that the pattern causes. calls: [(text of a call that helps, where to put it)]. simulated: whether saving_ns is simulated.
Finding = namedtuple("Finding", "key facts waste_ns saving_ns text calls simulated")
Rule = namedtuple("Rule", "key title find")  # find(facts, context): (waste_ns, saving_ns, text, calls), or None if the rule does not apply


class RuleContext:
    """The input of rules besides the facts of an allocation: the process's summary, costs of a machine, names."""

    def __init__(self, summary, costs, short_names):
        self.summary, self.costs, self.names = summary, costs, short_names

    def longest_waiting_gpu(self, facts):
        """The GPU whose kernels waited longest for the allocation."""
        return max(facts.wait_ns_by_gpu, key=facts.wait_ns_by_gpu.get, default=next(iter(self.summary.process.gpus), 0))


def find_defects(context):
    """[Finding] of all allocations, the largest saving first."""
    defects = []
    for facts in context.summary.facts:
        explained_sides = set()  # sides (GPU, CPU) whose waiting is explained
        for rule in RULES:
            sides = WAITING_SIDES.get(rule.key, {"gpu"})
            if sides & explained_sides:
                continue
            match = rule.find(facts, context)
            if match:
                waste_ns, saving_ns, text, calls = match
                defects.append(Finding(rule.key, facts, waste_ns, max(0, min(saving_ns, waste_ns)), text, calls, False))
                explained_sides |= sides
    defects = _sorted_by_saving(defects)
    return _sorted_by_saving([_with_simulated_saving(finding, context) for finding in defects[:MAX_SIMULATED]] + defects[MAX_SIMULATED:])


def _sorted_by_saving(defects):
    return sorted(defects, key=lambda finding: -finding.saving_ns)


def _with_simulated_saving(finding, context):
    """The finding with a simulated saving; unchanged if nothing was simulated."""
    summary = context.summary
    saving_ns = simulated.saving_ns(summary.process, finding.key, finding.facts.allocation, context.costs)
    if saving_ns is None:
        return finding
    return finding._replace(saving_ns=max(0, min(summary.scale * saving_ns, finding.waste_ns)), simulated=True)


# --- texts ---


def size_text(byte_count):
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if byte_count >= scale:
            amount = byte_count / scale
            return f"{amount:.3g} {unit}" if amount < 999.5 else f"{amount:.0f} {unit}"
    return f"{byte_count:.0f} bytes"


def duration_text(nanoseconds):
    return f"{nanoseconds / 1e9:.4g} s" if nanoseconds >= 1e10 else f"{nanoseconds / 1e6:.4g} ms"


def _text_before_launch(name_and_number, context):
    """Where to put a call, as text. `name_and_number` is (name, launch) or None."""
    if name_and_number is None:
        return ""
    return f"before {context.names.kernel_name(name_and_number[0])}, launch {name_and_number[1]}"


def _prefetch_call_text(facts, context, address, byte_count, device):
    """The text of a call of cudaMemPrefetchAsync to a GPU or HOST."""
    is_whole = address == facts.allocation.address and byte_count >= facts.allocation.bytes
    address_text = context.names.allocation_name(facts.allocation)
    if not is_whole and facts.allocation.number is not None:
        address_text += f" + {size_text(address - facts.allocation.address)}" if address > facts.allocation.address else ""
    return f"cudaMemPrefetchAsync({address_text}, {size_text(byte_count)}, {'host' if device is HOST else f'GPU {device}'})"


def _prefetch_to_gpu_call_text(facts, context, event="in"):
    """The text of a call that prefetches the blocks that have that event."""
    ranges = ranges_of_blocks_with(facts, event)
    begin_address, end_address = ranges[0][0], ranges[-1][0] + ranges[-1][1]
    covered_bytes = sum(byte_count for _, byte_count in ranges)
    if len(ranges) > 1 and covered_bytes < 0.8 * (end_address - begin_address):  # if the blocks are scattered, only the largest part is prefetched
        begin_address, byte_count = max(ranges, key=lambda each: each[1])
        end_address = begin_address + byte_count
    return _prefetch_call_text(facts, context, begin_address, end_address - begin_address, context.longest_waiting_gpu(facts))


def _advice_call_text(facts, context, advice, device):
    return f"cudaMemAdvise({context.names.allocation_name(facts.allocation)}, {size_text(facts.allocation.bytes)}, {advice}, {device})"


def _ns_saved_by_prefetch(facts, context):
    """Nanoseconds of waiting that prefetches would save instead of faults."""
    return facts.kernel_wait_ns - context.costs.prefetch_to_gpu_ns(facts.bytes_in_by_faults())


# --- functions of the RULES below ---


def find_oversubscription(facts, context):
    evicted_bytes = facts.amounts["out_eviction"]
    if not evicted_bytes:
        return None
    text = (f"more than the GPU holds: the driver evicted {size_text(evicted_bytes)} of it, "
            f"and {size_text(facts.bytes_in_by_faults())} came by faults, "
            f"{facts.amplification():.1f} times the same bytes")
    calls = [("prefetch ahead of each kernel and push out what is needed last", "umbench run --trace, strategy managed_prefetch, tells how far that goes")]
    return facts.kernel_wait_ns, _ns_saved_by_prefetch(facts, context), text, calls


def find_thrashing(facts, context):
    if not facts.amounts["thrashing"]:
        return None
    text = f"the CPU and a GPU fight over it at the same time: the driver saw thrashing {facts.amounts['thrashing']} times"
    calls = [(_advice_call_text(facts, context, "cudaMemAdviseSetPreferredLocation", "host"), "after its allocation"),
             (_advice_call_text(facts, context, "cudaMemAdviseSetAccessedBy", f"GPU {context.longest_waiting_gpu(facts)}"), "after its allocation")]
    waste_ns = facts.kernel_wait_ns + facts.cpu_wait_ns
    return waste_ns, waste_ns - context.costs.remote_read_ns(facts.bytes_in_by_faults()), text, calls


def find_written_read_mostly(facts, context):
    hints = facts.hints_of("read_mostly")
    write_faults = sum(block.gpu_write_faults for block in facts.blocks.values())
    if not hints or not write_faults or facts.hints_of("unset_read_mostly"):
        return None
    text = f"advised as read-mostly, but kernels write it: {write_faults:,} write faults, each of which gives up the copies of a page"
    calls = [("leave out cudaMemAdviseSetReadMostly", context.names.place_text(hints[0].callers))]
    return facts.kernel_wait_ns, facts.kernel_wait_ns, text, calls


def find_needless_prefetch_to_host(facts, context):
    returned_blocks = [block for block in facts.blocks.values() if _has_event_after(block, "prefetch_out", "in", events_between=("host", "cpu"))]
    if not returned_blocks:
        return None
    hints_for_host = facts.hints_of("prefetch", device=HOST)
    text = (f"prefetched to the host ({size_text(facts.amounts['out_user'])}) and faulted back by kernels ({size_text(facts.bytes_in_by_faults())}); "
            "no fault of the CPU shows that it is used there")
    prefetch_ns = context.costs.prefetch_to_host_ns(facts.amounts["out_user"])
    calls = [("leave out cudaMemPrefetchAsync to the host", context.names.place_text(hints_for_host[0].callers if hints_for_host else []))]
    return facts.kernel_wait_ns + prefetch_ns, facts.kernel_wait_ns + prefetch_ns, text, calls


def find_prefetch_wrong_way(facts, context):
    if not facts.bytes_in_by_faults():
        return None
    for hint in facts.hints_of("prefetch", device=HOST):
        later_events = [event for block in facts.blocks.values() for event in block.events
                        if event[1].begin >= hint.at and event[0] in ("in", "host", "cpu", "prefetch_in")]
        first_event = min(later_events, key=lambda event: event[1].begin, default=None)
        if first_event and first_event[0] == "in":
            text = f"prefetched to the host, where it lay or nobody used it; then {size_text(facts.bytes_in_by_faults())} came to the GPU by faults"
            calls = [(_prefetch_to_gpu_call_text(facts, context) + " in place of the host", context.names.place_text(hint.callers))]
            return facts.kernel_wait_ns, _ns_saved_by_prefetch(facts, context), text, calls
    return None


def find_late_prefetch(facts, context):
    for block_number, block in facts.blocks.items():
        for event, piece in block.events:
            if event != "in" or piece.kind != "kernel":
                continue
            for hint in facts.hints_of("prefetch", device=piece.gpu):
                is_for_block = hint.address < (block_number + 1) * BLOCK and block_number * BLOCK < hint.address + hint.bytes
                if is_for_block and piece.begin - MIN_LEAD_NS <= hint.at <= piece.end:
                    kernel_name = context.names.kernel_name(piece.name)
                    text = f"its prefetch is called when {kernel_name} runs already, which faults on it ({size_text(facts.bytes_in_by_faults())})"
                    calls = [(_prefetch_to_gpu_call_text(facts, context), f"ahead of {kernel_name}, launch {piece.launch}, on its stream")]
                    return facts.kernel_wait_ns, _ns_saved_by_prefetch(facts, context), text, calls
    return None


def _returning_blocks(facts):
    """Blocks that moved to the CPU and back to a GPU by faults; empty if their round trips are few compared with the allocation's blocks."""
    blocks = [block for block in facts.blocks.values() if block.round_trips]
    if not blocks or sum(block.round_trips for block in blocks) < MIN_ROUND_TRIPS * len(facts.blocks):
        return []
    return blocks


def find_false_sharing(facts, context):
    returning_blocks = _returning_blocks(facts)
    blocks_shared_little = [block for block in returning_blocks if bin(block.to_host_mask).count("1") <= MAX_SHARED_GRANULES]
    if not returning_blocks or len(blocks_shared_little) < len(returning_blocks) / 2 or facts.allocation.bytes < BLOCK:
        return None
    shared_bytes = sum(bin(block.to_host_mask).count("1") for block in blocks_shared_little) * GRANULE
    round_trips = max(block.round_trips for block in blocks_shared_little)
    text = (f"the CPU uses little of it ({size_text(shared_bytes)} in {len(blocks_shared_little)} blocks of 2 MiB) between kernels, "
            f"so the same pages travel {round_trips + 1} times "
            f"and kernels stop for them")
    calls = [("move what the CPU uses into memory of its own (cudaMallocHost)", _text_before_cpu_use(facts, context))]
    waste_ns = facts.kernel_wait_ns + facts.cpu_wait_ns
    return waste_ns, waste_ns, text, calls


def find_missing_read_mostly(facts, context):
    returning_blocks = _returning_blocks(facts)
    if not returning_blocks or any(block.gpu_write_faults or block.cpu_write_faults for block in returning_blocks):
        return None
    text = (f"CPU and GPU only read it (no write faults), yet {size_text(facts.bytes_in_by_faults())} came to the GPU by faults and "
            f"{size_text(facts.bytes_out_by_faults())} went back: {facts.amplification():.1f} times the same bytes")
    calls = [(_advice_call_text(facts, context, "cudaMemAdviseSetReadMostly", 0), "once it is filled")]
    saved_ns = facts.kernel_wait_ns * (1 - 1 / max(1.0, facts.amplification())) + facts.cpu_wait_ns
    return facts.kernel_wait_ns + facts.cpu_wait_ns, saved_ns, text, calls


def find_ping_pong(facts, context):
    returning_blocks = _returning_blocks(facts)
    if not returning_blocks:
        return None
    text = (f"CPU and GPU use it in turns: {size_text(facts.bytes_in_by_faults())} came to the GPU by faults, {size_text(facts.bytes_out_by_faults())} went back; "
            f"{facts.amplification():.1f} times the same bytes")
    place_text = f"before each launch of {context.names.kernel_name(facts.longest_waiting_launch()[0])}" if facts.wait_ns_by_launch else ""
    calls = [(_prefetch_to_gpu_call_text(facts, context), place_text),
             (_prefetch_call_text(facts, context, facts.allocation.address, facts.allocation.bytes, HOST), _text_before_cpu_use(facts, context))]
    waste_ns = facts.kernel_wait_ns + facts.cpu_wait_ns
    return waste_ns, waste_ns - context.costs.prefetch_to_gpu_ns(facts.bytes_in_by_faults()) - _ns_by_prefetch_to_host(facts, context), text, calls


def find_sparse_touches(facts, context):
    moved_blocks = [block for block in facts.blocks.values() if block.in_bytes]
    if len(moved_blocks) < 4:
        return None
    moved_bytes = sum(bin(block.to_gpu_mask).count("1") for block in moved_blocks) * GRANULE
    if moved_bytes > MAX_SPARSE_SHARE * len(moved_blocks) * BLOCK:
        return None
    text = (f"kernels touch little of each block: {size_text(moved_bytes)} "
            f"of the {size_text(len(moved_blocks) * BLOCK)} in {len(moved_blocks):,} blocks, "
            f"each fault for a page or few")
    calls = [(_advice_call_text(facts, context, "cudaMemAdviseSetPreferredLocation", "host"), "once it is filled"),
             (_advice_call_text(facts, context, "cudaMemAdviseSetAccessedBy", f"GPU {context.longest_waiting_gpu(facts)}"), "after it: kernels read over the link")]
    return facts.kernel_wait_ns, facts.kernel_wait_ns - context.costs.remote_read_ns(moved_bytes // 16), text, calls


def find_slow_remote_reads(facts, context):
    hints_for_host = facts.hints_of("preferred_location", device=HOST)
    if not hints_for_host or facts.bytes_in_by_faults():
        return None
    over_link_ns = context.costs.remote_read_ns(facts.allocation.bytes)
    slow_kernels = [(kernel_name, context.summary.launch_counts[kernel_name], time_ns)
                    for kernel_name, time_ns in context.summary.shortest_ns_by_kernel.items()
                    if REMOTE_READ_RANGE[0] * over_link_ns <= time_ns <= REMOTE_READ_RANGE[1] * over_link_ns
                    and context.summary.launch_counts[kernel_name] > 1]
    if not slow_kernels:
        return None
    kernel_name, launch_count, time_ns = max(slow_kernels, key=lambda kernel: kernel[1] * kernel[2])
    text = (f"preferred on the host, and each of {launch_count} launches of {context.names.kernel_name(kernel_name)} "
            "takes as long as reading it over the link "
            f"({duration_text(time_ns)})")
    calls = [("leave out cudaMemAdviseSetPreferredLocation(host)", context.names.place_text(hints_for_host[0].callers)),
             (_prefetch_call_text(facts, context, facts.allocation.address, facts.allocation.bytes, context.longest_waiting_gpu(facts)),
              _text_before_launch((kernel_name, 0), context))]
    waste_ns = launch_count * time_ns
    return (waste_ns,
            waste_ns - launch_count * context.costs.min_kernel_ns(facts.allocation.bytes) - context.costs.prefetch_to_gpu_ns(facts.allocation.bytes),
            text, calls)


def find_first_touch(facts, context):
    fresh_block_numbers = facts.block_numbers_with("fresh")
    if not fresh_block_numbers or facts.bytes_in_by_faults() > MAX_MOVED_SHARE * len(fresh_block_numbers) * BLOCK or facts.kernel_wait_ns <= 0:
        return None
    text = f"kernels are the first to touch {size_text(len(fresh_block_numbers) * BLOCK)} of it: nothing moves, but every block takes faults"
    calls = [(_prefetch_to_gpu_call_text(facts, context, "fresh"), _text_before_launch(facts.first_waiting_launch(), context))]
    return facts.kernel_wait_ns, facts.kernel_wait_ns - context.costs.populate_ns(len(fresh_block_numbers) * BLOCK), text, calls


def find_missing_prefetch(facts, context):
    if not facts.bytes_in_by_faults() or facts.kernel_wait_ns <= 0:
        return None
    text = f"{size_text(facts.bytes_in_by_faults())} came to the GPU by faults, without a prefetch"
    calls = [(_prefetch_to_gpu_call_text(facts, context), _text_before_launch(facts.first_waiting_launch(), context))]
    return facts.kernel_wait_ns, _ns_saved_by_prefetch(facts, context), text, calls


def find_host_faults(facts, context):
    if not facts.bytes_out_by_faults() or facts.cpu_wait_ns <= 0:
        return None
    text = f"the CPU fetched {size_text(facts.bytes_out_by_faults())} back from the GPU by faults"
    calls = [(_prefetch_call_text(facts, context, facts.allocation.address, facts.allocation.bytes, HOST), _text_before_cpu_use(facts, context))]
    return facts.cpu_wait_ns, facts.cpu_wait_ns - _ns_by_prefetch_to_host(facts, context), text, calls


def _ns_by_prefetch_to_host(facts, context):
    """The time in which a prefetch moves the data that the CPU fetched by faults, and the CPU touches them."""
    is_written = any(block.cpu_write_faults for block in facts.blocks.values())
    return context.costs.prefetch_to_host_ns(facts.bytes_out_by_faults()) + context.costs.touch_on_host_ns(facts.bytes_out_by_faults(), is_written)


def _text_before_cpu_use(facts, context):
    """Where to put a call, as text: before the place at which the CPU waited longest."""
    place = max(facts.cpu_wait_ns_by_place, key=facts.cpu_wait_ns_by_place.get, default=None)
    return f"before the CPU uses it {context.names.place_text([place]) if place else ''}".rstrip()


def _has_event_after(history, first_event, later_event, events_between):
    """Whether an event `later_event` comes after an event `first_event` without one of `events_between` in between."""
    is_after_first = False
    for event, _ in history.events:
        if event == first_event:
            is_after_first = True
        elif event in events_between:
            is_after_first = False
        elif event == later_event and is_after_first:
            return True
    return False


RULES = [
    Rule("oversubscription", "more memory than the GPU has", find_oversubscription),
    Rule("thrashing", "CPU and GPU at once", find_thrashing),
    Rule("read_mostly_written", "harmful advice", find_written_read_mostly),
    Rule("pushed_out", "prefetch that harms", find_needless_prefetch_to_host),
    Rule("prefetch_wrong_way", "prefetch in the wrong direction", find_prefetch_wrong_way),
    Rule("prefetch_late", "late prefetch", find_late_prefetch),
    Rule("false_sharing", "blocks shared by CPU and GPU", find_false_sharing),
    Rule("read_mostly_missing", "read by both, copied away", find_missing_read_mostly),
    Rule("ping_pong", "ping-pong between CPU and GPU", find_ping_pong),
    Rule("sparse", "sparse pages", find_sparse_touches),
    Rule("remote_hot", "harmful advice", find_slow_remote_reads),
    Rule("first_touch", "first touch by a GPU", find_first_touch),
    Rule("prefetch_missing", "prefetch missing", find_missing_prefetch),
    Rule("host_faults", "results fetched by faults", find_host_faults),
]
# {key of a rule: sides that wait}. In all other rules the GPU waits.
WAITING_SIDES = {key: {"gpu", "host"} for key in ("thrashing", "false_sharing", "read_mostly_missing", "ping_pong")} | {"host_faults": {"host"}}
TITLES = {rule.key: rule.title for rule in RULES}
