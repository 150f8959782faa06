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
        return max(facts.wait_by_gpu, key=facts.wait_by_gpu.get, default=next(iter(self.summary.process.gpus), 0))


def find_defects(context):
    """[Finding] of all allocations, the largest saving first."""
    found = []
    for facts in context.summary.facts:
        explained = set()  # sides (GPU, CPU) whose waiting is explained
        for rule in RULES:
            sides = SIDES.get(rule.key, {"gpu"})
            if sides & explained:
                continue
            result = rule.find(facts, context)
            if result:
                waste, saving, text, calls = result
                found.append(Finding(rule.key, facts, waste, max(0, min(saving, waste)), text, calls, False))
                explained |= sides
    found = _sorted_by_saving(found)
    return _sorted_by_saving([_with_simulated_saving(finding, context) for finding in found[:MAX_SIMULATED]] + found[MAX_SIMULATED:])


def _sorted_by_saving(defects):
    return sorted(defects, key=lambda finding: -finding.saving_ns)


def _with_simulated_saving(finding, context):
    """The finding with a simulated saving; unchanged if nothing was simulated."""
    summary = context.summary
    saving = simulated.saving_ns(summary.process, finding.key, finding.facts.allocation, context.costs)
    if saving is None:
        return finding
    return finding._replace(saving_ns=max(0, min(summary.scale * saving, finding.waste_ns)), simulated=True)


# --- texts ---


def size_text(byte_count):
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if byte_count >= scale:
            amount = byte_count / scale
            return f"{amount:.3g} {unit}" if amount < 999.5 else f"{amount:.0f} {unit}"
    return f"{byte_count:.0f} bytes"


def duration_text(nanoseconds):
    return f"{nanoseconds / 1e9:.4g} s" if nanoseconds >= 1e10 else f"{nanoseconds / 1e6:.4g} ms"


def _text_before_launch(launch, context):
    """Where to put a call, as text. `launch` is (name, launch) or None."""
    if launch is None:
        return ""
    return f"before {context.names.kernel_name(launch[0])}, launch {launch[1]}"


def _prefetch_call_text(facts, context, address, byte_count, device):
    """The text of a call of cudaMemPrefetchAsync to a GPU or HOST."""
    whole = address == facts.allocation.address and byte_count >= facts.allocation.bytes
    start = context.names.allocation_name(facts.allocation)
    if not whole and facts.allocation.number is not None:
        start += f" + {size_text(address - facts.allocation.address)}" if address > facts.allocation.address else ""
    return f"cudaMemPrefetchAsync({start}, {size_text(byte_count)}, {'host' if device is HOST else f'GPU {device}'})"


def _prefetch_to_gpu_call_text(facts, context, event="in"):
    """The text of a call that prefetches the blocks that have that event."""
    runs = ranges_of_blocks_with(facts, event)
    begin, end = runs[0][0], runs[-1][0] + runs[-1][1]
    covered = sum(count for _, count in runs)
    if len(runs) > 1 and covered < 0.8 * (end - begin):  # if the blocks are scattered, only the largest part is prefetched
        begin, count = max(runs, key=lambda run: run[1])
        end = begin + count
    return _prefetch_call_text(facts, context, begin, end - begin, context.longest_waiting_gpu(facts))


def _advice_call_text(facts, context, advice, device):
    return f"cudaMemAdvise({context.names.allocation_name(facts.allocation)}, {size_text(facts.allocation.bytes)}, {advice}, {device})"


def _ns_saved_by_prefetch(facts, context):
    """Nanoseconds of waiting that prefetches would save instead of faults."""
    return facts.kernel_wait_ns - context.costs.prefetch_to_gpu_ns(facts.bytes_in_by_faults())


# --- functions of the RULES below ---


def find_oversubscription(facts, context):
    evicted = facts.bytes["out_eviction"]
    if not evicted:
        return None
    text = (f"more than the GPU holds: the driver evicted {size_text(evicted)} of it, and {size_text(facts.bytes_in_by_faults())} came by faults, "
            f"{facts.amplification():.1f} times the same bytes")
    calls = [("prefetch ahead of each kernel and push out what is needed last", "umbench run --trace, strategy managed_prefetch, tells how far that goes")]
    return facts.kernel_wait_ns, _ns_saved_by_prefetch(facts, context), text, calls


def find_thrashing(facts, context):
    if not facts.bytes["thrashing"]:
        return None
    text = f"the CPU and a GPU fight over it at the same time: the driver saw thrashing {facts.bytes['thrashing']} times"
    calls = [(_advice_call_text(facts, context, "cudaMemAdviseSetPreferredLocation", "host"), "after its allocation"),
             (_advice_call_text(facts, context, "cudaMemAdviseSetAccessedBy", f"GPU {context.longest_waiting_gpu(facts)}"), "after its allocation")]
    waste = facts.kernel_wait_ns + facts.cpu_wait_ns
    return waste, waste - context.costs.remote_read_ns(facts.bytes_in_by_faults()), text, calls


