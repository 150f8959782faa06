#!/usr/bin/env python3
"""The best hint strategy at each ratio against `managed` and against a bound that no strategy can beat, as a table.

The bound is max(operators' time, bytes that must come back / link). Between the forward and the backward pass all that
the backward pass reads is alive: weights, saved activations, inputs. What of it exceeds the budget is not on the device
at that moment and has to cross the link to it (by a copy, a fault, a prefetch or a remote read).
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from results import load  # noqa: E402
from table import as_markdown, as_text  # noqa: E402

EXPLICIT = ("device", "device_sliced", "swap_all")
BYTES = {"f32": 4, "bf16": 2, "u8": 1, "i32": 4}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", metavar="FILE.jsonl")
    parser.add_argument("--graph", required=True, metavar="FILE.json", help="of the network, by umbench plan --graph")
    parser.add_argument("--machine", required=True, metavar="FILE.json", help="machine file with the link's rate")
    parser.add_argument("--markdown", action="store_true")
    wanted = parser.parse_args()
    alive = alive_between_passes(json.loads(Path(wanted.graph).read_text(encoding="utf-8")))
    link = json.loads(Path(wanted.machine).read_text(encoding="utf-8"))["link_to_device_bytes_per_s"]
    tables = [table(group, cells, alive, link, wanted.markdown)
              for group, cells in load.groups(load.read_all(wanted.files)).items()]
    if not any(tables):
        raise load.TooLittle(f"{', '.join(wanted.files)}: no hint strategy finished well above ratio 1")
    print("\n\n".join(filter(None, tables)))


def alive_between_passes(graph):
    """Bytes that exist before the first operator that writes a gradient and are read by it or after it."""
    tensors = {tensor["name"]: tensor for tensor in graph["tensors"]}
    backward = next(i for i, op in enumerate(graph["ops"])
                    if any(tensors[name]["use"].endswith("gradient") for name in op["out"]))
    made_later = {name for op in graph["ops"][backward:] for name in op["out"]}
    wanted = {name for op in graph["ops"][backward:] for name in op["in"]} - made_later
    return sum(_bytes(tensors[name]) for name in wanted)


def _bytes(tensor):
    size = BYTES[tensor["type"]]
    for extent in tensor["shape"]:
        size *= extent
    return size


def table(group, cells, alive, link, markdown):
    rows = []
    for ratio in sorted({cell["ratio"] for cell in cells if cell["ratio"] and cell["ratio"] > 1}):
        here = [cell for cell in cells if cell["ratio"] == ratio]
        timed = [(load.steady_ns(cell), cell["strategy"], cell) for cell in here
                 if load.steady_ns(cell) and cell["strategy"] not in EXPLICIT]
        if timed:
            time, name, best = min(timed, key=lambda each: each[:2])
            rows.append(_row(ratio, time, name, best, dict((n, t) for t, n, _ in timed).get("managed"), alive, link))
    if not rows:
        return None
    title = f"{load.network_text(group)}; {load.machine_text(group)}"
    head = ["ratio", "operators", "must come back", "bound", "best", "strategy", "best / operators", "best / bound",
            "managed / best"]
    return as_markdown(title, head, rows) if markdown else as_text(title, head, rows)


def _row(ratio, time, name, best, managed, alive, link):
    back = max(0, alive - best["memory"]["budget_bytes"])
    bound = max(best["compute_ns"], back / link * 1e9)
    return [f"{ratio:g}", f"{best['compute_ns'] / 1e6:.4g} ms", f"{back / 2**30:.2f} GiB", f"{bound / 1e6:.4g} ms",
            f"{time / 1e6:.4g} ms", name, f"{time / best['compute_ns']:.2f}x", f"{time / bound:.2f}x",
            f"{managed / time:.2f}x" if managed else "no fit"]


if __name__ == "__main__":
    sys.exit(load.report_errors(main))
