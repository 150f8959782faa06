#!/usr/bin/env python3
"""Times one training step of PyTorch and of umbench in turn, and compares their gradients.

A step is forward and backward pass of mean cross-entropy, without optimiser and dropout. Gradients are compared with the same weights and
inputs, which umbench exports. PyTorch runs in its usual best settings: with cuDNN's own search; fp32 without TF32 in NCHW, tf32 and bf16
(autocast) with channels last. umbench, eager PyTorch, compiled PyTorch and the comparison run one after the other, each in its own process.
Each row is appended to the file as soon as it is complete.

    python3 benchmarks/peers/pytorch.py --umbench build/cuda/umbench
    python3 benchmarks/peers/pytorch.py --rows vgg16/64/tf32 resnet50/128/bf16:fusion=fused,workspace=1GiB

Needs torch with CUDA; torchvision is not needed. docs/method/peers.md says what is compared and how.
"""

import argparse
import contextlib
import dataclasses
import datetime
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).resolve().parent), str(ROOT / "python")]

import children  # noqa: E402
import floors  # noqa: E402
import rows  # noqa: E402
import umbench_runs  # noqa: E402
from umbench import load, peer_files  # noqa: E402

WAYS = ("eager", "graph", "compile")
# Each group of ways runs in one process, so that cuDNN searches once for both. Compiled steps are a separate group,
# since compiling can hang.
WAYS_OF_PROCESSES = (("eager", "graph"), ("compile", "compile_graph"))
STANDARD_ORDER = {"fp32": "nchw", "tf32": "nhwc", "bf16": "nhwc"}


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--umbench", default=str(ROOT / "build/cuda/umbench"), metavar="PATH", help="the binary")
    parser.add_argument("--rows", nargs="+", metavar="ROW", help="NETWORK/BATCH/PRECISION[:fusion=F,workspace=BYTES,"
                        "order=O,slices=N]; those of --list if not given")
    parser.add_argument("--out", metavar="FILE", help="JSON Lines file (results/peers/pytorch_GPU.jsonl)")
    parser.add_argument("--resume", action="store_true", help="skip the rows that the file holds complete")
    parser.add_argument("--ways", default=",".join(WAYS), help="how PyTorch runs, of eager, graph, compile (all)")
    parser.add_argument("--both-orders", action="store_true", help="let PyTorch run in NCHW and with channels last")
    parser.add_argument("--compile-mode", default="default", choices=["default", "max-autotune-no-cudagraphs"])
    parser.add_argument("--compile-jobs", type=int, metavar="N", help="first compile all rows, N at a time, untimed: "
                        "sooner done than one by one where there are cores and memory for it")
    parser.add_argument("--deadline", type=float, default=300, metavar="S", help="seconds for one measurement (300)")
    parser.add_argument("--stop-after", type=float, metavar="S", help="begin no row once this many seconds are over; "
                        "--resume with the same file goes on")
    parser.add_argument("--warmup", type=int, default=4)
    parser.add_argument("--samples", type=int, default=12)
    parser.add_argument("--no-gradients", action="store_true", help="compare time and memory only")
    parser.add_argument("--check-batch", type=int, metavar="N", help="compare gradients on N images, not on the row's batch")
    parser.add_argument("--reference", choices=["none", "fp32", "fp64"], help="what both gradients are held against "
                        "as well (fp64 for fp32; fp32 without TF32 for tf32 and bf16)")
    parser.add_argument("--list", action="store_true", help="print the rows and stop")
    args = parser.parse_args(argv)
    given_counts = [args.samples, args.warmup, *(n for n in (args.check_batch, args.compile_jobs) if n is not None)]
    if min(given_counts) < 1:
        parser.error("--samples, --warmup, --check-batch and --compile-jobs must be at least 1")
    if min(s for s in (args.deadline, args.stop_after) if s is not None) <= 0:
        parser.error("--deadline and --stop-after must be above 0")
    args.ways = args.ways.split(",")
    for way in args.ways:
        if way not in WAYS:
            parser.error(f"--ways: unknown way '{way}'; there are {', '.join(WAYS)}")
    try:
        args.rows = [rows.parse_row(text) for text in args.rows] if args.rows else rows.TABLE
    except rows.BadRow as error:
        parser.error(f"--rows: {error}")
    if len({row.key for row in args.rows}) < len(args.rows):
        parser.error("--rows: a row is given twice; each is NETWORK/BATCH/PRECISION once")
    return args


