"""Fitted models beside torch.compile on a GPU; appends JSON lines to a file and prints a table.

    python -m umbench.torch.bench --models resnet50 gpt2_small --ratios 1.5 2 3 --shares 0.4 0.6 --out FILE
    python -m umbench.torch.bench --cells unet/2 gpt2_small/3 --budgets-from results/torch/fit_h100.jsonl --out FILE

A few cells compile side by side; when they have, each is timed in turns with the plain model, a few steps of one and then of the other.
Budgets are the plain model's measured peak over each ratio."""

import argparse
import json
import statistics
import time

from .cell import WAYS
from .cells import CellProcess, gpu_numbers
from .models import MODELS

GIB = 2**30
TURNS = 4  # how often each cell is timed, each time after the plain one of its model


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=[])
    parser.add_argument("--ratios", nargs="*", type=float, default=[1.5, 2, 3])
    parser.add_argument("--cells", nargs="*", type=parse_cell, default=[], help="MODEL/RATIO or MODEL/RATIO/TIER of further fitted cells, or MODEL/WAY/VALUE (cell.py), in this order")
    parser.add_argument("--parts", type=parse_micro_batches, default="1", help="micro batches of fitted cells, or auto (1)")
    parser.add_argument("--cuda-graphs", action="store_true", help="fitted cells replay their steps as CUDA graphs")
    parser.add_argument("--tiers", nargs="*", default=["pinned"], help="where offloaded tensors wait: pinned, managed, or none: nothing is offloaded")
    parser.add_argument("--shares", nargs="*", type=float, default=[], help="values of PyTorch's activation_memory_budget")
    parser.add_argument("--blocks", nargs="*", type=float, default=[], help="numbers N: one of every N blocks is checkpointed")
    parser.add_argument("--out", required=True)
    parser.add_argument("--budgets-from", help="records of plain cells, whose peaks are used again")
    parser.add_argument("--at-once", type=int, default=4, help="cells that compile side by side (4)")
    parser.add_argument("--wait", type=int, default=150, help="seconds, after which those that have compiled are timed, and others are ended")
    parser.add_argument("--seconds", type=int, default=10**6, help="after which no more cells are begun")
    options = parser.parse_args()
    bench = Bench(options.out, known_plain_peaks(options), options.parts, options.cuda_graphs)
    begin_s = time.monotonic()
    waiting_specs = cell_specs(options)
    while waiting_specs and time.monotonic() - begin_s < options.seconds:
        specs = bench.having_known_budgets(waiting_specs[:options.at_once])
        waiting_specs = [spec for spec in waiting_specs if spec not in specs]
        bench.measure_cells(specs, options.wait)
        print(f"after {time.monotonic() - begin_s:.0f} s", flush=True)
    for spec in waiting_specs:
        print(*spec, "not begun: the time is up")
    bench.end_plain_cells()
    print_table(bench.rows)


def parse_cell(cell_text):
    """[model, ratio], [model, ratio, tier] or [model, way, value] of the text of a cell, all as text."""
    model, *rest = parts = cell_text.split("/")
    if model not in MODELS or not rest or rest[0] in WAYS and len(rest) != 2:
        raise argparse.ArgumentTypeError(f"{cell_text} is no MODEL/RATIO, MODEL/RATIO/TIER or MODEL/WAY/VALUE")
    float(rest[1] if rest[0] in WAYS else rest[0])
    return parts


def parse_micro_batches(text):
    """The text itself, if it is valid."""
    if text != "auto" and int(text) < 1:
        raise argparse.ArgumentTypeError("give a number above 0, or auto")
    return text


def cell_specs(options):
    """The specs (model, way, value, ratio, tier) of all cells. The plain cell of a model comes before its others, since budgets are shares of its
    peak."""
    specs = [(model, "plain", None, None, None) for model in options.models]
    specs += [(model, "fit", None, ratio, tier) for ratio in options.ratios for tier in options.tiers for model in options.models]
    for model, *rest in options.cells:
        if rest[0] in WAYS:
            specs.append((model, rest[0], float(rest[1]), None, None))
            continue
        if (model, "plain", None, None, None) not in specs:
            specs.append((model, "plain", None, None, None))
        specs += [(model, "fit", None, float(rest[0]), tier) for tier in rest[1:] or options.tiers]
    specs += [(model, "share", share, None, None) for model in options.models for share in options.shares]
    return specs + [(model, "blocks", every_nth, None, None) for model in options.models for every_nth in options.blocks]


def known_plain_peaks(options):
    """{model: bytes} of the plain cells of --budgets-from."""
    if not options.budgets_from:
        return {}
    with open(options.budgets_from) as file:
        rows = [json.loads(line) for line in file]
    return {row["model"]: row["peak"] for row in rows if row["way"] == "plain" and "peak" in row}


