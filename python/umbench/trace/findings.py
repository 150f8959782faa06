"""Finds defects in a program's use of managed memory by a table of rules on the facts of one allocation. A rule names a pattern, decides
whether the facts show it, and gives the calls that fix it and the time that they would save. The first rule that fits
explains an allocation, so rules on harmful calls precede rules on missing ones. Savings are simulated (simulated.py) or estimated from a
machine file's figures: the measured waiting minus the time in which the driver moves the same bytes by calls.
"""

from collections import namedtuple

from umbench.trace import simulated
from umbench.trace.facts import runs_of
from umbench.trace.reader import BLOCK, GRANULE

FEW_GRANULES = 8       # of the 32 granules of a block; the CPU accesses at most this number in a shared block
SPARSE = 0.55          # share of the bytes of the touched blocks
LATE_NS = 200_000      # a prefetch is late if it is called less than this before the kernel
RETURNS = 0.25         # share of the bytes moved to the GPU
MAX_SIMULATED = 6     # number of allocations for which savings are simulated, those with the largest savings
REMOTE = (0.5, 2.0)    # range of the quotient of a kernel's time and the time to read the allocation over the link

# waste_ns: the waiting that the pattern causes. calls: [(text of a call that helps, where to put it)]. simulated: whether saving_ns is simulated.
Finding = namedtuple("Finding", "key facts waste_ns saving_ns text calls simulated")
Rule = namedtuple("Rule", "key title of")  # of(facts, context): (waste_ns, saving_ns, text, calls), or None where it does not fit


class Context:
    """What the rules read besides the facts of an allocation: the process's summary, costs of a machine, names."""

    def __init__(self, summary, costs, names):
        self.summary, self.costs, self.names = summary, costs, names

    def gpu(self, facts):
        """The GPU whose kernels waited longest for the allocation."""
        return max(facts.gpus, key=facts.gpus.get, default=next(iter(self.summary.process.gpus), 0))


def find(context):
    """[Finding] of all allocations, the largest saving first."""
    found = []
    for facts in context.summary.facts:
        explained = set()  # sides (GPU, CPU) whose waiting is explained
        for rule in RULES:
            sides = SIDES.get(rule.key, {"gpu"})
            if sides & explained:
                continue
            result = rule.of(facts, context)
            if result:
                waste, saving, text, calls = result
                found.append(Finding(rule.key, facts, waste, max(0, min(saving, waste)), text, calls, False))
                explained |= sides
    found = _by_saving(found)
    return _by_saving([_simulated(finding, context) for finding in found[:MAX_SIMULATED]] + found[MAX_SIMULATED:])


def _by_saving(found):
    return sorted(found, key=lambda finding: -finding.saving_ns)


def _simulated(finding, context):
    summary = context.summary
    saving = simulated.saving_ns(summary.process, finding.key, finding.facts.allocation, context.costs)
    if saving is None:
        return finding
    return finding._replace(saving_ns=max(0, min(summary.scale * saving, finding.waste_ns)), simulated=True)


# --- texts ---


def size(count):
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= scale:
            amount = count / scale
            return f"{amount:.3g} {unit}" if amount < 999.5 else f"{amount:.0f} {unit}"
    return f"{count:.0f} bytes"


def duration(nanoseconds):
    return f"{nanoseconds / 1e9:.4g} s" if nanoseconds >= 1e10 else f"{nanoseconds / 1e6:.4g} ms"


def _before(kernel, context):
    if kernel is None:
        return ""
    return f"before {context.names.kernel(kernel[0])}, launch {kernel[1]}"


def _prefetch(facts, context, address, count, gpu):
    whole = address == facts.allocation.address and count >= facts.allocation.bytes
    start = context.names.allocation(facts.allocation)
    if not whole and facts.allocation.number is not None:
        start += f" + {size(address - facts.allocation.address)}" if address > facts.allocation.address else ""
    return f"cudaMemPrefetchAsync({start}, {size(count)}, {'host' if gpu is None else f'GPU {gpu}'})"


