"""Parts of all figures: arguments, sizes, titles, and saving as PNG, SVG and PDF."""

from pathlib import Path

from umbench import dependencies  # noqa: E402

dependencies.require("matplotlib")

import matplotlib  # noqa: E402

matplotlib.use("Agg")
import matplotlib.pyplot as pyplot  # noqa: E402
from matplotlib.font_manager import FontProperties  # noqa: E402

from umbench import load  # noqa: E402
from umbench.arguments import Parser  # noqa: E402

GIB = 1024**3
KINDS = ("png", "svg", "pdf")
WIDTH = 900  # pixels; a page of this width shows text in its original size


def family_by_label(records):
    """{label: family} of all strategies in these records, in order of first appearance."""
    found = {}
    for cells in (records, *load.records_by_group(records).values()):
        for record, label in zip(cells, load.strategy_labels(cells)):
            found.setdefault(label, record["family"])
    return found


# --- arguments ---

def figure_parser(command, description, default_name):
    """A parser with the arguments of all scripts that draw record files."""
    parser = Parser(f"umbench plot {command}", description=description.splitlines()[0])
    parser.add_argument("files", nargs="+", metavar="FILE.jsonl")
    parser.add_argument("--out", default=".", metavar="DIR", help="folder of the figure (this one)")
    if default_name:
        parser.add_argument("--name", default=default_name, help=f"base name of the figure's files ({default_name})")
    parser.add_argument("--strategies", metavar="A,B", type=lambda text: text.split(","), help="these alone (all)")
    parser.add_argument("--width", type=_parse_width, default=WIDTH, metavar="PIXELS", help=f"of the page that it is for ({WIDTH})")
    parser.add_argument("--format", type=_parse_formats, default=KINDS[:2], metavar="A,B", help="of png, svg and pdf (png,svg)")
    return parser


def _parse_width(text):
    if not 300 <= int(text) <= 4000:
        raise ValueError
    return int(text)


def _parse_formats(text):
    kinds = tuple(text.split(","))
    if not set(kinds) <= set(KINDS):
        raise ValueError
    return kinds


_parse_width.__name__ = "width (300 to 4000 pixels)"
_parse_formats.__name__ = "format (png, svg, pdf)"


def read(record_files, strategy_names=None):
    """The records alone of read_with_environments()."""
    return read_with_environments(record_files, strategy_names)[1]


def read_with_environments(record_files, strategy_names=None):
    """(environments, records) of files. Each record gets `baseline_ns`, the time with everything on the device, from its own file or else,
    since sessions and builds differ, from any file. If a cell is in several files the last one counts. Throws BadInput if a strategy has no
    cell."""
    files = [load.read(path) for path in record_files]
    parts = [records for _, records in files]
    everywhere = load.baseline_ns_by_group([record for part in parts for record in part])
    cells = {}
    for part in parts:
        here = load.baseline_ns_by_group(part)
        for record in part:
            group = load.group_of(record)
            cells[record["key"], record.get("device")] = record | {
                "baseline_ns": load.baseline_ns_of_group(group, here) or load.baseline_ns_of_group(group, everywhere)}
    records = list(cells.values())
    for name in strategy_names or ():
        if not any(record["strategy"] == name for record in records):
            known = sorted({record["strategy"] for record in records})
            raise load.BadInput(f"--strategies: no cell of {name}; there are {', '.join(known) or 'none'}")
    return ([place for places, _ in files for place in places],
            [record for record in records if not strategy_names or record["strategy"] in strategy_names])


# --- look and size ---

def use_style():
    pyplot.rcParams.update({
        "font.size": 9, "axes.titlesize": 9, "axes.labelsize": 9, "legend.fontsize": 9,
        "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.8,
        "axes.grid": True, "grid.color": "#E4E4E4", "grid.linewidth": 0.7, "axes.axisbelow": True,
        "lines.linewidth": 1.5, "hatch.linewidth": 0.5, "svg.fonttype": "none",
        "text.parse_math": False,  # a $ in a name does not begin a formula
        "svg.hashsalt": "umbench", "figure.dpi": 100, "savefig.dpi": 150,
    })


def make_panels(count, width=WIDTH, height=3.0, min_width=290, space_below=0.0):
    """(figure, axes) of `count` panels: as many in a row as have `min_width` of `width`, in pixels. `height` of a panel and `space_below`
    all panels are in inches."""
    columns = max(1, min(count, width // min_width))
    columns = -(-count // -(-count // columns))  # rows are filled evenly
    rows = -(-count // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(width / 100, rows * height + space_below), squeeze=False)
    for panel in list(axes.flat)[count:]:
        panel.remove()
    return figure, list(axes.flat)[:count]


SIMULATED = "#EEF3FA"  # background of simulated values; that of measured ones is white


def mark_simulated_or_measured(axis, is_simulated):
    """Marks an axis as simulated or measured, by its colour and a word."""
    axis.set_facecolor(SIMULATED if is_simulated else "white")
    axis.text(0.995, 0.99, "simulated" if is_simulated else "measured", transform=axis.transAxes, ha="right", va="top", fontsize=8,
              color="#555555", style="italic" if is_simulated else "normal", zorder=6,
              bbox={"facecolor": SIMULATED if is_simulated else "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.6})


def set_title(axis, title_lines, pad=6):
    """Sets a title at the left. layout() wraps its lines to the width of the panel's column."""
    axis.title_lines = title_lines, pad
    _write_title(axis, axis.get_figure().get_figwidth() * axis.get_figure().dpi / axis.get_subplotspec().get_gridspec().ncols - 62)


def _write_title(axis, max_width):
    lines, pad = axis.title_lines
    axis.set_title("\n".join(_wrap(axis.get_figure(), line, max_width) for line in lines), loc="left", pad=pad)


def layout(figure, **options):
    """Calls tight_layout and wraps the titles to the remaining width."""
    titled = [axis for axis in figure.axes if hasattr(axis, "title_lines")]
    figure.tight_layout(**options)
    for axis in titled:
        place = axis.get_subplotspec()
        columns = place.get_gridspec().ncols
        end = figure.get_figwidth() * figure.dpi * (place.colspan.stop / columns)
        _write_title(axis, end - axis.get_window_extent().x0 - 4)
    if titled:
        figure.tight_layout(**options)


def _wrap(figure, text, max_width):
    """The text with line breaks at blanks, so that no line is wider than `max_width` pixels."""
    renderer, font = figure.canvas.get_renderer(), FontProperties(size=pyplot.rcParams["axes.titlesize"])
    wide = lambda line: renderer.get_text_width_height_descent(line, font, False)[0] > max_width  # noqa: E731
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and wide(longer):
            lines.append(word)
        else:
            lines[-1] = longer
    return "\n".join(lines)


# Metadata that is left out of each kind of file, so that the same records give the same bytes.
METADATA = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None},
            "pdf": {"CreationDate": None, "Creator": None, "Producer": None}}


def save(figure, folder, base_name, formats=KINDS[:2]):
    """Writes folder/name.png and so on, prints their paths and closes the figure. The same records give the same bytes, since no date is
    written."""
    load.refuse_empty_path(folder)
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for kind in formats:
            metadata = METADATA[kind]
            path = folder / f"{base_name}.{kind}"
            figure.savefig(path, metadata=metadata)
            print(path)
    except OSError as error:
        raise load.BadInput(f"{error.filename or folder}: {error.strerror}") from error
    finally:
        pyplot.close(figure)
