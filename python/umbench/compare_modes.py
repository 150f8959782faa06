"""Prints a Markdown table of cells whose times differ between the modes `simulated` and `capped`, with reasons. Largest differences come first.

    UMBENCH=build/cpu/umbench python3 python/start.py compare_modes > results/validation/modes.md
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from umbench import load

MIN_FACTOR = 1.5  # modes whose times differ by a larger factor are listed
GRIDS = [{"network": "alexnet", "batch": 128, "fusion": ["none", "fused"]}, {"network": "vgg16", "batch": 32, "fusion": "none"},
         {"network": "resnet50", "batch": 32, "fusion": "none"}]
STRATEGIES = ["managed", "managed_advise", "managed_prefetch", "discard", "evict_behind", "oc_dnn"]
TO_DEVICE = ("fault_to_device_bytes", "prefetch_to_device_bytes")
TO_HOST = ("driver_evict_bytes", "plan_evict_bytes")


def main():
    modes = {mode: run_in_mode(mode) for mode in ("simulated", "capped")}
    rows, in_both, refused = [], 0, 0
    for key, simulated in modes["simulated"].items():
        capped = modes["capped"][key]
        if simulated["outcome"] != "ok" or capped["outcome"] != "ok":
            refused += simulated["outcome"] != capped["outcome"]
            continue
        in_both += 1
        factor = load.steady_ns(simulated) / load.steady_ns(capped)
        if max(factor, 1 / factor) > MIN_FACTOR:
            rows.append((factor, key, simulated, capped))
    rows.sort(key=lambda row: -max(row[0], 1 / row[0]))
    print(f"Machine file h200, {in_both} cells in both modes, {refused} that only one of them can run. {len(rows)} differ by more than "
          f"{MIN_FACTOR} times: {sum(row[0] > 1 for row in rows)} are slower in mode `simulated`, {sum(row[0] < 1 for row in rows)} in "
          "`capped`.\n")
    print("| cell | simulated, ms | capped, ms | | in, GiB | out, GiB | what decides |\n|---|---:|---:|---:|---|---|---|")
    for factor, key, simulated, capped in rows:
        moved = [" and ".join(f"{moved_gib(record, names):.2f}" for record in (simulated, capped)) for names in (TO_DEVICE, TO_HOST)]
        print(f"| {key} | {load.steady_ns(simulated) / 1e6:.1f} | {load.steady_ns(capped) / 1e6:.1f} | {factor:.2f} | {moved[0]} | {moved[1]} | "
              f"{why_one_mode_is_slower(factor, simulated, capped)} |")


def run_in_mode(mode):
    """{text of the cell: record} of GRIDS in a mode."""
    common = {"pass": "train", "strategy": STRATEGIES, "ratio": [1.1, 1.25, 1.5, 2], "mode": mode, "backend": "sim:h200",
              "iterations": 5, "deadline_s": 60}
    with tempfile.TemporaryDirectory() as folder:
        spec, out = Path(folder) / "spec.json", Path(folder) / "out.jsonl"
        spec.write_text(json.dumps({"schema": 1, "name": "modes", "common": common, "grids": GRIDS}), encoding="utf-8")
        done = subprocess.run([os.environ["UMBENCH"], "sweep", spec, "--out", out], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True)
        if not out.exists():
            sys.exit(done.stderr)
        records = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    return {f"{r['network']} {r['batch']}, {'not fused' if r['fusion'] == 'none' else r['fusion']}, `{r['strategy']}`, {r['ratio']:g}": r
            for r in records if r["kind"] == "record"}


def moved_gib(record, counter_names):
    """The GiB of these counters in the last iteration."""
    return sum(record["counters"]["last"][name] for name in counter_names) / 2**30


def why_one_mode_is_slower(time_ratio, simulated_record, capped_record):
    """A text that says why one mode is slower. `time_ratio` is the simulated time divided by the capped one. More bytes over the link are the
    reason if the square of their ratio exceeds the ratio of the times."""
    bytes_of = [max(moved_gib(record, TO_DEVICE) + moved_gib(record, TO_HOST), 1e-6) for record in (simulated_record, capped_record)]
    slow, fast = (0, 1) if time_ratio > 1 else (1, 0)
    more = bytes_of[slow] / bytes_of[fast]
    who = ("the driver's evictions within kernels", "the plan's evictions before operators")[slow]
    if more ** 2 > max(time_ratio, 1 / time_ratio):
        return f"{who} move {min(more, 99):.1f} times as much: they take what the same or the next operator needs"
    faulted = [moved_gib(record, TO_DEVICE[:1]) for record in (simulated_record, capped_record)]
    if faulted[slow] > 1.3 * faulted[fast]:
        return f"as much moves, but {faulted[slow]:.2f} GiB by faults instead of {faulted[fast]:.2f}"
    if slow == 0:
        return "as much moves, but kernels wait for the driver's evictions; the plan's run beside them"
    return "as much moves, but prefetches to the host map every page for the CPU and hold up faults; the driver's evictions do not"


if __name__ == "__main__":
    main()
