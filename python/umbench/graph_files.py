"""Sizes of the tensors of a graph file (docs/networks.md)."""

import math

SIZES = {"f32": 4, "bf16": 2, "i32": 4, "u16": 2, "u8": 1}  # bytes of an element of each type


def tensor_bytes(tensor):
    """The size of a tensor in bytes."""
    return math.prod(tensor["shape"]) * SIZES[tensor.get("type", "f32")]
