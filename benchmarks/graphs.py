#!/usr/bin/env python3
"""What networks from elsewhere and the operators they need are measured by, on a machine with a GPU:

    benchmarks/graphs.py --umbench build/cuda/umbench --out build/graphs

tests    every operator against double precision (tests/cuda), the new ones among them
replay   VGG-16 and ResNet-50 as exported, all their operators replayed, beside the computed ones under the same strategies:
         slowdowns over `device` at 0.9, and how far the replayed ones are from the computed ones
curves   ViT-B/16 and ConvNeXt-T, all their operators replayed at the time that the simulator gives them, under the best
         strategies: slowdowns beside those that it gives the same networks
peers    a step of densenet121 and mobilenet_v2 in bf16, batch 128, against compiled PyTorch

Results are appended to record files in --out; a part that has its results is done again only if they are removed.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

from umbench import arguments, load  # noqa: E402

NETWORKS = ("vgg16", "resnet50")
ROWS = ("densenet121/128/bf16:workspace=2GiB", "densenet121/128/bf16:fusion=fused,workspace=2GiB", "mobilenet_v2/128/bf16:workspace=2GiB")
CURVED = ("vit_b_16", "convnext_t")
PARTS = ("tests", "replay", "curves", "peers")
WORKSPACE = "64MiB"  # it lies apart from what is managed, so a large one would say more than the strategies
SWEEP = {"schema": 1, "name": "gpu_replay",
         "common": {"strategy": ["device", "managed", "managed_prefetch", "twin", "best"], "ratio": [0.9, 1.25, 2], "backend": "cuda:0",
                    "mode": "capped", "workspace_cap": WORKSPACE, "iterations": 5, "deadline_s": 600},
         "grids": [{"network": list(NETWORKS), "batch": 32, "pass": "train", "fusion": "none", "precision": "fp32"},
                   {"network": [f"{name}.replayed.json" for name in NETWORKS]}]}  # beside the sweep's file
CURVES = json.loads((ROOT / "benchmarks/sweeps/networks.json").read_text(encoding="utf-8"))
BOUND = 0.15  # of a slowdown
FILTER = "every*/operators.*:*replay*:*groups*"


def main():
    options = arguments_of(sys.argv[1:])
    out = Path(options.out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    failed = [part for part in options.parts if not globals()[part](options, out)]
    if failed:
        print(f"not as wanted: {', '.join(failed)}")
    return int(bool(failed))


def arguments_of(given):
    parser = arguments.Parser(prog="graphs.py", description=__doc__.splitlines()[0])
    parser.add_argument("--umbench", default=str(ROOT / "build/cuda/umbench"), metavar="PATH", help="the binary")
    parser.add_argument("--tests", default=str(ROOT / "build/cuda/tests/cuda"), metavar="FOLDER", help="the executables of tests/cuda")
    parser.add_argument("--out", default=str(ROOT / "build/graphs"), metavar="FOLDER", help="for record files and replayed networks")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what to do")
    parser.add_argument("--backend", default="cuda:0", help="where curves are replayed")
    parser.add_argument("--seconds", default="600", help="for each executable of the tests")
    return parser.parse_args(given)


def run(*command):
    print("$", *command, flush=True)
    return subprocess.run([str(part) for part in command], cwd=ROOT, check=False).returncode == 0


def tests(options, out):
    return run("tests/cuda/run", options.tests, FILTER, options.seconds)


def replay(options, out):
    device = out / "in_core.jsonl"
    for name in NETWORKS:  # at the pace that the computed operators have here
        graph, target = out / f"{name}.graph.json", out / f"{name}.replayed.json"
        cell = ["--network", name, "--batch", "32", "--fusion", "none", "--workspace-cap", WORKSPACE, "--strategy", "device",
                "--backend", "cuda:0"]
        if not run(options.umbench, "run", *cell, "--iterations", "5", "--out", device):
            return False
        if not run(options.umbench, "plan", *cell, "--graph", graph, "-o", out / f"{name}.plan.json"):
            return False
        exported = json.loads((ROOT / f"tests/networks/exported/{name}.json").read_text(encoding="utf-8"))
        costs = costs_of(exported, json.loads(graph.read_text(encoding="utf-8")), engines_of(device, name))
        target.write_text(json.dumps(as_opaque(exported, costs)), encoding="utf-8")
    records, sweep = out / "replay.jsonl", out / "replay.json"
    sweep.write_text(json.dumps(SWEEP), encoding="utf-8")
    swept = run(options.umbench, "sweep", sweep, "--out", records, "--resume")
    return report(load.read(records)[1]) and swept


def engines_of(path, network):
    """{operator: (ns, bytes of workspace)} of the last record of a network."""
    found = [record for record in load.read(path)[1] if record.get("network") == network and record.get("outcome") == "ok"]
    if not found:
        raise load.BadInput(f"{path} has no record of {network} that went well")
    return {engine["op"]: (engine["time_ns"], engine["workspace_bytes"]) for engine in found[-1]["engines"]}


def signature(graph, op):
    """What operators of two graphs that do the same have in common."""
    shapes = {tensor["name"]: tuple(tensor["shape"]) for tensor in graph["tensors"]}
    return op["kind"], tuple(shapes[name] for name in op["in"]), tuple(shapes[name] for name in op["out"])


def costs_of(exported, own, engines):
    """{operator: (ns, bytes of workspace)}: what ours takes on the same shapes; what has no counterpart has the mean time of
    its kind a byte."""
    measured, of_kind = {}, {}
    for op in own["ops"]:
        if op["name"] in engines:
            measured.setdefault(signature(own, op), []).append(engines[op["name"]])
            time, size = of_kind.get(op["kind"], (0, 0))
            of_kind[op["kind"]] = (time + engines[op["name"]][0], size + size_of(own, op))
    costs = {}
    for op in exported["ops"]:
        known = measured.get(signature(exported, op), [])
        time, size = of_kind.get(op["kind"], (0, 1))
        duration = sum(ns for ns, _ in known) / len(known) if known else time * size_of(exported, op) / max(size, 1)
        costs[op["name"]] = duration, max((workspace for _, workspace in known), default=0)
    return costs


def as_opaque(exported, costs):
    """The exported network with every operator opaque."""
    ops = []
    for op in exported["ops"]:
        duration, workspace = costs[op["name"]]
        made = {"name": op["name"], "kind": "opaque", "label": op.get("label", op["kind"]), "flops": 0, "bytes": size_of(exported, op),
                "duration_ns": round(duration), "workspace_bytes": op.get("workspace_bytes", workspace), "in": op["in"], "out": op["out"]}
        made |= {key: op[key] for key in ("alias", "repeatable") if key in op}
        ops.append(made | {"cut": op.get("cut") if op["kind"] == "opaque" else cut_of(exported, op)})
    return exported | {"name": exported["name"] + "_replayed", "ops": ops}


def curves(options, out):
    for name in CURVED:
        graph, alone = ROOT / f"tests/networks/exported/{name}.json", out / f"{name}.simulated.jsonl"
        cell = ["--network", graph, "--strategy", "device", "--ratio", "0.9", "--mode", "capped", "--backend", "sim:h200"]
        alone.unlink(missing_ok=True)
        if not run(options.umbench, "run", *cell, "--iterations", "1", "--timeline", "--out", alone):
            return False
        spans = load.read(alone)[1][0]["timeline"]["spans"]
        costs = {span["name"]: (span["end_ns"] - span["begin_ns"], 0) for span in spans}
        made = as_opaque(json.loads(graph.read_text(encoding="utf-8")), costs)
        (out / f"{name}.replayed.json").write_text(json.dumps(made), encoding="utf-8")
    found, well = [], True
    for backend, records in (("sim:h200", out / "curves_simulated.jsonl"), (options.backend, out / "curves.jsonl")):
        sweep = out / f"{records.stem}.json"
        sweep.write_text(json.dumps(curves_on(backend, records.stem)), encoding="utf-8")
        only = ["--times-only"] if backend.startswith("cuda") else []
        well = run(options.umbench, "sweep", sweep, *only, "--out", records, "--resume") and well
        found.append(load.read(records)[1])
    return compare(*found) and well


def curves_on(backend, name):
    """The kept sweep of these networks, with the replayed ones in their place."""
    networks = [f"{network}.replayed.json" for network in CURVED]  # beside the sweep's file
    return CURVES | {"name": name, "common": CURVES["common"] | {"backend": backend},
                     "grids": [grid | {"network": networks} for grid in CURVES["grids"]]}


def compare(simulated, replayed):
    """Slowdowns of the same cells side by side; whether all of them are there. How far apart they are is what it is for."""
    print("| network | strategy | ratio | simulated | replayed | simulated / replayed |\n|---|---|---|---|---|---|")
    ours, theirs = slowdowns_of(simulated), slowdowns_of(replayed)
    for key in ours:
        if key in theirs:
            print(f"| {key[0]} | {key[1]} | {key[2]} | {ours[key]:.2f} | {theirs[key]:.2f} | {ours[key] / theirs[key]:.3f} |")
    return bool(ours) and ours.keys() == theirs.keys()


def slowdowns_of(records):
    """{(network, strategy, ratio): over `device`} of what ended well."""
    well = [record for record in records if record["outcome"] == "ok"]
    base = {record["network"]: load.steady_ns(record) for record in well if record["strategy"] == "device"}
    return {(r["network"].split("#")[0], r["strategy"], r["ratio"]): load.steady_ns(r) / base[r["network"]]
            for r in well if r["network"] in base}


def cut_of(graph, op):
    """As umbench cuts such an operator along the batch: statistics are of all of it, filters' gradients are added up."""
    tensors = {tensor["name"]: tensor for tensor in graph["tensors"]}
    batch = next(tensor["shape"][0] for tensor in graph["tensors"] if tensor.get("use") == "input")
    if op["kind"].startswith("batch_norm") or op["kind"] == "sgd_update":
        return None

    def is_batch(name):
        use = tensors[name].get("use", "activation")
        return tensors[name]["shape"][0] == batch and not use.startswith("parameter")

    cut = {"in": ["part" if is_batch(name) else "whole" for name in op["in"]], "out": ["part" if is_batch(name) else "sum" for name in op["out"]]}
    return cut if "part" in cut["in"] + cut["out"] else None


