"""Draws the timeline of one iteration: the work of each lane, and below it the device memory in use with the budget."""

import re
import sys

from umbench.plots.common import GIB, SIMULATED, WIDTH, figure_parser, layout, load, pyplot, read, save, set_title, use_style

# {lane: (label, colour, hatch)}. Hatches tell the lanes apart in print.
LANES = {
    "compute": ("compute", "#C8C8C8", ""),
    "to_device": ("to device", "#56B4E9", "////"),
    "to_host": ("to host", "#E69F00", "...."),
}


BAR_SPAN = (-0.2, 0.42)  # lower and upper end of a lane's bars relative to its level; unplanned movement is drawn below them


def main():
    parser = figure_parser("timeline", __doc__, None)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--key", metavar="KEY", help="the record's key (the one that has a timeline)")
    which.add_argument("--all", action="store_true", help="every record that has a timeline")
    options = parser.parse_args()
    records = records_to_draw(", ".join(options.files), read(options.files, options.strategies), options.key, options.all)
    use_style()
    for record in records:
        save(figure_of(record, options.width), options.out, file_name(record["key"]), options.format)


def records_to_draw(files_text, records, wanted_key, wants_all):
    """The records to draw: the one with the wanted key, all that have a timeline, or the only one. Throws BadInput or TooLittle."""
    drawn = [record for record in records if has_spans(record)]
    if wanted_key is not None:
        match = [record for record in records if record["key"] == wanted_key]
        if not match:
            raise load.BadInput(f"{files_text}: no record has the key '{wanted_key}'" + _keys_text(drawn))
        if match[0] not in drawn:
            raise load.TooLittle(f"{files_text}: '{wanted_key}' has no timeline; run it with --timeline" + _keys_text(drawn))
        return match
    if not drawn:
        raise load.TooLittle(f"{files_text}: no record has a timeline; run a cell with --timeline")
    if len(drawn) > 1 and not wants_all:
        raise load.BadInput(f"{files_text}: several records have a timeline; give --all or one --key" + _keys_text(drawn))
    return drawn


def has_spans(record):
    """Whether the record has a timeline that is not empty."""
    spans = (record.get("timeline") or {}).get("spans") or ()
    return max((span["end_ns"] for span in spans), default=0) > 0


def _keys_text(drawn_records):
    return f" (with a timeline: {', '.join(record['key'] for record in drawn_records)})" if drawn_records else ""


def file_name(key):
    return "timeline_" + re.sub(r"[^A-Za-z0-9.]+", "-", key).strip("-")


def figure_of(record, width=WIDTH):
    timeline = record["timeline"]
    end = max(span["end_ns"] for span in timeline["spans"])
    figure, (lanes, memory) = pyplot.subplots(2, 1, figsize=(width / 100, 5.4), sharex=True,
                                              gridspec_kw={"height_ratios": (1.7, 1)})
    scale, unit = (1e6, "ms") if end >= 2e6 else (1e3, "µs")
    _draw_lanes(lanes, record, scale, end)
    lanes.set_facecolor(SIMULATED if record["simulated"] else "white")
    memory.set_facecolor(SIMULATED if record["simulated"] else "white")
    _draw_memory(memory, record, scale, end)
    memory.set_xlabel(f"time since the iteration began, {unit}")
    memory.set_xlim(0, end / scale)
    group = load.group_of(record)
    titles = (f"{load.network_text(group)}, {record['strategy']}{_knobs_text(record)}, ratio {record['ratio']:g}",
              f"{load.machine_text(group)}, iteration {timeline['iteration'] + 1} of {record['iterations']}")
    set_title(lanes, titles)
    layout(figure)
    return figure


def _knobs_text(record):
    knobs = record.get("strategy_knobs") or {}
    return f" ({', '.join(f'{name} {value}' for name, value in sorted(knobs.items()))})" if knobs else ""


def _draw_lanes(axes, record, ns_per_unit, end_ns):
    names, spans, labels = list(LANES), record["timeline"]["spans"], []
    for lane_y, lane in enumerate(reversed(names)):
        label, colour, hatch = LANES[lane]
        mine = [span for span in spans if span["lane"] == lane]
        axes.broken_barh([(s["begin_ns"] / ns_per_unit, (s["end_ns"] - s["begin_ns"]) / ns_per_unit) for s in mine],
                         (lane_y + BAR_SPAN[0], BAR_SPAN[1] - BAR_SPAN[0]), facecolor=colour, edgecolor="#303030", linewidth=0.3, hatch=hatch)
        _name_wide_bars(axes, mine, lane_y, ns_per_unit, end_ns)
        unplanned = unplanned_moves_text(record, lane)
        if unplanned:
            _draw_unplanned(axes, [span for span in spans if span["lane"] == "compute"], lane_y, ns_per_unit, unplanned)
        busy = sum(s["end_ns"] - s["begin_ns"] for s in mine) / end_ns
        labels.append(f"{label}\n{busy:.0%} busy" + (_stalled_text(record, busy, end_ns) if lane == "compute" else ""))
    axes.set_yticks(range(len(names)))
    axes.set_yticklabels(labels)
    axes.set_ylim(-0.6, len(names) - 0.45)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)


