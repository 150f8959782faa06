"""Heat maps of allocations: which blocks moved when, and the bytes on GPUs."""

from collections import Counter, defaultdict

import numpy as np

from umbench.plots.common import pyplot
from umbench.trace.findings import size_text
from umbench.trace.names import ShortNames
from umbench.trace.reader import BLOCK, AllocationFinder
from umbench.trace.residence import OUT, TO_GPUS, resident_bytes_over_time

COLUMNS, MAX_ROWS, MAX_ALLOCATIONS = 240, 128, 6
MIB = 1024 * 1024


def heat_grids(process):
    """[(allocation, array of the bytes moved)] of the allocations with the most bytes moved, largest first. Rows are parts of the allocation,
    columns parts of the run."""
    allocation_finder = AllocationFinder(process.allocations)
    length_ns = max(process.last_ns, 1)
    moved_by_cell = defaultdict(Counter)
    for piece in process.pieces:
        column = min(COLUMNS - 1, piece.begin * COLUMNS // length_ns)
        for quantity in (*TO_GPUS, *OUT):
            for first_block, block_count, byte_count in piece.sums.get(quantity, ()):
                for block_number in range(first_block, first_block + block_count):
                    allocation = allocation_finder.allocation_of(block_number, piece.begin)
                    if allocation:
                        moved_by_cell[allocation][block_number - allocation.address // BLOCK, column] += byte_count // block_count
    grids = []
    for allocation, cells in sorted(moved_by_cell.items(), key=lambda item: -sum(item[1].values()))[:MAX_ALLOCATIONS]:
        block_count = max(1, -(-allocation.bytes // BLOCK))
        row_count = min(MAX_ROWS, block_count)
        grid = np.zeros((row_count, COLUMNS))
        for (block_index, column), byte_count in cells.items():
            grid[min(row_count - 1, block_index * row_count // block_count), column] += byte_count
        grids.append((allocation, grid))
    return grids


def figure(process):
    """A figure with a panel for each allocation, and below them the bytes on GPUs; None if nothing moved."""
    grids = heat_grids(process)
    if not grids:
        return None
    short_names = ShortNames(process.allocations)
    drawing, axes = pyplot.subplots(len(grids) + 1, 1, figsize=(9, 1.7 * len(grids) + 2), sharex=True, layout="constrained", squeeze=False)
    seconds = process.last_ns / 1e9
    for axis, (allocation, grid) in zip(axes[:, 0], grids):
        shown_mib = np.where(grid > 0, grid / MIB, np.nan)
        image = axis.imshow(shown_mib, aspect="auto", origin="lower", cmap="viridis_r", interpolation="nearest", vmin=0,
                            extent=(0, seconds, 0, max(allocation.bytes, BLOCK) / MIB))
        drawing.colorbar(image, ax=axis, label="MiB moved")
        axis.set_title(short_names.description(allocation, size_text), loc="left")
        axis.set_ylabel("MiB into it")
        axis.grid(visible=False)
    _draw_resident_bytes(axes[-1, 0], process, short_names, [allocation for allocation, _ in grids])
    return drawing


def _draw_resident_bytes(axis, process, short_names, allocations):
    curves = {allocation: ([0], [0]) for allocation in allocations}
    for time_ns, bytes_by_allocation in resident_bytes_over_time(process, AllocationFinder(process.allocations)):
        for allocation, byte_count in bytes_by_allocation.items():
            if allocation in curves:
                curves[allocation][0].append(time_ns / 1e9)
                curves[allocation][1].append(byte_count / MIB)
    for allocation, (seconds, mib) in curves.items():
        axis.step([*seconds, process.last_ns / 1e9], [*mib, mib[-1]], where="post", label=short_names.allocation_name(allocation))
    axis.set_title("Lying on GPUs, as far as it moved or faulted", loc="left")
    axis.set_ylabel("MiB")
    axis.set_xlabel("seconds since the program started CUDA")
    axis.legend(loc="upper left", ncols=3)
