#!/usr/bin/env python3
"""Trains a network twice from the same weights on the same batches: as torch.compile runs it, and fitted into a share of that memory.

    examples/torch/fit_training.py resnet50|gpt2|llama_lora [--ratio 3] [--steps 200] [--out curve.jsonl]

Prints both losses side by side; they fall together. --small: a small network, on the CPU if there is no GPU.
Needs PyTorch 2.11 and the program umbench.
"""
import argparse
import copy
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True,large_segment_size_mb:12")  # fit's, here for the unplanned model, too
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import torch  # noqa: E402

import umbench.torch  # noqa: E402
from umbench.torch.bench.models import GPT2, Llama, ResNet, WithLoss, convert_frozen_to_bf16  # noqa: E402

NETWORKS = {"resnet50": (ResNet, lambda: ResNet((1, 1, 1, 1), 16, 10)), "gpt2": (GPT2, lambda: GPT2(3, 64, 2, 61, 64)),
            "llama_lora": (Llama, lambda: Llama(3, 64, 4, 2, 128, 61, 64))}


def image_batches(is_small, device):
    """Yields batches (images, labels). Each class has a colour of its own."""
    classes, batch, size = (10, 8, 64) if is_small else (1000, 256, 224)
    colours = torch.rand(classes, 3, 1, 1, device=device)
    while True:
        labels = torch.randint(classes, (batch,), device=device)
        x = colours[labels] + 0.1 * torch.randn(batch, 3, size, size, device=device)
        yield x.to(memory_format=torch.channels_last), labels


def text_batches(batch_size, length, device, vocabulary_size):
    """Yields batches (words, next words). Few words are frequent, most are rare."""
    while True:
        x = (vocabulary_size * torch.rand(batch_size, length + 1, device=device) ** 8).long()
        yield x[:, :-1], x[:, 1:]


def batches_for(network_name, model, is_small, device):
    torch.manual_seed(1)
    if network_name == "resnet50":
        return image_batches(is_small, device)
    return text_batches(*((4, 64) if is_small else (24, 1024) if network_name == "gpt2" else (8, 1024)), device, model.model.words.num_embeddings)


def train(model, optimizer, batches, step_count, cap_bytes=None):
    """The loss of each step, and the peak of the later ones. PyTorch gives no memory above `cap_bytes` once a plan is settled."""
    losses, on_gpu, begun = [], torch.cuda.is_available(), False
    for step, batch in zip(range(step_count), batches):
        if on_gpu and not begun and step >= 5 and (cap_bytes is None or model.plan.settled):
            begun = True
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            if cap_bytes and model.plan.within:
                torch.cuda.set_per_process_memory_fraction(min(1.0, cap_bytes / torch.cuda.get_device_properties(0).total_memory))
        optimizer.zero_grad()
        loss = model(*batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, torch.cuda.max_memory_allocated() if on_gpu else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("--ratio", type=float, default=3, help="of the unplanned peak to the budget (3)")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rate", type=float, default=1e-3, help="of AdamW (0.001)")
    parser.add_argument("--parts", type=lambda text: text if text == "auto" else int(text), help="parts that a batch is computed in, or auto (auto for texts, 1 for images)")
    parser.add_argument("--out", help="file for the two curves, a JSON line for each step")
    parser.add_argument("--small", action="store_true")
    wanted = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not wanted.small:
        sys.exit("there is no GPU; give --small")
    torch.manual_seed(0)
    model = WithLoss(NETWORKS[wanted.network][wanted.small]()).train().to(device)
    if wanted.network == "llama_lora" and device == "cuda":
        convert_frozen_to_bf16(model)
    if wanted.network == "resnet50":
        model = model.to(memory_format=torch.channels_last)
    fitted = copy.deepcopy(model).cpu()  # it takes nothing of the device until its turn

    def optimizer_of(model):
        return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=wanted.rate)

    backend = "inductor" if device == "cuda" else "aot_eager"
    own, peak = train(torch.compile(model, backend=backend), optimizer_of(model), batches_for(wanted.network, model, wanted.small, device), wanted.steps)
    if device == "cpu":
        probe = umbench.torch.fit(copy.deepcopy(fitted), budget="1TiB", optimizer="AdamW", backend=backend, effort=0.01)
        probe(*next(batches_for(wanted.network, model, wanted.small, device)))
        peak = probe.plan.unplanned["peak"]
    del model
    optimizer = optimizer_of(fitted.to(device))
    budget = int(peak / wanted.ratio)
    parts = wanted.parts or ("auto" if wanted.network != "resnet50" else 1)
    effort = 0.01 if wanted.small else 1.0
    fitted = umbench.torch.fit(fitted, budget=budget, optimizer=optimizer, micro_batches=parts if parts == "auto" else int(parts), backend=backend, effort=effort)
    planned, used = train(fitted, optimizer, batches_for(wanted.network, fitted, wanted.small, device), wanted.steps, budget)
    print(fitted.plan)
    print(f"{'step':>6} {'unplanned':>10} {'fitted':>10}")
    for step in sorted({*range(0, wanted.steps, max(1, wanted.steps // 10)), wanted.steps - 1}):
        print(f"{step:>6} {own[step]:>10.4f} {planned[step]:>10.4f}")
    print(f"peak {peak / 2**30:.3f} GiB unplanned, budget {budget / 2**30:.3f}" + (f", used {used / 2**30:.3f}" if used else ""))
    if wanted.out:
        Path(wanted.out).write_text("".join(json.dumps({"step": i, "unplanned": a, "fitted": b}) + "\n" for i, (a, b) in enumerate(zip(own, planned))),
                                    encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except umbench.torch.NoPlan as refusal:
        sys.exit(str(refusal))
