#!/usr/bin/env python3
"""Slowdown as batch or image size grows beyond the device: one panel a machine and axis, one line a strategy.

The other way to a ratio than slowdown.py's: the budget stays and the work grows. So each cell is held against the
time that its own operators take with everything resident (`compute_ns`), which no device need be able to hold.
"""

import argparse
import sys

from common import load, looks, pyplot, save, use_style

from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from slowdown import wrapped

AXES = {"batch": lambda record: record["batch"],
        "insize": lambda record: (record.get("network_knobs") or {}).get("insize")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", metavar="FILE.jsonl")
    parser.add_argument("--out", required=True, metavar="DIR")
    parser.add_argument("--name", default="growth", help="base name of the figure's files")
    wanted = parser.parse_args()
    found = panels_of(load.read_all(wanted.files))
    if not found:
        raise load.TooLittle(f"{', '.join(wanted.files)}: neither batch nor insize varies among cells that finished well")
    use_style()
    save(figure_of(found), wanted.out, wanted.name)


def panels_of(records):
    """{(axis, Group without that axis): {strategy: records by rising value}}"""
    found = {}
    for record, label in zip(records, load.strategy_labels(records)):
        if record["ratio"] is None or not record.get("compute_ns") or not load.steady_ns(record):
            continue
        group = load.group_of(record)
        for axis, same in (("batch", group._replace(batch=0)), ("insize", group._replace(knobs=()))):
            found.setdefault((axis, same), {}).setdefault(label, []).append(record)
    return {panel: {label: sorted(cells, key=AXES[panel[0]]) for label, cells in lines.items()}
            for panel, lines in found.items() if any(_varies(panel[0], cells) for cells in lines.values())}


def _varies(axis, cells):
    return len({AXES[axis](cell) for cell in cells}) > 1


def figure_of(found):
    columns = 2
    rows = -(-len(found) // columns)
    labels = list(dict.fromkeys(label for lines in found.values() for label in lines))
    look = looks(labels)
    legend = 0.25 * -(-len(labels) // 4) + 0.15
    height = 3.1 * rows + legend
    figure, axes = pyplot.subplots(rows, columns, figsize=(5.0 * columns, height), squeeze=False)
    for panel in list(axes.flat)[len(found):]:
        panel.set_visible(False)
    for (key, lines), panel in zip(found.items(), axes.flat):
        _draw(panel, key, lines, look)
    figure.tight_layout(rect=(0, legend / height, 1, 1), h_pad=1.6, w_pad=2.0)
    handles = {text: handle for panel in axes.flat for handle, text in zip(*panel.get_legend_handles_labels())}
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncol=4, frameon=False, handlelength=3.4)
    return figure


def _draw(panel, key, lines, look):
    axis, group = key
    for label, cells in lines.items():
        style = look[label]
        panel.plot([cell["ratio"] for cell in cells], [load.steady_ns(cell) / cell["compute_ns"] for cell in cells],
                   color=style.colour, marker=style.marker, linestyle=style.dash, markersize=style.size,
                   markerfacecolor="white", markeredgewidth=1.2, label=label, zorder=3)
    panel.axvline(1.0, color="#555555", linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    for scale, axis_of in ((panel.set_xscale, panel.xaxis), (panel.set_yscale, panel.yaxis)):
        scale("log")
        axis_of.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis_of.set_minor_formatter(NullFormatter())
    panel.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}×"))
    values = sorted({AXES[axis](cell) for cells in lines.values() for cell in cells})
    panel.set_xlabel(f"needed / device memory, as {axis} goes from {values[0]} to {values[-1]}")
    panel.set_ylabel("iteration / its operators' time")
    named = load.network_text(group).replace("batch 0, ", "")
    panel.set_title(f"{wrapped(named)}\n{wrapped(load.machine_text(group))}", loc="left")


if __name__ == "__main__":
    sys.exit(load.report_errors(main))
