"""Converts the joint forward and backward graph of torch.compile to a graph file of umbench.

    made = convert(joint, num_fwd_outputs=..., static_inputs=...)
    made.document        # what `umbench plan --network FILE.json` takes; results/graph.schema.json

The joint graph is split as torch.compile splits it, into a forward graph and a backward graph that computes cheap values again.
Each of their kernels (kernels.py) becomes an operator, each value that a kernel leaves in memory a tensor. The name is MODULE:NODE, with the
tensor's node or the last node that the kernel computes, without MODULE if it is unknown. Values are fake tensors in node.meta["val"]: nothing
is computed.

`fit` chooses how the joint graph is split, and which nodes share a kernel follows from that, so it plans over the nodes (step.py).
"""

import json
import math
from dataclasses import dataclass, field

import torch

from . import capture, layouts
from .added import replace_sums_by_addmm
from .kernels import kernels_of
from .liveness import tensor_bytes
from .operators import is_repeatable, library_launch_count, operator_name, operations_of_kernel
from .order import in_running_order
from .private import split_as_pytorch
from .values import (base_of, is_tangent, module_path_of, changed_input_number_by_output, output_nodes_of, padded_row_length,
                     stored_bytes, stored_numel, add_unique_name, value_of)

COPIES_PER_CONVOLUTION = 3  # number of operands and results of a convolution that are copied, each by a kernel


@dataclass
class Converted:
    """A graph file, and the PyTorch objects that its names refer to."""

    document: dict
    generated: dict = field(default_factory=dict)  # kernels.Kernel of each other operator, by the operator's name
    alone: dict = field(default_factory=dict)  # FX node of each operator that no other shares a kernel with, by the operator's name
    channels_last: bool = False  # whether torch.compile uses channels last for images
    launches: dict = field(default_factory=dict)  # number of kernels that an operator launches, by its name, if more than one
    copied: dict = field(default_factory=dict)  # bytes of a gradient that PyTorch copies before an operator, by the operator's name
    unread_buffer_bytes: int = 0  # bytes of statistics and counters that an iteration writes but does not read
    uncut: str = ""    # reason why no operator may be cut along the batch; "" if some may


def convert_model(make_model_and_inputs, *, form="compile", inference=False, autocast=None, name="model", precision=None):
    """The Converted of a function that returns (model, inputs). Raises capture.CannotExport."""
    if form == "eager":
        from . import eager
        return eager.convert_model(make_model_and_inputs, inference=inference, autocast=autocast, name=name, precision=precision)
    joint = capture.capture_joint(make_model_and_inputs, compiled=True, inference=inference, autocast=autocast)
    return convert(joint.graph, num_fwd_outputs=joint.num_fwd_outputs, static_inputs=joint.static_input_numbers, names=joint.name_of_input, name=name,
                   precision=precision)


def convert(joint, *, num_fwd_outputs, static_inputs=(), names=None, joint_inputs=(), name="model", precision=None):
    """Converts a joint graph without changing it. `joint`: a GraphModule from a torch._inductor CustomPartitionerFn or aot_export_joint_simple.
    `num_fwd_outputs`: number of its outputs that the forward pass returns; the others are gradients, one for each primal, or None.
    `static_inputs`: numbers of the primals that are parameters or buffers, whose memory stays from step to step.
    `names`: {input of the joint graph: name of its tensor} of inputs that the graph itself does not name.
    Returns a Converted."""
    forward_module, backward_module = split_as_pytorch(joint, joint_inputs, num_fwd_outputs, static_inputs)
    return convert_split(forward_module.graph, backward_module.graph if backward_module is not None else None, num_fwd_outputs=num_fwd_outputs,
                         names_and_roles=_names_and_roles_of_primals(joint.graph, static_inputs, names or {}), name=name, precision=precision)


def convert_split(forward_graph, backward_graph, *, num_fwd_outputs, names_and_roles, name="model", precision=None):
    """Converts a forward and a backward graph; for the rest see convert(). `names_and_roles`: {input of the forward graph: (name of its tensor,
    role)}."""
    for graph in filter(None, (forward_graph, backward_graph)):
        replace_sums_by_addmm(graph)
    writer = _DocumentWriter(names_and_roles, layouts.uses_channels_last(forward_graph))
    returned_nodes = output_nodes_of(forward_graph)[:num_fwd_outputs]
    writer.add_graph(forward_graph, "activation", returned_nodes)
    writer.mark_outputs(returned_nodes, set(changed_input_number_by_output(forward_graph, num_fwd_outputs)))
    if backward_graph is not None:
        writer.bind_saved_values(forward_graph, backward_graph)
        writer.add_graph(backward_graph, "activation_gradient", output_nodes_of(backward_graph))
        writer.name_gradients(output_nodes_of(backward_graph), list(names_and_roles.values()))
    writer.drop_unused_tensors()
    activation_types = {t["type"] for t in writer.tensors.values() if t["use"] == "activation"}
    document = {"schema": 1, "kind": "graph", "name": name, "precision": precision or ("bf16" if "bf16" in activation_types else "fp32"),
                "tensors": list(writer.tensors.values()), "ops": writer.ops}
    return Converted(document, writer.generated, writer.alone, writer.channels_last, writer.launches, writer.copied, writer.unread_buffer_bytes)


