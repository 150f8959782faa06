"""A training step in the form of the planner: the fields of each node of the joint graph."""

import operator
import re

import torch

from . import operators, private
from .chunks import is_product_added_to_sum
from .kernels import is_read_elementwise
from .operators import is_repeatable, is_view, operator_name, reduces_rows
from .rewrites import widens
from .values import base_of, changed_input_nodes, is_tangent, module_path_of, output_nodes_of, padded_row_length, stored_numel, tensors_of, value_of


RATE_SHARE_OF_UNALIGNED_ROWS = 0.4  # measured for the softmax of Swin-T's windows and its gradient on an H100


class StepNodes:
    """`node_fields`: dictionaries of torch_node's fields (planners/torch_target.hpp); `nodes`: the nodes themselves."""

    def __init__(self, nodes, node_fields):
        self.nodes, self.node_fields = nodes, node_fields

    def root_of(self, node_number):
        """The number of the node whose memory a view shows; `node_number` itself for other nodes."""
        while self.node_fields[node_number]["kind"] == "view":
            node_number = self.node_fields[node_number]["inputs"][0]
        return node_number

    def names_of(self, node_numbers):
        return {self.nodes[number].name for number in node_numbers}


def step_and_pytorchs_choice(joint, num_fwd_outputs, static_inputs, costs):
    """(the StepNodes, {numbers of the nodes that PyTorch would save without a budget})."""
    node_info = private.classify_nodes(joint, num_fwd_outputs, static_inputs)
    step_nodes = make_step(joint, node_info, num_fwd_outputs, costs)
    number_of = {node: i for i, node in enumerate(step_nodes.nodes)}
    return step_nodes, {step_nodes.root_of(number_of[n]) for n in private.nodes_saved_by_pytorch(joint, node_info) if n in number_of}


def make_step(joint, node_info, num_fwd_outputs, costs):
    """The StepNodes of a joint graph. `costs.node_ns(node)` and `costs.workspace_bytes(node)` are the costs of nodes that are not fused."""
    output_nodes, changed_inputs_of_graph = output_nodes_of(joint.graph), changed_input_nodes(joint.graph, num_fwd_outputs)
    device_type, returned_bases = device_type_of(joint), {base_of(n) for n in output_nodes if isinstance(n, torch.fx.Node)}
    number_of, node_fields, nodes, number_of_family = {}, [], [], {}
    unrepeatable_views = set(changed_inputs_of_graph)
    for node in joint.graph.nodes:
        if node.op == "output":
            continue
        number_of[node] = len(nodes)
        nodes.append(node)
        kind = planner_kind(node)
        input_numbers = [number_of[n] for n in node.all_input_nodes]
        if kind in ("view", "item"):
            input_numbers = [number_of[node.args[0]]]
        reads_changed_input = any(n in unrepeatable_views for n in node.all_input_nodes)
        if kind == "view" and reads_changed_input:
            unrepeatable_views.add(node)
        is_forward = node.op == "call_function" and node not in node_info.tangents_closure
        is_kernel = kind == "kernel" and node.op == "call_function"
        node_fields.append({
            "kind": kind, "inputs": input_numbers,
            "bytes": allocated_bytes(node, kind, device_type, returned_bases), "elements": element_count_of(node, kind),
            "ns": costs.node_ns(node) if is_kernel else 0, "workspace": costs.workspace_bytes(node) if is_kernel else 0,
            "family": number_of_family.setdefault(family_of(node), len(number_of_family)), "forward": is_forward,
            "resident": node.op == "get_attr" or node.op == "placeholder" and not is_tangent(node),
            "repeatable": is_repeatable(node) and not reads_changed_input, "widens": widens(node),
            "over_first": is_product_added_to_sum(node), "pace": rate_share(node, kind), "shifted": [number_of[n] for n in shifted_inputs(node)],
            "forward_result": False, "backward_result": False})
    for output_nodes, field in ((output_nodes[:num_fwd_outputs], "forward_result"), (output_nodes[num_fwd_outputs:], "backward_result")):
        for node in output_nodes:
            if isinstance(node, torch.fx.Node):
                node_fields[number_of[node]][field] = True
    copy_repeatable_to_items(nodes, node_fields, number_of)
    return StepNodes(nodes, node_fields)


