#!/usr/bin/env python3
"""Runs the chosen GPU measurements one after the other, and stops after --minutes.

    benchmarks/on_gpu.py --build build/cuda --out build/measured --minutes 25 --parts tests tables

tests         the executables of tests/cuda, several at a time; those that measure time or free memory run alone
before_after  cells by an earlier build (--base) and by this one in turn: time ratios of at most 1.01 are wanted
tables        device, best and best_managed on six networks at four ratios (sweeps/gpu_tables.json)
best          the cells of results/study's tables (sweeps/gpu_best.json)
papers        all planners on three networks (sweeps/gpu_papers.json)
ooc_cudnn     both figures of ooc_cuDNN's paper with 16 GB (sweeps/gpu_ooc_cudnn.json)
validation    benchmarks/gpu_validation.sh with one run a cell: machine file, patterns, ResNet-50 beside the simulator
reproduce     each paper's own experiment (umbench reproduce)
gate          pairs of equal sides, so that every change that umbench compare reports is a false one
replay        VGG-16 and ResNet-50 replayed beside the computed ones (replay.py)
curves        ViT-B/16 and ConvNeXt-T replayed beside their simulated curves (replay.py)
peers         DenseNet-121 and MobileNetV2 in bf16 beside compiled PyTorch
remedies      what PyTorch offers where memory runs short, beside best

Each part gets a share of the remaining time. A part that is stopped keeps its records, and the same command continues from them. The exit
code is 1 if some part failed. No part asks for native oversubscription, and no test that takes a ballast runs.
"""

import importlib.util
import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "benchmarks")]

import gpu_tests  # noqa: E402
import replay  # noqa: E402
import timed  # noqa: E402
from umbench import arguments, load  # noqa: E402

SWEEPS = ROOT / "benchmarks/sweeps"
WEIGHTS = {"tests": 5, "before_after": 6, "tables": 10, "best": 8, "papers": 6, "ooc_cudnn": 3, "validation": 6, "reproduce": 5,
           "gate": 3, "replay": 4, "curves": 3, "peers": 3, "remedies": 4}
PEERS = ("densenet121/128/bf16:workspace=2GiB", "densenet121/128/bf16:fusion=fused,workspace=2GiB",
         "mobilenet_v2/128/bf16:workspace=2GiB")
PAPERS = ("unified_memory", "uvm_discard", "oc_dnn", "deepum", "pooch", "vdnn", "tvdnn", "autoswap", "smartpool", "ooc_cudnn")
WANTED_RATIO = 1.01


def make_sweep_runner(sweep_name):
    """Returns a function that runs sweeps/gpu_NAME.json and prints its slowdowns."""
    def run_sweep(options, out_folder, max_seconds):
        line = [options.umbench, "sweep", SWEEPS / f"gpu_{sweep_name}.json", "--out", out_folder / f"{sweep_name}.jsonl", "--times-only",
                "--no-preflight", "--resume"]
        succeeded = timed.run_within(line, max_seconds) in timed.SUCCEEDED
        print(slowdown_table(out_folder / f"{sweep_name}.jsonl"), flush=True)
        return succeeded
    return run_sweep


def slowdown_table(record_file):
    """A table in Markdown of times divided by that of `device` for the same network, batch and precision, in the order of the cells."""
    rows = ["| network | batch | precision | strategy | ratio | ms | over device |", "|---|---|---|---|---|---|---|"]
    records = load.read(record_file)[1] if record_file.exists() else []
    cell_of = lambda record: (record["network"], record["batch"], record["precision"])  # noqa: E731
    base = {}
    for record in records:
        if record["strategy"] == "device" and record["outcome"] == "ok":
            base.setdefault(cell_of(record), load.steady_ns(record))
    for record in records:
        head = [*cell_of(record), record["strategy"], record["ratio"]]
        if record["outcome"] == "ok":
            ns = load.steady_ns(record)
            head += [f"{ns / 1e6:.2f}", f"{ns / base[cell_of(record)]:.3f}" if cell_of(record) in base else ""]
        else:
            head += [f"{record['outcome']}: {record['reason']}", ""]
        rows.append("| " + " | ".join(str(word) for word in head) + " |")
    return "\n".join(rows)


def run_tests(options, out_folder, max_seconds):
    return gpu_tests.run_all(Path(options.build) / "tests", out_folder / "tests", max_seconds)


