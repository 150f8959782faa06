"""Makes the sections of the report: text, figure and the rows of its CSV, or no figure and the reason in `text`. A panel has one group of
cells (same work, machine and mode), either measured or simulated as its title says."""

from collections import namedtuple

from umbench.plots.common import GIB, family_by_label, layout, load, mark_simulated_or_measured, make_panels, pyplot, set_title
from umbench.plots.looks import looks_by_label

from umbench.plots import curves
from umbench.plots import growth
from umbench.plots import slowdown
from umbench.plots import timeline
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from umbench.plots.report_parts import TIME_PARTS, pairs_of_measured_and_simulated, ratio_with_most_strategies, time_by_part
from umbench import iteration_times

Section = namedtuple("Section", "name title text figure columns rows")

GROUP_COLUMNS = ["work", "machine"]
SPREAD_COLUMNS = ["median_ns", "low_quartile_ns", "high_quartile_ns", "samples"]
MAX_TIMELINES = 4
MAX_PANELS, MAX_BARS = 12, 40  # panels of a figure, bars of a panel; more cannot be read


def make_sections(records):
    """Yields the Sections of records that common.read() returned, so that each is written before the next is drawn. If there are many groups,
    figures show some of them, the rows of the CSV all."""
    growth_panels = growth.records_by_panel(records)
    ids_of_growing_cells = {id(cell) for lines in growth_panels.values() for line in lines.values() for cell in line}
    by_budget = [record for record in records if id(record) not in ids_of_growing_cells]
    if growth_panels:
        yield _section_on_growing_work(records, growth_panels)
    if any(map(load.steady_ns, by_budget)) and _has_curve(by_budget):
        yield _slowdown_section(by_budget)
    groups = {group: cells for group, cells in load.records_by_group(by_budget).items() if any(map(load.steady_ns, cells))}
    for make in (_time_section, _traffic_section, _iterations_section) if groups else ():
        yield make(groups)
    yield from _timeline_sections(records)
    yield _prediction_section(records)


def _has_curve(records):
    """Whether some line has two points."""
    return any(len(line) > 1 for cells in load.records_by_group(records).values() for line in load.records_by_strategy(cells).values())


def _groups_to_draw(groups):
    """The groups with the most cells that succeeded, in their original order."""
    most_filled = set(sorted(groups, key=lambda group: -sum(bool(load.steady_ns(cell)) for cell in groups[group]))[:MAX_PANELS])
    return [group for group in groups if group in most_filled]


def _with_note_if_incomplete(text, groups):
    return text + (f" Drawn are the {MAX_PANELS} of {len(groups)} groups with most cells; the CSV has all."
                   if len(groups) > MAX_PANELS else "")


def _group_columns(group):
    """The values of GROUP_COLUMNS."""
    return [load.network_text(group), load.machine_text(group)]


def _set_title_and_mark(axis, group):
    set_title(axis, _group_columns(group))
    mark_simulated_or_measured(axis, group.simulated)


def _spread_columns(record):
    """The values of SPREAD_COLUMNS; None each for a record without a time."""
    return list(iteration_times.spread_of(record) or [None] * 4)


def _section_on_growing_work(records, growth_panels):
    rows = []
    for (axis, group), lines in growth_panels.items():
        for label, line in lines.items():
            for record in line:
                time, compute = load.steady_ns(record), record.get("compute_ns")
                rows.append([*_group_columns(group), label, axis, growth.AXES[axis](record), record["ratio"], record["outcome"],
                             *_spread_columns(record), time / compute if time and compute else None])
    text = ("Time of an iteration over the time of its own operators with everything resident, as the work grows and the "
            "device stays. Crosses are cells without a time.")
    return Section("growth", "Slowdown as the work grows", text, growth.figure_of(records),
                   [*GROUP_COLUMNS, "strategy", "axis", "size", "ratio", "outcome", *SPREAD_COLUMNS, "slowdown"], rows)


def _slowdown_section(records):
    rows, groups = [], load.records_by_group(records)
    for group, cells in groups.items():
        for label, line in load.records_by_strategy(cells).items():
            for record in line:
                time, baseline = load.steady_ns(record), record["baseline_ns"]
                rows.append([*_group_columns(group), label, record["ratio"], record["outcome"], *_spread_columns(record),
                             time / baseline if time and baseline else None])
    text = ("Time of an iteration over the time with everything on the device, against the ratio of what the run would "
            "need to what it may use. Points are medians of the iterations after the first, whiskers of measured cells their "
            "quartiles, crosses cells without a time.")
    chosen = set(_groups_to_draw(groups))
    drawn = [record for record in records if load.group_of(record) in chosen]
    return Section("slowdown", "Slowdown by ratio", _with_note_if_incomplete(text, groups), slowdown.figure_of(drawn),
                   [*GROUP_COLUMNS, "strategy", "ratio", "outcome", *SPREAD_COLUMNS, "slowdown"], rows)


