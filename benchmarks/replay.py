"""Replays networks on a GPU: every operator becomes opaque, with the time that it takes.

compare_with_computed()   slowdowns of replayed VGG-16 and ResNet-50 and of the computed networks, which have the same graphs and plans
compare_with_simulated()  slowdowns of ViT-B/16 and ConvNeXt-T, replayed with the simulator's times of their operators, and the simulated ones

Records are appended to files in a folder, and a later run continues there.
"""

import json
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "benchmarks")]

import timed  # noqa: E402
from umbench import graph_files, load  # noqa: E402

NETWORKS = ("vgg16", "resnet50")
NETWORKS_OF_CURVES = ("vit_b_16", "convnext_t")
WORKSPACE_CAP = "64MiB"  # workspaces are not managed memory: large ones would hide the effect of strategies
SWEEP = {"schema": 1, "name": "gpu_replay",
         "common": {"strategy": ["device", "managed", "managed_prefetch", "twin", "best"], "ratio": [0.9, 1.25, 2], "backend": "cuda:0",
                    "mode": "capped", "workspace_cap": WORKSPACE_CAP, "iterations": 5, "deadline_s": 600},
         "grids": [{"network": list(NETWORKS), "batch": 32, "pass": "train", "fusion": "none", "precision": "fp32"},
                   {"network": [f"{name}.replayed.json" for name in NETWORKS]}]}  # relative to the sweep's file
CURVES_SWEEP = json.loads((ROOT / "benchmarks/sweeps/networks.json").read_text(encoding="utf-8"))
TOLERATED_DIFFERENCE = 0.15  # relative difference of slowdowns that counts as agreement


def make_runner(max_seconds):
    """Returns a function that runs a program within what is left of the time and returns whether its exit code is 0."""
    end_time = time.monotonic() + max_seconds
    return lambda *command: timed.run_within(command, max(0, end_time - time.monotonic())) == 0


def compare_with_computed(umbench_path, out_folder, max_seconds):
    """Compares replayed networks with computed ones. Returns whether all runs succeeded and both agree."""
    run_within_time = make_runner(max_seconds)
    device_record_file = out_folder / "in_core.jsonl"
    for name in NETWORKS:
        graph_file, replayed_file = out_folder / f"{name}.graph.json", out_folder / f"{name}.replayed.json"
        cell_arguments = ["--network", name, "--batch", "32", "--fusion", "none", "--workspace-cap", WORKSPACE_CAP, "--strategy", "device",
                          "--backend", "cuda:0"]
        if not run_within_time(umbench_path, "run", *cell_arguments, "--iterations", "5", "--out", device_record_file):
            return False
        if not run_within_time(umbench_path, "plan", *cell_arguments, "--graph", graph_file, "-o", out_folder / f"{name}.plan.json"):
            return False
        graph_document = json.loads(graph_file.read_text(encoding="utf-8"))
        replayed_file.write_text(json.dumps(with_opaque_operators(graph_document, costs_of_operators(device_record_file, name))), encoding="utf-8")
    record_file, sweep_file = out_folder / "replay.jsonl", out_folder / "replay.json"
    sweep_file.write_text(json.dumps(SWEEP), encoding="utf-8")
    sweep_succeeded = run_within_time(umbench_path, "sweep", sweep_file, "--out", record_file, "--resume")
    return report_whether_both_agree(load.read(record_file)[1]) and sweep_succeeded


def costs_of_operators(record_file, network_name):
    """{operator: (ns, bytes of workspace)} of the last record of a network. Times are scaled so that their sum is that of an iteration, which
    takes less than the operators timed one by one, since an operator reads results of the previous one from cache."""
    records = [record for record in load.read(record_file)[1] if record.get("network") == network_name and record.get("outcome") == "ok"]
    if not records:
        raise load.BadInput(f"{record_file} has no record of {network_name} that went well")
    engines = records[-1]["engines"]
    scale = load.steady_ns(records[-1]) / sum(engine["time_ns"] for engine in engines)
    return {engine["op"]: (engine["time_ns"] * scale, engine["workspace_bytes"]) for engine in engines}


