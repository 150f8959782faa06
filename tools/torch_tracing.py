"""The joint graph of a model's forward and backward pass, by AOTAutograd."""

import contextlib

import torch
from results import load
from torch._functorch.aot_autograd import aot_export_module
from torch._subclasses import FakeTensorMode
from torch.utils._pytree import tree_leaves
from torch_graph import Converter


class WithLoss(torch.nn.Module):
    """The model with its loss behind it, if it does not return one itself."""

    def __init__(self, model, own_loss):
        super().__init__()
        self.model, self.own_loss = model, own_loss

    def forward(self, *inputs):
        if self.own_loss:
            return (first_result(self.model(*inputs)),)
        return (torch.nn.functional.cross_entropy(first_result(self.model(*inputs[:-1])), inputs[-1]),)


class Outputs(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        return tuple(leaf for leaf in tree_leaves(self.model(*inputs)) if isinstance(leaf, torch.Tensor))


def first_result(result):
    for name in ("loss", "logits"):
        found = result.get(name) if isinstance(result, dict) else getattr(result, name, None)
        if isinstance(found, torch.Tensor):
            return found
    return next(leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor))


class Traced:
    """`graph` and `signature` as AOTAutograd gives them; `labels`: the last input is ours."""

    def __init__(self, graph, signature, labels):
        self.graph, self.signature, self.labels = graph, signature, labels


def trace(factory, inference, times=1):
    """`times`: by how much the batch of the example inputs is repeated."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        with mode:
            model, inputs = made_by(factory)
    except load.BadInput:
        raise
    except Exception:  # weights that are read or computed need memory of their own
        mode = contextlib.nullcontext()
        model, inputs = made_by(factory)
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    with mode:
        inputs = tuple(torch.cat([each] * times) if isinstance(each, torch.Tensor) and each.dim() else each for each in inputs)
        if inference:
            wrapped, labels = Outputs(model.eval()), False
        else:
            wrapped, inputs, labels = with_loss(model.train(), inputs)
    graph, signature = aot_export_module(wrapped, inputs, trace_joint=not inference, output_loss_index=None if inference else 0)
    graph.graph.eliminate_dead_code()
    return Traced(graph.graph, signature, labels)


def made_by(factory):
    made = factory()
    if not isinstance(made, tuple) or len(made) != 2 or not isinstance(made[0], torch.nn.Module):
        raise load.BadInput("the function returns something else than (model, inputs): a torch.nn.Module and a tuple of tensors")
    return made


def with_loss(model, inputs):
    with torch.no_grad():
        result = first_result(model(*inputs))
    if result.dim() == 0:
        return WithLoss(model, True), inputs, False
    if result.dim() < 2:
        raise load.BadInput(f"the model's result is of shape {list(result.shape)}: neither a loss nor logits with a batch; return the loss")
    labels = torch.zeros([result.shape[0], *result.shape[2:]], dtype=torch.long, device=result.device)
    return WithLoss(model, False), (*inputs, labels), True


def export(factory, inference):
    """A Converter that holds the graph."""
    once = trace(factory, inference)
    sizes = {n.meta["val"].shape[0] for n in placeholders(once, "inputs") if n.meta["val"].dim()}
    samples = sizes.pop() if len(sizes) == 1 else 1
    twice = trace(factory, inference, 2) if samples > 1 else None
    made = Converter(once.graph, twice.graph if twice else None, samples)
    signature = once.signature
    outputs = {n.name: n for n in once.graph.nodes}
    loss = outputs[signature.user_outputs[0]] if not inference else None
    made.convert(uses_of(once), loss)
    wanted = set()
    for result in [loss] if loss is not None else [outputs[name] for name in signature.user_outputs if name in outputs]:
        tensor = made.views[result].tensor
        tensor.use = "output"
        wanted.add(tensor)
    if not inference:
        wanted |= name_gradients(made, outputs, signature.backward_signature.gradients_to_parameters)
    wanted |= write_buffers(made, outputs, signature)
    made.keep(wanted)
    return made


def placeholders(traced, which):
    inputs = set(traced.signature.user_inputs)
    return [n for n in traced.graph.nodes if n.op == "placeholder" and (n.name in inputs) == (which == "inputs")]


def uses_of(traced):
    signature, uses = traced.signature, {}
    for node in placeholders(traced, "parameters"):
        name = signature.inputs_to_parameters.get(node.name) or signature.inputs_to_buffers.get(node.name) or node.name
        uses[node.name] = ("parameter", name.removeprefix("model."))
    names = signature.user_inputs
    for i, name in enumerate(names):
        is_label = traced.labels and i + 1 == len(names)
        uses[name] = ("label", "labels") if is_label else ("input", "data" if i == 0 else f"data{i + 1}")
    return uses


def name_gradients(made, nodes, gradients):
    wanted = set()
    for name, parameter in gradients.items():
        view = made.views.get(nodes[name])
        if view is None or view.tensor.use == "parameter":
            continue
        tensor = view.tensor
        if tensor.use != "parameter_gradient":
            tensor.use, tensor.name = "parameter_gradient", made.name(parameter.removeprefix("model.") + ".grad")
        wanted.add(tensor)
    return wanted


def write_buffers(made, nodes, signature):
    """Buffers that the model changes are written in place. Statistics of normalisations and counters are left out: an iteration
    does not read what it writes of them."""
    wanted, left_out = set(), 0
    by_name = {name.removeprefix("model."): node for node, name in
               ((made_node, signature.inputs_to_buffers.get(made_node.name)) for made_node in made.nodes if made_node.op == "placeholder") if name}
    for name, buffer in signature.buffers_to_mutate.items():
        node, old = nodes[name], by_name[buffer.removeprefix("model.")]
        value, target = made.views.get(node), made.views[old].tensor
        if value is None or value.tensor is target or old.meta["val"].dim() == 0:
            left_out += old.meta["val"].numel() * old.meta["val"].element_size()
            continue
        made.update(old, target, value.tensor)
        wanted.add(target)
    made.left_out = f"{left_out} B"
    return wanted
