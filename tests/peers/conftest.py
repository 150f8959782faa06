import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks/peers"), str(ROOT / "python")]


@pytest.fixture
def umbench_binary():
    binary = os.environ.get("UMBENCH")
    if not binary:
        pytest.skip("UMBENCH does not name a binary")
    return binary


CARD = {"copy_bytes_per_s": 4e12, "matrix_flops_per_s": {"fp32": 5e13, "tf32": 4e14, "bf16": 8e14},
        "gpu": "NVIDIA H200", "torch": "2.11.0", "cuda": "13.0", "cudnn": 91900}


def gradient_errors(worst_error=1e-5):
    return {"worst": worst_error, "worst_tensor": "conv1.w", "median": 1e-6}


def row(network="vgg16", batch=64, precision="fp32", **changes):
    """A complete row as the script writes it, of made-up round figures."""
    from umbench import peer_files
    line = {"kind": "peer", "schema": 1, "peer": "pytorch", "network": network, "batch": batch,
            "precision": precision, "pass": "train", "created": "2026-01-01T00:00:00Z",
            "options": {"fusion": "lean", "workspace": "256MiB", "memory_order": None, "slices": 1},
            "umbench": {"ms": 80.0, "samples_ms": [80.0], "peak_bytes": 4 << 30, "fusion": "lean",
                        "launch": "cuda_graph", "memory_order": "nchw", "workspace_cap_bytes": 1 << 28,
                        "terms": {"parameters_bytes": 1}, "loss": 6.9, "digest": "0123456789abcdef", "key": "k"},
            "modes": [{"way": "eager", "memory_order": "nchw", "ms": 110.0, "samples_ms": [110.0],
                       "peak_bytes": 8 << 30},
                      {"way": "graph", "memory_order": "nchw", "ms": 100.0, "samples_ms": [100.0],
                       "peak_bytes": 10 << 30},
                      {"way": "compile", "memory_order": "nchw", "reason": "not done within 300 s"}],
            "gradients": {"batch": batch, "umbench_loss": 6.9, "pytorch_loss": 6.9, "to_pytorch": gradient_errors(),
                          "reference": None},
            "floor": {"convolutions": "direct", "floor_ms": 40.0, "arithmetic_ms": 35.0, "traffic_ms": 10.0, "operators_ms": 79.0},
            "gaps": [{"op": "conv1_2", "engine": "eng|1", "time_ms": 9.0, "floor_ms": 4.0}],
            "gap_kinds": [{"kind": "convolution", "operators": 13, "time_ms": 30.0, "floor_ms": 20.0},
                          {"kind": "pool.backward", "operators": 5, "time_ms": 10.0, "floor_ms": 6.0},
                          {"kind": "loss", "operators": 1, "time_ms": 1.0, "floor_ms": 2.0}],
            "ceilings": {k: CARD[k] for k in ("copy_bytes_per_s", "matrix_flops_per_s")},
            "versions": {"gpu": "NVIDIA H200", "driver": "580.1", "cuda": "13.0", "cudnn": 91900, "torch": "2.11.0",
                         "umbench": "0.1.0+abc", "umbench_cuda": "13.0", "umbench_cudnn": "9.19.0"}} | changes
    return line | peer_files.times_peaks_and_ratios(line)
