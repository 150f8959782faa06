"""Draws slowdowns as batch or image size grows beyond the device: a panel for each machine and axis, a line for each strategy.

Unlike in slowdown.py the budget is fixed and the work grows. So the time of a cell is divided by the time of its own operators with
everything resident (`compute_ns`), even if no device has that much memory.
"""

import sys
from collections import Counter

from umbench.plots import curves
from umbench.plots.common import WIDTH, figure_parser, family_by_label, load, read, save, use_style
from umbench.plots.slowdown import point_of_cell

AXES = {"batch": lambda record: record["batch"],
        "insize": lambda record: (record.get("network_knobs") or {}).get("insize")}
AXIS_NAMES = {"batch": "batch", "insize": "height and width of an image"}


def main():
    options = figure_parser("growth", __doc__, "growth").parse_args()
    records = read(options.files, options.strategies)
    if not records_by_panel(records):
        raise load.TooLittle(f"{', '.join(options.files)}: neither batch nor insize varies among cells that finished well")
    use_style()
    save(figure_of(records, options.width), options.out, options.name, options.format)


def figure_of(records, width=WIDTH):
    return curves.figure_of([_panel(*each) for each in records_by_panel(records).items()], family_by_label(records), width)


def records_by_panel(records):
    """{(axis, Group without that axis): {strategy: records by rising value}} of cells with the whole device, or of work with a single
    budget. With several budgets the budget varies and not the size."""
    found, labels = {}, load.strategy_labels(records)
    budgets = Counter((load.group_of(record), label) for record, label in zip(records, labels))
    for record, label in zip(records, labels):
        if record["ratio"] is None or budgets[load.group_of(record), label] > 1:
            continue
        group = load.group_of(record)
        budget = "whole" if "/whole/" in record["key"] else record["memory"]["budget_bytes"]
        for axis, same in (("batch", group._replace(batch=0)), ("insize", group._replace(knobs=()))):
            found.setdefault((axis, same, budget), {}).setdefault(label, []).append(record)
    result = {}
    for (axis, same, _), lines in found.items():
        if any(_varies(axis, cells) for cells in lines.values()):
            for label, cells in lines.items():
                result.setdefault((axis, same), {}).setdefault(label, []).extend(cells)
    return {panel: {label: sorted(cells, key=lambda cell: (AXES[panel[0]](cell) or 0)) for label, cells in lines.items()}
            for panel, lines in result.items()}


def _varies(axis_key, cells):
    """Whether the value of the axis varies among the cells that can be drawn."""
    return len({AXES[axis_key](cell) for cell in cells if load.steady_ns(cell) and cell.get("compute_ns")}) > 1


def _panel(axis_and_group, records_by_label):
    axis_key, group = axis_and_group
    points = {label: [point_of_cell(cell, cell.get("compute_ns"), AXES[axis_key](cell)) for cell in cells] for label, cells in records_by_label.items()}
    return curves.Panel(f"{load.network_text(group).replace('batch 0, ', '')}\n{load.machine_text(group)}", points, "x",
                        group, AXIS_NAMES[axis_key], group.simulated)


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "umbench"))
