"""Estimates from movements and faults how many bytes of each allocation are on GPUs over time."""

from collections import Counter

from umbench.trace import reader
from umbench.trace.reader import BLOCK, GPU_FAULTS, OUT

TO_GPUS = (*reader.IN, "in_peer")


def resident_bytes_over_time(process, allocation_finder):
    """[(time, {allocation: bytes on GPUs})] after each piece that changes them, with the changed allocations only. A block with GPU faults
    that moved nothing was touched there first and counts completely."""
    held, by_block, out = Counter(), {}, []
    for piece in process.pieces:
        changed = set()
        for block, (came, left, fresh) in _changes_by_block(piece).items():
            before = by_block.get(block, 0)
            after = min(BLOCK, max(0, before + came - left))
            if fresh and not came and not before:
                after = BLOCK
            if after != before:
                allocation = allocation_finder.allocation_of(block, piece.begin)
                held[allocation] += after - before
                by_block[block] = after
                changed.add(allocation)
        if changed:
            out.append((piece.end, {allocation: held[allocation] for allocation in changed}))
    return out


def _changes_by_block(trace_piece):
    """{block: [bytes moved to GPUs, bytes moved away, whether a GPU faulted]}."""
    found = {}
    for name, runs in trace_piece.sums.items():
        index = 0 if name in TO_GPUS else 1 if name in OUT else 2 if name in GPU_FAULTS else None
        if index is None:
            continue
        for first, blocks, amount in runs:
            for block in range(first, first + blocks):
                found.setdefault(block, [0, 0, 0])[index] += amount // blocks
    return found
