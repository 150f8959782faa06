#!/usr/bin/env python3
"""Draws the losses that fit_training.py wrote, a panel for each file, the unplanned run's and the fitted run's.

    examples/torch/draw_curves.py NAME=curve.jsonl ... --out curves.svg      needs matplotlib
"""
import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams |= {"svg.hashsalt": "umbench", "svg.fonttype": "none"}
from matplotlib import pyplot  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("curves", nargs="+", metavar="NAME=FILE")
    parser.add_argument("--out", required=True)
    wanted = parser.parse_args()
    figure, panels = pyplot.subplots(1, len(wanted.curves), figsize=(3.2 * len(wanted.curves), 2.6), squeeze=False, layout="constrained")
    for panel, curve in zip(panels[0], wanted.curves):
        name, file = curve.split("=", 1)
        rows = [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines()]
        steps = [row["step"] for row in rows]
        panel.plot(steps, [row["unplanned"] for row in rows], color="#888888", linewidth=3, label="unplanned")
        panel.plot(steps, [row["fitted"] for row in rows], color="#0060a0", linewidth=1, label="fitted")
        panel.set(title=name, xlabel="step")
    panels[0][0].set_ylabel("loss")
    panels[0][0].legend(frameon=False)
    figure.savefig(wanted.out, metadata={"Date": None})


if __name__ == "__main__":
    main()
