"""Fitted models beside torch.compile on a GPU; appends JSON lines to a file and prints a table.

    python -m umbench.torch.bench --models resnet50 gpt2_small --ratios 1.5 2 3 --shares 0.4 0.6 --out FILE

Cells compile side by side and are timed one after the other. Budgets are the plain model's measured peak over each ratio."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

GIB = 2**30


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--ratios", nargs="*", type=float, default=[1.5, 2, 3])
    parser.add_argument("--shares", nargs="*", type=float, default=[])
    parser.add_argument("--out", required=True)
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--timeout", type=int, default=420)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        lock = os.path.join(folder, "gpu")
        open(lock, "w").close()
        results = []
        for model in options.models:
            plain = pool.submit(run, options, lock, model, "plain")
            results.append(plain)
            results += [pool.submit(run, options, lock, model, "share", share) for share in options.shares]
            options_of = [(plain, model, ratio) for ratio in options.ratios]
            results += [pool.submit(fitted, options, lock, *each) for each in options_of]
        rows = [row for row in (each.result() for each in results) if row]
    print_table(rows)


def fitted(options, lock, plain, model, ratio):
    row = plain.result()
    if not row or "peak" not in row:
        return None
    return run(options, lock, model, "fit", row["peak"] / ratio, ratio)


def run(options, lock, model, way, value=None, ratio=None):
    words = [sys.executable, "-m", "umbench.torch.bench.cell", model, way, *([str(value)] if value is not None else []), "--lock", lock]
    environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "TORCHINDUCTOR_COMPILE_THREADS": "4"}
    begun = time.monotonic()
    try:
        done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=options.timeout)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        row = json.loads(lines[-1]) if lines else {"model": model, "way": way, "value": value, "error": done.stderr.strip()[-400:]}
    except subprocess.TimeoutExpired:
        row = {"model": model, "way": way, "value": value, "error": "no answer in time"}
    row |= {"ratio": ratio, "wall_s": time.monotonic() - begun}
    with open(options.out, "a") as file:
        file.write(json.dumps(row) + "\n")
    print(model, way, value, row.get("error") or f"{row['ms']} ms", flush=True)
    return row


def print_table(rows):
    plain = {row["model"]: row for row in rows if row["way"] == "plain"}
    print(f"{'model':<12} {'way':<6} {'ratio':>5} {'budget':>7} {'peak':>7} {'resvd':>7} {'pred':>7} {'ms':>8} {'over':>6} {'pred ms':>8} "
          f"{'norm':>9} cap fails")
    for row in rows:
        if "error" in row:
            print(row["model"], row["way"], row.get("ratio"), row.get("value"), row["error"])
            continue
        own, predicted = plain.get(row["model"], {}), row.get("predicted") or {}
        budget = row["value"] / GIB if row["way"] == "fit" else row["value"] or 0
        over = row["ms"] / own["ms"] if own.get("ms") and row["ms"] else 0
        print(f"{row['model']:<12} {row['way']:<6} {row['ratio'] or 0:>5} {budget:>7.3f} {row['peak'] / GIB:>7.3f} {row['reserved'] / GIB:>7.3f} "
              f"{predicted.get('peak', 0) / GIB:>7.3f} {row['ms'] or 0:>8.2f} {over:>6.3f} {predicted.get('ms', 0):>8.2f} "
              f"{row['gradient_norm']:>9.4f} {row['under_cap']} {row['fails_below']}")


if __name__ == "__main__":
    main()
