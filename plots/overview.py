"""Draws slowdowns of at most six strategies by ratio, in one or two panels with names at the ends of the lines.

No plan of the drawn kinds can lie in the grey area (`load.lower_bounds_ns`). Cells without a time are in a strip at the top.
"""

import math
import sys

from umbench import load
from umbench.plots import curves, slowdown
from umbench.plots.common import figure_parser, family_by_label, layout, mark_simulated_or_measured, make_panels, read, save, set_title, use_style
from umbench.plots.looks import looks_by_label

STRATEGIES = ("device", "managed", "managed_prefetch", "twin", "best_managed", "best")
WIDTH, MAX_PANELS = 700, 2
NAME_WIDTH, LONG_NAME_WIDTH = 122, 148  # width in pixels of names of up to 12 letters right of a panel, and of longer names
TEXT_BOX = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5}


def main():
    parser = figure_parser("overview", __doc__, "overview")
    parser.set_defaults(width=WIDTH)
    options = parser.parse_args()
    names = options.strategies or STRATEGIES
    if len(names) > len(STRATEGIES):
        raise load.BadInput(f"--strategies: at most {len(STRATEGIES)}; `umbench plot slowdown` draws more")
    records = [record for record in read(options.files) if record["strategy"] in names and record["baseline_ns"]]
    if not any(load.steady_ns(record) for record in records):
        raise load.TooLittle(f"{', '.join(options.files)}: no cell of {', '.join(names)} finished timed beside one of device")
    use_style()
    save(figure_of(records, options.width), options.out, options.name, options.format)


def figure_of(records, width=WIDTH):
    """The figure of records with a `baseline_ns`. Of many groups it has those with the most cells."""
    groups = load.records_by_group(records)
    chosen = sorted(groups, key=lambda group: -sum(bool(load.steady_ns(cell)) for cell in groups[group]))[:MAX_PANELS]
    found = {group: groups[group] for group in groups if group in chosen}
    look = looks_by_label(family_by_label([{**record, "strategy_knobs": {}} for record in records]))
    figure, axes = make_panels(len(found), width, height=3.6)
    lines = {group: _points_by_strategy(cells) for group, cells in found.items()}
    values = [point.slowdown for each in lines.values() for line in each.values() for point in line if point.slowdown]
    rows = max(sum(any(not point.slowdown for point in line) for line in each.values()) for each in lines.values())
    limits = 0.88, max(values) * 1.25
    beside = {group: _names_beside_panel(each, limits) for group, each in lines.items()}
    name_room = LONG_NAME_WIDTH if any(len(name) > 12 for names in beside.values() for name in names) else NAME_WIDTH
    for axis, (group, cells) in zip(axes, found.items()):
        _draw_panel(axis, lines[group], look, limits)
        bound = _lower_bound_points(cells)
        axis.fill_between([ratio for ratio, _ in bound], [least for _, least in bound], 0.5, facecolor="#BBBBBB", linewidth=0,
                          zorder=1)
        failing = {name: (line, look[name]) for name, line in lines[group].items() if any(not point.slowdown for point in line)}
        curves.draw_failure_strip(axis, failing, rows)
        set_title(axis, [load.network_text(group), load.machine_text(group._replace(workspace_cap=None))])
        mark_simulated_or_measured(axis, group.simulated)
    layout(figure, w_pad=0.4, rect=(0, 0.03, 1, 1))
    figure.subplots_adjust(right=1 - name_room / width, wspace=(name_room + 46) / (axes[0].get_window_extent().width - name_room))
    for axis, group in zip(axes, found):
        _write_names_at_lines(axis, lines[group], look, beside[group])
    figure.text(0.012, 0.012, "Grey: no plan of these kinds can be faster.", fontsize=8, color="#333333")
    return figure


def _points_by_strategy(cells):
    """{strategy: points by rising ratio}. If a strategy has several cells at one ratio, the last one counts."""
    found = {}
    for cell in cells:
        if cell["ratio"] is not None:
            found.setdefault(cell["strategy"], {})[cell["ratio"]] = slowdown.point_of_cell(cell, cell["baseline_ns"])
    return {name: [found[name][ratio] for ratio in sorted(found[name])] for name in STRATEGIES if name in found} | {
        name: [line[ratio] for ratio in sorted(line)] for name, line in found.items() if name not in STRATEGIES}


