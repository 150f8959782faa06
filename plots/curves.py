"""Draws lines of slowdown by oversubscription ratio for slowdown.py (shrinking budget) and growth.py (growing work). A line is a strategy;
whiskers are quartiles of measured times. A cell without a time is a cross in a strip at the top."""

from collections import namedtuple

from umbench.plots.common import WIDTH, layout, mark_simulated_or_measured, make_panels, set_title
from umbench.plots.looks import looks_by_label

from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

# `slowdown`, `low` and `high` are None if the cell failed. `size`: the batch or image size if it grows, else None.
# `has_whiskers`: whether the point's quartiles are drawn.
Point = namedtuple("Point", "ratio slowdown low high outcome size has_whiskers")
# `lines`: {label: [Point]} by rising ratio. `unit`: "x", or "ms" without a baseline. Panels with equal `scale_group` and unit share their
# axes' ranges. `size_name`: the name of the growing size, or None.
Panel = namedtuple("Panel", "title lines unit scale_group size_name simulated")

NO_FIT = "does not fit (infeasible)"
X_LABEL = "ratio: needed / allowed memory"
MARKER_DISTANCE = 10  # minimum distance of two markers of a line, in pixels
Y_LABEL = {"x": "slowdown, log scale", "ms": "ms per iteration, log scale\n(no device baseline)"}


def figure_of(drawn_panels, family_by_label, width=WIDTH, legend_lines=(), grey_lines=()):
    """The figure of [Panel]. `family_by_label` is {label: family} of all labels. `legend_lines` is [(label, dash), ...] of grey lines in the
    legend; `grey_lines` has their points for each panel: [([(ratio, slowdown), ...], dash), ...]."""
    look_by_label, marks = looks_by_label(family_by_label), set()
    columns, legend = legend_size(len(family_by_label) + 2 + len(legend_lines), width)
    figure, axes = make_panels(len(drawn_panels), width, height=3.25 if any(panel.size_name for panel in drawn_panels) else 3.0, space_below=legend)
    logarithmic = _scale_groups_with_log_ratios(drawn_panels)
    for number, (axis, panel) in enumerate(zip(axes, drawn_panels)):
        _draw_panel(axis, panel, look_by_label, panel.scale_group in logarithmic)
        for line, dash in grey_lines[number] if grey_lines else ():
            axis.plot(*zip(*line), color="#888888", linestyle=dash, linewidth=1.4, zorder=2)
            low, high = axis.get_ylim()
            axis.set_ylim(min(low, line[0][1] / 1.1), max(high, line[-1][1] * 1.2))
    for key in {(panel.scale_group, panel.unit) for panel in drawn_panels}:
        marks |= _align_and_draw_strips([(axis, panel) for axis, panel in zip(axes, drawn_panels) if (panel.scale_group, panel.unit) == key], look_by_label)
    drawn = list(dict.fromkeys(label for panel in drawn_panels for label in panel.lines))
    _draw_legend(figure, {label: look_by_label[label] for label in drawn}, marks, columns, legend, legend_lines)
    for axis in axes:
        _drop_crowded_markers(axis)
    return figure