def document_text(document):
    """The document as text with a line for each tensor and operator, as `umbench plan --graph` writes it."""
    def json_lines(entries):
        return "[\n" + ",\n".join("  " + json.dumps(entry) for entry in entries) + "\n ]"

    head = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in document.items() if not isinstance(value, list))
    return f'{{\n{head},\n "tensors": {json_lines(document["tensors"])},\n "ops": {json_lines(document["ops"])}\n}}\n'


def _names_and_roles_of_primals(joint_graph, static_input_numbers, known_names):
    """The `names_and_roles` of convert_split()."""
    static_numbers = set(static_input_numbers or ())
    name_and_role_of_primal = {}
    placeholders = [n for n in joint_graph.nodes if n.op == "placeholder" and not is_tangent(n)]
    for i, node in enumerate(placeholders):
        desc = node.meta.get("desc")
        path = getattr(desc, "target", None)
        is_parameter = type(desc).__name__ in ("ParamAOTInput", "BufferAOTInput") or i in static_numbers
        role = "parameter" if is_parameter else "input"
        name_and_role_of_primal[node.name] = (known_names.get(node.name) or path or node.name, role)
    return name_and_role_of_primal


class _DocumentWriter:
    """Collects tensors and operators in order. `memory` is {base of this graph: name of its tensor}."""

    def __init__(self, names_and_roles, uses_channels_last):
        self.names_and_roles, self.channels_last = names_and_roles, uses_channels_last
        self.tensors, self.ops, self.names, self.op_names = {}, [], set(), set()
        self.memory = {}
        self.unread_buffer_bytes, self.generated, self.alone, self.launches, self.copied = 0, {}, {}, {}, {}
        self.traced_order = set()  # names of images that keep the traced order while others have channels last

    # --- graphs ---

    def add_graph(self, graph, tensor_use, returned_nodes):
        """Adds a graph. The rows of `returned_nodes` are not padded."""
        self.returned = {base_of(n) for n in returned_nodes if isinstance(n, torch.fx.Node)}
        last_reader_number = {}
        images_in_traced_order = layouts.images_in_traced_order(graph) if self.channels_last and tensor_use == "activation" else set()
        kernels = in_running_order(kernels_of(graph), self.bases_that_outlive(graph))
        for kernel_number, kernel in enumerate(kernels):
            last_reader_number |= {base_node: kernel_number for base_node in kernel.reads}
        for node in graph.nodes:
            if node.op == "placeholder" and node not in self.memory and isinstance(value_of(node), torch.Tensor):
                name, role = self.names_and_roles.get(node.name, (node.name, "input"))
                self.add_tensor(node, name, role)
        if self.channels_last and tensor_use == "activation":
            for node in layouts.placeholders_to_reorder(graph):
                self.add_channels_last_copy(node)
        for kernel_number, kernel in enumerate(kernels):
            self.add_kernel(kernel, tensor_use,
                            {base_node for base_node in kernel.reads if last_reader_number[base_node] == kernel_number}, images_in_traced_order)

    def bases_that_outlive(self, graph):
        """Bases whose memory outlives the graph: results, parameters and inputs."""
        primals = {n for n in graph.nodes if n.op == "placeholder" and n.name in self.names_and_roles}
        return primals | {base_of(n) for n in output_nodes_of(graph) if isinstance(n, torch.fx.Node)}

    def bind_saved_values(self, forward_graph, backward_graph):
        """Maps the backward graph's placeholders to the forward graph's values of the same name, or views of them."""
        tensor_name_of_node_name = {node.name: self.memory[base_of(node)] for node in forward_graph.nodes if base_of(node) in self.memory}
        self.memory = {node: tensor_name_of_node_name[node.name]
                       for node in backward_graph.nodes if node.op == "placeholder" and node.name in tensor_name_of_node_name}

    # --- tensors ---

    def add_tensor(self, node, wanted_name, tensor_use, is_padded=False):
        """Adds the tensor of a base and returns its name, `wanted_name` or similar; None if it has no elements."""
        value = value_of(node)
        if not isinstance(value, torch.Tensor) or value.numel() == 0:
            return None
        name = add_unique_name(self.names, wanted_name)
        self.tensors[name] = {"name": name, **shape_and_type_of(value, is_padded), "use": tensor_use}
        self.memory[node] = name
        return name

    def label_of(self, node):
        module = module_path_of(node)
        return f"{module}:{node.name}" if module else node.name

    # --- operators ---

    def add_kernel(self, kernel, tensor_use, bases_read_last, images_in_traced_order):
        """Adds a kernel's operator and results."""
        read_names = list(dict.fromkeys(self.memory[base_node] for base_node in kernel.reads if base_node in self.memory))
        copied_gradient_bytes = self.bytes_of_copied_gradient(kernel)
        is_padded = kernel.is_generated or operator_name(kernel.nodes[-1]) in ("mm", "addmm", "bmm")
        made_names = [self.add_tensor(node, self.label_of(node), tensor_use, is_padded and node not in self.returned) for node in kernel.writes]
        made_names = [name for name in made_names if name is not None]
        if not made_names:
            return
        self.record_traced_order(kernel, images_in_traced_order)
        traced_values = [value_of(b) for b in kernel.reads + kernel.writes if isinstance(value_of(b), torch.Tensor)]
        flops, are_products = operations_of_kernel(kernel)
        op = {"name": add_unique_name(self.op_names, self.label_of(kernel.nodes[-1])), "kind": "opaque", "label": label_of_kernel(kernel), "flops": flops,
              "bytes": sum(stored_bytes(v) for v in traced_values)}
        op |= {"products": True} if are_products else {}
        bytes_of_copies = [] if kernel.is_generated or self.channels_last else layouts.copied_bytes_per_kernel(kernel.nodes[-1])
        if bytes_of_copies:
            op |= {"bytes": op["bytes"] + 2 * sum(bytes_of_copies), "workspace_bytes": max(bytes_of_copies)}
        if copied_gradient_bytes:
            op |= {"bytes": op["bytes"] + 2 * copied_gradient_bytes, "workspace_bytes": copied_gradient_bytes}
            self.copied[op["name"]] = copied_gradient_bytes
        op |= {"in": read_names, "out": made_names}
        op |= {"repeatable": False} if not all(map(is_repeatable, kernel.nodes)) else {}
        overwrite = self.overwrite_of(kernel, read_names, made_names, bases_read_last)
        op |= {"alias": overwrite} if overwrite else {}
        self.ops.append(op)
        launch_count = (gpu_kernel_count(kernel) + COPIES_PER_CONVOLUTION * len(bytes_of_copies)
                        + self.has_copied_filter_gradient(kernel) + (copied_gradient_bytes > 0))
        if launch_count > 1:
            self.launches[op["name"]] = launch_count
        if kernel.is_generated:
            self.generated[op["name"]] = kernel
        else:
            self.alone[op["name"]] = kernel.nodes[-1]

    def add_channels_last_copy(self, node):
        """Adds a copy of an input with channels last, which all its readers read instead."""
        source_name = self.memory[node]
        copy_name = self.add_tensor(node, source_name + ".channels_last", "activation")
        byte_count = stored_bytes(value_of(node))
        self.ops.append({"name": add_unique_name(self.op_names, copy_name), "kind": "opaque", "label": "clone",
                         "flops": 0, "bytes": 2 * byte_count, "in": [source_name], "out": [copy_name]})

    def has_copied_filter_gradient(self, kernel):
        """Whether the gradient of filters has channels last, so that PyTorch copies it to the order of the filters."""
        node = kernel.nodes[-1]
        return not kernel.is_generated and self.channels_last and operator_name(node) == "convolution_backward" and layouts.channels_last_would_reorder(value_of(node.args[2]))

    def record_traced_order(self, kernel, images_in_traced_order):
        """Notes which images that a generated kernel writes keep their traced order: those after the last convolution, and those computed
        only from these."""
        image_bases = [base_node for base_node in kernel.reads if layouts.channels_last_would_reorder_result(base_node) and base_node in self.memory]
        are_in_traced_order = image_bases and all(self.memory[base_node] in self.traced_order for base_node in image_bases)
        self.traced_order |= {self.memory[base_node] for base_node in kernel.writes
                              if base_node in images_in_traced_order
                              or kernel.is_generated and are_in_traced_order and layouts.channels_last_would_reorder_result(base_node)}

    def bytes_of_copied_gradient(self, kernel):
        """Bytes of the gradient of a convolution's result that PyTorch copies because its order differs from that of the images."""
        node = kernel.nodes[-1]
        if kernel.is_generated or operator_name(node) != "convolution_backward" or self.memory.get(base_of(node.args[0])) not in self.traced_order:
            return 0
        return stored_bytes(value_of(node.args[0]))

    def overwrite_of(self, kernel, read_names, made_names, bases_read_last):
        """{"input", "output"}: the indices of an operand and of the result that may overwrite it (kernels.Kernel.overwritable), if the kernel is the
        operand's last reader and both are alike; None if there is none."""
        if not kernel.is_generated:
            return None
        written_bases = [base_node for base_node in kernel.writes if base_node in self.memory]
        for result_index, (result_base, result_name) in enumerate(zip(written_bases, made_names)):
            for base_node in kernel.overwritable[result_base]:
                if base_node not in bases_read_last:
                    continue
                operand_name = self.memory.get(base_node)
                operand_entry, result_entry = self.tensors.get(operand_name), self.tensors[result_name]
                have_same_order = (operand_name in self.traced_order) == (result_name in self.traced_order)
                if (operand_entry and operand_entry["use"] in ("activation", "activation_gradient")
                        and tensor_bytes(operand_entry) == tensor_bytes(result_entry)
                        and have_same_order):
                    return {"input": read_names.index(operand_name), "output": result_index}
        return None

    # --- roles ---

    def mark_outputs(self, returned_nodes, changed_output_numbers):
        """Gives the results of the forward pass the role `output`; counts the bytes of those that are new values of inputs as unread."""
        for i, node in enumerate(returned_nodes):
            tensor_name = self.memory.get(base_of(node)) if isinstance(node, torch.fx.Node) else None
            if tensor_name is None or self.tensors[tensor_name]["use"] not in ("activation",):
                continue
            if i in changed_output_numbers:
                self.unread_buffer_bytes += stored_bytes(value_of(node))
            else:
                self.tensors[tensor_name]["use"] = "output"

    def name_gradients(self, gradients, names_and_roles):
        """Names each gradient after its parameter or input and gives it its role."""
        for node, (name, role) in zip(gradients, names_and_roles):
            tensor_name = self.memory.get(base_of(node)) if isinstance(node, torch.fx.Node) else None
            if tensor_name is None or self.tensors[tensor_name]["use"] not in ("activation_gradient", "activation"):
                continue
            self.tensors[tensor_name]["use"] = "parameter_gradient" if role == "parameter" else "output"
            self.rename_tensor(tensor_name, add_unique_name(self.names, name + ".grad"))

    def rename_tensor(self, old_name, new_name):
        entry = self.tensors[old_name]
        entry["name"] = new_name
        self.tensors = {new_name if key == old_name else key: value for key, value in self.tensors.items()}
        for op in self.ops:
            for in_or_out in ("in", "out"):
                op[in_or_out] = [new_name if t == old_name else t for t in op[in_or_out]]
        self.memory = {base_node: new_name if tensor == old_name else tensor for base_node, tensor in self.memory.items()}

    def drop_unused_tensors(self):
        """Drops tensors that no operator reads or writes."""
        touched = {t for op in self.ops for t in op["in"] + op["out"]}
        self.tensors = {name: t for name, t in self.tensors.items() if name in touched}