def find_written_read_mostly(facts, context):
    hints = facts.hints_of("read_mostly")
    writes = sum(block.gpu_write_faults for block in facts.blocks.values())
    if not hints or not writes or facts.hints_of("unset_read_mostly"):
        return None
    text = f"advised as read-mostly, but kernels write it: {writes:,} write faults, each of which gives up the copies of a page"
    calls = [("leave out cudaMemAdviseSetReadMostly", context.names.place_text(hints[0].callers))]
    return facts.kernel_wait_ns, facts.kernel_wait_ns, text, calls


def find_needless_prefetch_to_host(facts, context):
    blocks = [block for block in facts.blocks.values() if _has_event_after(block, "prefetch_out", "in", without=("host", "cpu"))]
    if not blocks:
        return None
    hints_for_host = facts.hints_of("prefetch", device=HOST)
    text = (f"prefetched to the host ({size_text(facts.bytes['out_user'])}) and faulted back by kernels ({size_text(facts.bytes_in_by_faults())}); "
            "no fault of the CPU shows that it is used there")
    out = context.costs.prefetch_to_host_ns(facts.bytes["out_user"])
    calls = [("leave out cudaMemPrefetchAsync to the host", context.names.place_text(hints_for_host[0].callers if hints_for_host else []))]
    return facts.kernel_wait_ns + out, facts.kernel_wait_ns + out, text, calls


def find_prefetch_wrong_way(facts, context):
    if not facts.bytes_in_by_faults():
        return None
    for hint in facts.hints_of("prefetch", device=HOST):
        after = [event for block in facts.blocks.values() for event in block.events
                 if event[1].begin >= hint.at and event[0] in ("in", "host", "cpu", "prefetch_in")]
        first = min(after, key=lambda event: event[1].begin, default=None)
        if first and first[0] == "in":
            text = f"prefetched to the host, where it lay or nobody used it; then {size_text(facts.bytes_in_by_faults())} came to the GPU by faults"
            calls = [(_prefetch_to_gpu_call_text(facts, context) + " in place of the host", context.names.place_text(hint.callers))]
            return facts.kernel_wait_ns, _ns_saved_by_prefetch(facts, context), text, calls
    return None


def find_late_prefetch(facts, context):
    for number, block in facts.blocks.items():
        for what, piece in block.events:
            if what != "in" or piece.kind != "kernel":
                continue
            for hint in facts.hints_of("prefetch", device=piece.gpu):
                covers = hint.address < (number + 1) * BLOCK and number * BLOCK < hint.address + hint.bytes
                if covers and piece.begin - MIN_LEAD_NS <= hint.at <= piece.end:
                    kernel = context.names.kernel_name(piece.name)
                    text = f"its prefetch is called when {kernel} runs already, which faults on it ({size_text(facts.bytes_in_by_faults())})"
                    calls = [(_prefetch_to_gpu_call_text(facts, context), f"ahead of {kernel}, launch {piece.launch}, on its stream")]
                    return facts.kernel_wait_ns, _ns_saved_by_prefetch(facts, context), text, calls
    return None


def _returning_blocks(facts):
    """Blocks that moved to the CPU and back to a GPU by faults; empty if their round trips are few compared with the allocation's blocks."""
    blocks = [block for block in facts.blocks.values() if block.round_trips]
    if not blocks or sum(block.round_trips for block in blocks) < MIN_ROUND_TRIPS * len(facts.blocks):
        return []
    return blocks


def find_false_sharing(facts, context):
    blocks = _returning_blocks(facts)
    few = [block for block in blocks if bin(block.to_host_mask).count("1") <= MAX_SHARED_GRANULES]
    if not blocks or len(few) < len(blocks) / 2 or facts.allocation.bytes < BLOCK:
        return None
    shared = sum(bin(block.to_host_mask).count("1") for block in few) * GRANULE
    round_trips = max(block.round_trips for block in few)
    text = (f"the CPU uses little of it ({size_text(shared)} in {len(few)} blocks of 2 MiB) between kernels, so the same pages travel {round_trips + 1} times "
            f"and kernels stop for them")
    calls = [("move what the CPU uses into memory of its own (cudaMallocHost)", _text_before_cpu_use(facts, context))]
    waste = facts.kernel_wait_ns + facts.cpu_wait_ns
    return waste, waste, text, calls


def find_missing_read_mostly(facts, context):
    blocks = _returning_blocks(facts)
    if not blocks or any(block.gpu_write_faults or block.cpu_write_faults for block in blocks):
        return None
    text = (f"CPU and GPU only read it (no write faults), yet {size_text(facts.bytes_in_by_faults())} came to the GPU by faults and "
            f"{size_text(facts.bytes_out_by_faults())} went back: {facts.amplification():.1f} times the same bytes")
    calls = [(_advice_call_text(facts, context, "cudaMemAdviseSetReadMostly", 0), "once it is filled")]
    saved = facts.kernel_wait_ns * (1 - 1 / max(1.0, facts.amplification())) + facts.cpu_wait_ns
    return facts.kernel_wait_ns + facts.cpu_wait_ns, saved, text, calls


