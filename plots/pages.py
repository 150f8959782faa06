"""Draws the figures of README.md and docs/ anew from the kept records of results/, into docs/figures or --out DIR."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from umbench.plots.common import load
from umbench import places
from umbench.arguments import Parser

ROOT = places.TOP


def keep_main_variant(record, file_name):
    """The record without knobs that are costs of copies, since they would split a strategy into two lines. None for records in tf32, of `best`
    with knob bits=1, and of `best` in files of the papers' planners, since other files have them."""
    knobs = record.get("strategy_knobs") or {}
    if record.get("precision") == "tf32" or knobs.get("bits") == 1 or (
            file_name.startswith("papers_") and (record.get("strategy") or "").startswith("best")):
        return None
    for price in ("copies", "copy_us"):
        knobs.pop(price, None)
    return record


def keep_bf16(record, file_name):
    """The record as keep_main_variant() returns it; None for records of another precision."""
    return None if record.get("precision", "bf16") != "bf16" else keep_main_variant(record, file_name)


def keep_ratio_1_5(record, _):
    """The record; None for records of another ratio."""
    return record if record["kind"] != "record" or record["ratio"] == 1.5 else None


def study_files(*names):
    return [f"study/{name}.jsonl" for name in names]


H100 = study_files("best_resnet50_h100", "best_managed_h100", "papers_resnet50_bf16_h100", "papers_resnet50_bf16_at_1.5_h100", "best_vgg16_h100",
             "papers_vgg16_bf16_h100", "papers_vgg16_bf16_at_1.25_h100")
H200 = study_files("best_resnet50_h200", "best_managed_h200", "papers_resnet50_bf16_h200", "papers_resnet50_bf16_at_3_h200", "best_vgg16_h200",
             "papers_vgg16_bf16_h200", "hints_h200")

# name: (kind of figure, files in results/, function that changes a record or drops it)
FIGURES = {
    "measured": ("overview", H100, keep_bf16),
    "measured_all": ("slowdown", [*H200, *H100, *study_files("papers_vgg16_fp32_h100")], keep_main_variant),
    "study_vgg16_simulated": ("slowdown", study_files("vgg16_simulated", "vgg16_tf32_bf16_simulated"), None),
    "study_alexnet_simulated": ("growth", study_files("alexnet_simulated"), None),
    "twin_timeline": ("timeline", study_files("twin_timeline_h200"), keep_ratio_1_5),
    "peers": ("peers", ["peers/pytorch_h200.jsonl"], None),
}


def main():
    parser = Parser("plots.pages", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(FIGURES)} (all)")
    parser.add_argument("--out", default=ROOT / "docs/figures", metavar="DIR")
    options = parser.parse_args()
    for name in options.names or FIGURES:
        if name not in FIGURES:
            raise load.BadInput(f"no figure {name}; there are {', '.join(FIGURES)}")
        kind, files, transform_record = FIGURES[name]
        with tempfile.TemporaryDirectory() as folder:
            drawn = [file_to_draw(transform_record, ROOT / "results" / file, Path(folder)) for file in files]
            done = subprocess.run([sys.executable, places.TOP / "python/start.py", "plots", kind, *drawn, "--out", folder, "--format", "png",
                                   *(["--name", name] if kind != "timeline" else ["--all"])], stdout=subprocess.DEVNULL, check=False)
            if not done.returncode:
                (picture,) = Path(folder).glob("*.png")
                Path(options.out).mkdir(parents=True, exist_ok=True)
                shutil.copyfile(picture, Path(options.out) / f"{name}.png")
                print(Path(options.out) / f"{name}.png")
        if done.returncode:
            return done.returncode
    return 0


def file_to_draw(transform_record, record_file, folder):
    """The path of the record file, or of its copy in `folder` with the records that transform_record(record, name of the file) returns."""
    if transform_record is None:
        return record_file
    records = [transform_record(json.loads(line), record_file.name) for line in record_file.read_text(encoding="utf-8").splitlines()]
    (folder / record_file.name).write_text("".join(json.dumps(each) + "\n" for each in records if each), encoding="utf-8")
    return folder / record_file.name


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "umbench"))
