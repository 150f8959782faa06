#!/usr/bin/env python3
"""Peak memory and step time of networks under torch.compile, beside what umbench says of them beforehand.

    python3 benchmarks/torch_steps.py --out results/torch/steps.jsonl [--machine h100-sxm-80g] [--only resnet50,...]

Each network (torch_models.py) runs in a process of its own: forward and backward pass, bfloat16, torch.compile's defaults. A line of
the result holds, for one network, `predicted` (from the traced graph, before anything runs: by the machine file's rates, and with
products, convolutions and attention measured by themselves) and `measured`. Needs a GPU and PyTorch 2.9 or later.
"""

import argparse
import gc
import json
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python"), str(HERE)]
WARM_UP, STEPS = 4, 20


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, metavar="FILE.jsonl", help="a line for each network is appended")
    parser.add_argument("--machine", default="h100-sxm-80g", help="machine file whose rates are used (h100-sxm-80g)")
    parser.add_argument("--only", metavar="NAMES", help="networks, by commas; all of TEN and HELD_OUT where not given")
    parser.add_argument("--details", metavar="FOLDER", help="keep graphs and the profiler's kernels there")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one, options)))
        return 0
    import torch_models
    names = options.only.split(",") if options.only else [f.__name__ for f in torch_models.TEN + torch_models.HELD_OUT]
    failed = 0
    for name in names:
        command = [sys.executable, __file__, "--one", name, "--out", options.out, "--machine", options.machine]
        done = subprocess.run(command + (["--details", options.details] if options.details else []), capture_output=True, text=True, check=False)
        if done.returncode:
            failed += 1
            print(f"{name}: failed: {(done.stderr.strip().splitlines() or ['?'])[-1]}", flush=True)
            if options.details:
                Path(options.details, f"{name}.err").write_text(done.stderr, encoding="utf-8")
            continue
        line = json.loads(done.stdout.strip().splitlines()[-1])
        Path(options.out).parent.mkdir(parents=True, exist_ok=True)
        with open(options.out, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(row(line), flush=True)
    return 1 if failed else 0


def row(line):
    p, m = line["predicted"], line["measured"]
    peak, ms = m["peak_bytes"], m["step_ns"]
    told = p["peak_bytes"] + m["library_bytes"]
    return (f"{line['network']:16} peak {peak / 2**30:6.2f} GiB, told {told / 2**30:6.2f} ({100 * (told / peak - 1):+5.1f} %), with workspaces "
            f"{100 * ((p['peak_with_workspaces_bytes'] + m['library_bytes']) / peak - 1):+5.1f} %; saved {m['saved_bytes'] / 2**30:6.2f}, told "
            f"{p['saved_bytes'] / 2**30:6.2f}; step {ms / 1e6:7.2f} ms, by rates {100 * (p['step_by_rates_ns'] / ms - 1):+6.1f} %, "
            f"by measured operators {100 * (p['step_by_measured_ns'] / ms - 1):+6.1f} %; kernels {m['kernels']}, told {p['kernels']}, busy {sum(m['kernel_ns'].values()) / 1e6:.2f} ms")


def one(name, options):
    import torch
    measured = measure(name, options)  # first: measuring operators leaves workspaces of libraries behind
    predicted, made = predict(name, options)
    place = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda, "machine": options.machine}
    if options.details:
        from umbench.torch import convert
        Path(options.details).mkdir(parents=True, exist_ok=True)
        Path(options.details, f"{name}.json").write_text(convert.as_text(made.document), encoding="utf-8")
    return {"schema": 1, "kind": "torch_step", "network": name, **place, "predicted": predicted, "measured": measured}


def predict(name, options):
    import torch_models
    from umbench.torch import convert, export, liveness, measuring
    made = convert.of_model(getattr(torch_models, name), name=name)
    document = made.document
    predicted = {"peak_bytes": liveness.peak_of(document)[0], "saved_bytes": liveness.saved_bytes(document), "operators": len(document["ops"]),
                 "kernels": sum(made.launches.get(op["name"], 1) for op in document["ops"])}
    export.set_durations(document, export.machine(options.machine))
    predicted["step_by_rates_ns"] = sum(op["duration_ns"] for op in document["ops"])
    predicted["by_rates_alone_ns"] = sum(op["duration_ns"] for op in document["ops"] if op["name"] in made.alone)
    measuring.set_durations(made)
    predicted["step_by_measured_ns"] = sum(op["duration_ns"] for op in document["ops"])
    predicted["by_measured_alone_ns"] = sum(op["duration_ns"] for op in document["ops"] if op["name"] in made.alone)
    predicted["peak_with_workspaces_bytes"] = liveness.peak_of(document)[0]
    return predicted, made


def measure(name, options):
    import torch
    import torch_models
    torch.cuda.empty_cache()
    with torch.device("cuda"):
        model, inputs = getattr(torch_models, name)()
    step_of = torch.compile(with_loss(model.train(), inputs))
    base = torch.cuda.memory_allocated()
    samples, saved, peak = [], 0, 0
    for number in range(WARM_UP + STEPS):
        model.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before = torch.cuda.memory_allocated()
        begin.record()
        loss = step_of(*inputs)
        saved = torch.cuda.memory_allocated() - before
        loss.backward()
        end.record()
        torch.cuda.synchronize()
        peak = torch.cuda.max_memory_allocated()
        if number >= WARM_UP:
            samples.append(round(begin.elapsed_time(end) * 1e6))
    kernels, busy = profile(step_of, model, inputs, name, options)
    value = float(loss)
    del loss
    model.zero_grad(set_to_none=True)
    gc.collect()
    library = torch.cuda.memory_allocated() - base
    return {"peak_bytes": peak, "saved_bytes": saved, "base_bytes": base, "library_bytes": library, "reserved_bytes": torch.cuda.max_memory_reserved(),
            "step_ns": round(statistics.median(samples)), "samples_ns": samples, "kernels": kernels, "kernel_ns": busy, "loss": value}


def with_loss(model, inputs):
    import torch
    from torch.nn import functional

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *given):
            result = self.model(*given)
            return result if result.dim() == 0 else functional.cross_entropy(result, torch.zeros(result.shape[0], dtype=torch.long, device=result.device))

    return Loss()


def profile(step_of, model, inputs, name, options):
    """(kernels of a step, {kind: nanoseconds})."""
    import torch
    model.zero_grad(set_to_none=True)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU]) as seen:
        step_of(*inputs).backward()
        torch.cuda.synchronize()
    rows = [e for e in seen.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    kinds = {}
    for event in rows:
        kind = "generated" if event.name.startswith("triton") else "copies" if event.name.startswith(("Mem", "mem")) else "libraries"
        kinds[kind] = kinds.get(kind, 0) + round(event.device_time_total * 1000)
    if options.details:
        Path(options.details).mkdir(parents=True, exist_ok=True)
        Path(options.details, f"{name}.kernels.txt").write_text("".join(f"{e.device_time_total:9.1f} {e.name[:160]}\n" for e in rows), encoding="utf-8")
    return len(rows), kinds


if __name__ == "__main__":
    sys.exit(main())
