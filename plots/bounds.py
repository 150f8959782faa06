"""Prints a table that compares the best hint strategy at each ratio with `managed` and with lower bounds of all strategies.

The floor is max(operators' time, bytes that must come back / link rate). All tensors that the backward pass reads exist between the forward
and the backward pass: weights, saved activations, inputs. Their bytes beyond the budget are not on the device then and have to cross the
link to it (by a copy, a fault, a prefetch or a remote read).

With `--device`, a record of strategy `device` with its timeline, there is a second, higher bound: the forward pass writes activations, so
those beyond the budget leave during it and come back during the backward pass. Each pass takes at least its operators' time and the time
of its bytes over the link.
"""

import argparse
import sys
import typing

from umbench import load
from umbench.graph_files import tensor_bytes
from umbench.plots.table import as_markdown, as_text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", metavar="FILE.jsonl")
    parser.add_argument("--graph", required=True, nargs="+", metavar="FILE.json",
                        help="of the network, by umbench plan --graph; one a precision")
    parser.add_argument("--device", metavar="FILE.jsonl", help="records of strategy device with a timeline")
    parser.add_argument("--machine", required=True, metavar="FILE.json", help="machine file with the link's rate")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    graphs = [load.read_json(path, "--graph ") for path in options.graph]
    machine = load.read_json(options.machine, "--machine ")
    timed = load.read_records([options.device]) if options.device else []
    tables = []
    for group, cells in load.records_by_group(load.read_records(options.files)).items():
        graph = _graph_for(graphs, cells[0])
        if graph is not None:
            tables.append(table_text(group, cells, bound_inputs_of(graph, machine, cells[0], timed), options.markdown))
    if not any(tables):
        raise load.TooLittle(f"{', '.join(options.files)}: no hint strategy finished well above ratio 1")
    print("\n\n".join(filter(None, tables)))


def _graph_for(graphs, record):
    """The graph of the record's precision, or one that has no precision."""
    return next((graph for graph in graphs if graph.get("precision", record["precision"]) == record["precision"]), None)


class BoundInputs(typing.NamedTuple):
    """Values from which lower bounds of all plans follow."""

    alive: int  # bytes that the backward pass reads and that exist before it
    activations: int  # bytes of those that are activations
    to_device: float  # bytes per second
    to_host: float  # bytes per second
    passes: tuple | None  # (ns of the forward pass's operators, ns of the backward pass's)


def bound_inputs_of(graph, machine_figures, cell, device_records):
    """The BoundInputs of a cell. `machine_figures`: the content of a machine file. `device_records`: records of `device`, for the times of both passes."""
    to_device = machine_figures["link_to_device_bytes_per_s"]
    passes = None
    for record in device_records:
        if record["precision"] == cell["precision"] and record["backend"] == cell["backend"] and record.get("timeline"):
            passes = pass_times_ns(graph, record["timeline"]["spans"])
    return BoundInputs(bytes_alive_between_passes(graph), bytes_alive_between_passes(graph, "activation"), to_device,
                       machine_figures.get("link_to_host_bytes_per_s", to_device), passes)


def pass_times_ns(graph, spans):
    """(time of the forward pass, time of the backward pass) as sums of their operators. The backward pass begins with the first operator that
    writes a gradient."""
    forward = {op["name"] for op in graph["ops"][:_first_backward_index(graph)]}
    times = [(span["name"] in forward, span["end_ns"] - span["begin_ns"]) for span in spans if span["lane"] == "compute"]
    return tuple(sum(time for is_forward, time in times if is_forward == wanted) for wanted in (True, False))


def _first_backward_index(graph):
    uses = {tensor["name"]: tensor["use"] for tensor in graph["tensors"]}
    return next(i for i, op in enumerate(graph["ops"]) if any(uses[name].endswith("gradient") for name in op["out"]))


def bytes_alive_between_passes(graph, tensor_use=None):
    """Bytes of tensors that exist before the backward pass and are read in it."""
    tensors = {tensor["name"]: tensor for tensor in graph["tensors"]}
    backward = _first_backward_index(graph)
    made_later = {name for op in graph["ops"][backward:] for name in op["out"]}
    read_later = {name for op in graph["ops"][backward:] for name in op["in"]} - made_later
    return sum(tensor_bytes(tensors[name]) for name in read_later if tensor_use in (None, tensors[name]["use"]))


def table_text(group, cells, bound_inputs, is_markdown):
    rows = []
    for ratio in sorted({cell["ratio"] for cell in cells if cell["ratio"] and cell["ratio"] > 1}):
        here = [cell for cell in cells if cell["ratio"] == ratio]
        timed = [(load.steady_ns(cell), cell["strategy"], cell) for cell in here
                 if load.steady_ns(cell) and cell["family"] == "managed"]
        if timed:
            time, name, best = min(timed, key=lambda each: each[:2])
            rows.append(_row(ratio, time, name, best, dict((n, t) for t, n, _ in timed).get("managed"), bound_inputs))
    if not rows:
        return None
    title = f"{load.network_text(group)}; {load.machine_text(group)}"
    head = ["ratio", "operators", "must come back", "floor", "best", "strategy", "best / operators", "best / floor",
            "managed / best"] + (["bound by passes", "best / that"] if bound_inputs.passes else [])
    return as_markdown(title, head, rows) if is_markdown else as_text(title, head, rows)


def _row(ratio, time_ns, strategy, best_record, managed_ns, bound_inputs):
    budget = best_record["memory"]["budget_bytes"]
    back = max(0, bound_inputs.alive - budget)
    floor = max(best_record["compute_ns"], back / bound_inputs.to_device * 1e9)
    row = [f"{ratio:g}", f"{best_record['compute_ns'] / 1e6:.4g} ms", f"{back / 2**30:.2f} GiB", f"{floor / 1e6:.4g} ms",
           f"{time_ns / 1e6:.4g} ms", strategy, f"{time_ns / best_record['compute_ns']:.2f}x", f"{time_ns / floor:.2f}x",
           f"{managed_ns / time_ns:.2f}x" if managed_ns else "no fit"]
    if bound_inputs.passes is None:
        return row
    forward, backward = bound_inputs.passes
    away = max(0, bound_inputs.activations - budget)
    bound = max(forward, away / bound_inputs.to_host * 1e9) + max(backward, back / bound_inputs.to_device * 1e9)
    return row + [f"{bound / 1e6:.4g} ms", f"{time_ns / bound:.2f}x"]


if __name__ == "__main__":
    sys.exit(load.report_errors(main))
