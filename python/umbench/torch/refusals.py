"""Checks for cases that fit does not support, each with an error of one line before anything runs."""

import torch
from torch.utils._pytree import tree_leaves

from . import private
from .planner import NoPlan

MAX_EFFORT = 1000
TIERS, BITS, BACKENDS = ("pinned", "managed", None), ("rounding", "same"), ("inductor", "aot_eager")
WRAPPER_NAMES = ("DistributedDataParallel", "FullyShardedDataParallel", "FSDPModule", "DataParallel")
PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


def check_model(model):
    """Raises NoPlan for a model that is no module, that is wrapped or distributed, or whose parameters are of unknown types or on several devices."""
    if not isinstance(model, torch.nn.Module):
        raise NoPlan(f"fit takes a torch.nn.Module, not a {type(model).__name__}")
    for name, module in model.named_modules():
        if type(module).__name__ in WRAPPER_NAMES:
            raise NoPlan(f"{name or 'the model'} is a {type(module).__name__}: fit plans for one GPU")
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        check_type(name, tensor)
    devices = sorted({str(parameter.device) for parameter in model.parameters()})
    if len(devices) > 1:
        raise NoPlan(f"parameters are on {', '.join(devices)}: fit plans for one GPU; move the model to one")


def check_not_distributed():
    """Raises NoPlan if the model is called within the forward pass of DistributedDataParallel."""
    if private.is_within_distributed():
        raise NoPlan("the model runs within DistributedDataParallel: fit plans for one GPU")


def check_options(tier, bits, micro_batches, effort, backend, cuda_graphs=False):
    if not is_number(effort) or not 0 < effort <= MAX_EFFORT:
        raise NoPlan(f"effort={effort!r} is not above 0 and at most {MAX_EFFORT}")
    if tier not in TIERS:
        raise NoPlan(f"tier={tier!r} is none of {', '.join(map(repr, TIERS))}")
    if bits not in BITS:
        raise NoPlan(f"bits={bits!r} is none of {', '.join(map(repr, BITS))}")
    if backend not in BACKENDS:
        raise NoPlan(f"backend={backend!r} is none of {', '.join(map(repr, BACKENDS))}")
    if micro_batches != "auto" and not (isinstance(micro_batches, int) and is_number(micro_batches) and micro_batches >= 1):
        raise NoPlan(f"micro_batches={micro_batches!r} is neither 'auto' nor a whole number from 1")
    if bits == "same" and micro_batches != 1:
        raise NoPlan("a batch in parts adds up gradients in another order; give bits='rounding' or micro_batches=1")
    if cuda_graphs and (backend != "inductor" or tier == "managed" or micro_batches != 1):
        raise NoPlan("cuda_graphs=True takes backend='inductor', tier='pinned' or None, and micro_batches=1")


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_inputs(inputs, keyword_inputs):
    """Raises NoPlan for inputs that are subclasses of torch.Tensor."""
    for name, value in [*enumerate(inputs), *keyword_inputs.items()]:
        for leaf in tree_leaves(value):
            if isinstance(leaf, torch.Tensor):
                check_type(f"input {name}", leaf)


def check_type(name, tensor):
    """Raises NoPlan if the tensor is of another type than those of PLAIN_TYPES."""
    if type(tensor) not in PLAIN_TYPES:
        raise NoPlan(f"{name} is a {type(tensor).__name__}, not a plain tensor: fit cannot tell what it takes")


def check_fixed_sizes(graph):
    """Raises NoPlan if a size in Dynamo's graph is dynamic or depends on values."""
    for node in graph.nodes:
        for value in tree_leaves(node.meta.get("example_value")):
            sizes = value.shape if isinstance(value, torch.Tensor) else [value]
            if any(isinstance(size, (torch.SymInt, torch.SymFloat, torch.SymBool)) for size in sizes):
                raise NoPlan(f"{node.name} has a size that is dynamic or depends on values: fit plans for fixed shapes")
