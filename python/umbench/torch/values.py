"""Values of a traced graph and their memory."""

import math
import operator

import torch
from torch.utils._pytree import tree_leaves

from .operators import VIEW, inductor_kind


def is_tangent(node):
    """Whether a node is an incoming gradient of a joint graph, by the name that PyTorch gives it."""
    return node.op == "placeholder" and node.target.startswith("tangents")


def backward_nodes_of(graph):
    """All nodes that are computed from incoming gradients."""
    backward_nodes = set()
    for node in graph.nodes:
        if is_tangent(node) or not backward_nodes.isdisjoint(node.all_input_nodes):
            backward_nodes.add(node)
    return backward_nodes


def value_of(node):
    """The traced value of a node: a fake tensor, a number, or a tuple of these; None if it has none."""
    return node.meta.get("val")


def tensors_of(node):
    return [leaf for leaf in tree_leaves(value_of(node)) if isinstance(leaf, torch.Tensor)]


def largest_numel(node):
    """The number of elements of a node's largest tensor; 0 if it has none."""
    return max((t.numel() for t in tensors_of(node)), default=0)


def base_of(node):
    """The node whose memory a view shows: a placeholder, an operator, or one result of an operator with several."""
    while node.op == "call_function":
        if node.target is operator.getitem:
            if inductor_kind(node.args[0]) != VIEW:
                return node
        elif inductor_kind(node) != VIEW:
            return node
        node = node.args[0]
    return node


def maker_of(base_node):
    """The operator that writes the memory of a base."""
    return base_node.args[0] if base_node.target is operator.getitem else base_node


def stored_numel(tensor):
    """The number of elements in memory: those of an expanded tensor count once."""
    return math.prod(size for size, stride in zip(tensor.shape, tensor.stride()) if stride != 0)


def stored_bytes(tensor):
    return stored_numel(tensor) * tensor.element_size()


def padded_strides(node):
    """Strides of a matrix as it lies in memory: those that a compiled graph computes begin rows of more than 1,024 elements at multiples of
    128 bytes (torch/_inductor/ir.py: _pad_strides)."""
    value = value_of(node)
    strides = value.stride()
    if value.dim() != 2 or base_of(node).name.startswith(("primals", "tangents")) or sorted(strides) != [1, max(strides)]:
        return strides
    return tuple(padded_row_length(stride, value) if stride > 1 else 1 for stride in strides)


def padded_row_length(row_length, tensor):
    """The number of elements of a row in memory with its padding, for elements of the type of `tensor`."""
    elements_of_line = 128 // tensor.element_size()
    return -(-row_length // elements_of_line) * elements_of_line if row_length > 1024 else row_length


def module_path_of(node):
    """The path of the innermost module whose code made a node; "" where the graph does not tell."""
    module_stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    if not module_stack:
        return ""
    path = list(module_stack.values())[-1][0]
    return _plain_module_path(path)


def _plain_module_path(pytorch_path):
    """The path of a module such as "layer1.0.conv1" for PyTorch's name, such as "L['self'].layer1[0].conv1"."""
    for prefix in ("L['self'].", "L['model'].", "L__self___", "self."):
        pytorch_path = pytorch_path.removeprefix(prefix)
    return pytorch_path.replace("['", ".").replace("']", "").replace("[", ".").replace("]", "").replace("_modules.", "").strip(".")


def add_unique_name(used_names, wanted_name):
    """Adds a free name to the set of names and returns it: the wanted name, or that with the first free number."""
    name, suffix_number = wanted_name, 1
    while name in used_names:
        suffix_number += 1
        name = f"{wanted_name}.{suffix_number}"
    used_names.add(name)
    return name


def output_nodes_of(graph):
    (output_node,) = (n for n in graph.nodes if n.op == "output")
    return list(output_node.args[0])


def changed_input_number_by_output(graph, output_count):
    """{number of the output: number of the input} for those of the first `output_count` outputs that are new values of inputs."""
    (output_node,) = (n for n in graph.nodes if n.op == "output")
    input_number_of_description = {n.meta.get("desc"): i for i, n in enumerate(n for n in graph.nodes if n.op == "placeholder")}
    changed_description_by_output = {i: getattr(description, "mutated_input", None)
                                     for i, description in enumerate(list(output_node.meta.get("desc") or [])[:output_count])}
    return {i: input_number_of_description.get(description) for i, description in changed_description_by_output.items() if description is not None}


def changed_input_nodes(graph, output_count):
    """The input nodes that a graph changes, in place or by a new value among its first outputs."""
    placeholders = graph.find_nodes(op="placeholder")
    nodes_changed_in_place = {node.args[0] for node in graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)}
    return nodes_changed_in_place | {placeholders[number] for number in changed_input_number_by_output(graph, output_count).values()}
