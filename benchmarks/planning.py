"""Measures the CPU seconds and peak memory of `umbench plan` for a simulated H200; appends them to results/planning.jsonl.

Cases: networks of the catalogue and exported ones, and a chain of 2,500 and of 10,000 operators. A line has the case, the build and the
processor. A later run skips the cases that the file has.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks")]

import timed  # noqa: E402

CATALOGUE = {"alexnet": 512, "vgg16": 256, "resnet50": 128, "resnet152": 128}  # batch sizes; in bf16
EXPORTED = ("gpt2_small", "unet", "vit_b_16", "swin_t", "densenet121", "gru")
CHAINS = (2500, 10000)
RATIOS = (1.25, 1.5, 2, 3, 4, 64)  # at 64 no network has a plan
RATIOS_OF_CHAINS = (1.25, 2, 64)
DEADLINE_S = 100  # maximum CPU time to make a plan
SEARCH_STRATEGIES = ("best", "best_managed")
PAPER_STRATEGIES = ("pooch", "checkmate", "autoswap")  # strategies of papers, planned for ResNet-152 alone
KEY_FIELDS = ("network", "strategy", "ratio", "build")


def chain_graph(operator_count):
    """The graph file of a training step of `operator_count` operators, whose backward pass reads the result of each layer."""
    def make_op(name, input_names, output_name):
        return {"name": name, "kind": "opaque", "label": "layer", "flops": 2_000_000_000, "bytes": 100_000_000, "in": input_names, "out": [output_name]}

    layer_count = operator_count // 2
    tensors = [{"name": "x0", "shape": [16, 512, 32, 32], "use": "input"}]
    forward_ops, backward_ops = [], []
    for i in range(1, layer_count + 1):
        tensors += [{"name": f"w{i}", "shape": [512, 512, 1, 1], "use": "parameter"},
                    {"name": f"x{i}", "shape": [16, 512 if i % 3 else 1024, 32, 32]},
                    {"name": f"g{i}", "shape": [16, 512 if i % 3 else 1024, 32, 32]}]
        forward_ops.append(make_op(f"f{i}", [f"x{i - 1}", f"w{i}"], f"x{i}"))
        next_gradient_names = [f"g{i + 1}"] if i < layer_count else []
        backward_ops.insert(0, make_op(f"b{i}", [f"x{i}", f"w{i}", *next_gradient_names], f"g{i}"))
    return {"schema": 1, "kind": "graph", "name": f"chain_{operator_count}", "precision": "bf16",
            "tensors": tensors, "ops": forward_ops + backward_ops}


def networks_with_arguments(scratch_folder):
    """Yields (network, its arguments for umbench plan). Those that take longest come first. Writes the chains to the folder."""
    for operator_count in reversed(CHAINS):
        path = Path(scratch_folder) / f"chain_{operator_count}.json"
        path.write_text(json.dumps(chain_graph(operator_count)), encoding="utf-8")
        yield path.stem, [str(path)]
    for network, batch_size in CATALOGUE.items():
        yield network, [network, "--batch", str(batch_size), "--precision", "bf16"]
    for network in EXPORTED:
        yield f"exported {network}", [str(ROOT / f"tests/networks/exported/{network}.json")]


def count_operators(umbench_path, network_arguments, scratch_folder):
    """The number of operators of a network, from its graph file."""
    path = Path(network_arguments[0])
    if not path.suffix:
        path = Path(scratch_folder) / "operators.json"
        subprocess.run([str(umbench_path), "plan", "--network", *network_arguments, "--strategy", "device", "--backend", "sim:h200", "--graph", str(path)],
                       stdout=subprocess.DEVNULL, check=True)
    return len(json.loads(path.read_text(encoding="utf-8"))["ops"])


def tasks(umbench_path, scratch_folder, build_commit):
    """Yields the task of measure_planning() for each network, strategy and ratio."""
    for network, network_arguments in networks_with_arguments(scratch_folder):
        operator_count = count_operators(umbench_path, network_arguments, scratch_folder)
        for strategy in SEARCH_STRATEGIES + (PAPER_STRATEGIES if network == "resnet152" else ()):
            for ratio in RATIOS_OF_CHAINS if network.startswith("chain") else RATIOS:
                yield {"network": network, "strategy": strategy, "ratio": ratio, "build": build_commit, "operators": operator_count,
                       "words": network_arguments}


def processor_name():
    model_names = re.findall(r"(?m)^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return model_names[0] if model_names else "unknown"


def measure_planning(umbench_path, task):
    """Makes a plan; returns the line of the file."""
    command = [str(umbench_path), "plan", "--network", *task["words"], "--strategy", task["strategy"], "--ratio", str(task["ratio"]),
            "--backend", "sim:h200", "--deadline", str(DEADLINE_S)]
    with tempfile.TemporaryFile("w+") as output_file:
        child = subprocess.Popen(command, stdout=output_file, stderr=subprocess.STDOUT)
        _, status, resource_usage = os.wait4(child.pid, 0)
        output_file.seek(0)
        output = output_file.read()
    match = re.search(r"(?m)^  expected +(.+?) an iteration", output)
    outcome = "planned" if status == 0 else output.strip().splitlines()[-1] if output.strip() else ""
    return {**{field: task[field] for field in KEY_FIELDS}, "cpu_s": round(resource_usage.ru_utime + resource_usage.ru_stime, 2),
            "peak_mib": resource_usage.ru_maxrss // 1024, "processor": processor_name(),
            "operators": task["operators"], "outcome": match[1] if match else outcome.removeprefix("umbench: ")[:120]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("umbench", type=Path)
    parser.add_argument("--build", required=True, help="commit that was built")
    parser.add_argument("--out", type=Path, default=ROOT / "results/planning.jsonl")
    parser.add_argument("--jobs", type=int, default=1, help="plans that are made at the same time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        done_keys = {tuple(line.get(field) for field in KEY_FIELDS) for line in timed.read_lines_if_exists(options.out)}
        missing_tasks = [task for task in tasks(options.umbench, folder, options.build)
                         if tuple(task[field] for field in KEY_FIELDS) not in done_keys]
        with options.out.open("a", encoding="utf-8") as file:
            for finished_future in as_completed([pool.submit(measure_planning, options.umbench, task) for task in missing_tasks]):
                print(json.dumps(finished_future.result()), file=file, flush=True)


if __name__ == "__main__":
    main()
