"""Estimates from movements and faults how many bytes of each allocation are on GPUs over time."""

from collections import Counter

from umbench.trace import reader
from umbench.trace.reader import BLOCK, GPU_FAULTS, OUT

TO_GPUS = (*reader.IN, "in_peer")


def resident_bytes_over_time(process, allocation_finder):
    """[(time, {allocation: bytes on GPUs})] after each piece that changes them, with the changed allocations only. A block with GPU faults
    that moved nothing was touched there first and counts completely."""
    held, resident_bytes, out = Counter(), {}, []  # resident_bytes: by block number
    for piece in process.pieces:
        changed = set()
        for number, (came, left, fresh) in _changes_by_block(piece).items():
            before = resident_bytes.get(number, 0)
            after = min(BLOCK, max(0, before + came - left))
            if fresh and not came and not before:
                after = BLOCK
            if after != before:
                allocation = allocation_finder.allocation_of(number, piece.begin)
                held[allocation] += after - before
                resident_bytes[number] = after
                changed.add(allocation)
        if changed:
            out.append((piece.end, {allocation: held[allocation] for allocation in changed}))
    return out


def _changes_by_block(trace_piece):
    """{block number: [bytes moved to GPUs, bytes moved away, whether a GPU faulted]}."""
    found = {}
    for name, runs in trace_piece.sums.items():
        index = 0 if name in TO_GPUS else 1 if name in OUT else 2 if name in GPU_FAULTS else None
        if index is None:
            continue
        for first, count, amount in runs:
            for number in range(first, first + count):
                found.setdefault(number, [0, 0, 0])[index] += amount // count
    return found
