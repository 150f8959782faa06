"""Draws slowdowns beside lower bounds of plans that only swap, only compute again, or do both.

The bounds are those of linear programs, in the records' field `bounds`. They hold for plans that finish the forward pass of the whole batch
before the backward pass. Those of measured records assume that operators are as fast as `device` ran them.
"""

from umbench.plots import slowdown
from umbench.plots.common import WIDTH, figure_parser, load, read, save, use_style

BOUNDS = {"swap_ns": ("bound: swapping alone", "--"), "recompute_ns": ("bound: computing again alone", "-."),
          "both_ns": ("bound: both", ":")}


def main():
    options = figure_parser("bounds", __doc__, "bounds").parse_args()
    records = read(options.files, options.strategies)
    found = [record for record in records if record.get("bounds") and record["baseline_ns"]]
    if not found:
        raise load.TooLittle(f"{', '.join(options.files)}: no record has bounds beside a cell of device")
    use_style()
    save(figure_of(found, options.width), options.out, options.name, options.format)


def figure_of(records, width=WIDTH):
    return slowdown.figure_of(records, width, BOUNDS)
