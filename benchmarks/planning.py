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
SEARCHES = ("best", "best_managed")
PAPERS = ("pooch", "checkmate", "autoswap")  # strategies of papers, planned for ResNet-152 alone
FIELDS = ("network", "strategy", "ratio", "build")


def chain_graph(operator_count):
    """The graph file of a training step of `operator_count` operators, whose backward pass reads the result of each layer."""
    def op(name, input_names, output_name):
        return {"name": name, "kind": "opaque", "label": "layer", "flops": 2_000_000_000, "bytes": 100_000_000, "in": input_names, "out": [output_name]}

    layers = operator_count // 2
    tensors = [{"name": "x0", "shape": [16, 512, 32, 32], "use": "input"}]
    forward, backward = [], []
    for i in range(1, layers + 1):
        tensors += [{"name": f"w{i}", "shape": [512, 512, 1, 1], "use": "parameter"},
                    {"name": f"x{i}", "shape": [16, 512 if i % 3 else 1024, 32, 32]},
                    {"name": f"g{i}", "shape": [16, 512 if i % 3 else 1024, 32, 32]}]
        forward.append(op(f"f{i}", [f"x{i - 1}", f"w{i}"], f"x{i}"))
        above = [f"g{i + 1}"] if i < layers else []
        backward.insert(0, op(f"b{i}", [f"x{i}", f"w{i}", *above], f"g{i}"))
    return {"schema": 1, "kind": "graph", "name": f"chain_{operator_count}", "precision": "bf16", "tensors": tensors, "ops": forward + backward}


def networks_with_arguments(scratch_folder):
    """Yields (network, its arguments for umbench plan). Those that take longest come first. Writes the chains to the folder."""
    for operators in reversed(CHAINS):
        path = Path(scratch_folder) / f"chain_{operators}.json"
        path.write_text(json.dumps(chain_graph(operators)), encoding="utf-8")
        yield path.stem, [str(path)]
    for network, batch in CATALOGUE.items():
        yield network, [network, "--batch", str(batch), "--precision", "bf16"]
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
    for network, words in networks_with_arguments(scratch_folder):
        operators = count_operators(umbench_path, words, scratch_folder)
        for strategy in SEARCHES + (PAPERS if network == "resnet152" else ()):
            for ratio in RATIOS_OF_CHAINS if network.startswith("chain") else RATIOS:
                yield {"network": network, "strategy": strategy, "ratio": ratio, "build": build_commit, "operators": operators,
                       "words": words}


def processor_name():
    names = re.findall(r"(?m)^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return names[0] if names else "unknown"


def measure_planning(umbench_path, task):
    """Makes a plan; returns the line of the file."""
    command = [str(umbench_path), "plan", "--network", *task["words"], "--strategy", task["strategy"], "--ratio", str(task["ratio"]),
            "--backend", "sim:h200", "--deadline", str(DEADLINE_S)]
    with tempfile.TemporaryFile("w+") as text:
        child = subprocess.Popen(command, stdout=text, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(child.pid, 0)
        text.seek(0)
        said = text.read()
    found = re.search(r"(?m)^  expected +(.+?) an iteration", said)
    outcome = "planned" if status == 0 else said.strip().splitlines()[-1] if said.strip() else ""
    return {**{field: task[field] for field in FIELDS}, "cpu_s": round(used.ru_utime + used.ru_stime, 2),
            "peak_mib": used.ru_maxrss // 1024, "processor": processor_name(),
            "operators": task["operators"], "outcome": found[1] if found else outcome.removeprefix("umbench: ")[:120]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("umbench", type=Path)
    parser.add_argument("--build", required=True, help="commit that was built")
    parser.add_argument("--out", type=Path, default=ROOT / "results/planning.jsonl")
    parser.add_argument("--jobs", type=int, default=1, help="plans that are made at the same time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        done = {tuple(line.get(field) for field in FIELDS) for line in timed.read_lines_if_exists(options.out)}
        left = [task for task in tasks(options.umbench, folder, options.build) if tuple(task[field] for field in FIELDS) not in done]
        with options.out.open("a", encoding="utf-8") as file:
            for made in as_completed([pool.submit(measure_planning, options.umbench, task) for task in left]):
                print(json.dumps(made.result()), file=file, flush=True)


if __name__ == "__main__":
    main()