# Causes of movements by the driver while operators run, and their counters. The plan has no steps for them.
UNPLANNED = {"to_device": {"by faults": ("fault_to_device_bytes",), "read in place": ("remote_bytes",)},
             "to_host": {"evicted by the driver": ("driver_evict_bytes",)}}


def unplanned_moves_text(record, lane):
    """A text such as '19.7 GiB by faults' for the last iteration, or ''."""
    last = load.last_counters(record)
    sums = {cause: sum(last.get(name) or 0 for name in names) for cause, names in UNPLANNED.get(lane, {}).items()}
    return ", ".join(f"{load.bytes_text(moved)} {cause}" for cause, moved in sums.items() if moved)


def _draw_unplanned(axes, operator_spans, lane_y, ns_per_unit, text):
    """Draws a thin band below the lane while operators run, since the record does not say for which of them data moved."""
    axes.broken_barh([(s["begin_ns"] / ns_per_unit, (s["end_ns"] - s["begin_ns"]) / ns_per_unit) for s in operator_spans],
                     (lane_y - 0.52, 0.1), facecolor="#B00020", edgecolor="none", alpha=0.45)
    axes.text(0.005, lane_y - 0.31, f"{text}, while operators run", transform=axes.get_yaxis_transform(), fontsize=8, va="center",
              color="#B00020", zorder=5)


def _stalled_text(record, busy_share, end_ns):
    """A text with the share of time in which kernels wait for faults, evictions and the link; '' below 2 %, which may be slower operators
    instead."""
    resident = record.get("compute_ns")
    stalled = busy_share - resident / end_ns if resident else 0
    return f",\n{stalled:.0%} stalled" if stalled > 0.02 else ""


MAX_LETTERS = 9  # maximum length of a name that is written vertically in a lane


def _name_wide_bars(axes, spans, lane_y, ns_per_unit, end_ns):
    """Writes names into bars, or into neighbouring bars of one operator, that are wide enough."""
    room = 16.5 * axes.get_figure().get_figwidth()  # number of letters that fit side by side
    for begin, stop, name in _merged_spans(spans):
        share = (stop - begin) / end_ns
        upright = share * room < len(name) + 1
        if upright and share < 1.9 / room:
            continue
        shown = name if not upright or len(name) <= MAX_LETTERS else name[:MAX_LETTERS - 1] + "…"
        axes.text((begin / 2 + stop / 2) / ns_per_unit, lane_y + sum(BAR_SPAN) / 2, shown, ha="center", va="center",
                  fontsize=7, rotation=90 if upright else 0, clip_on=True,
                  bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5})


def _merged_spans(spans):
    """[(begin, end, name), ...], where consecutive parts of one operator or tensor are merged."""
    found = []
    for span in sorted(spans, key=lambda span: span["begin_ns"]):
        name = span["name"]
        for word in ("compute ", "prefetch ", "evict "):
            name = name.removeprefix(word)
        if found and found[-1][2] == name:
            found[-1] = (found[-1][0], max(found[-1][1], span["end_ns"]), name)
        else:
            found.append((span["begin_ns"], span["end_ns"], name))
    return found


def _draw_memory(axes, record, ns_per_unit, end_ns):
    samples = record["timeline"].get("resident") or []
    memory = record.get("memory") or {}
    top = 0.0
    if samples:
        times = [sample["at_ns"] / ns_per_unit for sample in samples] + [end_ns / ns_per_unit]
        held = [sample["bytes"] / GIB for sample in samples] + [samples[-1]["bytes"] / GIB]
        axes.fill_between(times, held, step="post", color="#DDDDDD", linewidth=0)
        axes.step(times, held, where="post", color="black", linewidth=1.1, label="resident on the device")
        top = max(held)
    for name, text, dash in (("budget_bytes", "budget", (0, (5, 2))), ("footprint_bytes", "footprint", (0, (1, 1.5)))):
        value = memory.get(name)
        if value is None:
            continue
        value /= GIB
        if name == "footprint_bytes" and value > 3 * max(top, memory.get("budget_bytes", 0) / GIB):
            continue
        axes.axhline(value, color="#B00020" if name == "budget_bytes" else "#555555", linewidth=1.2, linestyle=dash,
                     label=f"{text} {value:.3g} GiB")
        top = max(top, value)
    axes.set_ylim(0, (top or 1) * 1.32)
    axes.set_ylabel("device memory, GiB")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper left", ncol=3, frameon=False, borderaxespad=0.1)


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "umbench"))
