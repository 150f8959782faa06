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
    records_by_mode = {mode: run_in_mode(mode) for mode in ("simulated", "capped")}
    rows, cells_in_both, refused_count = [], 0, 0
    for cell_text, simulated in records_by_mode["simulated"].items():
        capped = records_by_mode["capped"][cell_text]
        if simulated["outcome"] != "ok" or capped["outcome"] != "ok":
            refused_count += simulated["outcome"] != capped["outcome"]
            continue
        cells_in_both += 1
        time_ratio = load.steady_ns(simulated) / load.steady_ns(capped)
        if max(time_ratio, 1 / time_ratio) > MIN_FACTOR:
            rows.append((time_ratio, cell_text, simulated, capped))
    rows.sort(key=lambda row: -max(row[0], 1 / row[0]))
    print(f"Machine file h200, {cells_in_both} cells in both modes, {refused_count} that only one of them can run. {len(rows)} differ by more than "
          f"{MIN_FACTOR} times: {sum(time_ratio > 1 for time_ratio, *_ in rows)} are slower in mode `simulated`, {sum(time_ratio < 1 for time_ratio, *_ in rows)} in "
          "`capped`.\n")
    print("| cell | simulated, ms | capped, ms | | in, GiB | out, GiB | what decides |\n|---|---:|---:|---:|---|---|---|")
    for time_ratio, cell_text, simulated, capped in rows:
        moved_texts = [" and ".join(f"{moved_gib(record, counter_names):.2f}" for record in (simulated, capped))
                       for counter_names in (TO_DEVICE, TO_HOST)]
        print(f"| {cell_text} | {load.steady_ns(simulated) / 1e6:.1f} | {load.steady_ns(capped) / 1e6:.1f} | "
              f"{time_ratio:.2f} | {moved_texts[0]} | {moved_texts[1]} | "
              f"{why_one_mode_is_slower(time_ratio, simulated, capped)} |")


def run_in_mode(mode):
    """{text of the cell: record} of GRIDS in a mode."""
    common_fields = {"pass": "train", "strategy": STRATEGIES, "ratio": [1.1, 1.25, 1.5, 2], "mode": mode, "backend": "sim:h200",
                     "iterations": 5, "deadline_s": 60}
    with tempfile.TemporaryDirectory() as folder:
        spec_file, record_file = Path(folder) / "spec.json", Path(folder) / "out.jsonl"
        spec_file.write_text(json.dumps({"schema": 1, "name": "modes", "common": common_fields, "grids": GRIDS}), encoding="utf-8")
        finished = subprocess.run([os.environ["UMBENCH"], "sweep", spec_file, "--out", record_file], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True)
        if not record_file.exists():
            sys.exit(finished.stderr)
        records = [json.loads(line) for line in record_file.read_text(encoding="utf-8").splitlines()]
    return {f"{r['network']} {r['batch']}, {'not fused' if r['fusion'] == 'none' else r['fusion']}, `{r['strategy']}`, {r['ratio']:g}": r
            for r in records if r["kind"] == "record"}


def moved_gib(record, counter_names):
    """The GiB of these counters in the last iteration."""
    return sum(record["counters"]["last"][name] for name in counter_names) / 2**30


def why_one_mode_is_slower(time_ratio, simulated_record, capped_record):
    """A text that says why one mode is slower. `time_ratio` is the simulated time divided by the capped one. More bytes over the link are the
    reason if the square of their ratio exceeds the ratio of the times."""
    moved_gibs = [max(moved_gib(record, TO_DEVICE) + moved_gib(record, TO_HOST), 1e-6) for record in (simulated_record, capped_record)]
    slow_index, fast_index = (0, 1) if time_ratio > 1 else (1, 0)
    moved_ratio = moved_gibs[slow_index] / moved_gibs[fast_index]
    evictions_text = ("the driver's evictions within kernels", "the plan's evictions before operators")[slow_index]
    if moved_ratio ** 2 > max(time_ratio, 1 / time_ratio):
        return f"{evictions_text} move {min(moved_ratio, 99):.1f} times as much: they take what the same or the next operator needs"
    faulted_gibs = [moved_gib(record, TO_DEVICE[:1]) for record in (simulated_record, capped_record)]
    if faulted_gibs[slow_index] > 1.3 * faulted_gibs[fast_index]:
        return f"as much moves, but {faulted_gibs[slow_index]:.2f} GiB by faults instead of {faulted_gibs[fast_index]:.2f}"
    if slow_index == 0:
        return "as much moves, but kernels wait for the driver's evictions; the plan's run beside them"
    return "as much moves, but prefetches to the host map every page for the CPU and hold up faults; the driver's evictions do not"


if __name__ == "__main__":
    main()
