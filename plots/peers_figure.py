"""Draws time and peak memory of a step of umbench divided by those of PyTorch's fastest mode: a pair of bars for each row of results/peers."""

from umbench.plots.common import WIDTH, figure_parser, layout, load, pyplot, save, set_title, use_style
from umbench.plots.peers import network_text
from umbench import peer_files

RATIOS = (("time_ratio", "time", "#0072B2", ""), ("peak_ratio", "peak memory", "#E69F00", "////"))


def main():
    options = figure_parser("peers", __doc__, "peers").parse_args()
    if options.strategies:
        raise load.BadInput("--strategies: rows of peers are of one strategy each")
    rows = [row for path in options.files for row in peer_files.read(path) if row.get("time_ratio")]
    if not rows:
        raise load.TooLittle(f"{', '.join(options.files)}: no row has both times, nothing to draw")
    use_style()
    save(figure_of(rows, options.width), options.out, options.name, options.format)


def figure_of(rows, width=WIDTH):
    figure, axis = pyplot.subplots(figsize=(width / 100, 1.3 + 0.42 * len(rows)))
    for number, (field, label, colour, hatch) in enumerate(RATIOS):
        values = [row.get(field) or 0 for row in rows]
        ys = [place + 0.19 - 0.38 * number for place in reversed(range(len(rows)))]
        axis.barh(ys, values, 0.36, color=colour, hatch=hatch, edgecolor="#303030", linewidth=0.4, label=label)
        for y, value in zip(ys, values):
            axis.text(value + 0.012, y, f"{value:.2f}", va="center", fontsize=8,
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8})
    names = [f"{network_text(row['network'])}, {row['batch']}, {row['precision']}" for row in rows]
    axis.set_yticks(range(len(rows)), reversed(names))
    axis.axvline(1, color="#555555", linewidth=1, linestyle=(0, (4, 3)))
    axis.set_xlim(0, 1.12 * max(1, *(row.get(field) or 0 for row in rows for field, *_ in RATIOS)))
    axis.set_xlabel("umbench / PyTorch's fastest mode; left of 1 umbench needs less")
    axis.grid(axis="y", visible=False)
    set_title(axis, [f"{rows[0]['versions']['gpu']}, measured; PyTorch {rows[0]['versions']['torch']}"])
    axis.legend(loc="lower right", bbox_to_anchor=(1, 1), ncol=2, frameon=False)
    layout(figure)
    return figure
