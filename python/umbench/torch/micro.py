"""Computes a batch in equal parts, each with its own forward and backward pass. The gradients are those of the mean of the parts' losses."""

import torch

from .planner import NoPlan, NoRoom

BATCH_NORMS = (torch.nn.modules.batchnorm._BatchNorm,)  # base classes of modules that normalise by statistics of the batch
PART_COUNTS = (1, 2, 4, 8, 16)  # numbers of parts that "auto" tries
MAX_TIME_SHARE = 0.9  # more parts are chosen if they take less than this share of the time of fewer parts, since they have taken 6 % longer than predicted (results/torch/parts_h100.jsonl)
ACCESSES_OF_SUM, ACCESSES_OF_SCALING = 3, 2  # accesses of memory to add a gradient to the sum, and to multiply the sum by a factor


class PlanMade(NoPlan):
    """Raised when a plan exists, to end a call that was made only to plan."""


def part_counts_to_try(predict_ms):
    """[the best count and all larger ones] of PART_COUNTS, to try in order. The best is the smallest that has a plan, or a larger one that saves a
    tenth of the time. predict_ms(count) returns (milliseconds with the plan, milliseconds without a plan), or raises NoPlan. The time without a plan
    is a lower bound for larger counts, so the search ends where that saves no tenth, or at the first plan that saves none."""
    best_count = best_ms = None
    for part_count in PART_COUNTS:
        try:
            planned_ms, unplanned_ms = predict_ms(part_count)
        except NoRoom as error:
            if best_count:
                break
            last_error = error
            continue
        except NoPlan:
            if not best_count:
                raise
            break
        if best_count and planned_ms >= MAX_TIME_SHARE * best_ms:
            break
        best_count, best_ms = part_count, planned_ms
        if unplanned_ms >= MAX_TIME_SHARE * planned_ms:
            break
    if best_count is None:
        raise last_error
    return [part_count for part_count in PART_COUNTS if part_count >= best_count]


class MicroBatches(torch.autograd.Function):
    """Computes the gradients together with the loss. The gradient of the loss only multiplies them."""

    @staticmethod
    def forward(ctx, compute_loss, parts, *parameters):
        """Runs the parts, which split_batch() returned; returns the mean of their losses."""
        total_loss, gradient_sums = None, None
        for inputs, keyword_inputs in parts:
            with torch.enable_grad():
                part_loss = compute_loss(*inputs, **keyword_inputs)
                if not isinstance(part_loss, torch.Tensor) or part_loss.dim():
                    raise NoPlan("micro batches need a model whose result is its loss, a mean over the batch")
                with torch.autograd.set_multithreading_enabled(False):  # autograd's own thread can hold the gradients until after the next forward pass
                    gradients = torch.autograd.grad(part_loss / len(parts), parameters, allow_unused=True)
            total_loss = part_loss.detach() if total_loss is None else total_loss + part_loss.detach()
            gradient_sums = (list(gradients) if gradient_sums is None
                             else [gradient if gradient_sum is None else gradient_sum if gradient is None else gradient_sum.add_(gradient)
                                   for gradient_sum, gradient in zip(gradient_sums, gradients)])
            del part_loss, gradients
        ctx.sums = gradient_sums
        return total_loss / len(parts)

    @staticmethod
    def backward(ctx, factor):
        gradient_sums, ctx.sums = ctx.sums, None
        return None, None, *(None if gradient_sum is None else gradient_sum.mul_(factor) for gradient_sum in gradient_sums)


def run_in_parts(compute_loss, model, part_count, inputs, keyword_inputs):
    """The mean of the losses that `compute_loss` returns for the parts of the batch."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    return MicroBatches.apply(compute_loss, split_batch(part_count, inputs, keyword_inputs), *parameters)


def batch_size_of(inputs, keyword_inputs):
    """The first extent of the first tensor that has one; 0 if none has."""
    return next((x.shape[0] for x in [*inputs, *keyword_inputs.values()] if isinstance(x, torch.Tensor) and x.dim()), 0)


def largest_part_count(max_count, inputs, keyword_inputs):
    """The largest of PART_COUNTS, at most `max_count`, of equal parts into which the batch can be cut."""
    return max(part_count for part_count in PART_COUNTS if part_count <= max_count and batch_size_of(inputs, keyword_inputs) % part_count == 0)


def split_batch(part_count, inputs, keyword_inputs):
    """[(inputs, keyword inputs)] of each part. Tensors with the first extent of the first tensor are cut; every part gets all other inputs."""
    batch_size = batch_size_of(inputs, keyword_inputs)
    if batch_size == 0 or batch_size % part_count:
        raise NoPlan(f"a batch of {batch_size} has no {part_count} equal parts; give another batch or micro_batches=1")

    def cut_or_repeat(value):
        has_batch = isinstance(value, torch.Tensor) and value.dim() and value.shape[0] == batch_size
        return value.chunk(part_count) if has_batch else [value] * part_count

    cut_inputs, cut_keyword_inputs = [cut_or_repeat(x) for x in inputs], {name: cut_or_repeat(x) for name, x in keyword_inputs.items()}
    return [([value_parts[i] for value_parts in cut_inputs], {name: value_parts[i] for name, value_parts in cut_keyword_inputs.items()})
            for i in range(part_count)]


def refuse_batch_norms(model):
    """Raises NoPlan if a module normalises by the statistics of its batch, which parts would change."""
    for name, module in model.named_modules():
        if isinstance(module, BATCH_NORMS) and module.training:
            raise NoPlan(f"{name} normalises by the statistics of its batch, which parts would change; give statistics_of_parts=True if they may")
