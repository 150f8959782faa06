"""Figures of link and driver rates from the JSON of um_microbenchmarks.

link            pinned copies by size, by copy engine and by kernel
ways            every way of moving a large piece of data, as GB/s and as a share of the link
prefetch        rate by size of a call, and by streams
faults          what one access costs by pattern, and what the driver moved for it
advice          what each advice does to a read, a write, a second read and a touch by the CPU
eviction        three ways to give up memory and get it back, and what they take from a running operator
convolution     layers on each kind of memory against device memory
Panels whose cases are not in the file are left out; what was skipped is listed on standard error.
"""

import argparse
import sys

from umbench.plots.common import load, pyplot, save, use_style

from matplotlib.ticker import LogLocator
from umbench import microbenchmark_files

# Directions of the link.
COLOURS = {"to_device": "#0072B2", "to_host": "#D55E00", "both": "#009E73"}
NAMES = {"to_device": "to the device", "to_host": "to the host", "both": "both ways"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", metavar="FILE.json")
    parser.add_argument("--out", required=True, metavar="DIR")
    options = parser.parse_args()
    run = microbenchmark_files.read(options.file)
    cases = {name: case for name, case in run.cases.items() if case.counters}
    for name, case in run.cases.items():
        if case.reason:
            print(f"{name}: {case.reason}", file=sys.stderr)
    if not cases:
        raise load.TooLittle(f"{options.file}: no case ran, nothing to draw")
    use_style()
    title = run.context.get("gpu", "unknown GPU")
    for draw in (draw_link, draw_ways, draw_prefetch, draw_faults, draw_advice, draw_eviction, draw_convolution):
        name, figure = draw.__name__.removeprefix("draw_"), draw(cases)
        if figure is None:
            continue
        figure.suptitle(f"{name}: measured on one {title}", fontsize=9.5)
        figure.tight_layout()
        save(figure, options.out, f"microbenchmarks_{name}")


def cases_with_prefix(cases, *name_parts):
    """The cases whose names begin with these parts."""
    return [case for case in cases.values() if case.parts[: len(name_parts)] == list(name_parts)]


def draw_legend_below(axes, column_count, offset=-0.24):
    """Draws the legend under the axes. `offset` is its upper edge in heights of the axes."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, offset), ncol=column_count, fontsize=7.5, frameon=False)


def gb_per_s(case):
    return case.counters["GB_per_s"]


def set_size_axis(axes, label):
    """Makes the horizontal axis one of sizes in bytes."""
    axes.set_xscale("log", base=2)
    axes.set_xlabel(label)
    axes.xaxis.set_major_locator(LogLocator(base=8, numticks=8))
    axes.xaxis.set_major_formatter(lambda byte_count, _: size_text(byte_count))


def size_text(byte_count):
    for unit, suffix in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if byte_count >= unit:
            return f"{byte_count / unit:g} {suffix}"
    return f"{byte_count:g} B"


def draw_line(axes, points, **style):
    """Draws points (x, y) in the order of x."""
    axes.plot(*zip(*sorted(points)), **style)


def draw_link(cases):
    found = cases_with_prefix(cases, "link", "copy_engine") + cases_with_prefix(cases, "link", "kernel")
    if not found:
        return None
    figure, axes = pyplot.subplots(figsize=(5.8, 3.9))
    for by, dash, marker in (("copy_engine", "-", "o"), ("kernel", (0, (4, 2)), "s")):
        for way, colour in COLOURS.items():
            points = [(microbenchmark_files.parse_size(c.axes["size"]), gb_per_s(c)) for c in found if c.parts[1:] == [by, way]]
            if points:
                draw_line(axes, points, color=colour, linestyle=dash, marker=marker, markersize=4,
                     label=f"{NAMES[way]}, {by.replace('_', ' ')}")
    set_size_axis(axes, "bytes of one copy")
    axes.set_ylabel("GB/s")
    axes.set_ylim(bottom=0)
    draw_legend_below(axes, 2)
    return figure


# (name of a case, its label)
WAYS = [
    ("link/copy_engine/to_device/size:256MiB", "pinned copy to the device"),
    ("link/copy_engine/to_host/size:256MiB", "pinned copy to the host"),
    ("prefetch/to_device/data:moves/size:1GiB/call:1GiB/streams:1/threads:1", "prefetch to the device"),
    ("prefetch/to_host/data:moves/size:1GiB/call:1GiB/streams:1/threads:1", "prefetch to the host"),
    ("prefetch/to_host/data:new/size:256MiB/call:256MiB/streams:1/threads:1", "prefetch to the host, no pages there yet"),
    ("faults/gpu_read/sequential/data:warm/size:128MiB", "kernel reads, faults bring it in"),
    ("faults/gpu_write/sequential/data:warm/size:128MiB", "kernel writes, faults bring it in"),
    ("faults/gpu_read/sequential/data:cold/size:128MiB", "the same read for the first time"),
    ("first_touch/gpu_write/sequential/data:nowhere/size:256MiB", "kernel writes what lay nowhere"),
    ("advice/preferred_host+accessed_by_device/read/size:32MiB", "kernel reads over the link"),
    ("advice/preferred_host+accessed_by_device/write/size:32MiB", "kernel writes over the link"),
    ("eviction/pinned_twin/out/beside:nothing/size:256MiB", "copy to a pinned twin, then discard"),
    ("eviction/kernel_twin/out/beside:nothing/size:256MiB", "copy kernel to a managed twin, then discard"),
    ("discard/write/size:16MiB", "kernel writes discarded data, no prefetch"),
]


def draw_ways(cases):
    found = [(text, cases[name]) for name, text in WAYS if name in cases]
    if len(found) < 2:
        return None
    figure, axes = pyplot.subplots(figsize=(6.4, 0.8 + 0.27 * len(found)))
    places = range(len(found), 0, -1)
    axes.barh(places, [gb_per_s(case) for _, case in found], color="#56B4E9", height=0.65)
    for place, (_, case) in zip(places, found):
        share = case.counters.get("link_share")
        text = f" {gb_per_s(case):.1f}" + (f"  ({share:.0%} of the link)" if share else "")
        axes.text(gb_per_s(case), place, text, va="center", fontsize=8)
    axes.set_yticks(list(places), [text for text, _ in found])
    axes.set_xlim(right=1.75 * max(gb_per_s(case) for _, case in found))
    axes.set_xlabel("GB/s")
    axes.grid(axis="y", visible=False)
    return figure


def draw_prefetch(cases):
    found = [c for c in cases_with_prefix(cases, "prefetch") if c.axes.get("data") == "moves" and "queued" not in c.parts]
    if not found:
        return None
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 4.2), sharey=True)
    for way in ("to_device", "to_host"):
        mine = [c for c in found if c.parts[1] == way]
        whole = [(microbenchmark_files.parse_size(c.axes["size"]), gb_per_s(c)) for c in mine
                 if c.axes["size"] == c.axes["call"] and c.axes.get("streams") == "1"]
        if whole:
            draw_line(left, whole, color=COLOURS[way], marker="o", markersize=4, label=NAMES[way])
        for streams, threads, dash, marker in (("1", "1", "-", "o"), ("4", "1", (0, (4, 2)), "s"), ("4", "4", ":", "^")):
            cut = [(microbenchmark_files.parse_size(c.axes["call"]), gb_per_s(c)) for c in mine if c.axes["size"] == "256MiB"
                   and c.axes.get("streams") == streams and c.axes.get("threads") == threads]
            if cut:
                draw_line(right, cut, color=COLOURS[way], linestyle=dash, marker=marker, markersize=4,
                     label=f"{NAMES[way]}, {streams} streams, {threads} threads")
        batch = [(microbenchmark_files.parse_size(c.axes["call"]), gb_per_s(c)) for c in mine if c.parts[-1] == "batch"]
        if batch:
            draw_line(right, batch, color=COLOURS[way], linestyle="", marker="x", label=f"{NAMES[way]}, one batch call")
    set_size_axis(left, "bytes of one call, all of the data")
    set_size_axis(right, "bytes of each call, 256 MiB in all")
    left.set_ylabel("GB/s")
    left.set_ylim(bottom=0)
    draw_legend_below(left, 1, -0.16)
    draw_legend_below(right, 2, -0.16)
    return figure


def draw_faults(cases):
    patterns = [(f"strided/stride:{s}", f"one access every {s}") for s in ("4KiB", "64KiB", "128KiB", "2MiB")]
    patterns.append(("shuffled/stride:4KiB", "one access every 4KiB, shuffled"))
    patterns.insert(0, ("sequential", "every byte"))
    pairs = {}
    for pattern, text in patterns:
        head, *stride = pattern.split("/")
        for access in ("read", "write"):
            name = "/".join([f"faults/gpu_{access}", head, "data:warm", *stride, "size:128MiB"])
            if name in cases:
                pairs.setdefault(text, {})[access] = cases[name]
    if not pairs:
        return None
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(8.4, 3.3), sharey=True)
    for number, (text, pair) in enumerate(reversed(pairs.items())):
        for access, colour, shift in (("read", "#0072B2", 0.2), ("write", "#D55E00", -0.2)):
            if access not in pair:
                continue
            label = f"kernel {access}s" if number == 0 else None
            left.barh(number + shift, pair[access].counters["median_ns"] / 1e6, 0.38, color=colour, label=label)
            if "to_device_bytes" in pair[access].counted:
                right.barh(number + shift, pair[access].counted["to_device_bytes"] / 2**20, 0.38, color=colour)
    left.set_yticks(range(len(pairs)), list(reversed(pairs)))
    left.set_xlabel("ms for 128 MiB of data on the CPU")
    right.set_xlabel("MiB that the driver moved")
    draw_legend_below(left, 2)
    return figure


STEPS = ["read", "read_again", "write", "write_after_read", "cpu_touch"]


def draw_advice(cases):
    found = [c for c in cases_with_prefix(cases, "advice") if c.parts[-1] in STEPS and c.parts[1] != "pinned_zero_copy"]
    hints = list(dict.fromkeys(c.parts[1] for c in found))
    if not hints:
        return None
    figure, axes = pyplot.subplots(figsize=(7.2, 4.0))
    width = 0.8 / len(hints)
    for number, hint in enumerate(hints):
        mine = {c.parts[-1]: c.counters["median_ns"] / 1e6 for c in found if c.parts[1] == hint}
        axes.bar([STEPS.index(step) + width * (number - len(hints) / 2 + 0.5) for step in mine], mine.values(), width,
                 label=hint.replace("_", " "))
    axes.set_yscale("log")
    axes.set_xticks(range(len(STEPS)), ["kernel reads", "reads again", "kernel writes", "writes after\na read",
                                        "CPU touches\nevery page"])
    axes.set_ylabel("ms for 32 MiB")
    draw_legend_below(axes, 3)
    return figure


# {way of evicting in the names of cases: its text in the figure}; a twin is a copy on the host
EVICTIONS = {"prefetch": "prefetch", "pinned_twin": "pinned twin", "kernel_twin": "kernel twin"}


def draw_eviction(cases):
    found = {(c.parts[1], c.parts[2], c.axes["beside"]): c for c in cases_with_prefix(cases, "eviction")}
    if not found:
        return None
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10.5, 3.5))
    groups = [(way, end) for end in ("out", "back") for way in EVICTIONS]
    besides = [b for b in ("nothing", "convolution", "product") if any(key[2] == b for key in found)]
    width = 0.8 / len(besides)
    for number, beside in enumerate(besides):
        shift = width * (number - len(besides) / 2 + 0.5)
        mine = [(place, found[(*group, beside)]) for place, group in enumerate(groups) if (*group, beside) in found]
        colour = ["#7F7F7F", "#56B4E9", "#E69F00"][number]
        left.bar([place + shift for place, _ in mine], [gb_per_s(c) for _, c in mine], width, color=colour,
                 label=f"beside {beside}")
        losses = [(place, c.counters["operator_loses_ns"] / c.counters["median_ns"]) for place, c in mine
                  if "operator_loses_ns" in c.counters]
        if losses:
            right.bar([place + shift for place, _ in losses], [loss for _, loss in losses], width, color=colour)
    texts = [f"{EVICTIONS[way]}\n{end}" for way, end in groups]
    for axes in (left, right):
        axes.set_xticks(range(len(groups)), texts, fontsize=7)
    left.set_ylabel("GB/s")
    right.set_ylabel("time the operator loses\nper time of the movement")
    draw_legend_below(left, 3, -0.2)
    return figure


PLACES = ["managed_warm", "prefetched", "managed_cold", "zero_copy"]


def draw_convolution(cases):
    layers = {}
    for case in cases_with_prefix(cases, "convolution"):
        channels = case.axes.get("channels")
        layer = case.parts[1] + (f", {channels} channels" if channels else " " + case.parts[2])
        layers.setdefault((layer, case.parts[-1]), {})[case.axes["memory"]] = case
    layers = {key: kinds for key, kinds in layers.items() if "device" in kinds and len(kinds) > 1}
    if not layers:
        return None
    kinds = ["forward", "backward_data", "backward_filter"]
    names = list(dict.fromkeys(layer for layer, _ in layers))
    figure, panels = pyplot.subplots(1, 3, figsize=(10.5, 1.6 + 0.24 * len(names)), sharey=True)
    for axes, kind in zip(panels, kinds):
        for place, marker in zip(PLACES, "o>s^"):
            points = [(pair[place].counters["median_ns"] / pair["device"].counters["median_ns"], -names.index(layer))
                      for (layer, of), pair in layers.items() if of == kind and place in pair]
            if points:
                axes.plot(*zip(*points), linestyle="", marker=marker, markersize=5, label=place.replace("_", " "))
        axes.set_xscale("log")
        axes.set_title(kind.replace("_", " "))
        axes.set_xlabel("time / time in device memory")
    panels[0].set_yticks([-number for number in range(len(names))], names, fontsize=7.5)
    draw_legend_below(panels[1], 4, -0.1)
    return figure


if __name__ == "__main__":
    sys.exit(load.report_errors(main))
