"""Heat maps of allocations: which blocks moved when, and the bytes on GPUs."""

from collections import Counter, defaultdict

import numpy as np

from umbench.plots.common import pyplot
from umbench.trace.findings import size_text
from umbench.trace.names import ShortNames
from umbench.trace.reader import BLOCK, AllocationFinder
from umbench.trace.residence import OUT, TO_GPUS, resident_bytes_over_time

COLUMNS, ROWS, MAX_ALLOCATIONS = 240, 128, 6
MIB = 1024 * 1024


def heat_grids(process):
    """[(allocation, array of the bytes moved)] of the allocations with the most bytes moved, largest first. Rows are parts of the allocation,
    columns parts of the run."""
    allocation_finder = AllocationFinder(process.allocations)
    length = max(process.last_ns, 1)
    moved = defaultdict(Counter)
    for piece in process.pieces:
        column = min(COLUMNS - 1, piece.begin * COLUMNS // length)
        for name in (*TO_GPUS, *OUT):
            for first, blocks, amount in piece.sums.get(name, ()):
                for block in range(first, first + blocks):
                    allocation = allocation_finder.allocation_of(block, piece.begin)
                    if allocation:
                        moved[allocation][block - allocation.address // BLOCK, column] += amount // blocks
    found = []
    for allocation, cells in sorted(moved.items(), key=lambda item: -sum(item[1].values()))[:MAX_ALLOCATIONS]:
        blocks = max(1, -(-allocation.bytes // BLOCK))
        rows = min(ROWS, blocks)
        grid = np.zeros((rows, COLUMNS))
        for (block, column), amount in cells.items():
            grid[min(rows - 1, block * rows // blocks), column] += amount
        found.append((allocation, grid))
    return found


def figure(process):
    """A figure with a panel for each allocation, and below them the bytes on GPUs; None if nothing moved."""
    found = heat_grids(process)
    if not found:
        return None
    short_names = ShortNames(process.allocations)
    drawn, axes = pyplot.subplots(len(found) + 1, 1, figsize=(9, 1.7 * len(found) + 2), sharex=True, layout="constrained", squeeze=False)
    seconds = process.last_ns / 1e9
    for axis, (allocation, grid) in zip(axes[:, 0], found):
        shown = np.where(grid > 0, grid / MIB, np.nan)
        image = axis.imshow(shown, aspect="auto", origin="lower", cmap="viridis_r", interpolation="nearest", vmin=0,
                            extent=(0, seconds, 0, max(allocation.bytes, BLOCK) / MIB))
        drawn.colorbar(image, ax=axis, label="MiB moved")
        axis.set_title(short_names.description(allocation, size_text), loc="left")
        axis.set_ylabel("MiB into it")
        axis.grid(visible=False)
    _draw_resident_bytes(axes[-1, 0], process, short_names, [allocation for allocation, _ in found])
    return drawn


def _draw_resident_bytes(axis, process, short_names, allocations):
    lines = {allocation: ([0], [0]) for allocation in allocations}
    for at, held in resident_bytes_over_time(process, AllocationFinder(process.allocations)):
        for allocation, amount in held.items():
            if allocation in lines:
                lines[allocation][0].append(at / 1e9)
                lines[allocation][1].append(amount / MIB)
    for allocation, (at, held) in lines.items():
        axis.step([*at, process.last_ns / 1e9], [*held, held[-1]], where="post", label=short_names.allocation_name(allocation))
    axis.set_title("Lying on GPUs, as far as it moved or faulted", loc="left")
    axis.set_ylabel("MiB")
    axis.set_xlabel("seconds since the program started CUDA")
    axis.legend(loc="upper left", ncols=3)
