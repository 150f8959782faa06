"""Asks the `umbench` program for a plan."""

import functools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from .measuring import BETWEEN_KERNELS_NS


MIN_KERNEL_NS = 2000  # time of the shortest generated kernel


class NoPlan(RuntimeError):
    """A model cannot be fitted. The message is one line with the reason."""


class NoRoom(NoPlan):
    """No plan was found within the budget."""


def program_path():
    """The path of the program umbench: from $UMBENCH_PROGRAM, on the PATH, or in the checkout of this file."""
    given_path = os.environ.get("UMBENCH_PROGRAM") or shutil.which("umbench")
    if given_path:
        return given_path
    for folder in pathlib.Path(__file__).resolve().parents:
        for preset in ("cuda", "cpu", "ci"):
            if (folder / "build" / preset / "umbench").is_file():
                return str(folder / "build" / preset / "umbench")
    raise NoPlan("the program umbench is not found; run ./quickstart --build-only, or let UMBENCH_PROGRAM name it")


SEARCH_WORK_LIMIT = 15_000_000  # work limit of each search (planners/torch_target.hpp: plan_torch), about 2 s on eight cores
COPY_OVERHEAD_NS = 20000  # fixed cost of a copy to the host or back: two waits for events
# The share of a copy's time by which kernels beside it take longer. On an H100: to pinned memory 1 to 4 %, back 3 to 8 %. Copies of managed
# memory are kernels themselves.
KERNEL_SLOWDOWN_BESIDE_COPY = {"pinned": 0.04, "managed": 0.6}
HOST_NS_PER_KERNEL, HOST_NS_PER_COPY = 30_000, 70_000  # CPU time of launching within a step (results/torch/fit_h200.jsonl, held_steps_h100.jsonl)


def ask_planner(step_nodes, budget_bytes, base_bytes, rates_per_ns, is_fused,
                numbers_saved_by_pytorch, effort, tier=None, is_on_gpu=True, bits="rounding"):
    """The answer as a dictionary: `begin`, PyTorch's own choice, and `plan`, each with saved, offloaded, recomputed, ns, peak, forward_peak,
    saved_bytes; and `bound`, bytes that no plan's peak is below. `numbers_saved_by_pytorch`: numbers of the nodes that PyTorch would save. `tier` and
    `bits` are those of fit()."""
    question = {"nodes": step_nodes.node_fields, "budget": int(budget_bytes), "base_bytes": int(base_bytes), "bytes_per_ns": rates_per_ns["bytes"],
                "launch_ns": MIN_KERNEL_NS, "between_ns": BETWEEN_KERNELS_NS, "link_bytes_per_ns": rates_per_ns["link"] if tier else 0,
                "copy_ns": COPY_OVERHEAD_NS, "copy_drag": KERNEL_SLOWDOWN_BESIDE_COPY.get(tier, 0), "host_kernel_ns": HOST_NS_PER_KERNEL * is_on_gpu,
                "host_copy_ns": HOST_NS_PER_COPY * is_on_gpu, "fused": is_fused, "stores_gradients": bits == "rounding",
                "begin": sorted(numbers_saved_by_pytorch), "work": int(SEARCH_WORK_LIMIT * effort)}
    return json.loads(ask_program(json.dumps(question)))


@functools.lru_cache(maxsize=4)  # micro_batches="auto" plans for several numbers of parts, then asks again for the chosen plan
def ask_program(question_json):
    """The planner's answer, as JSON text."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(question_json)
        file.flush()
        process = subprocess.run([program_path(), "plan-torch", file.name], capture_output=True, text=True)
    if process.returncode != 0:
        raise NoPlan((process.stderr.strip().splitlines() or ["umbench plan fails"])[-1])
    return process.stdout
