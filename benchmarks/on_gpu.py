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
TIME_WEIGHTS = {"tests": 5, "before_after": 6, "tables": 10, "best": 8, "papers": 6, "ooc_cudnn": 3, "validation": 6, "reproduce": 5,
                "gate": 3, "replay": 4, "curves": 3, "peers": 3, "remedies": 4}
PEER_ROWS = ("densenet121/128/bf16:workspace=2GiB", "densenet121/128/bf16:fusion=fused,workspace=2GiB",
             "mobilenet_v2/128/bf16:workspace=2GiB")
PAPERS = ("unified_memory", "uvm_discard", "oc_dnn", "deepum", "pooch", "vdnn", "tvdnn", "autoswap", "smartpool", "ooc_cudnn")
MAX_WANTED_TIME_RATIO = 1.01


def make_sweep_runner(sweep_name):
    """Returns a function that runs sweeps/gpu_NAME.json and prints its slowdowns."""
    def run_sweep(options, out_folder, max_seconds):
        command = [options.umbench, "sweep", SWEEPS / f"gpu_{sweep_name}.json", "--out", out_folder / f"{sweep_name}.jsonl", "--times-only",
                   "--no-preflight", "--resume"]
        succeeded = timed.run_within(command, max_seconds) in timed.SUCCESS_EXIT_CODES
        print(slowdown_table(out_folder / f"{sweep_name}.jsonl"), flush=True)
        return succeeded
    return run_sweep


def slowdown_table(record_file):
    """A table in Markdown of times divided by that of `device` for the same network, batch and precision, in the order of the cells."""
    rows = ["| network | batch | precision | strategy | ratio | ms | over device |", "|---|---|---|---|---|---|---|"]
    records = load.read(record_file)[1] if record_file.exists() else []
    cell_of = lambda record: (record["network"], record["batch"], record["precision"])  # noqa: E731
    device_ns_of_cell = {}
    for record in records:
        if record["strategy"] == "device" and record["outcome"] == "ok":
            device_ns_of_cell.setdefault(cell_of(record), load.steady_ns(record))
    for record in records:
        columns = [*cell_of(record), record["strategy"], record["ratio"]]
        if record["outcome"] == "ok":
            ns = load.steady_ns(record)
            columns += [f"{ns / 1e6:.2f}", f"{ns / device_ns_of_cell[cell_of(record)]:.3f}" if cell_of(record) in device_ns_of_cell else ""]
        else:
            columns += [f"{record['outcome']}: {record['reason']}", ""]
        rows.append("| " + " | ".join(str(word) for word in columns) + " |")
    return "\n".join(rows)


def run_tests(options, out_folder, max_seconds):
    return gpu_tests.run_all(Path(options.build) / "tests", out_folder / "tests", max_seconds)


def compare_builds(options, out_folder, max_seconds):
    """Runs all cells by both builds, in rounds until the time is over. The order of the two builds alternates."""
    if not options.base:
        raise load.BadInput("before_after: --base names the umbench to compare with")
    sweep_file, end_time = SWEEPS / "gpu_before_after.json", time.monotonic() + max_seconds
    cell_count = timed.count_cells(options.umbench, sweep_file)
    round_number, slowest_round_s = 0, 0.0
    while round_number == 0 or end_time - time.monotonic() > slowest_round_s:
        round_number, begin_s = round_number + 1, time.monotonic()
        for cell_number in range(1, cell_count + 1):
            names_and_binaries = [("base", options.base), ("head", options.umbench)]
            for side, binary in names_and_binaries if (round_number + cell_number) % 2 else names_and_binaries[::-1]:
                seconds_left = end_time - time.monotonic()
                if seconds_left < 5:
                    return report_time_ratios(out_folder, cell_count)
                record_file = out_folder / "before_after" / side / f"{cell_number}.{round_number}.jsonl"
                record_file.parent.mkdir(parents=True, exist_ok=True)
                timed.run_within([binary, "sweep", sweep_file,
                                  "--shard", f"{cell_number}/{cell_count}", "--out", record_file, "--times-only", "--no-preflight",
                                  "--resume"], seconds_left, quiet=True)
        slowest_round_s = max(slowest_round_s, time.monotonic() - begin_s)
    return report_time_ratios(out_folder, cell_count)