def _prefetches_in(facts, context, what="in"):
    runs = runs_of(facts, what)
    begin, end = runs[0][0], runs[-1][0] + runs[-1][1]
    covered = sum(count for _, count in runs)
    if len(runs) > 1 and covered < 0.8 * (end - begin):  # if the blocks are scattered, only the largest part is prefetched
        begin, count = max(runs, key=lambda run: run[1])
        end = begin + count
    return _prefetch(facts, context, begin, end - begin, context.gpu(facts))


def _advise(facts, context, advice, device):
    return f"cudaMemAdvise({context.names.allocation(facts.allocation)}, {size(facts.allocation.bytes)}, {advice}, {device})"


def _saving_by_prefetch(facts, context):
    """Nanoseconds of waiting that prefetches would save instead of faults."""
    return facts.stall - context.costs.prefetch_in(facts.moved_in())


# --- rules ---


def oversubscription(facts, context):
    evicted = facts.bytes["out_eviction"]
    if not evicted:
        return None
    text = (f"more than the GPU holds: the driver evicted {size(evicted)} of it, and {size(facts.moved_in())} came by faults, "
            f"{facts.amplification():.1f} times the same bytes")
    calls = [("prefetch ahead of each kernel and push out what is needed last", "umbench run --trace, strategy managed_prefetch, tells how far that goes")]
    return facts.stall, _saving_by_prefetch(facts, context), text, calls


def thrashing(facts, context):
    if not facts.bytes["thrashing"]:
        return None
    text = f"the CPU and a GPU fight over it at the same time: the driver saw thrashing {facts.bytes['thrashing']} times"
    calls = [(_advise(facts, context, "cudaMemAdviseSetPreferredLocation", "host"), "after its allocation"),
             (_advise(facts, context, "cudaMemAdviseSetAccessedBy", f"GPU {context.gpu(facts)}"), "after its allocation")]
    waste = facts.stall + facts.host_stall
    return waste, waste - context.costs.remote_read(facts.moved_in()), text, calls


def read_mostly_written(facts, context):
    hints = facts.hints_of("read_mostly")
    writes = sum(block.gpu_writes for block in facts.blocks.values())
    if not hints or not writes or facts.hints_of("unset_read_mostly"):
        return None
    text = f"advised as read-mostly, but kernels write it: {writes:,} write faults, each of which gives up the copies of a page"
    calls = [("leave out cudaMemAdviseSetReadMostly", context.names.place(hints[0].called))]
    return facts.stall, facts.stall, text, calls


def pushed_out(facts, context):
    blocks = [block for block in facts.blocks.values() if _follows(block, "prefetch_out", "in", without=("host", "cpu"))]
    if not blocks:
        return None
    hints = facts.hints_of("prefetch", device=None)
    text = (f"prefetched to the host ({size(facts.bytes['out_user'])}) and faulted back by kernels ({size(facts.moved_in())}); "
            "no fault of the CPU shows that it is used there")
    out = context.costs.prefetch_out(facts.bytes["out_user"])
    calls = [("leave out cudaMemPrefetchAsync to the host", context.names.place(hints[0].called if hints else []))]
    return facts.stall + out, facts.stall + out, text, calls


def prefetch_wrong_way(facts, context):
    if not facts.moved_in():
        return None
    for hint in facts.hints_of("prefetch", device=None):
        after = [step for block in facts.blocks.values() for step in block.steps if step[1].begin >= hint.at and step[0] in ("in", "host", "cpu", "prefetch_in")]
        first = min(after, key=lambda step: step[1].begin, default=None)
        if first and first[0] == "in":
            text = f"prefetched to the host, where it lay or nobody used it; then {size(facts.moved_in())} came to the GPU by faults"
            calls = [(_prefetches_in(facts, context) + " in place of the host", context.names.place(hint.called))]
            return facts.stall, _saving_by_prefetch(facts, context), text, calls
    return None


def prefetch_late(facts, context):
    for number, block in facts.blocks.items():
        for what, piece in block.steps:
            if what != "in" or piece.kind != "kernel":
                continue
            for hint in facts.hints_of("prefetch", device=piece.gpu):
                covers = hint.address < (number + 1) * BLOCK and number * BLOCK < hint.address + hint.bytes
                if covers and piece.begin - LATE_NS <= hint.at <= piece.end:
                    text = f"its prefetch is called when {context.names.kernel(piece.name)} runs already, which faults on it ({size(facts.moved_in())})"
                    calls = [(_prefetches_in(facts, context), f"ahead of {context.names.kernel(piece.name)}, launch {piece.launch}, on its stream")]
                    return facts.stall, _saving_by_prefetch(facts, context), text, calls
    return None


