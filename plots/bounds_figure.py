"""Slowdown beside what no plan can beat that finishes the forward pass of the whole batch before the backward pass: one
that only swaps, only computes again, or does both (the linear programs that records keep as `bounds`; of measured ones with
the operators as fast as `device` ran them)."""

import curves
from common import WIDTH, arguments, families, load, read, save, use_style
from slowdown import panels_of

BOUNDS = {"swap_ns": ("bound: swapping alone", "--"), "recompute_ns": ("bound: computing again alone", "-."),
          "both_ns": ("bound: both", ":")}


def main():
    wanted = arguments("bounds", __doc__, "bounds").parse_args()
    records = read(wanted.files, wanted.strategies)
    found = [record for record in records if record.get("bounds") and record["baseline_ns"]]
    if not found:
        raise load.TooLittle(f"{', '.join(wanted.files)}: no record has bounds beside a cell of device")
    use_style()
    save(figure_of(found, wanted.width), wanted.out, wanted.name, wanted.format)


def figure_of(records, width=WIDTH):
    found = panels_of(records)
    shown = list(load.groups(records).values())
    figure = curves.figure_of(found, families(records), width, extra=list(BOUNDS.values()))
    by_title = {f"{load.network_text(group)}\n{load.machine_text(group)}": cells for group, cells in load.groups(records).items()}
    for axis, panel in zip(figure.axes[:len(shown)], found):
        for name, (_, dash) in BOUNDS.items():
            limits = [(cell["ratio"], load.bounds_ns(cell, cell["baseline_ns"])[name], cell["baseline_ns"])
                      for cell in by_title[panel.title]]
            line = sorted({(ratio, least / baseline) for ratio, least, baseline in limits if least})
            if line:
                axis.plot(*zip(*line), color="#888888", linestyle=dash, linewidth=1.4, zorder=2)
                low, high = axis.get_ylim()
                axis.set_ylim(min(low, line[0][1] / 1.1), max(high, line[-1][1] * 1.2))
    return figure
