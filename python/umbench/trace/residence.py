"""Estimates from movements and faults how many bytes of each allocation are on GPUs over time."""

from collections import Counter

from umbench.trace import reader
from umbench.trace.reader import BLOCK, GPU_FAULTS, OUT

TO_GPUS = (*reader.IN, "in_peer")


def resident_bytes_over_time(process, allocation_finder):
    """[(time, {allocation: bytes on GPUs})] after each piece that changes them, with the changed allocations only. A block with GPU faults
    that moved nothing was touched there first and counts completely."""
    bytes_by_allocation, bytes_by_block, changes_over_time = Counter(), {}, []  # bytes_by_block: by block number
    for piece in process.pieces:
        changed_allocations = set()
        for block_number, (bytes_in, bytes_out, has_gpu_faults) in _changes_by_block(piece).items():
            bytes_before = bytes_by_block.get(block_number, 0)
            bytes_after = min(BLOCK, max(0, bytes_before + bytes_in - bytes_out))
            if has_gpu_faults and not bytes_in and not bytes_before:
                bytes_after = BLOCK
            if bytes_after != bytes_before:
                allocation = allocation_finder.allocation_of(block_number, piece.begin)
                bytes_by_allocation[allocation] += bytes_after - bytes_before
                bytes_by_block[block_number] = bytes_after
                changed_allocations.add(allocation)
        if changed_allocations:
            changes_over_time.append((piece.end, {allocation: bytes_by_allocation[allocation] for allocation in changed_allocations}))
    return changes_over_time


def _changes_by_block(trace_piece):
    """{block number: [bytes moved to GPUs, bytes moved away, whether a GPU faulted]}."""
    changes = {}
    for quantity, runs in trace_piece.sums.items():
        column = 0 if quantity in TO_GPUS else 1 if quantity in OUT else 2 if quantity in GPU_FAULTS else None
        if column is None:
            continue
        for first_block, block_count, amount in runs:
            for block_number in range(first_block, first_block + block_count):
                changes.setdefault(block_number, [0, 0, 0])[column] += amount // block_count
    return changes
