"""Compiles a single kernel that Inductor generates, so that it can be timed."""

import hashlib

import torch
from torch._subclasses import FakeTensorMode

from . import private
from .operators import GATHERS, SCATTERS, operator_name
from .values import base_of, stored_bytes, value_of

MIN_TIMED_BYTES = 1 << 24  # smaller kernels take longer to launch than to run
SMALL_TABLE_BYTES = 1 << 20  # bytes of a table that is always in the cache, so that positions do not matter


class SeparateKernel:
    """Copies of a kernel's nodes in a separate graph, with placeholders for the values that it reads. `values`: the traced values of the
    placeholders. `positions`: if the kernel adds to a table, positions in the table are below this number; else 1. `device`: a torch.device."""

    def __init__(self, kernel, device):
        self.graph, self.values, self.made = torch.fx.Graph(), [], {}
        self.reads, self.device = set(kernel.reads), device
        self.graph.output(tuple(self.copy_node(node) for node in kernel.writes))
        adds_to_table = any(operator_name(node) in SCATTERS for node in kernel.nodes)
        self.positions = min((extent for node in kernel.nodes if adds_to_table for extent, _ in table_accesses(node)), default=1)

    def copy_node(self, node):
        if node not in self.made:
            if node in self.reads or node.op != "call_function":
                self.made[node] = self.graph.placeholder(f"read{len(self.values)}")
                self.values.append(value_of(node))
            else:
                node_copy = self.graph.node_copy(node, self.copy_node)
                node_copy.kwargs = {name: self.device if isinstance(value, torch.device) else value for name, value in node_copy.kwargs.items()}
                self.made[node] = node_copy
        return self.made[node]

    def cache_key(self, operand_strides):
        """A text that identifies the kernel with operands of these strides in the file of times."""
        text_of_node = {node: f"%{i}" for i, node in enumerate(self.graph.nodes)}  # as text, so that a number does not equal a constant
        calls = [(str(n.target), torch.fx.node.map_arg((n.args, n.kwargs), lambda m: text_of_node[m]))
                 for n in self.graph.nodes if n.op != "placeholder"]
        operands = [(str(v.dtype), tuple(v.shape), stride) for v, stride in zip(self.values, operand_strides)]
        return "generated " + hashlib.sha256(repr((calls, operands)).encode()).hexdigest()[:24]

    def compile_function(self, operand_strides):
        """Compiles the kernel to a function of the list of its operands, which have these strides."""
        with FakeTensorMode():
            example_operands = [torch.empty_strided(v.shape, stride, dtype=v.dtype, device=self.device)
                                for v, stride in zip(self.values, operand_strides)]
        return private.compile_kernel(torch.fx.GraphModule(torch.nn.Module(), self.graph), example_operands)


def is_worth_timing(kernel, byte_count):
    """Whether a kernel that accesses `byte_count` bytes is timed by itself: a generated one that is not small, and whose time does not depend
    on unknown positions."""
    return byte_count >= MIN_TIMED_BYTES and kernel.is_generated and not any(depends_on_positions(node, kernel) for node in kernel.nodes)


def depends_on_positions(node, kernel):
    """Whether a node's time depends on the values of positions in a table, or the kernel itself computes these positions."""
    if operator_name(node) in ("cat", "constant_pad_nd", "slice_scatter", "select_scatter"):
        return False
    adds_to_table = operator_name(node) in SCATTERS
    computes_positions = adds_to_table and not all(isinstance(positions, torch.fx.Node) and base_of(positions) in kernel.reads
                                                   for _, positions in table_accesses(node))
    return computes_positions or (adds_to_table or operator_name(node) in GATHERS) and stored_bytes(value_of(node.args[0])) > SMALL_TABLE_BYTES


def table_accesses(node):
    """[(extent of a table, positions along it)] for each extent of tables that a node reads, or to which it adds, at given positions."""
    name = operator_name(node)
    if name not in SCATTERS | {"embedding", "index", "_unsafe_index", "gather", "index_select"}:
        return []
    table, second_argument = value_of(node.args[0]), node.args[1]
    if name == "embedding":
        return [(table.shape[0], second_argument)]
    if isinstance(second_argument, (list, tuple)):
        return [(extent, positions) for extent, positions in zip(table.shape, second_argument) if positions is not None]
    if isinstance(second_argument, int) and table.dim():
        return [(table.shape[second_argument], node.args[2])]
    return [(1, None)]
