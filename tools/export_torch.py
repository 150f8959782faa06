#!/usr/bin/env python3
"""Exports a PyTorch model as a graph file, which umbench takes wherever it takes a network's name.

MODULE:FUNCTION names a function without arguments that returns (model, inputs): a torch.nn.Module and a tuple of example
inputs, the batch first. MODULE is a module or a .py file. Forward and backward pass are traced by AOTAutograd with fake tensors:
no memory is taken, no GPU is needed. What umbench can compute becomes its own operators, all else operators of kind `opaque`,
of which it knows what they touch and how long they take. A model that returns a scalar returns its loss; of any other the loss is
the cross entropy of its first result against labels. Needs PyTorch 2.6 or later.
"""

import importlib
import importlib.util
import json
import re
import sys
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT / "python")
sys.path.insert(1, str(Path(__file__).resolve().parent))

from umbench import arguments, load, output  # noqa: E402

LEAST_TORCH = (2, 6)
NS_PER_S = 1e9


def main():
    options = arguments_of(sys.argv[1:])
    began = time.monotonic()
    tracing, torch_measure = needed_modules()
    factory = function_named(options.model)
    name = options.name or re.sub(r"[^a-z0-9_.-]", "_", options.model.rpartition(":")[2].lower())
    if not re.fullmatch(r"[a-z0-9_.-]+", name):
        raise load.BadInput(f"--name {name}: use lower-case letters, digits, '-', '_', '.'")
    traced = tracing.export(factory, options.inference)
    rates = machine(options.machine or "h200")
    times = torch_measure.times_of(factory, traced, options.measure) if options.measure else {}
    precision = options.precision or ("bf16" if any(t.type == "bf16" for t in traced.tensors) else "fp32")
    document = document_of(traced, name, precision)
    for op, mapped in zip(document["ops"], traced.mapped):
        at = op.pop("node", None)
        if op["kind"] == "opaque" and at in times:
            op["duration_ns"] = times[at]
        elif op["kind"] == "opaque" and options.machine:
            op["duration_ns"] = round(duration_ns(mapped[2], rates, precision))
    output.write_file(options.out, text_of(document))
    report(traced, rates, precision, time.monotonic() - began)


def arguments_of(given):
    parser = arguments.Parser(prog="export_torch.py", description=__doc__.splitlines()[0])
    parser.add_argument("model", metavar="MODULE:FUNCTION", help="returns a model and its example inputs")
    parser.add_argument("-o", "--out", required=True, metavar="FILE.json", help="where the graph goes")
    parser.add_argument("--name", help="the network's name; the function's where none is given")
    parser.add_argument("--inference", action="store_true", help="the forward pass alone")
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16"], help="what multiplies; follows the model's types where not given")
    parser.add_argument("--machine", metavar="NAME|FILE.json",
                        help="write durations at this machine's rates; where not given, umbench works them out for the machine it runs on")
    parser.add_argument("--measure", metavar="DEVICE", help="measure durations by PyTorch's profiler on this device (cuda, cpu)")
    options = parser.parse_args(given)
    if ":" not in options.model:
        parser.error(f"{options.model}: wants MODULE:FUNCTION such as mymodels:resnet")
    return options


def needed_modules():
    warnings.filterwarnings("ignore", module=r"torch\b")  # PyTorch's of itself
    try:
        import torch
    except ImportError:
        raise load.BadInput("PyTorch is missing; install torch 2.6 or later (the wheel for CPUs will do)") from None
    if tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2]) < LEAST_TORCH:
        raise load.BadInput(f"PyTorch {torch.__version__} is too old; install torch 2.6 or later")
    import torch_measure
    import torch_tracing
    return torch_tracing, torch_measure


def function_named(text):
    module, _, function = text.rpartition(":")
    try:
        if module.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(module).stem, module)
            found = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(found)
        else:
            sys.path.insert(1, str(Path.cwd()))
            found = importlib.import_module(module)
    except (ImportError, OSError) as error:
        raise load.BadInput(f"{module}: cannot be imported: {error}") from None
    if not callable(getattr(found, function, None)):
        raise load.BadInput(f"{module}: has no function {function}")
    return getattr(found, function)


def machine(text):
    path = Path(text) if text.endswith(".json") else ROOT / "results/machines" / f"{text}.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise load.BadInput(f"--machine {text}: {error}") from None


def duration_ns(work, rates, precision):
    """As umbench's roofline: the longer of arithmetic and memory traffic, and a launch."""
    flops, moved, products = work
    rate = rates[f"{precision if products else 'fp32'}_flops_per_s"]
    return max(flops / rate, moved / rates["device_bytes_per_s"]) * NS_PER_S + rates["launch_ns"]


# --- the file: as `umbench plan --graph` writes it, a line for each tensor and operator ---

def document_of(traced, name, precision):
    ops = [op | {"in": [t.name for t in op["in"]], "out": [t.name for t in op["out"]]} for op in traced.ops]
    return {"schema": 1, "kind": "graph", "name": name, "precision": precision,
            "tensors": [t.as_json() for t in traced.tensors], "ops": ops}


def text_of(document):
    def lines(entries):
        return "[\n" + ",\n".join("  " + json.dumps(entry) for entry in entries) + "\n ]"

    head = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in document.items() if not isinstance(value, list))
    return f'{{\n{head},\n "tensors": {lines(document["tensors"])},\n "ops": {lines(document["ops"])}\n}}\n'


# --- what was mapped to what ---

def report(traced, rates, precision, took):
    rows = {}
    for kind, name, work in traced.mapped:
        row = rows.setdefault((kind, name if kind == "opaque" else ""), [0, 0, 0.0])
        row[0] += 1
        row[1] += work[1]
        row[2] += duration_ns(work, rates, precision)
    moved, ns = sum(row[1] for row in rows.values()), sum(row[2] for row in rows.values())
    known = [row for (kind, _), row in rows.items() if kind != "opaque"]
    print(f"{len(traced.tensors)} tensors, {len(traced.ops)} operators, traced in {took:.1f} s")
    print(f"mapped to operators of umbench: {sum(row[0] for row in known)} operators, {share(sum(r[1] for r in known), moved)} of the bytes, "
          f"{share(sum(r[2] for r in known), ns)} of the time at the rates of {rates['name']}; the rest is opaque")
    if traced.left_out:
        print(f"left out: {traced.left_out} B of running statistics and counters, which only a later pass reads")
    if traced.uncut:
        print(f"nothing may be cut along the batch: with twice the batch {traced.uncut}")
    for (kind, name), (count, size, time_ns) in sorted(rows.items(), key=lambda row: -row[1][2]):
        print(f"  {kind + (' ' + name if name else ''):52} {count:5} {size / 2**30:9.3f} GiB {time_ns / 1e6:10.3f} ms {share(time_ns, ns):>7}")


def share(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "0 %"


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "export_torch"))
