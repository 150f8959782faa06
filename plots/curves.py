"""Lines of slowdown against the oversubscription ratio, whatever made the ratio grow: the figures of slowdown.py and
growth.py. A line is a strategy; whiskers are the quartiles of what was measured; a cell that has no time is a cross."""

from collections import namedtuple

from umbench.plots.common import WIDTH, looks, panels, wrapped

from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

# `slowdown`, `low`, `high`: None if the cell failed; `size`: what grew, or None. `measured`: has whiskers.
Point = namedtuple("Point", "ratio slowdown low high outcome size measured")  # or simulated with a band
# `lines`: {label: [Point]} by rising ratio; `unit`: "x", or "ms" where nothing says what 1x is; `like`: panels of equal
# `like` and unit share their range; `growing`: what `size` is.
Panel = namedtuple("Panel", "title lines unit like growing")

NO_FIT = "does not fit (infeasible)"
X_LABEL = "ratio: needed / allowed memory"
APART = 10  # pixels between two markers of a line
Y_LABEL = {"x": "slowdown, log scale", "ms": "ms per iteration, log scale\n(no device baseline)"}


def figure_of(found, families, width=WIDTH, extra=()):
    """`families`: {label: family} of all labels; `extra`: (label, dash) of grey lines that the caller adds."""
    look, marks = looks(families), set()
    columns, legend = legend_room(len(families) + 2 + len(extra), width)
    figure, axes = panels(len(found), width, height=3.25 if any(panel.growing for panel in found) else 3.0, extra=legend)
    wide = _wide(found)
    for axis, panel in zip(axes, found):
        marks |= _draw(axis, panel, look, panel.like in wide)
    for key in {(panel.like, panel.unit) for panel in found}:
        _same_height([axis for axis, panel in zip(axes, found) if (panel.like, panel.unit) == key])
    drawn = list(dict.fromkeys(label for panel in found for label in panel.lines))
    _legend(figure, {label: look[label] for label in drawn}, marks, columns, legend, extra)
    for axis in axes:
        _thin(axis)
    return figure