def _lower_bound_points(cells):
    """[(ratio, slowdown), ...] of the lower bound: at each ratio the minimum over the drawn plans. The first and last values extend to the
    edges."""
    least = {}
    for cell in cells:
        known = load.lower_bounds_ns(cell, cell["baseline_ns"])["plan_ns"]
        if cell["ratio"] is not None and known and load.steady_ns(cell):
            value = min(known, load.steady_ns(cell)) / cell["baseline_ns"]
            least[cell["ratio"]] = min(value, least.get(cell["ratio"], value))
    line = sorted(least.items())
    return [(0, line[0][1]), *line, (99, line[-1][1])] if line else []


def _draw_panel(axis, lines, look_by_label, y_limits):
    ratios = [point.ratio for line in lines.values() for point in line]
    axis.set_yscale("log")
    axis.set_ylim(*y_limits)
    axis.set_xlim(min(ratios) - 0.12, max(ratios) + 0.12)
    axis.yaxis.set_major_locator(curves.LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter(curves.FuncFormatter(lambda y, _: f"{y:g}×"))
    axis.yaxis.set_minor_formatter(curves.NullFormatter())
    axis.xaxis.set_major_locator(curves.MaxNLocator(5, steps=[1, 5, 10]))
    for name, line in lines.items():
        timed, style = [point for point in line if point.slowdown], look_by_label[name]
        axis.plot([p.ratio for p in timed], [p.slowdown for p in timed], color=style.colour, marker=style.marker, linestyle=style.dash,
                  markersize=style.size, markerfacecolor="white", markeredgewidth=1.3, linewidth=1.8, clip_on=False, zorder=3)
    axis.axvline(1.0, color="#555555", linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    axis.set_xlabel(curves.X_LABEL)
    axis.set_ylabel("slowdown, log scale")


def _names_beside_panel(lines, y_limits):
    """The strategies whose names are written right of the panel, since their lines end far right or another line would cross the name."""
    ratios = [point.ratio for line in lines.values() for point in line]
    middle, height = min(ratios) + 0.6 * (max(ratios) - min(ratios)), math.log(y_limits[1] / y_limits[0])
    found = set()
    for name, end in _last_points(lines).items():
        others = [point for other, line in lines.items() if other != name for point in line
                  if point.slowdown and point.ratio > end.ratio]
        if end.ratio > middle or any(abs(math.log(point.slowdown / end.slowdown)) < 0.06 * height for point in others):
            found.add(name)
    return found


def _last_points(lines):
    """{strategy: its last point with a time}, without `device`."""
    timed = {name: [point for point in line if point.slowdown] for name, line in lines.items() if name != "device"}
    return {name: points[-1] for name, points in timed.items() if points}


def _write_names_at_lines(axis, lines, look_by_label, names_outside):
    """Writes the names at the ends of lines, or right of the panel for those in `names_outside`, without overlaps."""
    box = axis.get_window_extent()
    place = lambda point: axis.transAxes.inverted().transform(axis.transData.transform((point.ratio, point.slowdown)))  # noqa: E731
    ends = sorted((name in names_outside, *place(end), name) for name, end in _last_points(lines).items())
    last = None
    for outside, x, end, name in sorted(ends, key=lambda each: (each[0], each[0] or round(each[1], 2), each[2])):
        column = (outside, outside or round(x, 2))
        y = max(end, last[1] + 14 / box.height) if last and last[0] == column else end
        last = column, y
        style = look_by_label[name]
        marker = {"transform": axis.transAxes, "color": style.colour, "clip_on": False}
        if outside:
            axis.plot([x + 0.012, 1.02], [end, y], linewidth=0.7, linestyle=":", zorder=2, **marker)
            axis.plot([1.045], [y], marker=style.marker, markersize=style.size, markerfacecolor="white", markeredgewidth=1.3, **marker)
        axis.text(1.085 if outside else x + 12 / box.width, y, name, transform=axis.transAxes, color=style.colour, fontsize=9, va="center",
                  zorder=6, bbox=None if outside else TEXT_BOX)
    for point in [point for point in lines.get("device", ()) if point.slowdown][-1:]:
        x, y = place(point)
        axis.text(x + 0.05, y + 0.028, "device", transform=axis.transAxes, fontsize=9, va="bottom", zorder=6, bbox=TEXT_BOX)


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "umbench"))
