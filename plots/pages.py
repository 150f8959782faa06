#!/usr/bin/env python3
"""Draws the figures of README.md and docs/ anew from the kept records of results/, into docs/figures or --out DIR."""

import glob
import subprocess
import sys
from pathlib import Path

from common import load
from results.arguments import Parser

ROOT = Path(__file__).resolve().parent.parent

# name: (kind, files in results/, more arguments)
FIGURES = {
    "measured": ("slowdown", ["study/best_h*.jsonl", "study/hints_h200.jsonl"], []),
    "study_vgg16_simulated": ("slowdown", ["study/vgg16_simulated.jsonl", "study/vgg16_tf32_bf16_simulated.jsonl"], []),
    "study_alexnet_simulated": ("growth", ["study/alexnet_simulated.jsonl"], []),
    "peers": ("peers", ["peers/pytorch_h200.jsonl"], []),
}


def main():
    parser = Parser("plots/pages.py", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(FIGURES)} (all)")
    parser.add_argument("--out", default=ROOT / "docs/figures", metavar="DIR")
    wanted = parser.parse_args()
    for name in wanted.names or FIGURES:
        if name not in FIGURES:
            raise load.BadInput(f"no figure {name}; there are {', '.join(FIGURES)}")
        kind, patterns, more = FIGURES[name]
        files = [path for pattern in patterns for path in sorted(glob.glob(str(ROOT / "results" / pattern)))]
        done = subprocess.run([sys.executable, ROOT / "plots/plot.py", kind, *files, "--out", wanted.out, "--name", name,
                               "--format", "png", *more],
                              check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "umbench"))
