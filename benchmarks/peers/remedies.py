#!/usr/bin/env python3
"""Compares PyTorch's remedies for a lack of memory with `best` within the same peak of device memory.

Each remedy (compiled with an activation memory budget, activation checkpointing, save_on_cpu) is timed in a process of its own; then
umbench runs `best` with that peak as its budget. Each remedy is a line of JSON; --resume skips lines that the file has.

    python3 benchmarks/peers/remedies.py --umbench build/cuda/umbench --out remedies.jsonl
"""

import argparse
import contextlib
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).resolve().parent), str(ROOT / "benchmarks"), str(ROOT / "python")]

import children  # noqa: E402
import timed  # noqa: E402
import umbench_runs  # noqa: E402
from umbench import load  # noqa: E402

CASES = (("vgg16", 256, "bf16"), ("resnet50", 128, "bf16"), ("vgg16", 256, "tf32"), ("resnet50", 128, "tf32"))
REMEDIES = ("compile 0.5", "checkpoint", "save_on_cpu", "compile 0.2", "compile 0.8", "compile 1.0")
CHECKPOINT_SEGMENTS = 4
FIELDS = ("network", "batch", "precision", "remedy")


def time_remedy(task):
    """Times PyTorch with the remedy of the task; returns {ms, peak_bytes}."""
    import torch  # noqa: PLC0415: in a child of its own
    import torch_steps  # noqa: PLC0415

    torch.backends.cudnn.benchmark = True
    step = torch_steps.Step(task["network"], task["batch"], task["precision"], "nhwc")
    remedy, _, memory_budget = task["remedy"].partition(" ")
    make_context = contextlib.nullcontext
    if remedy == "compile":
        import torch._functorch.config  # noqa: PLC0415: no attribute of torch until it is imported

        torch._functorch.config.activation_memory_budget = float(memory_budget)
        torch_steps.compile_loss_of(step, "default")
    elif remedy == "checkpoint":
        from torch.utils.checkpoint import checkpoint_sequential  # noqa: PLC0415

        model = step.model
        for layer in model.modules():  # in place they would overwrite the input from which a segment is recomputed
            if hasattr(layer, "inplace"):
                layer.inplace = False
        step.loss_of = lambda data, labels: torch.nn.functional.cross_entropy(
            checkpoint_sequential(model, CHECKPOINT_SEGMENTS, data, use_reentrant=False), labels)
    else:
        make_context = lambda: torch.autograd.graph.save_on_cpu(pin_memory=True)  # noqa: E731

    def run_step():
        with make_context():
            step()

    for _ in range(task["warmup"]):
        run_step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    figures = torch_steps.measure_calls(run_step, task["samples"])
    return figures | {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}


def best_command_line(umbench_path, task, budget_bytes, record_file):
    """The command line of `best` within that peak of device memory."""
    return [str(word) for word in (
        umbench_path, "run", "--network", task["network"], "--batch", task["batch"], "--precision", task["precision"], "--fusion", "fused",
        "--strategy", "best", "--budget", budget_bytes, "--mode", "capped", "--backend", "cuda:0", "--workspace-cap", "256MiB",
        "--iterations", task["samples"], "--deadline", task["deadline_s"], "--times-only", "--out", record_file)]


def best_ms_within(umbench_path, task, budget_bytes):
    """Milliseconds of a step of `best` within that peak of device memory. Raises umbench_runs.UmbenchFailed."""
    import subprocess  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        record_file = Path(folder) / "best.jsonl"
        subprocess.run(best_command_line(umbench_path, task, budget_bytes, record_file), capture_output=True, text=True, check=False)
        try:
            record = load.read(record_file)[1][-1]
        except (OSError, IndexError, load.BadInput) as error:
            raise umbench_runs.UmbenchFailed(str(error)) from error
    if record["outcome"] != "ok":
        raise umbench_runs.UmbenchFailed(f"{record['outcome']}: {record['reason']}")
    return load.steady_ns(record) / 1e6


def compare_remedy_with_best(umbench_path, task):
    """The line of the file for a task: the remedy's time and peak, and the time of `best` within that peak, or reasons."""
    entry = {key: task[key] for key in FIELDS}
    figures, reason = children.run_in_child(time_remedy, task, task["deadline_s"])
    if not figures:
        return entry | {"reason": reason}
    entry |= {key: figures[key] for key in ("ms", "peak_bytes", "gpu", "torch")}
    try:
        entry["best_ms"] = best_ms_within(umbench_path, task, figures["peak_bytes"])
        entry["best_over_remedy"] = entry["best_ms"] / entry["ms"]
    except umbench_runs.UmbenchFailed as failed:
        entry["best_reason"] = str(failed)
    return entry


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--umbench", default=str(ROOT / "build/cuda/umbench"), metavar="PATH")
    parser.add_argument("--out", default="remedies.jsonl", metavar="FILE")
    parser.add_argument("--resume", action="store_true", help="skip what the file holds")
    parser.add_argument("--stop-after", type=float, default=1e9, metavar="S", help="begin nothing once so many seconds are over")
    arguments = parser.parse_args(argv)
    try:
        import torch  # noqa: F401, PLC0415: once, before children are forked
    except ImportError as error:
        sys.exit(f"error: PyTorch is needed ({error})")
    out_file, begin_s = Path(arguments.out), time.monotonic()
    if out_file.exists() and not arguments.resume:
        sys.exit(f"error: {out_file} exists; --resume goes on with it")
    tasks = [dict(zip(FIELDS, (*case, remedy), strict=True)) | {"warmup": 4, "samples": 12, "deadline_s": 240}
             for remedy in REMEDIES for case in CASES]
    timed.measure_missing(out_file, tasks, FIELDS, lambda task: compare_remedy_with_best(arguments.umbench, task),
                          lambda: time.monotonic() - begin_s > arguments.stop_after)
    return 0


if __name__ == "__main__":
    sys.exit(main())
