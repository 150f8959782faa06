"""Draws the figures of README.md and docs/ anew from the kept records of results/, into docs/figures or --out DIR."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from umbench.plots.common import load
from umbench import places
from umbench.arguments import Parser

ROOT = places.TOP


def for_first_page(record, file):
    """Nothing of a third precision, of `best` held to the bits of `device`, or of what the papers' planners ran beside and another file has; no prices
    of copies, which name one strategy twice."""
    knobs = record.get("strategy_knobs") or {}
    if record.get("precision") == "tf32" or knobs.get("bits") == 1 or (
            file.startswith("papers_") and (record.get("strategy") or "").startswith("best")):
        return None
    for price in ("copies", "copy_us"):
        knobs.pop(price, None)
    return record


FIRST_PAGE = [f"study/{name}.jsonl" for name in (
    "best_resnet50_h200", "papers_resnet50_bf16_h200", "papers_resnet50_bf16_at_3_h200",
    "best_vgg16_h200", "papers_vgg16_bf16_h200", "hints_h200",
    "best_vgg16_h100", "papers_vgg16_fp32_h100", "papers_vgg16_bf16_h100", "papers_vgg16_bf16_at_1.25_h100",
    "best_resnet50_h100", "papers_resnet50_bf16_h100", "papers_resnet50_bf16_at_1.5_h100")]

# name: (kind, files in results/, what becomes of a record)
FIGURES = {
    "measured": ("slowdown", FIRST_PAGE, for_first_page),
    "study_vgg16_simulated": ("slowdown", ["study/vgg16_simulated.jsonl", "study/vgg16_tf32_bf16_simulated.jsonl"], None),
    "study_alexnet_simulated": ("growth", ["study/alexnet_simulated.jsonl"], None),
    "peers": ("peers", ["peers/pytorch_h200.jsonl"], None),
}


def main():
    parser = Parser("plots.pages", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(FIGURES)} (all)")
    parser.add_argument("--out", default=ROOT / "docs/figures", metavar="DIR")
    wanted = parser.parse_args()
    for name in wanted.names or FIGURES:
        if name not in FIGURES:
            raise load.BadInput(f"no figure {name}; there are {', '.join(FIGURES)}")
        kind, files, changed = FIGURES[name]
        with tempfile.TemporaryDirectory() as folder:
            drawn = [as_drawn(changed, ROOT / "results" / file, Path(folder)) for file in files]
            done = subprocess.run([sys.executable, places.TOP / "python/start.py", "plots", kind, *drawn, "--out", wanted.out, "--name", name,
                                   "--format", "png"], check=False)
        if done.returncode:
            return done.returncode
    return 0


def as_drawn(changed, file, folder):
    """The file, or a copy in `folder` of what becomes of its records."""
    if changed is None:
        return file
    records = [changed(json.loads(line), file.name) for line in file.read_text(encoding="utf-8").splitlines()]
    (folder / file.name).write_text("".join(json.dumps(each) + "\n" for each in records if each), encoding="utf-8")
    return folder / file.name


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "umbench"))