def main(argv=None):
    begin_s = time.monotonic()
    args = parse_arguments(argv)
    if args.list:
        print("\n".join(f"{r.key}:fusion={r.fusion},workspace={r.workspace},slices={r.slices}{r.memory_order and ',order=' + r.memory_order}"
                        for r in args.rows))
        return 0
    binary = shutil.which(args.umbench)
    if not binary:
        sys.exit(f"error: --umbench: {args.umbench} is no program; build it (cmake --preset cuda) or name it")
    torch_steps = import_torch_steps()
    gpu_facts, reason = children.run_in_child(torch_steps.measure_gpu_rates, {"copy_bytes": 4 << 30, "matrix_size": 8192}, args.deadline)
    if not gpu_facts:
        sys.exit(f"error: PyTorch cannot use the GPU: {reason}")
    out_file = Path(args.out or ROOT / "results/peers" / f"pytorch_{gpu_file_name(gpu_facts['gpu'])}.jsonl")
    earlier_entries = peer_files.read(out_file) if args.resume and out_file.exists() else []
    complete_keys = {peer_files.key_of(row) for row in earlier_entries if peer_files.is_complete(row)}
    missing_rows = [row for row in args.rows if row.key not in complete_keys]
    for row in args.rows:
        if row.key in complete_keys:
            print_progress(f"{row.key}: in {out_file} already")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # children are stopped on the way out
    if args.compile_jobs and "compile" in args.ways:
        compile_beforehand(missing_rows, torch_steps, args)
    incomplete_count = 0
    for row_index, row in enumerate(missing_rows):
        if args.stop_after and time.monotonic() - begin_s > args.stop_after:
            print_progress(f"not begun within {args.stop_after:g} s: {', '.join(r.key for r in missing_rows[row_index:])}")
            return 1
        entry = measure_row(row, binary, torch_steps, gpu_facts, args)
        append_entry(out_file, entry)
        print_progress(summary_text(entry))
        incomplete_count += not peer_files.is_complete(entry)
    return 1 if incomplete_count else 0


def compile_beforehand(rows_to_measure, torch_steps, args):
    tasks = [pytorch_task(row, order, ["compile"], args) for row in rows_to_measure for order in memory_orders_of(row, args)]
    for task, (_, reason) in zip(tasks, children.run_in_children(torch_steps.fill_compiler_cache, tasks, args.deadline, args.compile_jobs)):
        if reason:
            print_progress(f"{task['network']}/{task['batch']}/{task['precision']}: not compiled beforehand: {reason}")


def import_torch_steps():
    try:
        import torch_steps
    except ImportError as error:
        sys.exit(f"error: PyTorch is needed ({error}); install torch with CUDA support, and numpy")
    return torch_steps


def gpu_file_name(gpu_name):
    """The name of a GPU as in file names: 'h200' for 'NVIDIA H200'."""
    return re.sub(r"[^a-z0-9]+", "_", gpu_name.lower().replace("nvidia", "")).strip("_")


def print_progress(text):
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def printing_duration(row, part_name):
    """A context that prints how long a part of a row took, since a row can take minutes."""
    begin_s = time.monotonic()
    yield
    print_progress(f"{row.key}: {part_name}: {time.monotonic() - begin_s:.0f} s")