def legend_size(entry_count, width=WIDTH):
    """(columns, height in inches) of a legend of `entry_count` entries below a figure."""
    columns = max(1, width // 215)
    return columns, 0.21 * -(-entry_count // columns) + 0.15


def _scale_groups_with_log_ratios(drawn_panels):
    """The values of `scale_group` whose panels get a logarithmic axis of ratios."""
    ratios = {}
    for panel in drawn_panels:
        ratios.setdefault(panel.scale_group, []).extend(point.ratio for line in panel.lines.values() for point in line)
    return {scale_group for scale_group, group_ratios in ratios.items() if group_ratios and max(group_ratios) > 6 * min(group_ratios)}


def _drop_crowded_markers(axis):
    """Removes markers of a line that would overlap others, from right to left. The line still passes through their points."""
    for line in axis.lines:
        if line.get_marker() in (None, "None", "", " ") or len(line.get_xdata()) < 2:
            continue
        positions = axis.transData.transform([(x, y) for x, y in zip(line.get_xdata(), line.get_ydata())])
        kept = []
        for number in reversed(range(len(positions))):
            if not kept or max(abs(positions[number] - positions[kept[-1]])) >= MARKER_DISTANCE:
                kept.append(number)
        line.set_markevery(sorted(kept))


def _align_and_draw_strips(axes_and_panels, look_by_label):
    """Gives the axes of all `axes_and_panels`, [(axis, panel)], the same range and draws their strips of failed cells. Returns the names of the marks in the strips."""
    low, high = min(axis.get_ylim()[0] for axis, _ in axes_and_panels), max(axis.get_ylim()[1] for axis, _ in axes_and_panels)
    row_count = max(len(_labels_with_failed_points(panel)) for _, panel in axes_and_panels)
    marks = set()
    for axis, panel in axes_and_panels:
        axis.set_ylim(low, high)
        marks |= draw_failure_strip(axis, {label: (panel.lines[label], look_by_label[label]) for label in _labels_with_failed_points(panel)}, row_count)
    return marks


def _labels_with_failed_points(panel):
    return [label for label, line in panel.lines.items() if any(not point.slowdown for point in line)]


def draw_failure_strip(axis, failing_lines, row_count):
    """Adds a strip of `row_count` rows at the top, with a cross for each cell without a time. `failing_lines` is {label: (points, Look)}, a row for
    each label. Returns the names of the marks. Slowdowns stay below the strip."""
    if not row_count:
        return set()
    low, high = axis.get_ylim()
    share, marks = min(0.42, 0.12 + 0.042 * row_count), set()
    top = low * (high / low) ** (1 / (1 - share))
    ticks = [[tick for tick in getter.tick_values(low, high) if low <= tick <= high]
             for getter in (axis.yaxis.get_major_locator(), axis.yaxis.get_minor_locator())]
    axis.set_ylim(low, top)
    axis.set_yticks(ticks[0])
    axis.set_yticks(ticks[1], minor=True)
    axis.axhspan(high, top, facecolor="#E6E6E6", edgecolor="#999999", linewidth=0.6, zorder=0.8)
    name = "does not fit" if all(_fails_only_as_infeasible(line) for line, _ in failing_lines.values()) else "no time"
    axis.text(0.012, 0.985, name, transform=axis.transAxes, ha="left", va="top", fontsize=8, color="#333333", zorder=6,
              bbox={"facecolor": "#E6E6E6", "edgecolor": "none", "pad": 0.8})
    for number, (points, style) in enumerate(failing_lines.values()):
        y = low * (top / low) ** (1 - share * (0.36 + 0.58 * (number + 0.5) / row_count))
        timed = [point for point in points if point.slowdown]
        for point in points:
            if point.slowdown:
                continue
            kind = NO_FIT if point.outcome == "infeasible" else "failed: " + point.outcome.replace("_", " ")
            if timed and point.ratio > timed[-1].ratio and not any(timed[-1].ratio < p.ratio < point.ratio for p in points):
                axis.plot([timed[-1].ratio, point.ratio], [timed[-1].slowdown, y], color=style.colour, linewidth=0.8, linestyle=":",
                          zorder=2)
            axis.plot([point.ratio], [y], color=style.colour, marker="x" if kind == NO_FIT else "X", markersize=5.5,
                      markeredgewidth=1.5, linestyle="none", clip_on=False, zorder=3)
            marks.add(kind)
    return marks


def _fails_only_as_infeasible(line):
    """Whether all points of the line that have no time are infeasible."""
    return all(point.slowdown or point.outcome == "infeasible" for point in line)


def _draw_panel(axis, panel, look_by_label, has_log_ratios):
    """Draws a panel, with a logarithmic axis of ratios if `has_log_ratios`."""
    points = [point for line in panel.lines.values() for point in line]
    _set_scales(axis, [point for point in points if point.slowdown], panel, has_log_ratios)
    for label, line in panel.lines.items():
        style, timed = look_by_label[label], [point for point in line if point.slowdown]
        if timed:
            axis.plot([p.ratio for p in timed], [p.slowdown for p in timed], color=style.colour, marker=style.marker,
                      linestyle=style.dash, markersize=style.size, markerfacecolor="white", markeredgewidth=1.2,
                      clip_on=False, zorder=3)
            _draw_whiskers(axis, [point for point in timed if point.has_whiskers and point.high > point.low], style.colour)
    axis.axvline(1.0, color="#555555", linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    axis.set_xlabel(X_LABEL)
    axis.set_ylabel(Y_LABEL[panel.unit])
    ratios = [point.ratio for point in points]
    if ratios and not has_log_ratios:
        room = 0.06 * (max(*ratios, 1.0) - min(*ratios, 1.0) or 1)
        axis.set_xlim(min(*ratios, 1.0) - room, max(*ratios, 1.0) + room)
    mark_simulated_or_measured(axis, panel.simulated)
    set_title(axis, panel.title.split("\n"), pad=26 if panel.size_name else 6)
    if panel.size_name:
        _draw_sizes(axis, panel, axis.get_figure().get_figwidth() / axis.get_subplotspec().get_gridspec().ncols)


def _draw_whiskers(axis, points, colour):
    if points:
        below = [point.slowdown - point.low for point in points]
        above = [point.high - point.slowdown for point in points]
        axis.errorbar([p.ratio for p in points], [p.slowdown for p in points], yerr=[below, above], fmt="none", ecolor=colour,
                      elinewidth=1.1, capsize=3.5, capthick=1.1, zorder=4)


def _set_scales(axis, points, panel, has_log_ratios):
    values = [each for point in points for each in (point.slowdown, point.low, point.high)]
    low, high = (min(values), max(values)) if values else (1, 2)
    axis.set_yscale("log")
    axis.set_ylim(low / 1.12, max(high * 1.25, low * 2.2))
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 300 else (1,)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}×" if panel.unit == "x" else f"{y:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())
    if has_log_ratios:
        axis.set_xscale("log")
        ratios = [point.ratio for line in panel.lines.values() for point in line]
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if max(ratios) > 10 * min(ratios) else (1, 1.5, 2, 3, 4, 6)))
        axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axis.xaxis.set_minor_formatter(NullFormatter())
    else:
        axis.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))


