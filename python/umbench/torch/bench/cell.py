"""One model under one way of saving memory, measured in a process of its own; prints one JSON line.

    python -m umbench.torch.bench.cell MODEL WAY [VALUE] --lock FILE

WAY: plain (torch.compile as it is), share (VALUE is PyTorch's activation_memory_budget), fit (VALUE is a budget in bytes)."""

import argparse
import contextlib
import fcntl
import json
import statistics
import sys
import time

import torch

from .models import MODELS

STEPS_UNDER_CAP = 100
TIMED = 20


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("way", choices=("plain", "share", "fit"))
    parser.add_argument("value", nargs="?", type=float)
    parser.add_argument("--lock", required=True)
    parser.add_argument("--batch", type=int)
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
    losses, marks = [], []

    def step(timed=False):
        optimizer.zero_grad(set_to_none=True)
        if timed:
            marks.append((torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)))
            marks[-1][0].record()
        loss = run(*inputs)
        after_forward = torch.cuda.memory_allocated()
        loss.backward()
        if timed:
            marks[-1][1].record()
        losses.append(loss.detach())
        del loss
        return after_forward

    begun = time.monotonic()
    step()
    norm = torch.stack([p.grad.float().norm() for p in model.parameters() if p.grad is not None]).norm().item()
    optimizer.step()
    torch.cuda.synchronize()
    found = {"first_step_s": time.monotonic() - begun, "gradient_norm": norm}
    with exclusive(options.lock):
        for _ in range(3):
            step()
            optimizer.step()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        cap = options.value if options.way == "fit" else None
        if cap:
            torch.cuda.set_per_process_memory_fraction(cap / device_bytes)
        base = torch.cuda.memory_allocated()
        found["under_cap"] = survives(lambda: (step(timed=True), optimizer.step()), STEPS_UNDER_CAP if cap else TIMED)
        times = [a.elapsed_time(b) for a, b in marks[3:] if b.query()]
        found |= {"ms": statistics.median(times) if times else None, "ms_quarters": statistics.quantiles(times) if len(times) > 3 else None,
                  "peak": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved(), "base": base,
                  "losses": [losses[0].item(), losses[-1].item()]}
        optimizer.zero_grad(set_to_none=True)
        found["after_forward"] = step()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(0.97 * found["peak"] / device_bytes)
        found["fails_below"] = survives(lambda: step(), 3) is not True
    plan = getattr(model, "plan", None)
    if plan is not None:
        found |= {"predicted": plan.predicted, "predicted_unplanned": plan.unplanned, "planned_base": plan.base_bytes, "plan_s": plan.seconds,
                  "kernels_again": sum(len(again) for _, again in plan.modules.values())}
    return found


def compiled(model, optimizer, options):
    if options.way == "fit":
        import umbench.torch

        return umbench.torch.fit(model, budget=int(options.value), optimizer=optimizer)
    if options.way == "share":
        torch._functorch.config.activation_memory_budget = options.value
    return torch.compile(model)


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
def exclusive(path):
    """Alone on the GPU among the cells that share the file."""
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main())
