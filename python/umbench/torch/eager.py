"""Converts a model to a graph file of the operators that eager PyTorch runs, one kernel each.

Operators that umbench has become those (computed_layers.py, computed_loss.py), all others opaque operators (opaque.py). The model is traced
with the batch and with twice the batch: extents that grow are the batch, along which operators may be cut.
"""

import operator

import torch

from . import capture, computed_layers, computed_loss, operators
from .convert import Converted
from .opaque import add_opaque_operator, add_in_place_write
from .values import is_tangent, changed_input_number_by_output, output_nodes_of, add_unique_name
from .walk import View, Walk

MAP_FUNCTIONS = computed_layers.MAP_FUNCTIONS | computed_loss.MAP_FUNCTIONS


def convert_model(make_model_and_inputs, *, inference=False, autocast=None, name="model", precision=None):
    """The convert.Converted of a function that returns (model, inputs), with the operators of eager PyTorch."""
    joint = capture.capture_joint(make_model_and_inputs, compiled=False, inference=inference, autocast=autocast)
    sample_count = common_batch_size(joint)
    doubled_joint, uncut_reason = _capture_doubled(make_model_and_inputs, inference, autocast) if sample_count > 1 else (None, "")
    walk = Walk(joint.graph.graph, doubled_joint.graph.graph if doubled_joint else None, sample_count)
    walk.uncut = uncut_reason
    outputs = output_nodes_of(joint.graph.graph)
    input_number_of_output = changed_input_number_by_output(joint.graph.graph, joint.num_fwd_outputs)
    result_nodes = [n for i, n in enumerate(outputs[:joint.num_fwd_outputs]) if i not in input_number_of_output and isinstance(n, torch.fx.Node)]
    add_all_nodes(walk, roles_and_names_of(joint), None if inference else result_nodes[0])
    wanted_tensors = set()
    for result in result_nodes:
        tensor = walk.views[result].tensor
        tensor.use = "output"
        wanted_tensors.add(tensor)
    wanted_tensors |= name_gradients(walk, joint, outputs[joint.num_fwd_outputs:])
    wanted_tensors |= write_buffers_in_place(walk, {outputs[i]: input_number for i, input_number in input_number_of_output.items()})
    walk.drop_unneeded_operators(wanted_tensors)
    return to_converted(walk, name, precision)


def to_converted(walk, name, precision):
    """The Converted of a finished walk."""
    precision = precision or ("bf16" if any(t.type == "bf16" for t in walk.tensors) else "fp32")
    ops = [op | {"in": [t.name for t in op["in"]], "out": [t.name for t in op["out"]]} for op in walk.ops]
    document = {"schema": 1, "kind": "graph", "name": name, "precision": precision, "tensors": [t.as_json() for t in walk.tensors], "ops": ops}
    node_of_opaque_op = {op["name"]: walk.nodes_of[op["name"]] for op in ops if op["kind"] == "opaque"}
    return Converted(document, alone=node_of_opaque_op, unread_buffer_bytes=walk.unread_buffer_bytes, uncut=walk.uncut)


def common_batch_size(joint):
    """The first extent of the inputs, if they have one in common."""
    inputs = [n.meta["val"] for n in joint.graph.graph.nodes if n.op == "placeholder" and role_of(n, joint) == "input"]
    sizes = {v.shape[0] for v in inputs if isinstance(v, torch.Tensor) and v.dim()}
    return sizes.pop() if len(sizes) == 1 else 1


def role_of(node, joint):
    """The role of an input of the graph: "parameter", also for a buffer, "label" or "input"."""
    if joint.is_parameter_or_buffer(node):
        return "parameter"
    return "label" if joint.name_of_input.get(node.name) == "labels" else "input"


def roles_and_names_of(joint):
    """{input of the graph: (role, name of its tensor)}."""
    return {n.name: (role_of(n, joint), joint.name_of_input.get(n.name, n.name)) for n in joint.graph.graph.nodes if n.op == "placeholder"}


