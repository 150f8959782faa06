"""The figures of the report. Each is a Section: what it shows as text, the figure, and the rows of its CSV, or no
figure and the reason in `text`. Measured and simulated cells are never in one line or bar group: a panel holds one
group of cells (same work, machine and mode), and its title says how their times came about."""

from collections import namedtuple

from common import GIB, load, looks, pyplot

import slowdown
import timeline
from matplotlib.colors import LogNorm
from matplotlib.ticker import MaxNLocator
from report_parts import TIME_PARTS, moved, pairs_of_measured_and_simulated, time_parts

Section = namedtuple("Section", "name title text figure columns rows")

GROUP_COLUMNS = ["work", "machine"]
MOST_TIMELINES = 4
MOST_PANELS = 12  # of a figure, and
MOST_BARS = 80    # of a panel, which can still be read


def sections(records):
    """One after the other, so that whoever draws them can tell how far it is. Of many groups the figures show some,
    the rows all."""
    groups = {group: cells for group, cells in load.groups(records).items() if any(map(load.steady_ns, cells))}
    for make in (_slowdown, _heat_map, _time, _traffic, _series):
        section = make(groups, records)
        if section:
            yield section
    yield from _timelines(records)
    yield _prediction(records)


def _drawn(groups):
    """Those with most cells that ended well, in their order."""
    best = set(sorted(groups, key=lambda group: -sum(bool(load.steady_ns(cell)) for cell in groups[group]))[:MOST_PANELS])
    return [group for group in groups if group in best]


def _shown(text, groups):
    return text + (f" Drawn are the {MOST_PANELS} of {len(groups)} groups with most cells; the CSV has all."
                   if len(groups) > MOST_PANELS else "")


def _names(group):
    return [load.network_text(group), load.machine_text(group)]


def _panels(groups, height=3.0, width=5.2):
    """A figure with one panel a group, two side by side."""
    columns = min(2, len(groups))
    rows = -(-len(groups) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(width * columns, height * rows + 0.3), squeeze=False)
    for panel in list(axes.flat)[len(groups):]:
        panel.set_visible(False)
    for panel, group in zip(axes.flat, groups):
        panel.set_title("\n".join(slowdown.wrapped(name) for name in _names(group)), loc="left", fontsize=8.5)
    return figure, dict(zip(groups, axes.flat))


def _slowdown(_, records):
    rows, groups, baselines = [], load.groups(records), load.baselines(records)
    for group, cells in groups.items():
        baseline = load.baseline_of(group, baselines)
        for label, line in load.lines(cells).items():
            for record in line:
                time = load.steady_ns(record)
                rows.append([*_names(group), label, record["ratio"], record["outcome"], time,
                             time / baseline if time and baseline else None])
    text = ("Time of an iteration over the time with everything on the device, against the ratio of what the run would "
            "need to what it may use. Each iteration's median leaves the first one out.")
    drawn = {group: groups[group] for group in _drawn(groups)}
    return Section("slowdown", "Slowdown by ratio", _shown(text, groups), slowdown.figure_of(drawn, baselines),
                   [*GROUP_COLUMNS, "strategy", "ratio", "outcome", "median_ns", "slowdown"], rows)


def _heat_map(groups, records):
    baselines = load.baselines(records)
    relative = {group: load.baseline_of(group, baselines) for group in groups}
    relative = {group: baseline for group, baseline in relative.items() if baseline}
    if not relative:
        return None
    figure, panels = _panels(_drawn({group: groups[group] for group in relative}), height=2.4)
    rows = []
    for group in relative:
        lines = load.lines(groups[group])
        ratios = sorted({record["ratio"] for line in lines.values() for record in line})
        times = {(label, record["ratio"]): record for label, line in lines.items() for record in line}
        grid = [[_over(times.get((label, ratio)), relative[group]) for ratio in ratios] for label in lines]
        rows += [[*_names(group), label, ratio, value] for label, line in zip(lines, grid)
                 for ratio, value in zip(ratios, line)]
        if group in panels:
            _draw_grid(panels[group], grid, ratios, list(lines), times)
    figure.tight_layout()
    text = _shown("Slowdown as a number; what has none did not fit or failed.", relative)
    return Section("heat_map", "Strategies by ratio", text, figure,
                   [*GROUP_COLUMNS, "strategy", "ratio", "slowdown"], rows)


def _over(record, baseline):
    time = load.steady_ns(record) if record else None
    return time / baseline if time else None


