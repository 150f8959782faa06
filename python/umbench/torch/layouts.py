"""Finds out whether torch.compile uses channels last for images, and which copies convolutions need if it does not.

cuDNN computes convolutions of half precision with channels last. It copies operands and results that lie in another order, in a workspace.
"""

import torch

from .operators import HALF_TYPES, argument_of, is_convolution, is_pointwise_convolution, operator_name, traced_argument

MAX_NODES_PER_CONVOLUTION = 300


def uses_channels_last(forward_graph):
    """Whether torch.compile uses channels last for a forward graph that is trained (torch/_inductor/graph.py: decide_layout_opt)."""
    convolutions = [n for n in forward_graph.nodes if n.op == "call_function" and operator_name(n) == "convolution"]
    shapes_and_groups = [(*traced_argument(n.args[1]).shape, n.args[8]) for n in convolutions if traced_argument(n.args[1]).dim() == 4]
    any_is_grouped = any(groups > 1 and inputs > 1 for _, inputs, _, _, groups in shapes_and_groups)
    any_narrows = any(2 * outputs <= inputs and height > 1 for outputs, inputs, height, _, _ in shapes_and_groups)
    all_are_small = all(outputs <= 64 and inputs <= 64 for outputs, inputs, *_ in shapes_and_groups)
    return (bool(shapes_and_groups)
            and len(forward_graph.nodes) < MAX_NODES_PER_CONVOLUTION * len(convolutions)
            and not (any_is_grouped or any_narrows or all_are_small))


def copied_bytes_per_kernel(node):
    """[bytes of the operands and result that a kernel copies], for each kernel of a convolution of half precision or of its gradients whose
    images do not have channels last. Empty for all other nodes."""
    if not is_convolution(node):
        return []
    is_backward = operator_name(node) == "convolution_backward"
    x, w = (traced_argument(argument_of(node, name)) for name in ("input", "weight"))
    y = traced_argument(node.args[0]) if is_backward else node.meta["val"]
    if x.dtype not in HALF_TYPES or x.dim() != 4 or _is_channels_last(x) or is_pointwise_convolution(node):
        return []
    bytes_of_kernel = sum(t.numel() * t.element_size() for t in (x, w, y))
    return [bytes_of_kernel] * (sum(map(bool, node.args[10][:2])) if is_backward else 1)


def placeholders_to_reorder(graph):
    """The placeholders of images and filters that a graph with channels last copies first. The copies are saved for the backward graph."""
    return [n for n in graph.nodes if n.op == "placeholder" and any(u.op == "call_function" and operator_name(u) == "convolution" for u in n.users)
            and channels_last_would_reorder(traced_argument(n))]


def channels_last_would_reorder(tensor):
    """Whether channels last changes the order of elements of an image or of filters."""
    return tensor.dim() == 4 and not tensor.is_contiguous(memory_format=torch.channels_last)


def _is_channels_last(x):
    return x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()


def images_in_traced_order(forward_graph):
    """Images of a forward graph with channels last that keep the order in which they were traced: those after the last convolution
    (torch/_inductor/graph.py: find_nodes_prefer_channels_last)."""
    nodes = [n for n in forward_graph.nodes if n.op == "call_function"]
    last_convolution_index = max(i for i, n in enumerate(nodes) if operator_name(n) == "convolution")
    channels_last_nodes = {n for n in nodes[:last_convolution_index + 1] if operator_name(n) == "convolution"}
    for node in reversed(nodes[:last_convolution_index]):
        if channels_last_nodes.intersection(node.users):
            channels_last_nodes.add(node)
    for node in nodes[:last_convolution_index]:
        if node in channels_last_nodes:
            channels_last_nodes.update(node.users)
    return {n for n in nodes if n not in channels_last_nodes and channels_last_would_reorder_result(n)}


def channels_last_would_reorder_result(node):
    """Whether a node has one tensor as its result, and channels last changes the order of its elements."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dim() == 4 and channels_last_would_reorder(value)
