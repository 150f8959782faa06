"""Simulated times of planned iterations, and what planning takes, over a fixed set of networks and ratios.

    UMBENCH=build/cpu/umbench python3 python/start.py plan_table > before.tsv
    UMBENCH=build/cpu/umbench python3 python/start.py plan_table --against before.tsv > after.tsv

A row is a network, a strategy and a ratio with the iteration in ms ("-": no plan), processor seconds and
the outcome. --against says on stderr which rows are more than half a percent slower.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from umbench.places import TOP

EXPORTED = TOP / "tests" / "networks" / "exported"
NETWORKS = [
    ("alexnet", ["--network", "alexnet", "--batch", "256", "--precision", "bf16"]),
    ("vgg16", ["--network", "vgg16", "--batch", "256", "--precision", "bf16"]),
    ("resnet50", ["--network", "resnet50", "--batch", "128", "--precision", "tf32"]),
    ("resnet152", ["--network", "resnet152", "--batch", "128", "--precision", "bf16"]),
] + [
    (f"x:{name}", ["--network", str(EXPORTED / f"{name}.json")])
    for name in ("alexnet", "vgg16", "unet", "vit_b_16", "swin_t", "convnext_t", "mobilenet_v2", "gpt2_small")
]
RATIOS = ("1.25", "1.5", "2", "3", "4")
SLOWER = 1.005


def plan(umbench, network, strategy, ratio):
    """(ms or None, processor seconds, outcome)."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "record.jsonl"
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([umbench, "run", *network, "--strategy", strategy, "--ratio", ratio, "--backend",
                        "sim:h200", "--iterations", "2", "--out", str(out)],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        records = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    record = records[-1] if records else {"outcome": "failed"}
    done = record["outcome"] == "ok"
    return (record["samples_ns"][-1] / 1e6 if done else None), seconds, record["outcome"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="FILE")
    parser.add_argument("--strategy", action="append")
    parser.add_argument("--ratio", action="append")
    parser.add_argument("--network", action="append", metavar="NAME|FILE")
    given = parser.parse_args()
    networks = [row for row in NETWORKS if not given.network or row[0] in given.network]
    networks += [(Path(n).name, ["--network", n]) for n in given.network or [] if "/" in n]
    before = {}
    if given.against:
        for line in Path(given.against).read_text().splitlines():
            fields = line.split("\t")
            before[tuple(fields[:3])] = float(fields[3]) if fields[3] != "-" else None
    umbench = os.environ.get("UMBENCH", "umbench")
    slower = 0
    for name, options in networks:
        for strategy in given.strategy or ("best", "best_managed"):
            for ratio in given.ratio or RATIOS:
                ms, seconds, outcome = plan(umbench, options, strategy, ratio)
                was = before.get((name, strategy, ratio), 0)
                text = "-" if ms is None else f"{ms:.3f}"
                print(name, strategy, ratio, text, f"{seconds:.1f}", outcome, sep="\t", flush=True)
                if was and (ms is None or ms > was * SLOWER):
                    slower += 1
                    print(f"slower: {name} {strategy} {ratio}: {was:.3f} -> {text}", file=sys.stderr, flush=True)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