def _draw_grid(panel, grid, ratios, labels, records):
    values = [[float("nan") if value is None else value for value in line] for line in grid]
    high = max(2, *(value for line in grid for value in line if value))
    panel.imshow(values, aspect="auto", cmap="YlOrRd", norm=LogNorm(1, high))
    panel.grid(False)
    panel.set_xticks(range(len(ratios)), [f"{ratio:g}" for ratio in ratios])
    panel.set_yticks(range(len(labels)), labels)
    panel.set_xlabel("ratio")
    for y, line in enumerate(grid):
        for x, value in enumerate(line):
            record = records.get((labels[y], ratios[x]))
            short = {"infeasible": "no fit"}.get(record["outcome"], record["outcome"][:7]) if record else ""
            dark = value is not None and value > high**0.7
            panel.text(x, y, short if value is None else f"{value:.2f}" if value < 10 else f"{value:.0f}", ha="center", va="center", fontsize=7,
                       color="white" if dark else "black")


def _time(groups, _):
    figure, panels = _panels(_drawn(groups), height=3.4, width=6)
    rows, used, cut = [], set(), False
    for group, cells in groups.items():
        bars = [(label, record) for label, line in load.lines(cells).items() for record in line if load.steady_ns(record)]
        parts = [time_parts(record) for _, record in bars]
        rows += [[*_names(group), label, record["ratio"], name, part.get(name, 0)] for (label, record), part
                 in zip(bars, parts) for name in TIME_PARTS if name in part]
        if group in panels:
            used |= _draw_bars(panels[group], bars[:MOST_BARS], parts[:MOST_BARS])
            cut = cut or len(bars) > MOST_BARS
    handles = {label: handle for panel in panels.values() for handle, label in zip(*panel.get_legend_handles_labels())}
    figure.tight_layout(rect=(0, 0.25 / figure.get_figheight(), 1, 1))
    figure.legend([handles[name] for name in TIME_PARTS if name in used], [name for name in TIME_PARTS if name in used],
                  loc="lower center", ncol=5, frameon=False)
    text = ("What an iteration's time went into. Cells that ran with a timeline are told apart: compute, and where the "
            "compute lane was idle, waiting for copies to the GPU or to the CPU; stalls are what kernels took longer than "
            "with everything resident, and what no lane explains. For others the waiting is one.")
    text = _shown(text + (f" A panel shows {MOST_BARS} cells at most; the CSV has all." if cut else ""), groups)
    return Section("time", "Where the time goes", text, figure, [*GROUP_COLUMNS, "strategy", "ratio", "part", "ns"], rows)


def _draw_bars(panel, bars, parts):
    """The names of the parts that it drew."""
    used, below = set(), [0.0] * len(bars)
    for name, (colour, hatch) in TIME_PARTS.items():
        values = [part.get(name, 0) / 1e6 for part in parts]
        if any(values):
            used.add(name)
            panel.bar(range(len(bars)), values, 0.8, below, label=name, color=colour, hatch=hatch,
                      edgecolor="#303030", linewidth=0.3)
            below = [low + value for low, value in zip(below, values)]
    names = [f"{label} {record['ratio']:g}" for label, record in bars]
    panel.set_xticks(range(len(bars)), names, rotation=90, fontsize=6)
    panel.set_ylabel("ms per iteration")
    panel.grid(axis="x", visible=False)
    return used


def _traffic(groups, _):
    seen = {group: [record for record in cells if moved(record)] for group, cells in groups.items()}
    seen = {group: cells for group, cells in seen.items() if cells}
    if not seen:
        return Section("traffic", "Migrated bytes", "No cell of these files observed what crossed the link.", None, [], [])
    figure, panels = _panels(_drawn(seen))
    rows = []
    for group, cells in seen.items():
        lines, panel = load.lines(cells), panels.get(group)
        look = looks(list(lines))
        for label, line in lines.items():
            ratios, both = [record["ratio"] for record in line], [moved(record) for record in line]
            rows += [[*_names(group), label, ratio, *pair] for ratio, pair in zip(ratios, both)]
            if panel is None:
                continue
            panel.plot(ratios, [to_device / GIB for to_device, _ in both], color=look[label].colour, linestyle="-",
                       marker=look[label].marker, markersize=4, label=label)
            panel.plot(ratios, [to_host / GIB for _, to_host in both], color=look[label].colour, linestyle=":",
                       marker=look[label].marker, markersize=4, markerfacecolor="white")
        if panel is None:
            continue
        footprints = [record["memory"]["footprint_bytes"] for record in seen[group] if record["memory"]["footprint_bytes"]]
        if footprints:
            panel.axhline(max(footprints) / GIB, color="#555555", linewidth=1, linestyle=(0, (4, 3)))
        panel.set_xlabel("ratio")
        panel.set_ylabel("GiB in the last iteration")
        panel.legend(frameon=False, fontsize=7)
    figure.tight_layout()
    text = ("What crossed the link in the last iteration: solid to the GPU, dotted to the CPU. The dashed line is the "
            "footprint: above it, data goes to and fro more than once.")
    return Section("traffic", "Migrated bytes by ratio", _shown(text, seen), figure,
                   [*GROUP_COLUMNS, "strategy", "ratio", "to_device_bytes", "to_host_bytes"], rows)


