"""One model under one way of saving memory, measured in a process of its own; prints one JSON line.

    python -m umbench.torch.bench.cell MODEL WAY [VALUE] --turn FOLDER

WAY: plain (torch.compile as it is), share (VALUE is PyTorch's activation_memory_budget), fit (VALUE is a budget in bytes)."""

import argparse
import contextlib
import fcntl
import gc
import json
import os
import statistics
import sys
import time

import torch

from .. import private
from .models import MODELS

STEPS_UNDER_CAP = 100
TIMED = 30


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("way", choices=("plain", "share", "fit"))
    parser.add_argument("value", nargs="?", type=float)
    parser.add_argument("--turn", required=True)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--tier", choices=("pinned", "managed", "none"), default="pinned")
    options = parser.parse_args()
    print(json.dumps(measured(options)))


def measured(options):
    torch.manual_seed(0)
    properties = torch.cuda.get_device_properties(0)
    made = MODELS[options.model](**({"batch": options.batch} if options.batch else {}))
    found = {"model": options.model, "way": options.way, "value": options.value, "device": properties.name, "torch": torch.__version__,
             "cuda": torch.version.cuda, "batch": options.batch, "optimizer": "SGD"}
    try:
        found |= trained(*made, options, properties.total_memory)
    except Exception as error:  # a row of the table, not the end of the others
        found["error"] = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
    return found


def trained(model, inputs, options, device_bytes):
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    run = compiled(model, optimizer, options)
    plan = getattr(model, "plan", None)
    found, losses = {}, []

    def step():
        optimizer.zero_grad(set_to_none=True)
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        issued = time.perf_counter()
        begin.record()
        loss = run(*inputs)
        found["after_forward"] = torch.cuda.memory_allocated()
        loss.backward()
        end.record()
        issued = time.perf_counter() - issued
        losses.append(loss.detach())
        optimizer.step()
        return begin, end, issued

    begun = time.monotonic()
    step()
    torch.cuda.synchronize()
    found["first_step_s"] = time.monotonic() - begun
    found["gradient_norm"] = torch.stack([p.grad.float().norm() for p in model.parameters() if p.grad is not None]).norm().item()
    for _ in range(20):
        if plan is None or plan.settled:
            break
        step()
    if plan is not None:
        found |= {"predicted": plan.predicted, "predicted_unplanned": plan.unplanned, "planned_base": plan.base_bytes, "plan_s": plan.seconds,
                  "plans": plan.plans, "unforeseen": plan.unforeseen, "chunks": plan.chunks, "differences": plan.differences, "offloaded": plan.offloaded_bytes,
                  "kernels_again": sum(len(again) for _, again in plan.modules.values())}
    with exclusive(options.turn):
        found |= timed(step)
        if options.way == "fit":
            limit(options.value, device_bytes)
            watch_for_holes(found)
            found["under_cap"] = survives(step, STEPS_UNDER_CAP)
        limit(0.97 * found["peak"], device_bytes)
        plans = plan.plans if plan is not None else 0
        found["fails_below"] = survives(step, 3) is not True or plan is not None and plan.plans > plans
    return found | {"losses": [losses[0].item(), losses[-1].item()]}


def timed(step):
    """Medians of forward and backward passes. issue_ms: what the CPU needs to launch one while the GPU is idle; kernel_ms: what the
    GPU computes in a whole step, the optimizer's kernels included."""
    gc.collect()
    gc.freeze()
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    marks = [step() for _ in range(TIMED)]
    torch.cuda.synchronize()
    times = sorted(begin.elapsed_time(end) for begin, end, _ in marks[2:])
    found = {"ms": statistics.median(times), "ms_range": [times[0], times[-1]], "peak": torch.cuda.max_memory_allocated(),
             "reserved": torch.cuda.max_memory_reserved(), "samples": len(times)}
    issued = []
    for _ in range(5):
        torch.cuda.synchronize()
        issued.append(step()[2])
    return found | {"issue_ms": 1e3 * statistics.median(issued), "kernel_ms": kernel_ms(step)}


def kernel_ms(step):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        step()
        torch.cuda.synchronize()
    kernels = [(event.key, event.self_device_time_total / 1e3, event.count) for event in profile.key_averages() if event.self_device_time_total > 0]
    generated = sum(ms for name, ms, _ in kernels if name.startswith("triton_"))
    return {"all": sum(ms for _, ms, _ in kernels), "generated": generated, "count": sum(count for _, _, count in kernels)}


def limit(size, device_bytes):
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.set_per_process_memory_fraction(size / device_bytes)


def compiled(model, optimizer, options):
    if options.way == "fit":
        import umbench.torch

        return umbench.torch.fit(model, budget=int(options.value), optimizer=optimizer, tier=None if options.tier == "none" else options.tier)
    if options.way == "share":
        torch._functorch.config.activation_memory_budget = options.value
    return torch.compile(model)


def watch_for_holes(found):
    """Notes what the allocator holds where memory first runs out: the bytes asked for, and the sizes of its free pieces of a MiB at least."""
    def observe(device, asked, total, free):
        if "out_of_memory" in found:
            return
        blocks = [block for segment in torch.cuda.memory_snapshot() for block in segment["blocks"]]
        free = sorted((block["size"] for block in blocks if block["state"] == "inactive"), reverse=True)
        found["out_of_memory"] = {"asked": asked, "allocated": torch.cuda.memory_allocated(), "reserved": torch.cuda.memory_reserved(),
                                  "free": [size >> 20 for size in free if size >= 1 << 20], "blocks": len(blocks)}

    private.when_memory_runs_out(observe)


def survives(step, times):
    """True, or after how many steps memory ran out."""
    for done in range(times):
        try:
            step()
            torch.cuda.synchronize()
        except torch.OutOfMemoryError:
            return done
    return True


@contextlib.contextmanager
def exclusive(folder):
    """Says that all is compiled, waits until it is so for all cells that share the folder, then for the turn."""
    with open(os.path.join(folder, f"ready{os.getpid()}"), "w"):
        pass
    while not os.path.exists(os.path.join(folder, "go")):
        time.sleep(0.2)
    with open(os.path.join(folder, f"turn{os.environ.get('CUDA_VISIBLE_DEVICES', '')}"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main())
