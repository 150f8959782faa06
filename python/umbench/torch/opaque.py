"""Adds operators that umbench does not compute, with the memory that they access, how they may be cut along the batch, and which operands they
may overwrite."""

import math
import operator

import torch
from torch.utils._pytree import tree_leaves

from .liveness import SIZES
from .operators import BY_SAMPLE, BY_SAMPLE_ALONG, ELEMENTWISE, is_repeatable, operator_name
from .values import add_unique_name
from .walk import View


def add_opaque_operator(walk, node):
    """Adds an opaque operator for a node, and its results."""
    value = node.meta["val"]
    has_several_results = isinstance(value, (list, tuple))
    values = list(value) if has_several_results else [value]
    used_indices = {u.args[1] for u in node.users if u.target is operator.getitem} if has_several_results else {0}
    written_values = [(i, v) for i, v in enumerate(values)
                      if isinstance(v, torch.Tensor) and v.numel() > 0 and (i in used_indices or not has_several_results)]
    if not written_values:
        walk.views[node] = [None] * len(values) if has_several_results else None
        return
    read_tensors = tensors_read_by(walk, node)
    name = walk.label_of(node)
    if walk.use == "activation_gradient" and not name.endswith(node.name):
        name += ".backward"
    result_tensors = [walk.add_result(node, f"{name}.{i}" if has_several_results else f"{name}.y", i if has_several_results else None)
                      for i, _ in written_values]
    views = dict(zip([i for i, _ in written_values], map(View, result_tensors)))
    walk.views[node] = [views.get(i) for i in range(len(values))] if has_several_results else views[0]
    flops, moved_bytes, are_products = walk.work_of(node)
    attributes = {"label": operator_name(node), "flops": flops, "bytes": moved_bytes}
    if are_products:
        attributes["products"] = True
    cut = batch_cut_of(walk, node, read_tensors, [(i if has_several_results else None) for i, _ in written_values])
    if cut is not None:
        attributes["cut"] = cut
    walk.add_op(node, name, "opaque", attributes, read_tensors, result_tensors,
                overwrite_pair_of(walk, node, read_tensors, result_tensors), is_repeatable(node))


FILLS = {"ones_like", "zeros_like", "full_like", "empty_like"}  # operators that read only the shape of their operand


def tensors_read_by(walk, node):
    """[the Tensors that a node reads], each once."""
    tensors = []
    if operator_name(node) in FILLS:
        return tensors
    for operand_node in node.all_input_nodes:
        for view in tree_leaves(walk.views.get(operand_node)):
            if isinstance(view, View) and view.tensor not in tensors:
                tensors.append(view.tensor)
    return tensors


def overwrite_pair_of(walk, node, read_tensors, made_tensors):
    """(index of the operand, index of the result) if the result of an element-wise operator may overwrite the operand, else None."""
    if operator_name(node) not in ELEMENTWISE | {"slice_scatter", "select_scatter", "copy"} or len(made_tensors) != 1:
        return None
    for i, t in enumerate(read_tensors):
        is_plain_operand = any(walk.plain_tensor(n) is t and n.meta["val"].shape == node.meta["val"].shape for n in node.all_input_nodes)
        if (is_plain_operand and t.type == made_tensors[0].type and t.order == made_tensors[0].order
                and math.prod(t.shape) == math.prod(made_tensors[0].shape)):
            return i, 0
    return None


def batch_cut_of(walk, node, read_tensors, result_indices):
    """How each operand is cut if the operator is computed in parts of the batch; None if it cannot be."""
    if not walk.twice or walk.samples < 2 or not computes_samples_separately(node):
        return None
    cut_of_tensor = {}
    for operand_node in node.all_input_nodes:
        view = walk.views.get(operand_node)
        if not isinstance(view, View):
            continue
        relation = "batch" if is_left_of_weight_gradient(walk, node, operand_node, view) else walk.relation_to_batch(operand_node)
        operand_cut = "part" if view.tensor.has_batch else "whole"
        if (relation == "other" or (view.tensor.has_batch and relation != "batch")
                or cut_of_tensor.setdefault(view.tensor, operand_cut) != operand_cut):
            return None
    result_cuts = [{"batch": "part", "whole": "sum"}.get(walk.relation_to_batch(node, i)) for i in result_indices]
    operand_cuts = [cut_of_tensor[t] for t in read_tensors]
    if None in result_cuts or "part" not in operand_cuts:
        return None
    return {"in": operand_cuts, "out": result_cuts}


def is_left_of_weight_gradient(walk, node, operand, view):
    """Whether `operand` is the dy^T of a weight's gradient dy^T x, a product that sums over the batch."""
    return (operator_name(node) == "mm" and operand is node.args[0] and view.transposed and view.tensor.has_batch
            and walk.relation_to_batch(node.args[1]) == "batch" and walk.relation_to_batch(node) == "whole")


def computes_samples_separately(node):
    """Whether an operator treats each sample of the batch separately."""
    name = operator_name(node)
    if name == "sum":
        return len(node.args) > 1
    if name in BY_SAMPLE_ALONG:
        argument_index = BY_SAMPLE_ALONG[name]
        dimensions = node.args[argument_index] if len(node.args) > argument_index else 0
        rank = max(len(v.shape) for v in tree_leaves(node.meta["val"]) if isinstance(v, torch.Tensor)) or 1
        return all(isinstance(d, int) and d % rank != 0 for d in (dimensions if isinstance(dimensions, (list, tuple)) else [dimensions]))
    return name in BY_SAMPLE


def add_in_place_write(walk, node, target_tensor, value_tensor):
    """Adds an operator that writes `value_tensor` to `target_tensor` in place."""
    byte_count = sum(math.prod(t.shape) * SIZES[t.type] for t in (value_tensor, target_tensor))
    op = {"name": add_unique_name(walk.names, target_tensor.name + ".update"), "kind": "opaque", "label": "copy", "flops": 0, "bytes": byte_count,
          "in": [target_tensor, value_tensor], "out": [target_tensor], "repeatable": False}
    walk.ops.append(op)
    walk.nodes_of[op["name"]] = node