def _series(groups, _):
    figure, panels = _panels(_drawn(groups))
    rows = []
    for group in groups:
        panel = panels.get(group)
        ratio = _telling_ratio(groups[group])
        lines = {label: [record for record in line if record["ratio"] == ratio and load.steady_ns(record)]
                 for label, line in load.lines(groups[group]).items()}
        look = looks(list(lines))
        for label, line in lines.items():
            for record in line:
                samples = record["samples_ns"]
                rows += [[*_names(group), label, ratio, number, sample] for number, sample in enumerate(samples, 1)]
                if panel is None:
                    continue
                panel.plot(range(1, len(samples) + 1), [sample / 1e6 for sample in samples], color=look[label].colour,
                           marker=look[label].marker, linestyle=look[label].dash, markersize=4, label=label)
        if panel is None:
            continue
        panel.set_xlabel(f"iteration, at ratio {ratio:g}")
        panel.set_ylabel("ms")
        panel.set_ylim(0, 1.08 * panel.get_ylim()[1])
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.legend(frameon=False, fontsize=7)
    figure.tight_layout()
    text = ("Every iteration as it was timed, at the highest ratio at which most strategies ran. The first one touches all "
            "data for the first time; medians leave it out.")
    return Section("series", "Iterations one by one", _shown(text, groups), figure,
                   [*GROUP_COLUMNS, "strategy", "ratio", "iteration", "ns"], rows)


def _telling_ratio(cells):
    ran = {}
    for record, label in zip(cells, load.strategy_labels(cells)):
        if load.steady_ns(record) and record["ratio"] is not None:
            ran.setdefault(record["ratio"], set()).add(label)
    most = max(len(labels) for ratio, labels in ran.items() if ratio > 1) if any(r > 1 for r in ran) else 0
    return max(ratio for ratio, labels in ran.items() if len(labels) >= most)


def _timelines(records):
    drawn = [record for record in records if timeline.drawable(record)]
    found = []
    for number, record in enumerate(drawn[:MOST_TIMELINES], 1):
        rows = [["span", span["lane"], span["name"], span["begin_ns"], span["end_ns"], None]
                for span in record["timeline"]["spans"]]
        rows += [["resident", None, None, sample["at_ns"], None, sample["bytes"]]
                 for sample in record["timeline"]["resident"]]
        left = f" {len(drawn) - MOST_TIMELINES} more cells have one." if number == MOST_TIMELINES < len(drawn) else ""
        found.append(Section(f"timeline_{number}", f"Timeline: {record['strategy']} at ratio {record['ratio']:g}",
                             f"{record['key']}: lanes, and device memory in use.{left}",
                             timeline.figure_of(record), ["what", "lane", "name", "begin_ns", "end_ns", "bytes"], rows))
    return found or [Section("timeline", "Memory over time", "No cell of these files ran with a timeline.", None, [], [])]


def _prediction(records):
    pairs = pairs_of_measured_and_simulated(records)
    title = "Predicted against measured"
    if not pairs:
        return Section("prediction", title, "No cell of these files was both measured and simulated.", None, [], [])
    figure, panel = pyplot.subplots(figsize=(5.2, 4.6))
    labels = list(dict.fromkeys(measured["strategy"] for measured, _ in pairs))
    look, rows = looks(labels), []
    for label in labels:
        times = [(load.steady_ns(m) / 1e6, load.steady_ns(s) / 1e6) for m, s in pairs if m["strategy"] == label]
        panel.plot(*zip(*times), color=look[label].colour, marker=look[label].marker, linestyle="none", label=label,
                   markersize=5, markerfacecolor="white")
    rows = [[m["key"], s["key"], load.steady_ns(m), load.steady_ns(s)] for m, s in pairs]
    ends = [min(min(row[2:]) for row in rows) / 1e6, max(max(row[2:]) for row in rows) / 1e6]
    panel.plot(ends, ends, color="#555555", linewidth=1, linestyle=(0, (4, 3)))
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlabel("measured, ms per iteration")
    panel.set_ylabel("simulated, ms per iteration")
    panel.legend(frameon=False)
    figure.tight_layout()
    return Section("prediction", title, "A point a cell that was both measured and simulated; on the dashed line the two agree.",
                   figure, ["measured", "simulated", "measured_ns", "simulated_ns"], rows)
