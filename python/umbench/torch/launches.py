"""How long the CPU takes to launch a compiled step, and how long the GPU waits for it.

Counts are in launches of a generated kernel, fitted to what the CPU took for nine networks on an H100's host with torch 2.11 (results/torch/steps.jsonl).
"""

import statistics
import time

import torch

from .operators import is_attention, name_of

ROUNDS = 9
LAYERS = 10, 30         # of the two compiled steps that are timed
KERNELS_OF_LAYER = 5.0  # a network finds its code in no cache: it launches as many kernels in the time that a layer of these steps takes
CALLS = {"mm": 1.1, "addmm": 1.1, "bmm": 1.1, "convolution": 1.0, "convolution_backward": 4.0}
ATTENTION, ATTENTION_BACKWARD, OTHERS = 1.2, 2.4, 2.7
BEFORE, BETWEEN, BEHIND = 15, 35, 50  # before the first kernel, before the backward pass, and behind the last, where gradients are handed over


def wait_for(made, kernel_ns):
    """Lengthens the operators of a Converted, in place, by what the GPU waits for the CPU, which takes `kernel_ns` to launch a generated
    kernel: the CPU runs ahead while kernels are long, and the GPU waits for it while they are short. Returns what the CPU takes."""
    timed = [op for op in made.document["ops"] if "duration_ns" in op]
    passes = first_of_passes(made.document)
    before = dict(zip(passes, (BEFORE, BETWEEN)))
    launched = done = 0
    for op in timed:
        launched += round(kernel_ns * (launches_of(made, op["name"]) + before.get(op["name"], 0)))
        end = max(done + op["duration_ns"], launched + op["duration_ns"] // made.launches.get(op["name"], 1))
        op["duration_ns"], done = end - done, end
    if len(passes) > 1:
        launched += round(kernel_ns * BEHIND)
        timed[-1]["duration_ns"] += max(0, launched - done)
    return launched


def launches_of(made, name):
    """What launching an operator takes, in launches of a generated kernel."""
    node = made.alone.get(name)
    if node is None:
        return made.launches.get(name, 1)
    if is_attention(node):
        return ATTENTION_BACKWARD if "backward" in name_of(node) else ATTENTION
    return CALLS.get(name_of(node), OTHERS)


def first_of_passes(document):
    """Names of the first operator of the forward pass and of that of the backward pass."""
    gradients = {t["name"] for t in document["tensors"] if t.get("use") in ("activation_gradient", "parameter_gradient")}
    found = {}
    for op in document["ops"]:
        if "duration_ns" in op:
            found.setdefault(any(name in gradients for name in op["out"]), op["name"])
    return [found[back] for back in sorted(found)]


def launching_ns(run, device):
    """Nanoseconds that the CPU takes for run(), whose kernels the GPU may still have to run."""
    synchronize(device)
    began = time.perf_counter_ns()
    run()
    return time.perf_counter_ns() - began


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def kernel_ns(device):
    """What the CPU takes to launch a generated kernel of a network: from two compiled steps, in turns, one of which has more layers."""
    steps = [_step(layers, device) for layers in LAYERS]
    pairs = [[launching_ns(step, device) for step in steps] for _ in range(3 + ROUNDS)][3:]
    layer = statistics.median(long - short for short, long in pairs) / (LAYERS[1] - LAYERS[0])
    return max(0, round(layer / KERNELS_OF_LAYER))


def _step(layers, device):
    """A compiled training step of so many layers: a product, a ReLU and a normalisation each."""
    x = torch.randn(64, 64, device=device, dtype=torch.bfloat16)
    weights = [x.clone().requires_grad_() for _ in range(layers)]
    scales = [torch.ones_like(x[0]).requires_grad_() for _ in range(layers)]

    @torch.compile(dynamic=False)
    def loss_of(x, weights, scales):
        for weight, scale in zip(weights, scales):
            x = torch.nn.functional.layer_norm(torch.relu(x @ weight), scale.shape, scale, scale)
        return x.sum()

    def run():
        for each in weights + scales:
            each.grad = None
        loss_of(x, weights, scales).backward()

    return run