def compare_builds(options, out_folder, max_seconds):
    """Runs all cells by both builds, in rounds until the time is over. The order of the two builds alternates."""
    if not options.base:
        raise load.BadInput("before_after: --base names the umbench to compare with")
    spec, end = SWEEPS / "gpu_before_after.json", time.monotonic() + max_seconds
    cells = timed.count_cells(options.umbench, spec)
    number, slowest = 0, 0.0
    while number == 0 or end - time.monotonic() > slowest:
        number, began = number + 1, time.monotonic()
        for cell in range(1, cells + 1):
            sides = [("base", options.base), ("head", options.umbench)]
            for side, binary in sides if (number + cell) % 2 else sides[::-1]:
                left = end - time.monotonic()
                if left < 5:
                    return report_time_ratios(out_folder, cells)
                out = out_folder / "before_after" / side / f"{cell}.{number}.jsonl"
                out.parent.mkdir(parents=True, exist_ok=True)
                timed.run_within([binary, "sweep", spec, "--shard", f"{cell}/{cells}", "--out", out, "--times-only", "--no-preflight",
                           "--resume"], left, quiet=True)
        slowest = max(slowest, time.monotonic() - began)
    return report_time_ratios(out_folder, cells)


def report_time_ratios(out_folder, cell_count):
    """Prints for each cell the minimum steady time of either build, their ratio, and whether the results are bit-identical. Returns whether
    the mean ratio is at most WANTED_RATIO."""
    print("| cell | before ms | now ms | ratio | rounds | same bits |\n|---|---|---|---|---|---|")
    ratios = []
    for cell in range(1, cell_count + 1):
        sides = [[record for path in sorted((out_folder / "before_after" / side).glob(f"{cell}.*.jsonl"))
                  for record in load.read(path)[1] if record["outcome"] == "ok"] for side in ("base", "head")]
        if not all(sides):
            print(f"| {cell} | not run on both sides |")
            continue
        before, now = (min(load.steady_ns(record) for record in side) for side in sides)
        one = sides[1][0]
        ratios.append(now / before)
        same = {record["digest"] for record in sides[0]} == {record["digest"] for record in sides[1]}
        print(f"| {one['network']} {one['batch']} {one['precision']} {one['strategy']} {one['ratio']} | {before / 1e6:.2f} | {now / 1e6:.2f} "
              f"| {now / before:.3f} | {min(map(len, sides))} | {'yes' if same else 'no'} |")
    if not ratios:
        return False
    mean = 1.0
    for ratio in ratios:
        mean *= ratio ** (1 / len(ratios))
    print(f"mean ratio {mean:.4f} over {len(ratios)} cells, {sum(ratio > WANTED_RATIO for ratio in ratios)} above {WANTED_RATIO}", flush=True)
    return mean <= WANTED_RATIO


def run_validation(options, out_folder, max_seconds):
    return timed.run_within([ROOT / "benchmarks/gpu_validation.sh", out_folder / "validation", options.build], max_seconds, {"RUNS": "1"}) in timed.SUCCEEDED


def reproduce_papers(options, out_folder, max_seconds):
    """Runs one paper after the other, each for its share of the time. A paper that was stopped runs again, in another folder."""
    end, succeeded = time.monotonic() + max_seconds, True
    left = [paper for paper in PAPERS if not any(map(has_every_cell, (out_folder / "reproduced").glob(f"{paper}_*")))]
    while left and end - time.monotonic() >= 5:
        share = (end - time.monotonic()) / len(left)
        paper = left.pop(0)
        out = out_folder / "reproduced" / f"{paper}_{len(list((out_folder / 'reproduced').glob(f'{paper}_*'))) + 1}"
        line = [options.umbench, "reproduce", paper, "--backend", options.backend, "--out", out, "--no-figure"]
        succeeded = timed.run_within(line, share) in timed.SUCCEEDED and succeeded
    return succeeded


def has_every_cell(run_folder):
    """Returns whether the folder PAPER_N of a run of `umbench reproduce` has every cell of its paper."""
    paper = run_folder.name.rpartition("_")[0]
    keys, wanted = run_folder / f"{paper}.cells.json", json.loads((ROOT / f"results/papers/{paper}.json").read_text(encoding="utf-8"))["cells"]
    return keys.exists() and len(json.loads(keys.read_text(encoding="utf-8"))) == len(wanted)