def _time_section(groups):
    rows, drawn = [], {}  # drawn: {group: (ratio, [(label, record)] of the bars drawn, number of bars)}
    for group, cells in groups.items():
        bars = [(label, record) for label, line in load.records_by_strategy(cells).items() for record in line if load.steady_ns(record)]
        rows += [[*_group_columns(group), label, record["ratio"], name, ns] for label, record in bars
                 for name, ns in time_by_part(record).items()]
        ratio = ratio_with_most_strategies(cells)
        bars_at_ratio = sorted((pair for pair in bars if pair[1]["ratio"] == ratio), key=lambda pair: load.steady_ns(pair[1]))
        drawn[group] = ratio, bars_at_ratio[:MAX_BARS], len(bars_at_ratio)
    shown = _groups_to_draw(groups)
    most = max(len(drawn[group][1]) for group in shown)
    figure, axes = make_panels(len(shown), height=1.25 + 0.2 * most, min_width=420, space_below=0.5)
    used = set()
    for panel, group in zip(axes, shown):
        used |= _draw_bars(panel, *drawn[group][:2], max(most, 3))
        _set_title_and_mark(panel, group)
    handles = {label: handle for panel in axes for handle, label in zip(*panel.get_legend_handles_labels())}
    layout(figure, rect=(0, 0.5 / figure.get_figheight(), 1, 1))
    names = [name for name in TIME_PARTS if name in used]
    figure.legend([handles[name] for name in names], names, loc="lower center", ncol=4, frameon=False)
    text = ("Parts of an iteration's time, fastest strategy first, at the highest ratio at which most strategies ran. Of cells with a "
            "timeline, kernels beyond their own time are operators computed again, faults and evictions of managed memory, or slower "
            "kernels. Where the compute lane is idle it waits for a copy, else for launches. Of other cells all time beyond the "
            "operators' own is named by what the plan does. The CSV has all ratios.")
    if any(number > MAX_BARS for _, _, number in drawn.values()):
        text += f" A panel shows the {MAX_BARS} fastest."
    return Section("time", "Where the time goes", _with_note_if_incomplete(text, groups), figure,
                   [*GROUP_COLUMNS, "strategy", "ratio", "part", "ns"], rows)


def _draw_bars(axis, ratio, bars, row_count):
    """Draws the bars, [(label, record)], in a panel (its axes) with room for `row_count` rows. Returns the names of their parts."""
    used, left, parts = set(), [0.0] * len(bars), [time_by_part(record) for _, record in bars]
    places = list(range(len(bars)))
    for name, (colour, hatch) in TIME_PARTS.items():
        values = [part.get(name, 0) / 1e6 for part in parts]
        if any(values):
            used.add(name)
            axis.barh(places, values, 0.75, left, label=name, color=colour, hatch=hatch, edgecolor="#303030", linewidth=0.3)
            left = [low + value for low, value in zip(left, values)]
    axis.set_yticks(places, [label if len(label) <= 44 else label[:43] + "…" for label, _ in bars], fontsize=8)
    axis.set_ylim(row_count - 0.4, -1.3)  # leaves a row for the word measured or simulated
    axis.set_xlim(0, 1.05 * max(left) or 1)
    axis.set_xlabel(f"ms per iteration, at ratio {ratio:g}")
    axis.grid(axis="y", visible=False)
    return used


def _draw_legend_below(figure, look_by_label, grey_lines=()):
    """Draws a legend below all panels. `look_by_label` is {label: Look}, `grey_lines` [(label, dash)] of grey lines."""
    handles = [Line2D([], [], color=style.colour, marker=style.marker, linestyle=style.dash, markersize=4.5, label=label)
               for label, style in look_by_label.items()]
    handles += [Line2D([], [], color="#555555", linewidth=1, linestyle=dash, label=label) for label, dash in grey_lines]
    columns, room = curves.legend_size(len(handles))
    layout(figure, rect=(0, room / figure.get_figheight(), 1, 1))
    figure.legend(handles=handles, loc="lower center", ncol=columns, frameon=False, handlelength=3.4)


