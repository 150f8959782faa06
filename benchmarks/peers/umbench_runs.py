"""Runs one row with umbench and reads the compared figures from its record."""

import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from umbench import load  # noqa: E402


class UmbenchFailed(Exception):
    """The run of umbench failed. The message has the reason."""


def strategy_options(row):
    if row.slices == 1:
        return ["--strategy", "device"]
    return ["--strategy", "micro_batches", "--knob", f"k={row.slices}"]


def command_line(umbench_path, row, iterations, max_seconds, record_file, values_folder=None):
    command = [umbench_path, "run", "--network", row.network, "--batch", row.batch, *strategy_options(row),
               "--fusion", row.fusion, "--precision", row.precision, "--workspace-cap", row.workspace,
               "--iterations", iterations, "--deadline", math.ceil(max_seconds), "--backend", "cuda:0", "--times-only", "--out", record_file]
    if row.memory_order:
        command += ["--memory-order", row.memory_order]
    return [str(word) for word in command + (["--values", values_folder] if values_folder else [])]


def run_row(umbench_path, row, iterations, max_seconds, values_folder=None):
    """Runs umbench; returns (environment, record). Tensors are written to the folder `values_folder`."""
    with tempfile.TemporaryDirectory() as folder:
        record_file = Path(folder) / "record.jsonl"
        command = command_line(umbench_path, row, iterations, max_seconds, record_file, values_folder)
        try:  # umbench enforces the deadline itself; this longer one ends an umbench that hangs
            process = subprocess.run(command, capture_output=True, text=True, timeout=max_seconds + 60)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UmbenchFailed(f"umbench did not run: {error}") from error
        if not record_file.is_file():
            raise UmbenchFailed((process.stderr.strip().splitlines() or [f"umbench ended with {process.returncode}"])[-1])
        environments, records = load.read(record_file)
    record = records[0]
    if record["outcome"] != "ok":
        raise UmbenchFailed(f"{record['outcome']}: {record['reason']}")
    return environments[0], record


def versions_in(environment):
    gpu_facts = environment["gpu"]
    return {"umbench": environment["umbench"], "driver": gpu_facts["driver"], "umbench_cuda": gpu_facts["cuda_runtime"],
            "umbench_cudnn": gpu_facts["cudnn"]}


def compared_figures(record, warmup_iterations):
    """The figures of a record that a row stores. Times are those of CUDA events after each replay of the CUDA graph. The peak is the device
    arena, which is all that umbench allocates on the device for the run."""
    samples = [ns / 1e6 for ns in record["samples_ns"][warmup_iterations:]]
    memory = record["memory"]
    return {"ms": statistics.median(samples), "samples_ms": samples, "peak_bytes": memory["peak_device_bytes"],
            "fusion": record["fusion"], "launch": record["launch"], "memory_order": record["memory_order"],
            "workspace_cap_bytes": record["workspace_cap_bytes"], "terms": memory["terms"],
            "loss": record["loss"], "digest": record["digest"], "key": record["key"]}