def report_time_ratios(out_folder, cell_count):
    """Prints for each cell the minimum steady time of either build, their ratio, and whether the results are bit-identical. Returns whether
    the mean ratio is at most MAX_WANTED_TIME_RATIO."""
    print("| cell | before ms | now ms | ratio | rounds | same bits |\n|---|---|---|---|---|---|")
    ratios = []
    for cell_number in range(1, cell_count + 1):
        records_of_sides = [[record for path in sorted((out_folder / "before_after" / side).glob(f"{cell_number}.*.jsonl"))
                             for record in load.read(path)[1] if record["outcome"] == "ok"] for side in ("base", "head")]
        if not all(records_of_sides):
            print(f"| {cell_number} | not run on both sides |")
            continue
        before_ns, now_ns = (min(load.steady_ns(record) for record in side) for side in records_of_sides)
        record_of_head = records_of_sides[1][0]
        ratios.append(now_ns / before_ns)
        has_same_bits = {record["digest"] for record in records_of_sides[0]} == {record["digest"] for record in records_of_sides[1]}
        print(f"| {record_of_head['network']} {record_of_head['batch']} {record_of_head['precision']} "
              f"{record_of_head['strategy']} {record_of_head['ratio']} | "
              f"{before_ns / 1e6:.2f} | {now_ns / 1e6:.2f} "
              f"| {now_ns / before_ns:.3f} | {min(map(len, records_of_sides))} | {'yes' if has_same_bits else 'no'} |")
    if not ratios:
        return False
    mean_ratio = 1.0
    for ratio in ratios:
        mean_ratio *= ratio ** (1 / len(ratios))
    print(f"mean ratio {mean_ratio:.4f} over {len(ratios)} cells, "
          f"{sum(ratio > MAX_WANTED_TIME_RATIO for ratio in ratios)} above {MAX_WANTED_TIME_RATIO}", flush=True)
    return mean_ratio <= MAX_WANTED_TIME_RATIO


def run_validation(options, out_folder, max_seconds):
    return timed.run_within([ROOT / "benchmarks/gpu_validation.sh", out_folder / "validation", options.build],
                            max_seconds, {"RUNS": "1"}) in timed.SUCCESS_EXIT_CODES


def reproduce_papers(options, out_folder, max_seconds):
    """Runs one paper after the other, each for its share of the time. A paper that was stopped runs again, in another folder."""
    end_time, succeeded = time.monotonic() + max_seconds, True
    papers_left = [paper for paper in PAPERS if not any(map(has_every_cell, (out_folder / "reproduced").glob(f"{paper}_*")))]
    while papers_left and end_time - time.monotonic() >= 5:
        share_s = (end_time - time.monotonic()) / len(papers_left)
        paper = papers_left.pop(0)
        paper_folder = out_folder / "reproduced" / f"{paper}_{len(list((out_folder / 'reproduced').glob(f'{paper}_*'))) + 1}"
        command = [options.umbench, "reproduce", paper, "--backend", options.backend, "--out", paper_folder, "--no-figure"]
        succeeded = timed.run_within(command, share_s) in timed.SUCCESS_EXIT_CODES and succeeded
    return succeeded


def has_every_cell(run_folder):
    """Returns whether the folder PAPER_N of a run of `umbench reproduce` has every cell of its paper."""
    paper = run_folder.name.rpartition("_")[0]
    key_file = run_folder / f"{paper}.cells.json"
    wanted_cells = json.loads((ROOT / f"results/papers/{paper}.json").read_text(encoding="utf-8"))["cells"]
    return key_file.exists() and len(json.loads(key_file.read_text(encoding="utf-8"))) == len(wanted_cells)


