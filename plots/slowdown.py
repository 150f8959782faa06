"""Draws slowdowns by oversubscription ratio: a panel for each network and machine, a line for each strategy.

Slowdown is the time of an iteration (median without the first) divided by the time with everything on the device. A panel without a `device`
record shows milliseconds instead. If records have bounds, a thin line is the lower bound of plans that swap and compute again (see
bounds_figure.py).
"""

import sys

from umbench.plots import curves
from umbench.plots.common import WIDTH, figure_parser, family_by_label, load, read, save, use_style
from umbench import iteration_times


# {name in `bounds`: (label, dash)}
DRAWN_BOUNDS = {"both_ns": ("bound: swapping and computing again", ":")}


def main():
    options = figure_parser("slowdown", __doc__, "slowdown").parse_args()
    records = read(options.files, options.strategies)
    if not any(load.steady_ns(record) for record in records):
        raise load.TooLittle(f"{', '.join(options.files)}: no cell finished well, nothing to draw")
    use_style()
    save(figure_of(records, options.width), options.out, options.name, options.format)


def figure_of(records, width=WIDTH, bounds=DRAWN_BOUNDS):
    """The figure of records that common.read() returned. `bounds` is {name: (label, dash)} of those to draw."""
    panels = panels_of(records)
    by_title = {_title(group): cells for group, cells in load.records_by_group(records).items()}
    points_of_bounds = [{name: _bound_points(by_title[panel.title], name) for name in bounds} for panel in panels]
    labels_and_dashes = [drawn for name, drawn in bounds.items() if any(each[name] for each in points_of_bounds)]
    grey_lines = [[(line, bounds[name][1]) for name, line in each.items() if line] for each in points_of_bounds]
    return curves.figure_of(panels, family_by_label(records), width, labels_and_dashes, grey_lines)


def _bound_points(cells, bound_name):
    """[(ratio, slowdown)] of a bound, at the ratios that have one."""
    known = {(cell["ratio"], load.lower_bounds_ns(cell, cell["baseline_ns"])[bound_name], cell["baseline_ns"])
             for cell in cells if cell["baseline_ns"] and cell.get("bounds")}
    return sorted((ratio, least / baseline) for ratio, least, baseline in known if least)


def panels_of(records):
    """A panel for each group. Panels of the same work are neighbours, with machines in the same order."""
    groups = load.records_by_group(records)
    works, columns = list(map(_row_key, groups)), list(map(_column_key, groups))
    order = sorted(groups, key=lambda group: (works.index(_row_key(group)), columns.index(_column_key(group))))
    return [_panel(group, groups[group]) for group in order]


def _panel(group, cells):
    baseline = next((cell["baseline_ns"] for cell in cells if cell["baseline_ns"]), None)
    lines = {label: [point_of_cell(cell, cell["baseline_ns"] if baseline else 1e6) for cell in line]
             for label, line in load.records_by_strategy(cells).items()}
    return curves.Panel(_title(group), lines, "x" if baseline else "ms",
                        _row_key(group), None, group.simulated)


def _title(group):
    return f"{load.network_text(group)}\n{load.machine_text(group)}"


def point_of_cell(cell, baseline_ns, grown_size=None):
    """The curves.Point of a cell: its time divided by `baseline_ns`."""
    found = iteration_times.spread_of(cell)
    values = [value / baseline_ns for value in found[:3]] if found and baseline_ns else [None] * 3
    return curves.Point(cell["ratio"], *values, cell["outcome"], grown_size,
                        not cell["simulated"] or "band_ns" in cell)


def _row_key(group):
    """The group without machine and precision: panels of one work share a row."""
    return group._replace(workspace_cap=None, mode="", backend="", device="", simulated=False, calibrated=False, kernels_at_peak=False,
                          precision="", memory_order="")


def _column_key(group):
    """The values that differ between panels of one row."""
    return (group.mode, group.backend, group.device, group.simulated, group.calibrated, group.workspace_cap,
            group.precision, group.memory_order)


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "umbench"))
