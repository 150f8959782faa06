#!/usr/bin/env python3
"""What managed memory costs a stock training step that fits: GPT-2 or ResNet-50, in PyTorch's own memory and in umbench's managed pool.

    examples/torch/managed_step.py [--model resnet50|gpt2] [--policies stock,none,prefetch] [--steps N]

Trace it to see what moves: umbench trace --out step.jsonl -- python3 examples/torch/managed_step.py --policies none
Needs a GPU, PyTorch and libumbench_pool.so (umbench built with -DUM_CUDA=ON).
"""
import argparse
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import torch  # noqa: E402

from umbench.torch import managed_pool  # noqa: E402

WARM = 3


def resnet50():
    import torchvision
    model = torchvision.models.resnet50().cuda()
    images, labels = torch.randn(64, 3, 224, 224, device="cuda"), torch.randint(1000, (64,), device="cuda")
    return model, lambda: torch.nn.functional.cross_entropy(model(images), labels)


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config(n_embd=1024, n_layer=24, n_head=16, attn_pdrop=0, embd_pdrop=0, resid_pdrop=0)).cuda()
    tokens = torch.randint(50257, (4, 512), device="cuda")
    return model, lambda: model(tokens, labels=tokens).loss


MODELS = {"resnet50": resnet50, "gpt2": gpt2}


def time_steps(make_model_and_loss, step_count):
    """(median of the later steps, time of the first) in ms. A step is forward, backward and update by SGD."""
    torch.manual_seed(0)
    model, loss = make_model_and_loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    times = []
    for _ in range(WARM + step_count):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times[WARM:]), times[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="resnet50")
    parser.add_argument("--policies", default="stock,none,prefetch", help="of umbench.torch.managed_pool; stock is PyTorch's own memory")
    parser.add_argument("--steps", type=int, default=20)
    wanted = parser.parse_args()
    for policy in wanted.policies.split(","):
        if policy == "stock":
            median, first = time_steps(MODELS[wanted.model], wanted.steps)
            print(f"{wanted.model} stock: {median:.2f} ms a step, the first {first:.1f} ms", flush=True)
            continue
        with managed_pool(policy) as pool:
            median, first = time_steps(MODELS[wanted.model], wanted.steps)
            print(f"{wanted.model} {policy}: {median:.2f} ms a step, the first {first:.1f} ms, {pool.peak / 2**30:.2f} GiB managed", flush=True)


if __name__ == "__main__":
    main()