class Bench:
    """Measures cells and appends their rows to a file. Plain cells are kept to be timed next to others. `plain_peaks` is {model: bytes}."""

    def __init__(self, out_file, plain_peaks, micro_batches="1", cuda_graphs=False):
        self.out, self.peaks, self.parts, self.cuda_graphs, self.plain, self.rows = out_file, dict(plain_peaks), micro_batches, cuda_graphs, {}, []

    def having_known_budgets(self, specs):
        """Those of the specs whose budgets are known; all if none is. The budget of a fitted cell is known once its plain cell was measured."""
        specs_with_known_budgets = [spec for spec in specs if spec[1] != "fit" or spec[0] in self.peaks]
        return specs_with_known_budgets or specs

    def measure_cells(self, specs, max_compile_seconds, gpu_number=None):
        """Compiles the cells of `specs` at the same time, for at most `max_compile_seconds`, then measures one after the other."""
        gpu_number = gpu_number or gpu_numbers()[0]
        processes = [CellProcess(spec, self.way_value_of(spec), gpu_number, self.parts, self.cuda_graphs) for spec in specs]
        end_time = time.monotonic() + max_compile_seconds
        for process in processes:
            process.wait_until_compiled(end_time)
        for process in processes:
            if process.way == "plain" and "error" not in process.row:
                self.plain[process.model] = process
                self.peaks.setdefault(process.model, process.ask("time").get("peak", 0))
        for process in processes:
            if "error" not in process.row:
                self.measure_cell(process)
            self.write_row(process)

    def way_value_of(self, spec):
        """The value of a cell: the bytes of a fitted cell's budget, those of other ways as they were given."""
        model, _, value, ratio, _ = spec
        return self.peaks.get(model, 0) / ratio if ratio else value

    def measure_cell(self, process):
        """Times a cell in turns with the plain one of its model, and profiles it."""
        plain_process = self.plain.get(process.model, process)
        times_ms, plain_times_ms = [], []
        for _ in range(TURNS):
            plain_times_ms += plain_process.ask("time").get("ms", []) if plain_process is not process else []
            answer = process.ask("time")
            times_ms += answer.pop("ms", [])
            process.row |= answer
        if times_ms:
            process.row |= {"ms": statistics.median(times_ms), "ms_range": [min(times_ms), max(times_ms)], "samples": len(times_ms)}
        if plain_times_ms:
            plain_ms = statistics.median(plain_times_ms)
            process.row |= {"plain_ms": plain_ms, "plain_ms_range": [min(plain_times_ms), max(plain_times_ms)], "over": process.row["ms"] / plain_ms}
        process.row |= process.ask("profile")
        if process.way != "plain":
            process.row |= process.ask("cap")
            process.end_process()

    def write_row(self, process):
        """Appends the row of a cell to the file and prints it."""
        self.rows.append(process.row)
        with open(self.out, "a") as file:
            file.write(json.dumps(process.row) + "\n")
        print(row_text(process.row), flush=True)

    def end_plain_cells(self):
        """Ends the processes of plain cells, which were kept."""
        for process in self.plain.values():
            process.end_process()


COLUMNS = ("model", "way", "tier", "ratio", "budget", "peak", "predicted", "ms", "plain", "over", "least", "kernels", "predicted", "issue", "copies", "hidden",
         "norm", "cap", "fails", "plans")


def row_text(row):
    if "error" in row or "ms" not in row or "kernel_ms" not in row:
        return " ".join(str(row[key]) for key in row if key in ("model", "way", "tier", "ratio", "value", "ms", "over", "under_cap") or "error" in key)
    predicted, least_ms = row.get("predicted") or {}, row["ms_range"][0]
    budget_gib_or_value = row["value"] / GIB if row["way"] == "fit" else row["value"] or 0
    figures = [budget_gib_or_value, row["peak"] / GIB, predicted.get("peak", 0) / GIB, row["ms"], row.get("plain_ms", 0), row.get("over", 0),
               least_ms / row["plain_ms_range"][0] if "plain_ms" in row else 0, row["kernel_ms"]["all"], predicted.get("ms", 0), row["issue_ms"],
               row.get("copies", {}).get("ms", 0), row.get("copies", {}).get("hidden_ms", 0), row["gradient_norm"]]
    columns = [row["model"], row["way"], row["tier"] or "", row["ratio"] or 0, *(f"{figure:.3f}" for figure in figures)]
    return " ".join(f"{column:>9}" for column in [*columns, str(row.get("under_cap")), str(row.get("fails_below")), row.get("plans", "")])


def print_table(rows):
    print(" ".join(f"{column:>9}" for column in COLUMNS))
    for row in sorted(rows, key=lambda row: (row["model"], row["ratio"] or 0, row["tier"] or "")):
        print(row_text(row))


if __name__ == "__main__":
    main()
