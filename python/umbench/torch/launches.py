"""How long the CPU takes to launch kernels."""

import functools
import statistics
import time

import torch

ROUNDS = 5
LAYERS = 10, 30  # of the two compiled steps whose launches are timed


def launching_ns(run, device):
    """Nanoseconds that the CPU takes for run(), whose kernels the GPU may still have to run."""
    synchronize(device)
    began = time.perf_counter_ns()
    run()
    return time.perf_counter_ns() - began


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def of_compiled(device):
    """What the CPU takes for a compiled training step: {"kernel_ns": to launch a generated kernel, "pass_ns": before the first kernel of the
    forward or backward pass}. A longer step takes more by its kernels and products; what is left of the shorter one belongs to both passes."""
    weight = torch.randn(64, 64, device=device)
    products = [launching_ns(lambda: [torch.mm(weight, weight) for _ in range(100)], device) / 100 for _ in range(ROUNDS)]
    short, long = (_step_ns(layers, weight) for layers in LAYERS)
    layer = (long - short) / (LAYERS[1] - LAYERS[0])  # 3 products and 2 generated kernels, forward and backward
    return {"kernel_ns": max(0, round((layer - 3 * statistics.median(products)) / 2)), "pass_ns": max(0, round((short - LAYERS[0] * layer) / 2))}


def _step_ns(layers, x):
    """Median of what the CPU takes to launch a training step of so many layers: a product and a ReLU each."""
    weights = [x.clone().requires_grad_() for _ in range(layers)]

    @functools.partial(torch.compile, dynamic=False)
    def loss_of(x, weights):
        for weight in weights:
            x = torch.relu(x @ weight)
        return x.sum()

    samples = []
    for _ in range(3 + 3 * ROUNDS):
        for weight in weights:
            weight.grad = None
        samples.append(launching_ns(lambda: loss_of(x, weights).backward(), x.device))
    return statistics.median(samples[3:])