def with_opaque_operators(graph, operator_costs):
    """Returns the network with every operator made opaque. `operator_costs` is {operator: (ns, bytes of workspace)}."""
    opaque_ops = []
    for op in graph["ops"]:
        duration_ns, workspace_bytes = operator_costs[op["name"]]
        opaque_op = {"name": op["name"], "kind": "opaque", "label": op.get("label", op["kind"]),
                     "flops": 0, "bytes": operand_and_result_bytes(graph, op),
                     "duration_ns": round(duration_ns), "workspace_bytes": op.get("workspace_bytes", workspace_bytes),
                     "in": op["in"], "out": op["out"]}
        opaque_op |= {key: op[key] for key in ("alias", "repeatable") if key in op}
        opaque_ops.append(opaque_op | {"cut": op.get("cut") if op["kind"] == "opaque" else batch_cuts_of(graph, op)})
    return graph | {"name": graph["name"] + "_replayed", "ops": opaque_ops}


def compare_with_simulated(umbench_path, out_folder, max_seconds, backend):
    """Compares slowdowns of replayed networks on a backend with simulated ones. Returns whether all runs succeeded."""
    run_within_time = make_runner(max_seconds)
    for name in NETWORKS_OF_CURVES:
        graph_file, simulated_file = ROOT / f"tests/networks/exported/{name}.json", out_folder / f"{name}.simulated.jsonl"
        cell_arguments = ["--network", graph_file, "--strategy", "device", "--ratio", "0.9", "--mode", "capped", "--backend", "sim:h200"]
        simulated_file.unlink(missing_ok=True)
        if not run_within_time(umbench_path, "run", *cell_arguments, "--iterations", "1", "--timeline", "--out", simulated_file):
            return False
        spans = load.read(simulated_file)[1][0]["timeline"]["spans"]
        operator_costs = {span["name"]: (span["end_ns"] - span["begin_ns"], 0) for span in spans}
        replayed_graph = with_opaque_operators(json.loads(graph_file.read_text(encoding="utf-8")), operator_costs)
        (out_folder / f"{name}.replayed.json").write_text(json.dumps(replayed_graph), encoding="utf-8")
    records_by_backend, succeeded = [], True
    for backend_name, record_file in (("sim:h200", out_folder / "curves_simulated.jsonl"), (backend, out_folder / "curves.jsonl")):
        sweep_file = out_folder / f"{record_file.stem}.json"
        sweep_file.write_text(json.dumps(sweep_of_replayed_networks(backend_name, record_file.stem)), encoding="utf-8")
        times_only_flag = ["--times-only"] if backend_name.startswith("cuda") else []
        succeeded = run_within_time(umbench_path, "sweep", sweep_file, *times_only_flag, "--out", record_file, "--resume") and succeeded
        records_by_backend.append(load.read(record_file)[1])
    return print_slowdowns_side_by_side(*records_by_backend) and succeeded


def sweep_of_replayed_networks(backend, sweep_name):
    """The sweep of benchmarks/sweeps/networks.json with the replayed networks instead of the original ones."""
    networks = [f"{network}.replayed.json" for network in NETWORKS_OF_CURVES]  # relative to the sweep's file
    return CURVES_SWEEP | {"name": sweep_name, "common": CURVES_SWEEP["common"] | {"backend": backend},
                           "grids": [grid | {"network": networks} for grid in CURVES_SWEEP["grids"]]}


def print_slowdowns_side_by_side(simulated_records, replayed_records):
    """Prints slowdowns of the same cells side by side; returns whether both files have all cells."""
    print("| network | strategy | ratio | simulated | replayed | simulated / replayed |\n|---|---|---|---|---|---|")
    simulated, replayed = slowdowns_of(simulated_records), slowdowns_of(replayed_records)
    for cell in simulated:
        if cell in replayed:
            print(f"| {cell[0]} | {cell[1]} | {cell[2]} | {simulated[cell]:.2f} | {replayed[cell]:.2f} | {simulated[cell] / replayed[cell]:.3f} |")
    return bool(simulated) and simulated.keys() == replayed.keys()