def _returning(facts):
    """Blocks that moved to the CPU and back to a GPU by faults; empty if their round trips are few compared with the allocation's blocks."""
    blocks = [block for block in facts.blocks.values() if block.rounds]
    if not blocks or sum(block.rounds for block in blocks) < RETURNS * len(facts.blocks):
        return []
    return blocks


def false_sharing(facts, context):
    blocks = _returning(facts)
    few = [block for block in blocks if bin(block.host_mask).count("1") <= FEW_GRANULES]
    if not blocks or len(few) < len(blocks) / 2 or facts.allocation.bytes < BLOCK:
        return None
    shared = sum(bin(block.host_mask).count("1") for block in few) * GRANULE
    rounds = max(block.rounds for block in few)
    text = (f"the CPU uses little of it ({size(shared)} in {len(few)} blocks of 2 MiB) between kernels, so the same pages travel {rounds + 1} times "
            f"and kernels stop for them")
    calls = [("move what the CPU uses into memory of its own (cudaMallocHost)", _host_place(facts, context))]
    waste = facts.stall + facts.host_stall
    return waste, waste, text, calls


def read_mostly_missing(facts, context):
    blocks = _returning(facts)
    if not blocks or any(block.gpu_writes or block.host_writes for block in blocks):
        return None
    text = (f"CPU and GPU only read it (no write faults), yet {size(facts.moved_in())} came to the GPU by faults and {size(facts.moved_out())} went back: "
            f"{facts.amplification():.1f} times the same bytes")
    calls = [(_advise(facts, context, "cudaMemAdviseSetReadMostly", 0), "once it is filled")]
    saved = facts.stall * (1 - 1 / max(1.0, facts.amplification())) + facts.host_stall
    return facts.stall + facts.host_stall, saved, text, calls


def ping_pong(facts, context):
    blocks = _returning(facts)
    if not blocks:
        return None
    text = (f"CPU and GPU use it in turns: {size(facts.moved_in())} came to the GPU by faults, {size(facts.moved_out())} went back; "
            f"{facts.amplification():.1f} times the same bytes")
    calls = [(_prefetches_in(facts, context), f"before each launch of {context.names.kernel(facts.longest_waiting_kernel()[0])}" if facts.kernels else ""),
             (_prefetch(facts, context, facts.allocation.address, facts.allocation.bytes, None), _host_place(facts, context))]
    waste = facts.stall + facts.host_stall
    return waste, waste - context.costs.prefetch_in(facts.moved_in()) - _ns_by_prefetch_to_host(facts, context), text, calls


