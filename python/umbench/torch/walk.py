"""A walk over the operators of eager PyTorch that collects tensors and operators as umbench has them."""

import math

import torch
from torch.utils._pytree import tree_leaves

from . import operators
from .capture import CannotExport
from .liveness import SIZES
from .values import module_path_of, stored_numel, add_unique_name


class GraphTensor:
    """A tensor that owns memory. `has_batch` says whether its first extent is the batch."""

    def __init__(self, name, value, use, has_batch, sample_count):
        self.name, self.use, self.has_batch = name, use, has_batch
        self.type = operators.TYPES.get(value.dtype)
        if self.type is None:
            raise CannotExport(f"{name} holds {str(value.dtype).removeprefix('torch.')}, for which umbench has no type; "
                                "convert model and inputs, by .float() or .bfloat16()")
        self.shape = _four_extents(list(value.shape), sample_count if has_batch else None)
        self.order = "nhwc" if _is_channels_last(value) else "nchw"
        self.fixed = False  # whether an operator relies on its extents

    def as_json(self):
        entry = {"name": self.name, "shape": self.shape}
        return entry | {key: value for key, value, default in (("type", self.type, "f32"), ("order", self.order, "nchw"),
                                                               ("use", self.use, "activation")) if value != default}


def _four_extents(shape, sample_count):
    """[four extents] of a shape. A batch comes first; extents merged with it (heads, windows) go to the second. Vectors lie along the second."""
    if sample_count is not None:
        shape = [sample_count, shape[0] // sample_count * math.prod(shape[1:2]), *shape[2:]]
    elif len(shape) == 1:
        shape = [1, *shape]
    shape = shape[:3] + [math.prod(shape[3:])]
    return (shape + [1] * 4)[:4] if len(shape) >= 4 else (shape[:-1] + [1] * 4)[:4]


def _is_dense(value):
    """Whether the elements of a tensor fill its memory without gaps or overlaps, in any order."""
    dense_stride = 1
    for stride, size in sorted((stride, size) for stride, size in zip(value.stride(), value.shape) if size != 1):
        if stride != dense_stride:
            return False
        dense_stride *= size
    return True


def _is_channels_last(value):
    return (value.dim() == 4 and value.is_contiguous(memory_format=torch.channels_last) and not value.is_contiguous())


class View:
    """The relation of a value to its tensor. `plain`: it has all elements in the same order. `transposed`: it is the transpose as a matrix."""

    def __init__(self, tensor, is_plain=True, is_transposed=False):
        self.tensor, self.plain, self.transposed = tensor, is_plain, is_transposed


class Walk:
    """Collects tensors and operators of `graph`, traced with `sample_count` samples. `doubled_graph` is traced with twice as many, or None: extents that
    grow with them are the batch."""

    def __init__(self, graph, doubled_graph, sample_count):
        self.nodes = list(graph.nodes)
        doubled_nodes = list(doubled_graph.nodes) if doubled_graph is not None else []
        has_same_operators = [str(n.target) for n in self.nodes] == [str(n.target) for n in doubled_nodes]
        self.twice = dict(zip(self.nodes, doubled_nodes)) if has_same_operators else {}
        self.samples = sample_count
        self.tensors, self.ops, self.names = [], [], set()
        self.views = {}      # {node: View, [View] for several results, or None without data}
        self.use = "activation"
        self.norms = {}      # {weight of a normalisation: its shift}
        self.losses = {}     # {probabilities of a log-softmax that ends in the loss: its logits}
        self.nodes_of = {}   # {name of an operator: its node}
        self.unread_buffer_bytes = 0  # bytes that the model writes but an iteration does not read
        self.uncut = ""      # reason why `doubled_graph` is missing; "" if it is not

    # --- the batch ---

    def relation_to_batch(self, node, result_index=None):
        """How a node's extents depend on the batch: "batch" if the first grows with it, "whole" if none does, else "other"."""
        traced_values = [n.meta.get("val") for n in (node, self.twice.get(node)) if n is not None]
        if result_index is not None:
            traced_values = [traced_value[result_index] for traced_value in traced_values]
        if len(traced_values) < 2:
            return "other"
        extents, doubled_extents = (list(traced_value.shape) for traced_value in traced_values)
        if extents == doubled_extents:
            return "whole"
        first_extent_doubles = (len(extents) == len(doubled_extents) and bool(extents)
                                and doubled_extents == [2 * extents[0], *extents[1:]] and extents[0] % self.samples == 0)
        return "batch" if first_extent_doubles else "other"

    # --- tensors and operators ---

    def add_tensor(self, wanted_name, value, use, has_batch):
        tensor = GraphTensor(add_unique_name(self.names, wanted_name), value, use, has_batch, self.samples)
        self.tensors.append(tensor)
        return tensor

    def add_result(self, node, wanted_name, result_index=None):
        value = node.meta["val"] if result_index is None else node.meta["val"][result_index]
        return self.add_tensor(wanted_name, value, self.use, self.relation_to_batch(node, result_index) == "batch")

    def add_op(self, node, wanted_name, kind, attributes, read_tensors, written_tensors, overwrite_pair=None, is_repeatable=True):
        """Adds an operator to the graph. `overwrite_pair`: (index of an operand, index of the result that may overwrite it)."""
        op = {"name": add_unique_name(self.names, wanted_name), "kind": kind, **attributes, "in": read_tensors, "out": written_tensors}
        if not is_repeatable:
            op["repeatable"] = False
        if overwrite_pair is not None:
            op["alias"] = {"input": overwrite_pair[0], "output": overwrite_pair[1]}
        self.ops.append(op)
        self.nodes_of[op["name"]] = node

    def work_of(self, node):
        """(operations, bytes read and written, whether the operations are products of matrices)."""
        read_values = [n.meta["val"] for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor)
                       and self.views.get(n) is not None]
        operand_and_result_values = read_values + [v for v in tree_leaves(node.meta["val"]) if isinstance(v, torch.Tensor)]
        moved_bytes = sum(stored_numel(v) * SIZES[operators.TYPES[v.dtype]] if v.dtype in operators.TYPES else 0 for v in operand_and_result_values)
        operations = operators.matrix_operations(node)
        if operations is not None:
            return operations, moved_bytes, True
        return max((stored_numel(v) for v in operand_and_result_values), default=0), moved_bytes, False

    def plain_tensor(self, node):
        """The GraphTensor whose elements a node has completely and in the same order, or None."""
        view = self.views.get(node) if isinstance(node, torch.fx.Node) else None
        return view.tensor if isinstance(view, View) and view.plain and not view.transposed else None

    def transposed_tensor(self, node):
        """The GraphTensor whose transpose as a matrix a node is, or None."""
        view = self.views.get(node) if isinstance(node, torch.fx.Node) else None
        return view.tensor if isinstance(view, View) and view.plain and view.transposed else None

    def label_of(self, node):
        module = module_path_of(node)
        return f"{module}:{node.name}" if module else node.name

    # --- views ---

    def keeps_layout(self, copy_node):
        """Whether a copy of a dense tensor has the strides of its source."""
        source_value, copy_value = copy_node.args[0].meta["val"], copy_node.meta["val"]
        return source_value.stride() == copy_value.stride() and _is_dense(source_value)

    def view_of(self, source, node, keeps_order):
        """The View, or [View], that the view operator `node` makes of `source`. `keeps_order`: whether it keeps all elements in order."""
        source_view = self.views.get(source)
        if not isinstance(source_view, View):
            return source_view
        source_value, node_value = source.meta["val"], node.meta["val"]
        if isinstance(node_value, (list, tuple)):
            return [View(source_view.tensor, False) for _ in node_value]
        if operators.operator_name(node) in ("t", "transpose") and source_value.dim() == 2 and source_view.plain:
            return View(source_view.tensor, True, not source_view.transposed)
        in_order = keeps_order or source_value.numel() == node_value.numel() and source_value.stride() == node_value.stride()
        is_plain = source_view.plain and in_order and (not source_view.transposed or source_value.shape == node_value.shape)
        return View(source_view.tensor, is_plain, source_view.transposed and is_plain)

    # --- results that are needed ---

    def drop_unneeded_operators(self, wanted_tensors):
        """Drops operators whose results are not needed, and tensors that no remaining operator touches."""
        needed_tensors, kept_ops = set(wanted_tensors), []
        for op in reversed(self.ops):
            if any(t in needed_tensors for t in op["out"]):
                needed_tensors.update(op["in"])
                kept_ops.append(op)
        self.ops = kept_ops[::-1]
        touched_tensors = {t for op in self.ops for t in op["in"] + op["out"]}
        self.tensors = [t for t in self.tensors if t in touched_tensors]
