#!/usr/bin/env python3
"""How long planners take, and how much memory: `umbench plan` on the h200's machine file, one core. A line of JSON each, appended.

    python3 benchmarks/planning_times.py --umbench build/cpu/umbench --out results/planning.jsonl

Of all strategies that `umbench list` has but those of managed memory; of others, or with other knobs, where --strategy says so, such as
--strategy twin --strategy ooc_cudnn,keep=1.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import resumable

WORK = {"vgg16": 256, "resnet152": 128}
RATIOS = (4, 2, 1.25)
FIELDS = ("network", "strategy", "ratio")


def planners_of(binary):
    listed = subprocess.run([binary, "list", "strategies", "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [row["name"] for row in json.loads(listed)["strategies"] if row["family"] != "managed"]


def options_of(strategy):
    name, *knobs = strategy.split(",")
    return ["--strategy", name, *(word for knob in knobs for word in ("--knob", knob))]


def measure(binary, task, deadline_s):
    """CPU seconds and peak memory of all that `umbench plan` does: measuring, planning, packing, simulating."""
    network, strategy, ratio = (task[name] for name in FIELDS)
    child = subprocess.Popen([binary, "plan", "--network", network, "--batch", str(WORK[network]), "--fusion", "fused", "--precision", "bf16",
                              *options_of(strategy), "--ratio", str(ratio), "--backend", "sim:h200", "--deadline", str(deadline_s)],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said = child.stderr.read().strip()
    _, status, used = os.wait4(child.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    outcome = "planned" if code == 0 else said.removeprefix("umbench: ")
    return {"network": network, "batch": WORK[network], "precision": "bf16", "strategy": strategy, "ratio": ratio,
            "cpu_s": round(used.ru_utime + used.ru_stime, 2), "peak_mib": round(used.ru_maxrss / 1024), "outcome": outcome}


def table(lines):
    rows = ["| network | strategy | " + " | ".join(f"{r:g}: s, MiB" for r in sorted(RATIOS)) + " |", "|---|---|" + "---|" * len(RATIOS)]
    found = {(x["network"], x["strategy"], x["ratio"]): x for x in lines}
    for network in WORK:
        for strategy in dict.fromkeys(x["strategy"] for x in lines):
            cells = [found.get((network, strategy, r)) for r in sorted(RATIOS)]
            texts = [f"{x['cpu_s']:g}, {x['peak_mib']}" + ("" if x["outcome"] == "planned" else " (no plan)") if x else "" for x in cells]
            rows.append(f"| {network} | `{strategy}` | " + " | ".join(texts) + " |")
    return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--umbench", default="build/cpu/umbench")
    parser.add_argument("--out", default="results/planning.jsonl")
    parser.add_argument("--strategy", action="append", help="NAME or NAME,KNOB=VALUE,...; may be repeated")
    parser.add_argument("--deadline", type=int, default=120)
    parser.add_argument("--table", action="store_true", help="measure nothing: print what OUT holds as a table")
    arguments = parser.parse_args()
    out = Path(arguments.out)
    if arguments.table:
        print(table(resumable.held(out)))
        return 0
    tasks = [dict(zip(FIELDS, (network, strategy, ratio), strict=True))
             for strategy in arguments.strategy or planners_of(arguments.umbench) for network in reversed(WORK) for ratio in RATIOS]
    resumable.run(out, tasks, FIELDS, lambda task: measure(arguments.umbench, task, arguments.deadline))
    return 0


if __name__ == "__main__":
    sys.exit(main())