def find_ping_pong(facts, context):
    blocks = _returning_blocks(facts)
    if not blocks:
        return None
    text = (f"CPU and GPU use it in turns: {size_text(facts.bytes_in_by_faults())} came to the GPU by faults, {size_text(facts.bytes_out_by_faults())} went back; "
            f"{facts.amplification():.1f} times the same bytes")
    place = f"before each launch of {context.names.kernel_name(facts.longest_waiting_launch()[0])}" if facts.wait_by_kernel else ""
    calls = [(_prefetch_to_gpu_call_text(facts, context), place),
             (_prefetch_call_text(facts, context, facts.allocation.address, facts.allocation.bytes, HOST), _text_before_cpu_use(facts, context))]
    waste = facts.kernel_wait_ns + facts.cpu_wait_ns
    return waste, waste - context.costs.prefetch_to_gpu_ns(facts.bytes_in_by_faults()) - _ns_by_prefetch_to_host(facts, context), text, calls


def find_sparse_touches(facts, context):
    came = [block for block in facts.blocks.values() if block.in_bytes]
    if len(came) < 4:
        return None
    held = sum(bin(block.to_gpu_mask).count("1") for block in came) * GRANULE
    if held > MAX_SPARSE_SHARE * len(came) * BLOCK:
        return None
    text = f"kernels touch little of each block: {size_text(held)} of the {size_text(len(came) * BLOCK)} in {len(came):,} blocks, each fault for a page or few"
    calls = [(_advice_call_text(facts, context, "cudaMemAdviseSetPreferredLocation", "host"), "once it is filled"),
             (_advice_call_text(facts, context, "cudaMemAdviseSetAccessedBy", f"GPU {context.longest_waiting_gpu(facts)}"), "after it: kernels read over the link")]
    return facts.kernel_wait_ns, facts.kernel_wait_ns - context.costs.remote_read_ns(held // 16), text, calls


def find_slow_remote_reads(facts, context):
    hints_for_host = facts.hints_of("preferred_location", device=HOST)
    if not hints_for_host or facts.bytes_in_by_faults():
        return None
    over_link = context.costs.remote_read_ns(facts.allocation.bytes)
    slow = [(name, context.summary.launch_counts[name], time) for name, time in context.summary.shortest_ns_by_kernel.items()
            if REMOTE_READ_RANGE[0] * over_link <= time <= REMOTE_READ_RANGE[1] * over_link and context.summary.launch_counts[name] > 1]
    if not slow:
        return None
    name, count, time = max(slow, key=lambda kernel: kernel[1] * kernel[2])
    text = (f"preferred on the host, and each of {count} launches of {context.names.kernel_name(name)} takes as long as reading it over the link "
            f"({duration_text(time)})")
    calls = [("leave out cudaMemAdviseSetPreferredLocation(host)", context.names.place_text(hints_for_host[0].callers)),
             (_prefetch_call_text(facts, context, facts.allocation.address, facts.allocation.bytes, context.longest_waiting_gpu(facts)),
              _text_before_launch((name, 0), context))]
    waste = count * time
    return waste, waste - count * context.costs.min_kernel_ns(facts.allocation.bytes) - context.costs.prefetch_to_gpu_ns(facts.allocation.bytes), text, calls


def find_first_touch(facts, context):
    fresh = facts.block_numbers_with("fresh")
    if not fresh or facts.bytes_in_by_faults() > MAX_MOVED_SHARE * len(fresh) * BLOCK or facts.kernel_wait_ns <= 0:
        return None
    text = f"kernels are the first to touch {size_text(len(fresh) * BLOCK)} of it: nothing moves, but every block takes faults"
    calls = [(_prefetch_to_gpu_call_text(facts, context, "fresh"), _text_before_launch(facts.first_waiting_launch(), context))]
    return facts.kernel_wait_ns, facts.kernel_wait_ns - context.costs.populate_ns(len(fresh) * BLOCK), text, calls


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
    writes = any(block.cpu_write_faults for block in facts.blocks.values())
    return context.costs.prefetch_to_host_ns(facts.bytes_out_by_faults()) + context.costs.touch_on_host_ns(facts.bytes_out_by_faults(), writes)


def _text_before_cpu_use(facts, context):
    """Where to put a call, as text: before the place at which the CPU waited longest."""
    place = max(facts.cpu_wait_by_place, key=facts.cpu_wait_by_place.get, default=None)
    return f"before the CPU uses it {context.names.place_text([place]) if place else ''}".rstrip()


def _has_event_after(history, first, then, without):
    """Whether an event `then` comes after an event `first` without one of `without` in between."""
    is_after_first = False
    for what, _ in history.events:
        if what == first:
            is_after_first = True
        elif what in without:
            is_after_first = False
        elif what == then and is_after_first:
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
SIDES = {key: {"gpu", "host"} for key in ("thrashing", "false_sharing", "read_mostly_missing", "ping_pong")} | {"host_faults": {"host"}}
TITLES = {rule.key: rule.title for rule in RULES}