def gpu_kernel_count(kernel):
    """The number of GPU kernels that run for a kernel of the graph."""
    return 1 + kernel.later_steps if kernel.is_generated else library_launch_count(kernel.nodes[-1])


def label_of_kernel(kernel):
    """The PyTorch names of a kernel's operators."""
    operator_names = list(dict.fromkeys(operator_name(n) for n in kernel.nodes if operator_name(n) not in ("scalar_tensor", "full", "iota")))
    operator_names = operator_names or [operator_name(kernel.nodes[-1])]
    return " ".join(operator_names) if len(operator_names) <= 6 else " ".join([*operator_names[:5], f"and {len(operator_names) - 5} more"])


def shape_and_type_of(tensor, is_padded=False):
    """{"shape", "type"} of a tensor with four extents and the same number of bytes. 64-bit elements become pairs of 32-bit ones. If
    `is_padded`, rows of matrices are padded (values.padded_strides)."""
    type_name, words_per_element = TYPES_BY_SIZE[tensor.dtype.is_floating_point or tensor.dtype.is_complex][tensor.element_size()]
    is_dense = stored_numel(tensor) == tensor.numel()
    shape = list(tensor.shape) if is_dense else [1, stored_numel(tensor)]
    if is_padded and len(shape) > 1 and is_dense and tensor.is_contiguous():
        shape[-1] = padded_row_length(shape[-1], tensor)
    shape = [1, *shape] if len(shape) == 1 else shape
    shape = [*shape[:3], math.prod(shape[3:])] if len(shape) > 3 else shape + [1] * (4 - len(shape))
    shape[3] *= words_per_element
    return {"shape": shape, "type": type_name}


TYPES_BY_SIZE = {True: {4: ("f32", 1), 2: ("bf16", 1), 1: ("u8", 1), 8: ("f32", 2), 16: ("f32", 4)},
                 False: {8: ("i32", 2), 4: ("i32", 1), 2: ("u16", 1), 1: ("u8", 1)}}