def compare_build_with_itself(options, out_folder, max_seconds):
    """Measures pairs of sweeps by the same build until the time is over, at least one pair."""
    end, number, slowest = time.monotonic() + max_seconds, 0, 0.0
    while number == 0 or end - time.monotonic() > slowest:
        number, began = number + 1, time.monotonic()
        out = out_folder / "gate" / str(number)
        line = [options.umbench, "interleave", SWEEPS / "gpu_aa.json", "--base", options.umbench, "--head", options.umbench,
                "--rounds", "2", "--out", out]
        if timed.run_within(line, end - began) != 0:
            return number > 1  # at least one pair must have ended
        if importlib.util.find_spec("scipy"):
            print(f"pair {number}: umbench compare ended with {timed.run_within([options.umbench, 'compare', out / 'base', out / 'head'], 60)}", flush=True)
        slowest = max(slowest, time.monotonic() - began)
    return True


def replay_computed_networks(options, out_folder, max_seconds):
    return replay.compare_with_computed(options.umbench, out_folder, max_seconds)


def replay_simulated_curves(options, out_folder, max_seconds):
    return replay.compare_with_simulated(options.umbench, out_folder, max_seconds, options.backend)


def compare_with_pytorch(options, out_folder, max_seconds):
    end, succeeded = time.monotonic() + max_seconds, True
    for number, row in enumerate(PEERS, 1):  # one call a row: pytorch.py refuses a case that comes twice
        line = [sys.executable, ROOT / "benchmarks/peers/pytorch.py", "--umbench", options.umbench, "--rows", row, "--ways", "eager,compile",
                "--no-gradients", "--out", out_folder / f"peers_{number}.jsonl", "--resume"]
        succeeded = timed.run_within(line, max(5, end - time.monotonic())) in timed.SUCCEEDED and succeeded
    return succeeded


def compare_with_pytorch_remedies(options, out_folder, max_seconds):
    return timed.run_within([sys.executable, ROOT / "benchmarks/peers/remedies.py", "--umbench", options.umbench, "--out",
                             out_folder / "remedies.jsonl", "--resume", "--stop-after", int(max_seconds)], max_seconds) in timed.SUCCEEDED


PARTS = {"tests": run_tests, "before_after": compare_builds, "tables": make_sweep_runner("tables"), "best": make_sweep_runner("best"),
         "papers": make_sweep_runner("papers"), "ooc_cudnn": make_sweep_runner("ooc_cudnn"), "validation": run_validation,
         "reproduce": reproduce_papers, "gate": compare_build_with_itself, "replay": replay_computed_networks,
         "curves": replay_simulated_curves, "peers": compare_with_pytorch, "remedies": compare_with_pytorch_remedies}


def parse_arguments(argv):
    parser = arguments.Parser(prog="on_gpu.py", description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build/cuda"), metavar="FOLDER", help="umbench and tests/cuda are in it")
    parser.add_argument("--base", default="", metavar="PATH", help="before_after: the umbench of an earlier build")
    parser.add_argument("--out", default=str(ROOT / "build/measured"), metavar="FOLDER", help="for records")
    parser.add_argument("--minutes", type=float, default=25, help="for all parts together (25)")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS), help="in this order; all of them")
    parser.add_argument("--backend", default="cuda:0", help="for reproduce and curves")
    return parser.parse_args(argv)


def seconds_for_first(parts_left, minutes_left):
    """The seconds for the first of the remaining parts: its share of the remaining time, by its weight."""
    return 60 * minutes_left * WEIGHTS[parts_left[0]] / sum(WEIGHTS[part] for part in parts_left)


def main(argv=None):
    options = parse_arguments(sys.argv[1:] if argv is None else argv)
    options.umbench = str((Path(options.build) / "umbench").resolve())
    folder, end = Path(options.out).resolve(), time.monotonic() + 60 * options.minutes
    folder.mkdir(parents=True, exist_ok=True)
    failed, left = [], list(options.parts)
    if importlib.util.find_spec("torch") is None:
        for part in {"peers", "remedies"} & set(left):
            print(f"{part}: skipped, PyTorch is not installed", flush=True)
            left.remove(part)
    while left:
        seconds = seconds_for_first(left, (end - time.monotonic()) / 60)
        if seconds < 5:
            print(f"no time is left for {', '.join(left)}")
            break
        part = left.pop(0)
        print(f"== {part}: up to {seconds:.0f} s", flush=True)
        if not PARTS[part](options, folder, seconds):
            failed.append(part)
    if failed:
        print(f"not as wanted: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "on_gpu"))