def _draw_sizes(axis, panel, panel_width_inches):
    """Labels the upper edge with the growing sizes at their ratios, as many as the width has room for."""
    sizes = {point.ratio: point.size for line in panel.lines.values() for point in line}
    kept, last_x_pixels = [], None
    low, high = axis.get_xlim()
    upper = axis.secondary_xaxis("top")
    for ratio in sorted(sizes, reverse=True):
        x_pixels = axis.transData.transform((ratio, 1))[0]
        if last_x_pixels is None or last_x_pixels - x_pixels > 3.4 + 8.2 * len(str(sizes[ratio])) * max(1, 3 / panel_width_inches):
            kept.append(ratio)
            last_x_pixels = x_pixels
    upper.set_xticks(kept, [str(sizes[ratio]) for ratio in kept], fontsize=8)
    upper.xaxis.set_minor_locator(NullLocator())
    upper.set_xlabel(panel.size_name, fontsize=8, labelpad=2)
    upper.tick_params(length=2.5, pad=1)
    axis.set_xlim(low, high)


def _draw_legend(figure, look_by_label, mark_names, column_count, height, legend_lines):
    """Draws the legend of figure_of(), `height` inches high. `look_by_label` is {label: Look}."""
    handles = [Line2D([], [], color=style.colour, marker=style.marker, linestyle=style.dash, markersize=style.size,
                      markerfacecolor="white", markeredgewidth=1.2, label=label) for label, style in look_by_label.items()]
    handles += [Line2D([], [], color="#555555", marker="x" if mark == NO_FIT else "X", linestyle=":", linewidth=1,
                       markeredgewidth=1.7, label=mark) for mark in sorted(mark_names)]
    handles += [Line2D([], [], color="#888888", linewidth=1.4, linestyle=dash, label=label) for label, dash in legend_lines]
    handles.append(Line2D([], [], color="#555555", linewidth=1, linestyle=(0, (4, 3)), label="ratio 1: memory just full"))
    layout(figure, rect=(0, height / figure.get_figheight(), 1, 1), h_pad=1.6, w_pad=1.6)
    figure.legend(handles=handles, loc="lower center", ncol=column_count, frameon=False, handlelength=3.4, columnspacing=1.6,
                  bbox_to_anchor=(0.5, 0.0))