def _capture_doubled(make_model_and_inputs, inference, autocast):
    """(the Joint traced with twice the batch, ""), or (None, the reason why it cannot be traced)."""
    try:
        return capture.capture_joint(make_model_and_inputs, compiled=False, inference=inference, autocast=autocast, batch_factor=2), ""
    except capture.CannotExport as error:
        return None, str(error)


# --- the walk ---

def add_all_nodes(walk, roles_and_names, loss_node):
    """Adds all nodes to the walk. `roles_and_names`: of roles_and_names_of(). `loss_node` is None for inference."""
    for node in walk.nodes:
        if node.op == "placeholder":
            tensor_use, tensor_name = roles_and_names[node.name]
            if isinstance(node.meta["val"], torch.Tensor):
                walk.views[node] = View(walk.add_tensor(tensor_name, node.meta["val"], tensor_use,
                                                        walk.relation_to_batch(node) == "batch" and tensor_use != "parameter"))
        elif node.op == "get_attr":
            walk.views[node] = None
        elif node.op == "call_function":
            add_node(walk, node)
        if node is loss_node:
            walk.use = "activation_gradient"


def add_node(walk, node):
    """Adds what a node computes to the walk: a view, an operator of umbench or an opaque one."""
    op_name = operators.operator_name(node)
    if node.target is operator.getitem:
        source_view = walk.views.get(node.args[0])
        walk.views[node] = source_view[node.args[1]] if isinstance(source_view, list) else source_view
    elif op_name in operators.WITHOUT_DATA:
        walk.views[node] = None
    elif op_name in operators.PLAIN_VIEWS or (op_name in ("clone", "contiguous") and walk.keeps_layout(node)):
        walk.views[node] = walk.view_of(node.args[0], node, keeps_order=True)
    elif node in walk.views or (computed_layers.sliced_channel_range(node) and computed_layers.split_concat_gradient(walk, node)):
        pass
    elif op_name in operators.OTHER_VIEWS:
        walk.views[node] = walk.view_of(node.args[0], node, keeps_order=False)
    else:
        map_function = MAP_FUNCTIONS.get(op_name.lstrip("_"))
        if map_function is None or not map_function(walk, node):
            add_opaque_operator(walk, node)


# --- results ---

def name_gradients(walk, joint, gradients):
    """Names the gradient of each parameter; returns the gradients that are needed."""
    placeholders = [n for n in joint.graph.graph.nodes if n.op == "placeholder" and not is_tangent(n)]
    needed_tensors = set()
    for node, gradient in zip(placeholders, gradients):
        view = walk.views.get(gradient) if isinstance(gradient, torch.fx.Node) else None
        if not isinstance(view, View) or view.tensor.use in ("parameter", "parameter_gradient"):
            continue
        if role_of(node, joint) == "parameter":
            view.tensor.use, view.tensor.name = "parameter_gradient", add_unique_name(walk.names, joint.name_of_input[node.name] + ".grad")
        needed_tensors.add(view.tensor)
    return needed_tensors


def write_buffers_in_place(walk, buffer_number_by_value):
    """Makes the model's changes of buffers write in place. Statistics of normalisations and counters are left out, since an iteration does
    not read the values that it writes. `buffer_number_by_value`: {new value: number of its buffer among the inputs}."""
    written_tensors, unread_buffer_bytes = set(), 0
    placeholder_of_name = {n.name: n for n in walk.nodes if n.op == "placeholder"}
    placeholders = list(placeholder_of_name.values())
    for node, number in buffer_number_by_value.items():
        buffer_node = placeholders[number]
        value_view, buffer_tensor = walk.views.get(node), walk.views[buffer_node].tensor
        if not isinstance(value_view, View) or value_view.tensor is buffer_tensor or buffer_node.meta["val"].dim() == 0:
            unread_buffer_bytes += buffer_node.meta["val"].numel() * buffer_node.meta["val"].element_size()
            continue
        add_in_place_write(walk, buffer_node, buffer_tensor, value_view.tensor)
        written_tensors.add(buffer_tensor)
    walk.unread_buffer_bytes = unread_buffer_bytes
    return written_tensors
