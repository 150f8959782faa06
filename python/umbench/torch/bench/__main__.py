"""Fitted models beside torch.compile on a GPU; appends JSON lines to a file and prints a table.

    python -m umbench.torch.bench --models resnet50 gpt2_small --ratios 1.5 2 3 --shares 0.4 0.6 --out FILE

A few cells compile side by side, spread over the GPUs; when they have, they are timed one after the other on each GPU. Budgets are the
plain model's measured peak over each ratio."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

from ..private import ALLOCATOR

GIB = 2**30


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--ratios", nargs="*", type=float, default=[1.5, 2, 3])
    parser.add_argument("--tiers", nargs="*", default=["pinned"], help="where offloaded tensors wait: pinned, managed, or none: nothing is offloaded")
    parser.add_argument("--shares", nargs="*", type=float, default=[])
    parser.add_argument("--out", required=True)
    parser.add_argument("--budgets-from", help="records of plain cells, whose peaks are used again")
    parser.add_argument("--at-once", type=int, default=4, help="cells that compile side by side (4)")
    parser.add_argument("--wait", type=int, default=150, help="seconds, after which those that have compiled are timed while others still compile")
    parser.add_argument("--limit", type=int, default=600, help="seconds, after which cells are ended")
    parser.add_argument("--seconds", type=int, default=10**6, help="after which no more cells are begun")
    options = parser.parse_args()
    peaks, rows, begun = known_peaks(options), [], time.monotonic()
    waiting = heads_of(options)
    while waiting and time.monotonic() - begun < options.seconds:
        heads, waiting = waiting[:options.at_once], waiting[options.at_once:]
        rows += measured(heads, peaks, options)
        print(f"after {time.monotonic() - begun:.0f} s", flush=True)
    for head in waiting:
        print(*head, "not begun: the time is up")
    print_table(rows)


def heads_of(options):
    """(model, way, value, ratio, tier) of each cell, the plain ones first: budgets are shares of their peaks."""
    heads = [(model, "plain", None, None, None) for model in options.models]
    heads += [(model, "fit", None, ratio, tier) for ratio in options.ratios for tier in options.tiers for model in options.models]
    return heads + [(model, "share", share, None, None) for model in options.models for share in options.shares]


def measured(heads, peaks, options):
    """Rows of cells that compile side by side and are timed one after the other. Notes peaks, and appends each row to the file."""
    gpus = gpus_here()
    with tempfile.TemporaryDirectory() as folder:
        cells = [Cell(folder, model, way, peaks.get(model, 0) / ratio if ratio else value, ratio, tier, gpus[number % len(gpus)])
                 for number, (model, way, value, ratio, tier) in enumerate(heads)]
        begun = time.monotonic()
        while any(cell.waits() for cell in cells) and time.monotonic() - begun < options.wait:
            time.sleep(0.5)
        open(os.path.join(folder, "go"), "w").close()
        left, rows = list(cells), []
        while left:
            if time.monotonic() - begun > options.limit:
                for cell in left:
                    cell.process.kill()
            for cell in [cell for cell in left if cell.process.poll() is not None]:
                left.remove(cell)
                rows.append(cell.row())
                with open(options.out, "a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
            time.sleep(0.2)
    for row in rows:
        if row["way"] == "plain" and "peak" in row:
            peaks.setdefault(row["model"], row["peak"])
    return sorted(rows, key=lambda row: (row["model"], row["ratio"] or 0, row["tier"] or ""))


def gpus_here():
    """Numbers of the GPUs, as text."""
    if os.environ.get("CUDA_VISIBLE_DEVICES"):
        return os.environ["CUDA_VISIBLE_DEVICES"].split(",")
    try:
        told = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout
    except OSError:
        told = ""
    return [str(number) for number in range(max(1, told.count("GPU ")))]


def known_peaks(options):
    if not options.budgets_from:
        return {}
    with open(options.budgets_from) as file:
        rows = [json.loads(line) for line in file]
    return {row["model"]: row["peak"] for row in rows if row["way"] == "plain" and "peak" in row and row["model"] in options.models}


class Cell:
    """A process that compiles at once, and measures when it is its turn."""

    def __init__(self, folder, model, way, value, ratio, tier, gpu):
        self.head = {"model": model, "way": way, "value": value, "ratio": ratio, "tier": tier}
        self.folder = folder
        words = [sys.executable, "-m", "umbench.torch.bench.cell", model, way, *([str(value)] if value is not None else []), "--turn", folder,
                 *(["--tier", tier] if tier else [])]
        environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": ALLOCATOR, "TORCHINDUCTOR_COMPILE_THREADS": "4",
                       "CUDA_VISIBLE_DEVICES": gpu}
        self.output, self.errors = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(words, stdout=self.output, stderr=self.errors, text=True, env=environment)

    def waits(self):
        """Whether it still compiles."""
        return self.process.poll() is None and not os.path.exists(os.path.join(self.folder, f"ready{self.process.pid}"))

    def row(self):
        self.process.wait()
        self.output.seek(0)
        self.errors.seek(0)
        lines = [line for line in self.output if line.startswith("{")]
        found = json.loads(lines[-1]) if lines else {"error": f"exit code {self.process.returncode}: {self.errors.read().strip()[-300:]}"}
        row = {**self.head, **found, "ratio": self.head["ratio"], "tier": self.head["tier"]}
        print(*(str(each) for each in self.head.values()), row.get("error") or f"{row['ms']:.2f} ms", flush=True)
        return row


def print_table(rows):
    plain = {row["model"]: row for row in rows if row["way"] == "plain"}
    print(f"{'model':<12} {'way':<6} {'tier':<7} {'ratio':>5} {'budget':>7} {'peak':>7} {'resvd':>7} {'pred':>7} {'ms':>8} {'least':>8} {'over':>6} {'kernels':>8} {'issue':>7} {'pred ms':>8} "
          f"{'norm':>9} cap fails")
    for row in rows:
        if "error" in row:
            print(row["model"], row["way"], row["tier"], row.get("ratio"), row.get("value"), row["error"])
            continue
        own, predicted = plain.get(row["model"], {}), row.get("predicted") or {}
        budget = row["value"] / GIB if row["way"] == "fit" else row["value"] or 0
        over = row["ms"] / own["ms"] if own.get("ms") and row["ms"] else 0
        print(f"{row['model']:<12} {row['way']:<6} {row['tier'] or '':<7} {row['ratio'] or 0:>5} {budget:>7.3f} {row['peak'] / GIB:>7.3f} {row['reserved'] / GIB:>7.3f} "
              f"{predicted.get('peak', 0) / GIB:>7.3f} {row['ms'] or 0:>8.2f} {row['ms_range'][0]:>8.2f} {over:>6.3f} {row['kernel_ms']['all']:>8.2f} {row['issue_ms']:>7.2f} {predicted.get('ms', 0):>8.2f} "
              f"{row['gradient_norm']:>9.4f} {row.get('under_cap')} {row['fails_below']} {row.get('plans', '')}")


if __name__ == "__main__":
    main()