def copy_repeatable_to_items(nodes, node_fields, number_by_node):
    """Makes each item, one of several results of a node, repeatable if the node is."""
    for node, fields in zip(nodes, node_fields):
        if fields["kind"] == "item":
            fields["repeatable"] = node_fields[number_by_node[node.args[0]]]["repeatable"]


def planner_kind(node):
    """The kind of a node as in torch_node (planners/torch_target.hpp)."""
    if node.op in ("placeholder", "get_attr"):
        return "input"
    if is_view(node):
        return "view"
    if node.target is operator.getitem:
        return "item"
    kind, value = operators.inductor_kind(node), value_of(node)
    if kind == operators.SCATTERED:
        return "far_reduction"
    if kind == operators.READS_NEIGHBOURS:
        return "reduction"  # its result is in memory, except for readers in the same kernel
    if kind == operators.REDUCED:
        return "reduction" if reduces_rows(node) else "far_reduction"
    if kind == operators.ALONE and isinstance(value, (torch.Tensor, tuple, list)):
        return "kernel"
    return "reduction" if isinstance(value, (tuple, list)) else "pointwise"


def rate_share(node, kind):
    """The share of the usual rate that a generated kernel with this node reaches. Sums along rows that do not begin at multiples of 16
    bytes, as in windows of 7 x 7, are slow."""
    row_length_or_nothing = (value_of(node.all_input_nodes[0]).shape[-1:]
                             if kind == "reduction" and operators.inductor_kind(node) == operators.REDUCED else ())
    return RATE_SHARE_OF_UNALIGNED_ROWS if row_length_or_nothing and row_length_or_nothing[0] > 8 and row_length_or_nothing[0] % 8 else 1


def shifted_inputs(node):
    """The inputs that a node reads at other positions than it writes."""
    kind = operators.inductor_kind(node) if node.op == "call_function" else operators.NOTHING
    if kind == operators.SCATTERED:
        return [source for source in node.all_input_nodes if source is not node.args[0]]
    reads_elements = kind in (operators.COMPUTED, operators.REDUCED, operators.READS_NEIGHBOURS)
    return [source for source in node.all_input_nodes if reads_elements and not is_read_elementwise(node, source, kind)]


def allocated_bytes(node, kind, device_type, returned_bases):
    """Bytes that a node allocates on a device of this type; 0 for views and for values on another device. Rows of computed values are padded, unless the graph
    returns them."""
    value = value_of(node)
    if kind == "view" or not isinstance(value, torch.Tensor) or value.device.type != device_type:
        return 0
    element_count = stored_numel(value)
    is_padded = kind in ("pointwise", "reduction", "far_reduction") or operator_name(node) in ("mm", "addmm", "bmm")
    if is_padded and node not in returned_bases and value.dim() > 1 and element_count == value.numel() and value.is_contiguous():
        element_count = element_count // max(1, value.shape[-1]) * padded_row_length(value.shape[-1], value)
    return element_count * value.element_size()


def device_type_of(joint):
    """Type of the device that the graph runs on."""
    device_types = {v.device.type for node in joint.graph.find_nodes(op="placeholder") for v in tensors_of(node)}
    return "cuda" if "cuda" in device_types else "cpu"


def element_count_of(node, kind):
    """The largest number of elements of a node's results, for reductions also of its inputs."""
    tensors = tensors_of(node)
    if kind in ("reduction", "far_reduction") and operators.inductor_kind(node) != operators.READS_NEIGHBOURS:
        tensors += [v for n in node.all_input_nodes for v in tensors_of(n)]
    return max([stored_numel(v) for v in tensors], default=0)


def family_of(node):
    """A key that is equal for nodes that do the same in different layers."""
    shapes_and_types = tuple((tuple(v.shape), v.dtype) for v in tensors_of(node))
    if node.op == "placeholder":
        return ("placeholder",)
    source_names = tuple(operator_name(n) if n.op == "call_function" else n.op for n in node.all_input_nodes)
    user_names = tuple(sorted(operator_name(n) if n.op == "call_function" else n.op for n in node.users))
    return (operator_name(node), shapes_and_types, source_names, user_names, re.sub(r"\d+", "#", module_path_of(node)))