def slowdowns_of(records):
    """{(network, strategy, ratio): time / time of `device`} of cells that ended with outcome ok."""
    succeeded = [record for record in records if record["outcome"] == "ok"]
    device_ns_of_network = {record["network"]: load.steady_ns(record) for record in succeeded if record["strategy"] == "device"}
    return {(record["network"].split("#")[0], record["strategy"], record["ratio"]): load.steady_ns(record) / device_ns_of_network[record["network"]]
            for record in succeeded if record["network"] in device_ns_of_network}


def batch_cuts_of(graph, op):
    """The "cut" of an opaque operator that umbench would cut in the same way along the batch. Batch statistics need the whole batch;
    gradients of filters are summed."""
    tensors = {tensor["name"]: tensor for tensor in graph["tensors"]}
    batch_size = next(tensor["shape"][0] for tensor in graph["tensors"] if tensor.get("use") == "input")
    if op["kind"].startswith("batch_norm") or op["kind"] == "sgd_update":
        return None

    def has_batch_axis(tensor_name):
        use = tensors[tensor_name].get("use", "activation")
        return tensors[tensor_name]["shape"][0] == batch_size and not use.startswith("parameter")

    cut = {"in": ["part" if has_batch_axis(name) else "whole" for name in op["in"]],
           "out": ["part" if has_batch_axis(name) else "sum" for name in op["out"]]}
    return cut if "part" in cut["in"] + cut["out"] else None


def operand_and_result_bytes(graph, op):
    """The bytes of an operator's operands and results. Each tensor is counted once."""
    tensors = {tensor["name"]: tensor for tensor in graph["tensors"]}
    return sum(graph_files.tensor_bytes(tensors[name]) for name in {*op["in"], *op["out"]})


def report_whether_both_agree(records):
    """Prints the slowdowns of computed and replayed networks side by side, as medians over all runs. Returns whether they agree in size and
    order."""
    slowdowns, agree, slowdowns_of_strategies = computed_and_replayed_slowdowns(records), True, {}
    print("| network | ratio | strategy | computed | replayed | replayed / computed |\n|---|---|---|---|---|---|")
    for (name, ratio, strategy), (computed, replayed) in slowdowns.items():
        agree = agree and abs(replayed / computed - 1) <= TOLERATED_DIFFERENCE
        slowdowns_of_strategies.setdefault((name, ratio), []).append((computed, replayed))
        print(f"| {name} | {ratio} | {strategy} | {computed:.2f} | {replayed:.2f} | {replayed / computed:.3f} |")
    for (name, ratio), slowdown_pairs in slowdowns_of_strategies.items():
        replayed_in_computed_order = [replayed for _, replayed in sorted(slowdown_pairs)]
        if replayed_in_computed_order != sorted(replayed_in_computed_order):
            agree = False
            print(f"{name} at {ratio}: in another order")
    return agree and bool(slowdowns_of_strategies)


def computed_and_replayed_slowdowns(records):
    """{(network, ratio, strategy): (slowdown of the computed network, slowdown of the replayed network)}, each the median of its runs."""
    succeeded = [record for record in records if record["outcome"] == "ok"]
    device_ns_of_network, slowdowns = {}, {}
    for record in succeeded:
        if record["strategy"] == "device":
            device_ns_of_network.setdefault(record["network"], []).append(load.steady_ns(record))
    for record in succeeded:
        network = record["network"].split("#")[0]
        if record["network"] in device_ns_of_network:
            slowdowns_of_runs = slowdowns.setdefault((network.removesuffix("_replayed"), record["ratio"], record["strategy"]), {})
            slowdowns_of_runs.setdefault(network, []).append(load.steady_ns(record) / statistics.median(device_ns_of_network[record["network"]]))
    return {cell: (statistics.median(slowdowns_of_runs[cell[0]]), statistics.median(slowdowns_of_runs[cell[0] + "_replayed"]))
            for cell, slowdowns_of_runs in sorted(slowdowns.items()) if len(slowdowns_of_runs) == 2}