def sparse(facts, context):
    came = [block for block in facts.blocks.values() if block.in_bytes]
    if len(came) < 4:
        return None
    held = sum(bin(block.in_mask).count("1") for block in came) * GRANULE
    if held > SPARSE * len(came) * BLOCK:
        return None
    text = f"kernels touch little of each block: {size(held)} of the {size(len(came) * BLOCK)} in {len(came):,} blocks, each fault for a page or few"
    calls = [(_advise(facts, context, "cudaMemAdviseSetPreferredLocation", "host"), "once it is filled"),
             (_advise(facts, context, "cudaMemAdviseSetAccessedBy", f"GPU {context.gpu(facts)}"), "after it: kernels read over the link")]
    return facts.stall, facts.stall - context.costs.remote_read(held // 16), text, calls


def remote_hot(facts, context):
    hints = facts.hints_of("preferred_location", device=None)
    if not hints or facts.moved_in():
        return None
    over_link = context.costs.remote_read(facts.allocation.bytes)
    slow = [(name, context.summary.launches[name], time) for name, time in context.summary.shortest.items()
            if REMOTE[0] * over_link <= time <= REMOTE[1] * over_link and context.summary.launches[name] > 1]
    if not slow:
        return None
    name, count, time = max(slow, key=lambda kernel: kernel[1] * kernel[2])
    text = (f"preferred on the host, and each of {count} launches of {context.names.kernel(name)} takes as long as reading it over the link "
            f"({duration(time)})")
    calls = [("leave out cudaMemAdviseSetPreferredLocation(host)", context.names.place(hints[0].called)),
             (_prefetch(facts, context, facts.allocation.address, facts.allocation.bytes, context.gpu(facts)), _before((name, 0), context))]
    waste = count * time
    return waste, waste - count * context.costs.resident(facts.allocation.bytes) - context.costs.prefetch_in(facts.allocation.bytes), text, calls


def first_touch(facts, context):
    fresh = facts.blocks_with("fresh")
    if not fresh or facts.moved_in() > RETURNS * len(fresh) * BLOCK or facts.stall <= 0:
        return None
    text = f"kernels are the first to touch {size(len(fresh) * BLOCK)} of it: nothing moves, but every block takes faults"
    calls = [(_prefetches_in(facts, context, "fresh"), _before(facts.first_waiting_kernel(), context))]
    return facts.stall, facts.stall - context.costs.populate(len(fresh) * BLOCK), text, calls


def prefetch_missing(facts, context):
    if not facts.moved_in() or facts.stall <= 0:
        return None
    text = f"{size(facts.moved_in())} came to the GPU by faults, without a prefetch"
    calls = [(_prefetches_in(facts, context), _before(facts.first_waiting_kernel(), context))]
    return facts.stall, _saving_by_prefetch(facts, context), text, calls


def host_faults(facts, context):
    if not facts.moved_out() or facts.host_stall <= 0:
        return None
    text = f"the CPU fetched {size(facts.moved_out())} back from the GPU by faults"
    calls = [(_prefetch(facts, context, facts.allocation.address, facts.allocation.bytes, None), _host_place(facts, context))]
    return facts.host_stall, facts.host_stall - _ns_by_prefetch_to_host(facts, context), text, calls


def _ns_by_prefetch_to_host(facts, context):
    """The time in which a prefetch moves the data that the CPU fetched by faults, and the CPU touches them."""
    writes = any(block.host_writes for block in facts.blocks.values())
    return context.costs.prefetch_out(facts.moved_out()) + context.costs.use_on_host(facts.moved_out(), writes)


def _host_place(facts, context):
    place = max(facts.host_places, key=facts.host_places.get, default=None)
    return f"before the CPU uses it {context.names.place([place]) if place else ''}".rstrip()


def _follows(block, first, then, without):
    """Whether an event `then` comes after an event `first` without one of `without` in between."""
    armed = False
    for what, _ in block.steps:
        if what == first:
            armed = True
        elif what in without:
            armed = False
        elif what == then and armed:
            return True
    return False


RULES = [
    Rule("oversubscription", "more memory than the GPU has", oversubscription),
    Rule("thrashing", "CPU and GPU at once", thrashing),
    Rule("read_mostly_written", "harmful advice", read_mostly_written),
    Rule("pushed_out", "prefetch that harms", pushed_out),
    Rule("prefetch_wrong_way", "prefetch in the wrong direction", prefetch_wrong_way),
    Rule("prefetch_late", "late prefetch", prefetch_late),
    Rule("false_sharing", "blocks shared by CPU and GPU", false_sharing),
    Rule("read_mostly_missing", "read by both, copied away", read_mostly_missing),
    Rule("ping_pong", "ping-pong between CPU and GPU", ping_pong),
    Rule("sparse", "sparse pages", sparse),
    Rule("remote_hot", "harmful advice", remote_hot),
    Rule("first_touch", "first touch by a GPU", first_touch),
    Rule("prefetch_missing", "prefetch missing", prefetch_missing),
    Rule("host_faults", "results fetched by faults", host_faults),
]
# Which side waits by each rule; the GPU if a rule has no row.
SIDES = {key: {"gpu", "host"} for key in ("thrashing", "false_sharing", "read_mostly_missing", "ping_pong")} | {"host_faults": {"host"}}
TITLES = {rule.key: rule.title for rule in RULES}
