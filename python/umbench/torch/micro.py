"""Computes a batch in equal parts, each with its own forward and backward pass. The gradients are those of the mean of the parts' losses."""

import torch

from .planner import NoPlan, NoRoom

KEEP_STATISTICS = (torch.nn.modules.batchnorm._BatchNorm,)
COUNTS = (1, 2, 4, 8, 16)  # numbers of parts that "auto" tries
MAX_TIME_SHARE = 0.9  # more parts are chosen if they take less than this share of the time of fewer parts, since they have taken 6 % longer than predicted (results/torch/parts_h100.jsonl)
ACCESSES, ACCESSES_AT_END = 3, 2  # accesses of memory to add a gradient to the sum, and to multiply the sum


class Planned(NoPlan):
    """Ends a call that only makes a plan."""


def counts_by_time(predict):
    """[the chosen count and all larger ones] of COUNTS. Chosen is the smallest that has a plan, or a larger one that saves a tenth of the
    time. predict(count) returns (milliseconds by the plan, milliseconds without a plan), or raises NoPlan. The time without a plan is a
    lower bound for larger counts, so the search ends where that saves no tenth, or at the first plan that saves none."""
    best = None
    for count in COUNTS:
        try:
            planned, unplanned = predict(count)
        except NoRoom as error:
            if best:
                break
            refusal = error
            continue
        except NoPlan:
            if not best:
                raise
            break
        if best and planned >= MAX_TIME_SHARE * best_ms:
            break
        best, best_ms = count, planned
        if unplanned >= MAX_TIME_SHARE * planned:
            break
    if best is None:
        raise refusal
    return [count for count in COUNTS if count >= best]


class MicroBatches(torch.autograd.Function):
    """Computes the gradients together with the loss. The gradient of the loss only multiplies them."""

    @staticmethod
    def forward(ctx, run, parts, *parameters):
        total, sums = None, None
        for inputs, named in parts:
            with torch.enable_grad():
                loss = run(*inputs, **named)
                if not isinstance(loss, torch.Tensor) or loss.dim():
                    raise NoPlan("micro batches need a model whose result is its loss, a mean over the batch")
                gradients = torch.autograd.grad(loss / len(parts), parameters, allow_unused=True)
            total = loss.detach() if total is None else total + loss.detach()
            sums = list(gradients) if sums is None else [b if a is None else a if b is None else a.add_(b) for a, b in zip(sums, gradients)]
            del loss, gradients
        ctx.sums = sums
        return total / len(parts)

    @staticmethod
    def backward(ctx, factor):
        sums, ctx.sums = ctx.sums, None
        return None, None, *(None if each is None else each.mul_(factor) for each in sums)


def run_in_parts(run, model, count, inputs, named):
    parameters = [p for p in model.parameters() if p.requires_grad]
    return MicroBatches.apply(run, parts_of(count, inputs, named), *parameters)


def batch_of(inputs, named):
    """The first extent of the first tensor that has one; 0 if none has."""
    return next((x.shape[0] for x in [*inputs, *named.values()] if isinstance(x, torch.Tensor) and x.dim()), 0)


def largest_count(limit, inputs, named):
    """The largest of COUNTS, at most `limit`, into which the batch can be cut in equal parts."""
    return max(count for count in COUNTS if count <= limit and batch_of(inputs, named) % count == 0)


def parts_of(count, inputs, named):
    """[(inputs, named)] of each part: tensors whose first extent is the first tensor's are cut, all else is handed to every part."""
    batch = batch_of(inputs, named)
    if batch == 0 or batch % count:
        raise NoPlan(f"a batch of {batch} has no {count} equal parts; give another batch or micro_batches=1")

    def cut(x):
        is_cut = isinstance(x, torch.Tensor) and x.dim() and x.shape[0] == batch
        return x.chunk(count) if is_cut else [x] * count

    columns, by_name = [cut(x) for x in inputs], {name: cut(x) for name, x in named.items()}
    return [([column[i] for column in columns], {name: column[i] for name, column in by_name.items()}) for i in range(count)]


def refuse_statistics(model):
    """Raises NoPlan if a module normalises by the statistics of its batch, which parts would change."""
    for name, module in model.named_modules():
        if isinstance(module, KEEP_STATISTICS) and module.training:
            raise NoPlan(f"{name} normalises by the statistics of its batch, which parts would change; give statistics_of_parts=True if they may")