def legend_room(number, width=WIDTH):
    """(columns, inches) that so many entries take below a figure."""
    columns = max(1, width // 215)
    return columns, 0.21 * -(-number // columns) + 0.15


def _wide(found):
    """The `like` of panels whose ratios want a logarithmic scale: all that are alike, or none."""
    ratios = {}
    for panel in found:
        ratios.setdefault(panel.like, []).extend(point.ratio for line in panel.lines.values() for point in line)
    return {like for like, mine in ratios.items() if mine and max(mine) > 6 * min(mine)}


def _thin(axis):
    """Markers of a line that would lie on each other are left out, from right to left; the line goes through their points."""
    for line in axis.lines:
        if line.get_marker() in (None, "None", "", " ") or len(line.get_xdata()) < 2:
            continue
        across = axis.transData.transform([(x, y) for x, y in zip(line.get_xdata(), line.get_ydata())])
        kept = []
        for number in reversed(range(len(across))):
            if not kept or max(abs(across[number] - across[kept[-1]])) >= APART:
                kept.append(number)
        line.set_markevery(sorted(kept))


def _same_height(axes):
    low, high = min(axis.get_ylim()[0] for axis in axes), max(axis.get_ylim()[1] for axis in axes)
    for axis in axes:
        axis.set_ylim(low, high)


def _draw(axis, panel, look, wide):
    """What it marked failures by. `wide`: the ratios are drawn on a logarithmic scale."""
    marks, taken = set(), []
    points = [point for line in panel.lines.values() for point in line]
    good = [point for point in points if point.slowdown]
    _scales(axis, good, panel, wide)
    floor = axis.get_ylim()[0] * 1.06
    for label, line in panel.lines.items():
        style, well = look[label], [point for point in line if point.slowdown]
        if well:
            axis.plot([p.ratio for p in well], [p.slowdown for p in well], color=style.colour, marker=style.marker,
                      linestyle=style.dash, markersize=style.size, markerfacecolor="white", markeredgewidth=1.2,
                      clip_on=False, zorder=3)
            _whiskers(axis, [point for point in well if point.measured and point.high > point.low], style.colour)
        marks |= _failures(axis, line, well, style.colour, floor, taken)
    axis.axvline(1.0, color="#555555", linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    axis.set_xlabel(X_LABEL)
    axis.set_ylabel(Y_LABEL[panel.unit])
    across = axis.get_figure().get_figwidth() / axis.get_subplotspec().get_gridspec().ncols
    title = "\n".join(wrapped(line, int(12.3 * across)) for line in panel.title.split("\n"))
    axis.set_title(title, loc="left", pad=26 if panel.growing else 6)
    if panel.growing:
        _sizes(axis, panel, across)
    return marks


def _whiskers(axis, points, colour):
    if points:
        below = [point.slowdown - point.low for point in points]
        above = [point.high - point.slowdown for point in points]
        axis.errorbar([p.ratio for p in points], [p.slowdown for p in points], yerr=[below, above], fmt="none", ecolor=colour,
                      elinewidth=1.1, capsize=3.5, capthick=1.1, zorder=4)


def _failures(axis, line, well, colour, floor, taken):
    """A cross for each cell without a time: where the line would be, or, beyond its end, at its last height behind a
    dotted run; crosses that would lie on each other are moved apart."""
    marks = set()
    for point in line:
        if point.slowdown:
            continue
        before = [each for each in well if each.ratio < point.ratio]
        y = before[-1].slowdown if before else well[0].slowdown if well else floor
        while any(abs(point.ratio - x) < 1e-9 and max(y / other, other / y) < 1.09 for x, other in taken):
            y *= 1.1
        taken.append((point.ratio, y))
        kind = NO_FIT if point.outcome == "infeasible" else "failed: " + point.outcome.replace("_", " ")
        if before and before[-1] is well[-1] and not any(p.ratio < point.ratio and not p.slowdown and p.ratio > before[-1].ratio
                                                         for p in line):
            axis.plot([before[-1].ratio, point.ratio], [before[-1].slowdown, y], color=colour, linewidth=1, linestyle=":",
                      zorder=2)
        axis.plot([point.ratio], [y], color=colour, marker="x" if kind == NO_FIT else "X", markersize=6.5,
                  markeredgewidth=1.7, linestyle="none", clip_on=False, zorder=2.5)  # behind what has a time
        marks.add(kind)
    return marks


def _scales(axis, good, panel, wide):
    values = [each for point in good for each in (point.slowdown, point.low, point.high)]
    low, high = (min(values), max(values)) if values else (1, 2)
    axis.set_yscale("log")
    axis.set_ylim(low / 1.12, max(high * 1.25, low * 2.2))
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 300 else (1,)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}×" if panel.unit == "x" else f"{y:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())
    if wide:
        axis.set_xscale("log")
        ratios = [point.ratio for line in panel.lines.values() for point in line]
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if max(ratios) > 10 * min(ratios) else (1, 1.5, 2, 3, 4, 6)))
        axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axis.xaxis.set_minor_formatter(NullFormatter())
    else:
        axis.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))


def _sizes(axis, panel, across):
    """Names on the upper edge what grew, at its ratios."""
    sizes = {point.ratio: point.size for line in panel.lines.values() for point in line}
    kept, last = [], None
    low, high = axis.get_xlim()
    upper = axis.secondary_xaxis("top")
    for ratio in sorted(sizes, reverse=True):
        at = axis.transData.transform((ratio, 1))[0]
        if last is None or last - at > 3.4 + 8.2 * len(str(sizes[ratio])) * max(1, 3 / across):
            kept.append(ratio)
            last = at
    upper.set_xticks(kept, [str(sizes[ratio]) for ratio in kept], fontsize=8)
    upper.xaxis.set_minor_locator(NullLocator())
    upper.set_xlabel(panel.growing, fontsize=8, labelpad=2)
    upper.tick_params(length=2.5, pad=1)
    axis.set_xlim(low, high)


def _legend(figure, look, marks, columns, room, extra):
    handles = [Line2D([], [], color=style.colour, marker=style.marker, linestyle=style.dash, markersize=style.size,
                      markerfacecolor="white", markeredgewidth=1.2, label=label) for label, style in look.items()]
    handles += [Line2D([], [], color="#555555", marker="x" if mark == NO_FIT else "X", linestyle=":", linewidth=1,
                       markeredgewidth=1.7, label=mark) for mark in sorted(marks)]
    handles += [Line2D([], [], color="#888888", linewidth=1.4, linestyle=dash, label=label) for label, dash in extra]
    handles.append(Line2D([], [], color="#555555", linewidth=1, linestyle=(0, (4, 3)), label="ratio 1: memory just full"))
    figure.tight_layout(rect=(0, room / figure.get_figheight(), 1, 1), h_pad=1.6, w_pad=1.6)
    figure.legend(handles=handles, loc="lower center", ncol=columns, frameon=False, handlelength=3.4, columnspacing=1.6,
                  bbox_to_anchor=(0.5, 0.0))
