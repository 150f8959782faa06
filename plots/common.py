"""What all figures share: arguments, the look of a strategy, sizes, and saving as PNG, SVG and PDF.

Lines differ by marker and dash as well as by colour (Okabe and Ito's palette, told apart by
colour-blind readers), so that a figure survives a black and white printer.
"""

import zlib
from collections import namedtuple
from pathlib import Path

from umbench import dependencies  # noqa: E402

dependencies.require("matplotlib")

import matplotlib  # noqa: E402

matplotlib.use("Agg")
import matplotlib.pyplot as pyplot  # noqa: E402

from umbench import load  # noqa: E402
from umbench.arguments import Parser  # noqa: E402

GIB = 1024**3
KINDS = ("png", "svg", "pdf")
WIDTH = 900  # pixels of a page at which text has its size

Look = namedtuple("Look", "colour marker dash size")

# A family has its colours and markers; a strategy of it takes the next that its name points to and no other line of the
# figure has, so that it looks the same in most figures without any list of names.
COLOURS = {"device": ["#000000", "#777777", "#9A6324", "#AAAA00"],
           "explicit": ["#0072B2", "#5E3C99", "#56B4E9", "#1B7837", "#4575B4", "#0B7A75"],
           "managed": ["#D55E00", "#009E73", "#CC79A7", "#B2182B", "#E69F00", "#8C564B"]}
MARKERS = {"device": [*"oP*X"], "explicit": [*"sDPph8d"], "managed": [*"^vX*<>H", (4, 1, 0), (3, 1, 0)]}
DASHES = ["-", (0, (6, 1.5)), (0, (3, 1)), (0, (5, 1.5, 1.2, 1.5)), (0, (1.2, 1.2)), (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2, 2, 2))]