def size_of(graph, op):
    sizes = {"f32": 4, "i32": 4, "bf16": 2, "u16": 2, "u8": 1}
    tensors = {tensor["name"]: tensor for tensor in graph["tensors"]}
    total = 0
    for name in {*op["in"], *op["out"]}:
        count = 1
        for extent in tensors[name]["shape"]:
            count *= extent
        total += count * sizes[tensors[name].get("type", "f32")]
    return total


def report(records):
    """Slowdowns of computed and replayed networks side by side; whether they agree in size and order."""
    slowdowns, well = {}, True
    for name in NETWORKS:
        for replayed in (False, True):
            mine = [r for r in records if r["network"].split("#")[0] == (name + "_replayed" if replayed else name)]
            base = next((load.steady_ns(r) for r in mine if r["strategy"] == "device" and r["outcome"] == "ok"), None)
            for record in mine:
                if base and record["outcome"] == "ok":
                    slowdowns[(name, record["ratio"], record["strategy"], replayed)] = load.steady_ns(record) / base
    print("| network | ratio | strategy | computed | replayed | replayed / computed |\n|---|---|---|---|---|---|")
    orders = {}
    for name, ratio, strategy, replayed in sorted(key for key in slowdowns if not key[3]):
        ours, theirs = slowdowns[(name, ratio, strategy, False)], slowdowns.get((name, ratio, strategy, True))
        if theirs is None:
            continue
        well = well and abs(theirs / ours - 1) <= BOUND
        orders.setdefault((name, ratio), []).append((ours, theirs))
        print(f"| {name} | {ratio} | {strategy} | {ours:.2f} | {theirs:.2f} | {theirs / ours:.3f} |")
    for (name, ratio), pairs in orders.items():
        ordered = [theirs for _, theirs in sorted(pairs)]
        if ordered != sorted(ordered):
            well = False
            print(f"{name} at {ratio}: in another order")
    return well and bool(orders)


def peers(options, out):
    return run(sys.executable, "benchmarks/peers/pytorch.py", "--umbench", options.umbench, "--rows", *ROWS, "--ways", "eager,compile",
               "--no-gradients", "--out", out / "peers.jsonl", "--resume")


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "graphs"))
