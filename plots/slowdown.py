#!/usr/bin/env python3
"""Slowdown against the oversubscription ratio: one panel a network and machine, one line a strategy.

Slowdown is the time of an iteration (median without the first) over the time with everything on
the device. A panel without a `device` record shows milliseconds instead, and says so.
"""

import argparse
import sys

from common import load, looks, pyplot, save, use_style

from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MultipleLocator, NullFormatter

FAILED = {"infeasible": "does not fit (infeasible)"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", metavar="FILE.jsonl")
    parser.add_argument("--out", required=True, metavar="DIR")
    parser.add_argument("--name", default="slowdown", help="base name of the figure's files")
    wanted = parser.parse_args()
    records = load.read_all(wanted.files)
    if not any(load.steady_ns(record) for record in records):
        raise load.TooLittle(f"{', '.join(wanted.files)}: no cell finished well, nothing to draw")
    use_style()
    save(figure_of(load.groups(records), load.baselines(records)), wanted.out, wanted.name)


def figure_of(groups, baselines):
    """`groups`: {load.Group: records}; `baselines`: load.baselines of all records."""
    places = _places(groups)
    rows, columns = (1 + max(place[axis] for place in places.values()) for axis in (0, 1))
    labels = _unique(label for cells in groups.values() for label in load.lines(cells))
    look = looks(labels)
    width, height = 1.1 + 3.9 * columns, 1.25 + 2.75 * rows
    figure, axes = pyplot.subplots(rows, columns, figsize=(max(width, 5.6), height), squeeze=False, sharex=True)
    marks, works = set(), {}
    for panel in axes.flat:
        panel.set_visible(False)
    for group, cells in groups.items():
        panel = axes[places[group]]
        panel.set_visible(True)
        works.setdefault(_work(group), []).append(panel)
        marks |= _draw_panel(panel, group, cells, load.baseline_of(group, baselines), look)
    for panels in works.values():
        _same_height(panels)
    _legend(figure, labels, look, marks, height)
    return figure


def _places(groups):
    """{group: (row, column)}: a row a work and a column a machine, or, where that would leave most of the page empty,
    one after the other."""
    works, columns = _unique(map(_work, groups)), _unique(map(_column, groups))
    if 2 * len(groups) > len(works) * len(columns):
        return {group: (works.index(_work(group)), columns.index(_column(group))) for group in groups}
    across = min(3, len(groups))
    return {group: divmod(number, across) for number, group in enumerate(groups)}


def _unique(items):
    return list(dict.fromkeys(items))


def _work(group):
    """The work; on which machine and in which precision is the column's."""
    return group._replace(workspace_cap=None, mode="", backend="", device="", simulated=False, calibrated=False,
                          precision="", memory_order="")


def _column(group):
    return (group.mode, group.backend, group.device, group.simulated, group.calibrated, group.workspace_cap,
            group.precision, group.memory_order)


def _draw_panel(panel, group, cells, baseline, look):
    scale = baseline or 1e6
    ends = {}
    for label, records in load.lines(cells).items():
        style = look[label]
        good = [(r["ratio"], load.steady_ns(r) / scale) for r in records if load.steady_ns(r)]
        if good:
            panel.plot(*zip(*good), color=style.colour, marker=style.marker, linestyle=style.dash,
                       markersize=style.size, markerfacecolor="white", markeredgewidth=1.2, clip_on=False, zorder=3)
        ends[label] = (good, [r for r in records if not load.steady_ns(r)])
    panel.set_yscale("log")
    panel.axvline(1.0, color="#555555", linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    _scales(panel, [value for good, _ in ends.values() for _, value in good], bool(baseline))
    panel.set_xlabel("oversubscription: footprint / budget")
    panel.set_ylabel("slowdown, log scale" if baseline else "ms per iteration, log scale\n(no device baseline)")
    panel.tick_params(labelbottom=True)
    panel.set_title(f"{wrapped(load.network_text(group))}\n{wrapped(load.machine_text(group))}", loc="left")
    return _draw_failures(panel, ends, look)


def wrapped(text, width=48):
    """Broken at commas to fit a panel."""
    lines = [""]
    for part in text.split(", "):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines[-1] += ","
            lines.append("")
        lines[-1] += (", " if lines[-1] else "") + part
    return "\n".join(lines)


def _scales(panel, values, relative):
    low, high = (min(values), max(values)) if values else (1, 2)
    panel.set_ylim(low / 1.12, max(high * 1.25, low * 2.2))
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 300 else (1,)))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}×" if relative else f"{y:g}"))
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.xaxis.set_major_locator(MultipleLocator(0.5))


def _draw_failures(panel, ends, look):
    """Where a line stops: a dotted run from its last good cell to the first that failed."""
    kinds, taken = set(), []
    bottom = panel.get_ylim()[0]
    for label, (good, failed) in ends.items():
        beyond = [r for r in failed if not good or r["ratio"] > good[-1][0]] or failed
        if not beyond:
            continue
        first = beyond[0]
        x, y = first["ratio"], good[-1][1] if good else bottom * 1.06
        while any(abs(x - other) < 1e-9 and max(y / height, height / y) < 1.09 for other, height in taken):
            y *= 1.1
        taken.append((x, y))
        kind = FAILED.get(first["outcome"], "failed: " + first["outcome"].replace("_", " "))
        kinds.add(kind)
        colour = look[label].colour
        if good:
            panel.plot([good[-1][0], x], [good[-1][1], y], color=colour, linewidth=1, linestyle=":", zorder=2)
        panel.plot([x], [y], color=colour, marker="x" if kind == FAILED["infeasible"] else "X", markersize=6.5,
                   markeredgewidth=1.7, linestyle="none", clip_on=False, zorder=4)
    return kinds


def _same_height(panels):
    """Panels of one work and one unit share their range, so that they can be compared by eye."""
    for unit in {panel.get_ylabel() for panel in panels}:
        same = [panel for panel in panels if panel.get_ylabel() == unit]
        low, high = min(p.get_ylim()[0] for p in same), max(p.get_ylim()[1] for p in same)
        for panel in same:
            panel.set_ylim(low, high)


def _legend(figure, labels, look, marks, height):
    handles = [Line2D([], [], color=look[label].colour, marker=look[label].marker, linestyle=look[label].dash,
                      markersize=look[label].size, markerfacecolor="white", markeredgewidth=1.2, label=label)
               for label in labels]
    handles += [Line2D([], [], color="#555555", marker="x" if mark == FAILED["infeasible"] else "X",
                       linestyle=":", linewidth=1, markeredgewidth=1.7, label=mark) for mark in sorted(marks)]
    handles.append(Line2D([], [], color="#555555", linewidth=1, linestyle=(0, (4, 3)),
                          label="ratio 1: device memory just full"))
    columns = 4 if figure.get_figwidth() > 7 else 2
    rows = -(-len(handles) // columns)
    figure.tight_layout(rect=(0, (0.22 * rows + 0.12) / height, 1, 1), h_pad=1.6, w_pad=2.0)
    figure.legend(handles=handles, loc="lower center", ncol=columns, frameon=False, handlelength=3.4,
                  columnspacing=1.8, bbox_to_anchor=(0.5, 0.0))


if __name__ == "__main__":
    sys.exit(load.report_errors(main))