def looks(families):
    """{label: Look} of {label: family}."""
    used, result = {}, {}
    for label in sorted(families, key=lambda label: (label != "device", label)):
        family = families[label] if families[label] in COLOURS else "explicit"
        colours, markers = COLOURS[family], MARKERS[family]
        plain = label == "device"  # what all others are held against
        start = 0 if plain else zlib.crc32(label.split(" ")[0].encode())
        taken = used.setdefault(family, [(0, 0)] if family == "device" and not plain else [])

        def slot(step):
            """Numbers of its marker and its colour; all pairs come before one comes twice."""
            row, column = divmod((start + step) % (len(markers) * len(colours)), len(markers))
            return column, (row + column) % len(colours)

        def cost(step):
            """How often its pair, its marker and its colour are there already."""
            mine = slot(step)
            return (taken.count(mine), sum(other[0] == mine[0] for other in taken), sum(other[1] == mine[1] for other in taken), step)

        mine = slot(min(range(len(markers) * len(colours)), key=cost))
        taken.append(mine)
        result[label] = Look(colours[mine[1]], markers[mine[0]], DASHES[0] if plain else DASHES[(mine[0] + len(taken) // len(markers)) % len(DASHES)],
                             9 if plain else 5.5)
    return {label: result[label] for label in families}


def families(records):
    """{label: family} of all lines that figures of these records may have, in order of first appearance."""
    found = {}
    for cells in (records, *load.groups(records).values()):
        for record, label in zip(cells, load.strategy_labels(cells)):
            found.setdefault(label, load.family_of(record))
    return found


# --- arguments ---

def arguments(command, text, name):
    """Parser of a script that draws record files."""
    parser = Parser(f"umbench plot {command}", description=text.splitlines()[0])
    parser.add_argument("files", nargs="+", metavar="FILE.jsonl")
    parser.add_argument("--out", default=".", metavar="DIR", help="folder of the figure (this one)")
    if name:
        parser.add_argument("--name", default=name, help=f"base name of the figure's files ({name})")
    parser.add_argument("--strategies", metavar="A,B", type=lambda text: text.split(","), help="these alone")
    parser.add_argument("--width", type=_width, default=WIDTH, metavar="PIXELS", help=f"of the page that it is for ({WIDTH})")
    parser.add_argument("--format", type=_kinds, default=KINDS[:2], metavar="A,B", help="of png, svg and pdf (png,svg)")
    return parser


def _width(text):
    if not 300 <= int(text) <= 4000:
        raise ValueError
    return int(text)


def _kinds(text):
    kinds = tuple(text.split(","))
    if not set(kinds) <= set(KINDS):
        raise ValueError
    return kinds


_width.__name__ = "width (300 to 4000 pixels)"
_kinds.__name__ = "format (png, svg, pdf)"


def read(paths, strategies=None):
    return read_with_places(paths, strategies)[1]


def read_with_places(paths, strategies=None):
    """(environments, records) of files. Each record knows what its slowdown is over, as `baseline_ns`: the time with everything on the
    device of its own file, else of any of them; sessions and builds differ. Of a cell that stands in several files the
    last counts. Throws BadInput where a strategy has no cell."""
    files = [load.read(path) for path in paths]
    parts = [records for _, records in files]
    everywhere = load.baselines([record for part in parts for record in part])
    cells = {}
    for part in parts:
        here = load.baselines(part)
        for record in part:
            group = load.group_of(record)
            cells[record["key"], record.get("device")] = record | {
                "baseline_ns": load.baseline_of(group, here) or load.baseline_of(group, everywhere)}
    records = list(cells.values())
    for name in strategies or ():
        if not any(record["strategy"] == name for record in records):
            known = sorted({record["strategy"] for record in records})
            raise load.BadInput(f"--strategies: no cell of {name}; there are {', '.join(known) or 'none'}")
    return ([place for places, _ in files for place in places],
            [record for record in records if not strategies or record["strategy"] in strategies])


# --- look and size ---

def use_style():
    pyplot.rcParams.update({
        "font.size": 9, "axes.titlesize": 9, "axes.labelsize": 9, "legend.fontsize": 9,
        "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.8,
        "axes.grid": True, "grid.color": "#E4E4E4", "grid.linewidth": 0.7, "axes.axisbelow": True,
        "lines.linewidth": 1.5, "hatch.linewidth": 0.5, "svg.fonttype": "none",
        "text.parse_math": False,  # names hold what they hold
        "svg.hashsalt": "umbench", "figure.dpi": 100, "savefig.dpi": 150,
    })


def panels(count, width=WIDTH, height=3.0, least=290, extra=0.0):
    """(figure, axes): panels side by side as long as each has `least` pixels of `width`, then in the next row.
    `height` of a panel and `extra` below all of them in inches."""
    columns = max(1, min(count, width // least))
    columns = -(-count // -(-count // columns))  # rows of like length
    rows = -(-count // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(width / 100, rows * height + extra), squeeze=False)
    for panel in list(axes.flat)[count:]:
        panel.remove()
    return figure, list(axes.flat)[:count]


def wrapped(text, width=48):
    """Broken at commas to fit a panel."""
    lines = [""]
    for part in text.split(", "):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines[-1] += ","
            lines.append("")
        lines[-1] += (", " if lines[-1] else "") + part
    return "\n".join(lines)


# What is left out of each kind of file, so that the same records give the same bytes.
METADATA = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None},
            "pdf": {"CreationDate": None, "Creator": None, "Producer": None}}


def save(figure, folder, name, kinds=KINDS[:2]):
    """Writes folder/name.png and so on, says so on standard output and closes the figure. The same
    records give the same bytes: no date is written."""
    load.check_path(folder)
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for kind in kinds:
            metadata = METADATA[kind]
            path = folder / f"{name}.{kind}"
            figure.savefig(path, metadata=metadata)
            print(path)
    except OSError as error:
        raise load.BadInput(f"{error.filename or folder}: {error.strerror}") from error
    finally:
        pyplot.close(figure)