def compare_build_with_itself(options, out_folder, max_seconds):
    """Measures pairs of sweeps by the same build until the time is over, at least one pair."""
    end_time, pair_number, slowest_pair_s = time.monotonic() + max_seconds, 0, 0.0
    while pair_number == 0 or end_time - time.monotonic() > slowest_pair_s:
        pair_number, begin_s = pair_number + 1, time.monotonic()
        pair_folder = out_folder / "gate" / str(pair_number)
        command = [options.umbench, "interleave", SWEEPS / "gpu_aa.json", "--base", options.umbench, "--head", options.umbench,
                   "--rounds", "2", "--out", pair_folder]
        if timed.run_within(command, end_time - begin_s) != 0:
            return pair_number > 1  # at least one pair must have ended
        if importlib.util.find_spec("scipy"):
            exit_code = timed.run_within([options.umbench, "compare", pair_folder / "base", pair_folder / "head"], 60)
            print(f"pair {pair_number}: umbench compare ended with {exit_code}", flush=True)
        slowest_pair_s = max(slowest_pair_s, time.monotonic() - begin_s)
    return True


def replay_computed_networks(options, out_folder, max_seconds):
    return replay.compare_with_computed(options.umbench, out_folder, max_seconds)


def replay_simulated_curves(options, out_folder, max_seconds):
    return replay.compare_with_simulated(options.umbench, out_folder, max_seconds, options.backend)


def compare_with_pytorch(options, out_folder, max_seconds):
    end_time, succeeded = time.monotonic() + max_seconds, True
    for row_number, row in enumerate(PEER_ROWS, 1):  # one call a row: pytorch.py refuses a case that comes twice
        command = [sys.executable, ROOT / "benchmarks/peers/pytorch.py", "--umbench", options.umbench, "--rows", row, "--ways", "eager,compile",
                   "--no-gradients", "--out", out_folder / f"peers_{row_number}.jsonl", "--resume"]
        succeeded = timed.run_within(command, max(5, end_time - time.monotonic())) in timed.SUCCESS_EXIT_CODES and succeeded
    return succeeded


def compare_with_pytorch_remedies(options, out_folder, max_seconds):
    return timed.run_within([sys.executable, ROOT / "benchmarks/peers/remedies.py", "--umbench", options.umbench, "--out",
                             out_folder / "remedies.jsonl", "--resume", "--stop-after", int(max_seconds)], max_seconds) in timed.SUCCESS_EXIT_CODES


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
    return 60 * minutes_left * TIME_WEIGHTS[parts_left[0]] / sum(TIME_WEIGHTS[part] for part in parts_left)


def main(argv=None):
    options = parse_arguments(sys.argv[1:] if argv is None else argv)
    options.umbench = str((Path(options.build) / "umbench").resolve())
    out_folder, end_time = Path(options.out).resolve(), time.monotonic() + 60 * options.minutes
    out_folder.mkdir(parents=True, exist_ok=True)
    failed_parts, parts_left = [], list(options.parts)
    if importlib.util.find_spec("torch") is None:
        for part in {"peers", "remedies"} & set(parts_left):
            print(f"{part}: skipped, PyTorch is not installed", flush=True)
            parts_left.remove(part)
    while parts_left:
        part_seconds = seconds_for_first(parts_left, (end_time - time.monotonic()) / 60)
        if part_seconds < 5:
            print(f"no time is left for {', '.join(parts_left)}")
            break
        part = parts_left.pop(0)
        print(f"== {part}: up to {part_seconds:.0f} s", flush=True)
        if not PARTS[part](options, out_folder, part_seconds):
            failed_parts.append(part)
    if failed_parts:
        print(f"not as wanted: {', '.join(failed_parts)}")
    return int(bool(failed_parts))


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "on_gpu"))
