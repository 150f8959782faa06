"""What all figures share: the look, the way to the loader in results/, and saving as PNG and SVG.

Lines differ by marker and dash as well as by colour (Okabe and Ito's palette, told apart by
colour-blind readers), so that a figure survives a black and white printer.
"""

import itertools
import sys
from collections import namedtuple
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from results import needs  # noqa: E402

needs.require("matplotlib")

import matplotlib  # noqa: E402

matplotlib.use("Agg")
import matplotlib.pyplot as pyplot  # noqa: E402

from results import load  # noqa: E402,F401

GIB = 1024**3

Look = namedtuple("Look", "colour marker dash size")

# Markers shrink in drawing order, so that cells of equal time show as rings. Strategies that are
# not here take the spare looks in turn.
LOOKS = {
    "device": Look("#000000", "o", "-", 9),
    "swap_all": Look("#0072B2", "s", (0, (6, 1.5)), 5.5),
    "managed": Look("#D55E00", "^", "-", 7),
    "managed_advise": Look("#CC79A7", "v", (0, (1.2, 1.2)), 5.5),
    "managed_prefetch": Look("#009E73", "D", (0, (5, 1.5, 1.2, 1.5)), 3.8),
    "zero_copy": Look("#8C564B", "<", (0, (4, 1.5)), 5),
    "discard_prefetch": Look("#5E3C99", ">", (0, (5, 1, 1, 1, 1, 1)), 5),
    "oc_dnn": Look("#56B4E9", "P", "-", 5.5),
    "deepum": Look("#E69F00", "X", (0, (3, 1)), 5.5),
    "planned": Look("#7F7F7F", "*", (0, (1, 1)), 7),
    "twin": Look("#B2182B", "h", "-", 5.5),
}
SPARE_LOOKS = [Look("#1B7837", "P", "-", 6), Look("#80CDC1", "X", (0, (3, 1)), 6),
               Look("#444444", "*", (0, (1, 1)), 7), Look("#C51B7D", "<", "-", 5.5),
               Look("#4575B4", ">", (0, (5, 1, 1, 1, 1, 1)), 5.5)]


def looks(labels):
    """{label: Look}: a strategy looks the same in every figure."""
    spare, result = itertools.cycle(SPARE_LOOKS), {}
    for label in labels:
        known = LOOKS.get(label) or (LOOKS.get(label.split(" ")[0]) if _alone(label, labels) else None)
        result[label] = known or next(spare)
    return result


def _alone(label, labels):
    return sum(other.split(" ")[0] == label.split(" ")[0] for other in labels) == 1


def use_style():
    pyplot.rcParams.update({
        "font.size": 9, "axes.titlesize": 9.5, "axes.labelsize": 9, "legend.fontsize": 8.5,
        "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.8,
        "axes.grid": True, "grid.color": "#E4E4E4", "grid.linewidth": 0.7, "axes.axisbelow": True,
        "lines.linewidth": 1.5, "hatch.linewidth": 0.5, "svg.fonttype": "none",
        "text.parse_math": False,  # names hold what they hold
        "svg.hashsalt": "umbench", "figure.dpi": 100, "savefig.dpi": 150,
    })


# What is left out of each kind of file, so that the same records give the same bytes.
METADATA = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None},
            "pdf": {"CreationDate": None, "Creator": None, "Producer": None}}


def save(figure, folder, name, kinds=("png", "svg")):
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