def append_entry(path, entry):
    """Appends and syncs a line. Removes an incomplete last line that a crash left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab+") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(json.dumps(entry, allow_nan=False).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


# --- one row ---


def measure_row(row, umbench_path, torch_steps, gpu_facts, args):
    """Measures a row and returns its line. A missing value is null or has its reason, so that a failure does not prevent the other rows."""
    entry = entry_without_results(row, gpu_facts)
    try:
        with tempfile.TemporaryDirectory() as values_folder:
            with printing_duration(row, "umbench"):
                add_umbench_results(entry, row, umbench_path, None if args.no_gradients else values_folder, args)
            entry["modes"] = measure_pytorch(row, torch_steps, args)
            if not args.no_gradients:
                with printing_duration(row, "gradients"):
                    entry["gradients"] = compare_gradients(row, umbench_path, torch_steps, values_folder, args)
    except Exception as error:  # for instance a full disk, or a record of another version of umbench
        failure = {"reason": f"{type(error).__name__}: {error}"}
        entry |= {"umbench": entry["umbench"] or failure, "gradients": entry["gradients"] or failure}
    return entry | peer_files.times_peaks_and_ratios(entry)


def entry_without_results(row, gpu_facts):
    return {"kind": "peer", "schema": 1, "peer": "pytorch", "network": row.network, "batch": row.batch,
            "precision": row.precision, "pass": "train",
            "created": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "options": row.options, "umbench": None, "modes": [], "gradients": None, "floor": None, "gaps": None,
            "gap_kinds": None, "ceilings": {k: gpu_facts[k] for k in ("copy_bytes_per_s", "matrix_flops_per_s")},
            "versions": {"gpu": gpu_facts["gpu"], "driver": None, "cuda": gpu_facts["cuda"], "cudnn": gpu_facts["cudnn"],
                         "torch": gpu_facts["torch"], "umbench": None, "umbench_cuda": None, "umbench_cudnn": None}}


def add_umbench_results(entry, row, umbench_path, values_folder, args):
    try:
        folder_for_values = values_folder if args.check_batch in (None, row.batch) else None
        environment, record = umbench_runs.run_row(umbench_path, row, args.warmup + args.samples, args.deadline, folder_for_values)
    except (umbench_runs.UmbenchFailed, load.BadInput) as error:
        entry["umbench"] = {"reason": str(error)}
        return
    entry["umbench"] = umbench_runs.compared_figures(record, args.warmup)
    entry["versions"] |= umbench_runs.versions_in(environment)
    engines, ceilings = record["engines"], entry["ceilings"]
    entry["floor"] = floors.floor_of_step(engines, ceilings, row.precision)
    entry["gaps"] = floors.largest_gaps(engines, ceilings, row.precision)
    entry["gap_kinds"] = floors.gaps_by_kind(engines, ceilings, row.precision, row.network)


def memory_orders_of(row, args):
    return ("nchw", "nhwc") if args.both_orders else (STANDARD_ORDER[row.precision],)


def pytorch_task(row, memory_order, ways, args):
    """The task for torch_steps.py: the `ways` of running PyTorch for a row in a memory order."""
    return {"network": row.network, "batch": row.batch, "precision": row.precision, "order": memory_order, "ways": ways,
            "warmup": args.warmup, "samples": args.samples, "compile_mode": args.compile_mode}


def measure_pytorch(row, torch_steps, args):
    """Time and peak of every way of running PyTorch, or the reason why there are none."""
    results_of_modes = []
    for memory_order in memory_orders_of(row, args):
        for ways in groups_of_ways(args):
            with printing_duration(row, f"PyTorch {', '.join(ways)}"):
                result_of_way, reason = children.run_in_child(torch_steps.time_ways, pytorch_task(row, memory_order, ways, args), args.deadline)
            result_of_way = result_of_way or {way: {"reason": reason} for way in ways}
            results_of_modes += [{"way": way, "memory_order": memory_order, **result} for way, result in result_of_way.items()]
    return results_of_modes


def groups_of_ways(args):
    wanted_ways = {*args.ways, *(f"{way}_graph" for way in args.ways if way == "compile")}
    return [ways for ways in ([way for way in group if way in wanted_ways] for group in WAYS_OF_PROCESSES) if ways]


def compare_gradients(row, umbench_path, torch_steps, values_folder, args):
    batch_size = args.check_batch or row.batch
    try:
        if batch_size != row.batch:
            umbench_runs.run_row(umbench_path, dataclasses.replace(row, batch=batch_size), 1, args.deadline, values_folder)
        elif not (Path(values_folder) / "loss.npy").is_file():
            raise umbench_runs.UmbenchFailed("umbench wrote no values")
    except (umbench_runs.UmbenchFailed, load.BadInput) as error:
        return {"reason": str(error)}
    reference = args.reference or ("fp64" if row.precision == "fp32" else "fp32")
    task = {"network": row.network, "batch": batch_size, "precision": row.precision, "order": STANDARD_ORDER[row.precision],
            "values": values_folder, "reference": None if reference == "none" else reference}
    comparison, reason = children.run_in_child(torch_steps.compare_gradients, task, args.deadline)
    return comparison or {"reason": reason}


def summary_text(entry):
    def formatted(value_or_none, format_spec):
        return "-" if value_or_none is None else format(value_or_none, format_spec)

    return (f"{peer_files.key_of(entry)}: umbench {formatted(entry['umbench_ms'], '.3f')} ms, PyTorch "
            f"{formatted(entry['pytorch_ms'], '.3f')} ms ({entry['pytorch_mode'] or '-'}), time ratio "
            f"{formatted(entry['time_ratio'], '.3f')}, peak ratio {formatted(entry['peak_ratio'], '.3f')}")


if __name__ == "__main__":
    sys.exit(load.report_errors(main))
