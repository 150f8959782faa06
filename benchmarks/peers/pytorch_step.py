#!/usr/bin/env python3
"""Times one training step of PyTorch, to hold against `umbench run --strategy device`.

Forward and backward, no optimiser, synthetic data, dropout 0, single precision with TF32 off,
NCHW, cuDNN's own search for the fastest engine on. Prints one JSON line per network, batch and
way of running: eager, and (unless --eager-only) replays of a CUDA graph of the same step.

    python3 benchmarks/peers/pytorch_step.py --network vgg16 --batch 64

Needs torch with CUDA; torchvision is not needed.
"""

import argparse
import json
import statistics
import sys

try:
    import torch
    from torch import nn
except ImportError:
    sys.exit("error: PyTorch is not installed; install torch with CUDA support")

VGG_STAGES = {
    "vgg11": (1, 1, 2, 2, 2),
    "vgg13": (2, 2, 2, 2, 2),
    "vgg16": (2, 2, 3, 3, 3),
    "vgg19": (2, 2, 4, 4, 4),
}


def classifier(features):
    return [nn.Flatten(), nn.Linear(features, 4096), nn.ReLU(inplace=True), nn.Linear(4096, 4096),
            nn.ReLU(inplace=True), nn.Linear(4096, 1000)]


def vgg(stages):
    layers, channels = [], 3
    for width, depth in zip((64, 128, 256, 512, 512), stages):
        for _ in range(depth):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, *classifier(512 * 7 * 7))


def alexnet():
    def block(inputs, outputs, kernel, **how):
        return [nn.Conv2d(inputs, outputs, kernel, **how), nn.ReLU(inplace=True)]

    return nn.Sequential(
        *block(3, 64, 11, stride=4, padding=2), nn.MaxPool2d(3, 2),
        *block(64, 192, 5, padding=2), nn.MaxPool2d(3, 2),
        *block(192, 384, 3, padding=1), *block(384, 256, 3, padding=1), *block(256, 256, 3, padding=1),
        nn.MaxPool2d(3, 2), *classifier(256 * 6 * 6))


def times_of(step, warmup, samples):
    """Milliseconds of each sample, by events on the current stream."""
    for _ in range(warmup):
        step()
    torch.cuda.synchronize()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(samples + 1)]
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) for begin, end in zip(marks, marks[1:])]


def capture(step):
    """A graph of the step; captured on a side stream after warming up there, as PyTorch asks."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=["alexnet", *VGG_STAGES], default="vgg16")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--warmup", type=int, default=4)
    parser.add_argument("--samples", type=int, default=12)
    parser.add_argument("--deterministic", action="store_true", help="allow deterministic engines only")
    parser.add_argument("--eager-only", action="store_true", help="do not capture a CUDA graph")
    args = parser.parse_args()
    if min(args.batch, args.samples) < 1 or args.warmup < 0:
        parser.error("--batch and --samples must be at least 1, --warmup at least 0")
    if not torch.cuda.is_available():
        sys.exit("error: PyTorch sees no CUDA device")

    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.deterministic = args.deterministic
    model = (alexnet() if args.network == "alexnet" else vgg(VGG_STAGES[args.network])).cuda()
    data = torch.randn(args.batch, 3, 224, 224, device="cuda")
    labels = torch.randint(0, 1000, (args.batch,), device="cuda")
    loss_of = nn.CrossEntropyLoss()

    def step():
        model.zero_grad(set_to_none=True)
        loss_of(model(data), labels).backward()

    def report(way, samples):
        print(json.dumps({
            "kind": "peer", "peer": "pytorch", "version": torch.__version__,
            "cudnn": torch.backends.cudnn.version(), "gpu": torch.cuda.get_device_name(),
            "network": args.network, "batch": args.batch, "pass": "train", "precision": "fp32", "way": way,
            "deterministic": args.deterministic, "median_ns": round(statistics.median(samples) * 1e6),
            "samples_ns": [round(ms * 1e6) for ms in samples],
            "peak_bytes": torch.cuda.max_memory_allocated()}), flush=True)

    report("eager", times_of(step, args.warmup, args.samples))
    if not args.eager_only:
        graph = capture(step)
        report("graph", times_of(graph.replay, args.warmup, args.samples))


if __name__ == "__main__":
    main()