def _traffic_section(groups):
    with_traffic = {group: [record for record in cells if load.moved_bytes(record)] for group, cells in groups.items()}
    with_traffic = {group: cells for group, cells in with_traffic.items() if any(any(load.moved_bytes(record)) for record in cells)}
    if not with_traffic:
        return Section("traffic", "Migrated bytes", "Nothing crossed the link in any cell of these files, or none observed it.", None, [], [])
    shown, family_of = _groups_to_draw(with_traffic), family_by_label([record for cells in with_traffic.values() for record in cells])
    look = looks_by_label(family_of)
    figure, axes = make_panels(len(shown), min_width=420, space_below=curves.legend_size(len(family_of) + 2)[1])
    panel_of, rows, drawn = dict(zip(shown, axes)), [], {}
    for group, cells in with_traffic.items():
        lines, panel = load.records_by_strategy(cells), panel_of.get(group)
        for label, line in lines.items():
            ratios, moved = [record["ratio"] for record in line], [load.moved_bytes(record) for record in line]
            rows += [[*_group_columns(group), label, ratio, *pair] for ratio, pair in zip(ratios, moved)]
            drawn |= {label: look[label]} if panel else {}
            for direction, dash, fill in ((0, "-", look[label].colour), (1, ":", "white")) if panel else ():
                panel.plot(ratios, [pair[direction] / GIB for pair in moved], color=look[label].colour, linestyle=dash,
                           marker=look[label].marker, markersize=4, markerfacecolor=fill)
        if panel is None:
            continue
        footprints = [record["memory"]["footprint_bytes"] for record in cells if record["memory"]["footprint_bytes"]]
        if footprints:
            panel.axhline(max(footprints) / GIB, color="#555555", linewidth=1, linestyle=(0, (4, 3)))
        panel.set_xlabel(curves.X_LABEL)
        panel.set_ylabel("GiB in the last iteration")
        panel.set_ylim(0, 1.12 * panel.get_ylim()[1])
        ratios_and_1 = [1.0, *(record["ratio"] for record in cells)]
        panel.set_xlim(min(ratios_and_1) - 0.1, max(ratios_and_1) + 0.1)
        _set_title_and_mark(panel, group)
    _draw_legend_below(figure, drawn, [("dotted, white: to the CPU", ":"), ("footprint", (0, (4, 3)))])
    text = ("What crossed the link in the last iteration: solid to the GPU, dotted to the CPU. The dashed line is the "
            "footprint: above it, data goes to and fro more than once.")
    return Section("traffic", "Migrated bytes by ratio", _with_note_if_incomplete(text, with_traffic), figure,
                   [*GROUP_COLUMNS, "strategy", "ratio", "to_device_bytes", "to_host_bytes"], rows)


def _iterations_section(groups):
    shown, rows, drawn = _groups_to_draw(groups), [], {}
    family_of = family_by_label([record for cells in groups.values() for record in cells])
    look = looks_by_label(family_of)
    figure, axes = make_panels(len(shown), min_width=420, space_below=curves.legend_size(len(family_of))[1])
    panel_of = dict(zip(shown, axes))
    for group, cells in groups.items():
        panel, ratio = panel_of.get(group), ratio_with_most_strategies(cells)
        for label, line in load.records_by_strategy(cells).items():
            for record in line:
                if record["ratio"] != ratio or not load.steady_ns(record):
                    continue
                samples = record["samples_ns"]
                rows += [[*_group_columns(group), label, ratio, number, sample] for number, sample in enumerate(samples, 1)]
                if panel:
                    drawn[label] = style = look[label]
                    panel.plot(range(1, len(samples) + 1), [sample / 1e6 for sample in samples], color=style.colour,
                               marker=style.marker, linestyle=style.dash, markersize=4)
        if panel is None:
            continue
        panel.set_xlabel(f"iteration, at ratio {ratio:g}")
        panel.set_ylabel("ms")
        panel.set_ylim(0, 1.15 * panel.get_ylim()[1])
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        _set_title_and_mark(panel, group)
    _draw_legend_below(figure, drawn)
    text = ("Every iteration as it was timed, at the highest ratio at which most strategies ran. The first one touches all "
            "data for the first time; medians leave it out.")
    return Section("series", "Iterations one by one", _with_note_if_incomplete(text, groups), figure,
                   [*GROUP_COLUMNS, "strategy", "ratio", "iteration", "ns"], rows)


def _timeline_sections(records):
    drawn = [record for record in records if timeline.has_spans(record)]
    sections_found = []
    for number, record in enumerate(drawn[:MAX_TIMELINES], 1):
        shown = record["timeline"]
        rows = [["span", span["lane"], span["name"], span["begin_ns"], span["end_ns"], None] for span in shown["spans"]]
        rows += [["resident", None, None, sample["at_ns"], None, sample["bytes"]] for sample in shown.get("resident") or ()]
        left = f" {len(drawn) - MAX_TIMELINES} more cells have one." if number == MAX_TIMELINES < len(drawn) else ""
        sections_found.append(Section(f"timeline_{number}", f"Timeline: {record['strategy']} at ratio {record['ratio']:g}",
                             f"{record['key']}: lanes, what moved beside them, and device memory in use. Stalled: kernels that run "
                             f"and wait for memory.{left}",
                             timeline.figure_of(record), ["what", "lane", "name", "begin_ns", "end_ns", "bytes"], rows))
    return sections_found or [Section("timeline", "Memory over time", "No cell of these files ran with a timeline.", None, [], [])]


def _prediction_section(records):
    pairs = pairs_of_measured_and_simulated(records)
    title = "Predicted against measured"
    if not pairs:
        return Section("prediction", title, "No cell of these files was both measured and simulated.", None, [], [])
    labels = {measured["strategy"]: measured["family"] for measured, _ in pairs}
    look = looks_by_label(labels)
    figure, panel = pyplot.subplots(figsize=(6.2, 5.0))
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
    panel.legend(frameon=False, bbox_to_anchor=(1, 1), loc="upper left")
    layout(figure)
    return Section("prediction", title, "A point a cell that was both measured and simulated; on the dashed line the two agree.",
                   figure, ["measured", "simulated", "measured_ns", "simulated_ns"], rows)
