"""The joint graph of a model's forward and backward pass, by AOTAutograd."""

import contextlib
import logging
import math

import torch
from umbench import load
from torch._functorch.aot_autograd import aot_export_module
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.utils._pytree import tree_leaves
from torch_graph import Converter
from torch_operators import SIZES


logging.getLogger("torch").setLevel(logging.CRITICAL)  # what fails is told in one line


class FakeMode(FakeTensorMode):
    """Layers that a model copies stay fake in the same mode."""

    def __deepcopy__(self, memo):
        return self


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
    """`graph` and `signature` as AOTAutograd gives them; `labels`: the last input is ours; `owners`: of parameters with
    several names the first."""

    def __init__(self, graph, signature, labels, owners):
        self.graph, self.signature, self.labels, self.owners = graph, signature, labels, owners


def trace(factory, inference, times=1):
    """`times`: by how much the batch of the example inputs is repeated."""
    mode = FakeMode(allow_non_fake_inputs=True)
    try:
        with mode:
            made = factory()
    except Exception:  # weights that are read or computed need memory of their own
        mode = contextlib.nullcontext()
        with told("the function fails"):
            made = factory()
    model, inputs = model_and_inputs(made)
    with mode, told("the model fails on its example inputs"):
        inputs = tuple(torch.cat([each] * times) if isinstance(each, torch.Tensor) and each.dim() else each for each in inputs)
        if inference:
            wrapped, labels = Outputs(model.eval()), False
        else:
            wrapped, inputs, labels = with_loss(model.train(), inputs)
        try:
            graph, signature = export_joint(wrapped, inputs, inference)
        except AssertionError:  # it wants a gradient of every parameter that may have one
            freeze_unused(wrapped, inputs)
            graph, signature = export_joint(wrapped, inputs, inference)
    graph.graph.eliminate_dead_code()
    return Traced(graph.graph, signature, labels, owners_of(wrapped))


def owners_of(module):
    first = {}
    return {name: first.setdefault(id(parameter), name) for name, parameter in module.named_parameters(remove_duplicate=False)}


def export_joint(wrapped, inputs, inference):
    return aot_export_module(wrapped, inputs, trace_joint=not inference, output_loss_index=None if inference else 0)


@contextlib.contextmanager
def told(what):
    """Whatever goes wrong within is one line that begins with `what`."""
    try:
        yield
    except load.BadInput:
        raise
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        raise load.BadInput(f"what the model does depends on values of its tensors ({error}), so it has no one graph; "
                            "put torch.where in place of such an if, or leave that part out") from None
    except Exception as error:
        raise load.BadInput(f"{what}: {type(error).__name__}: {first_line(error)}") from error


def first_line(error):
    return (str(error).strip().splitlines() or [""])[0]


def model_and_inputs(made):
    if not isinstance(made, tuple) or len(made) != 2 or not isinstance(made[0], torch.nn.Module):
        raise load.BadInput("the function returns something else than (model, inputs): a torch.nn.Module and a tuple of tensors")
    inputs = tuple(made[1]) if isinstance(made[1], (tuple, list)) else (made[1],)
    for i, each in enumerate(inputs):
        if not isinstance(each, (torch.Tensor, int, float, bool)):
            raise load.BadInput(f"example input {i + 1} is a {type(each).__name__}, not a tensor; give a tuple of tensors in the order of "
                                "forward's arguments, by a module around the model if need be")
    return made[0], inputs


def with_loss(model, inputs):
    if not any(p.requires_grad for p in model.parameters()):
        raise load.BadInput("no parameter requires a gradient; give --inference for the forward pass alone")
    with torch.no_grad():
        result = first_result(model(*inputs))
    if result.dim() == 0:
        wrapped, labels = WithLoss(model, True), False
    elif result.dim() < 2:
        raise load.BadInput(f"the model's result is of shape {list(result.shape)}: neither a loss nor logits with a batch; return the loss")
    else:
        target = torch.zeros([result.shape[0], *result.shape[2:]], dtype=torch.long, device=result.device)
        wrapped, inputs, labels = WithLoss(model, False), (*inputs, target), True
    return wrapped, inputs, labels


def freeze_unused(wrapped, inputs):
    """Parameters that the loss does not depend on are not trained."""
    trained = [p for p in wrapped.parameters() if p.requires_grad]
    for parameter, gradient in zip(trained, torch.autograd.grad(wrapped(*inputs)[0], trained, allow_unused=True)):
        parameter.requires_grad_(gradient is not None)


def export(factory, inference):
    """A Converter that holds the graph."""
    once = trace(factory, inference)
    sizes = {n.meta["val"].shape[0] for n in placeholders(once, "inputs") if n.meta["val"].dim()}
    samples = sizes.pop() if len(sizes) == 1 else 1
    twice, uncut = doubled(factory, inference) if samples > 1 else (None, "")
    made = Converter(once.graph, twice.graph if twice else None, samples)
    made.uncut = uncut
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
        wanted |= name_gradients(made, outputs, signature.backward_signature.gradients_to_parameters, once.owners)
    wanted |= write_buffers(made, outputs, signature)
    made.keep(wanted)
    return made


def doubled(factory, inference):
    """(the trace with twice the batch, why there is none)."""
    try:
        return trace(factory, inference, 2), ""
    except load.BadInput as error:
        return None, str(error)


def placeholders(traced, which):
    inputs = set(traced.signature.user_inputs)
    return [n for n in traced.graph.nodes if n.op == "placeholder" and (n.name in inputs) == (which == "inputs")]


def uses_of(traced):
    signature, uses = traced.signature, {}
    for node in placeholders(traced, "parameters"):
        name = signature.inputs_to_parameters.get(node.name) or signature.inputs_to_buffers.get(node.name) or node.name
        uses[node.name] = ("parameter", traced.owners.get(name, name).removeprefix("model."))
    names = signature.user_inputs
    for i, name in enumerate(names):
        is_label = traced.labels and i + 1 == len(names)
        uses[name] = ("label", "labels") if is_label else ("input", "data" if i == 0 else f"data{i + 1}")
    return uses


def name_gradients(made, nodes, gradients, owners):
    """Names the gradient of each parameter. Where one has several names AOTAutograd gives a gradient for each: they are added up."""
    found = {}
    for name, parameter in gradients.items():
        view = made.views.get(nodes[name])
        if view is not None and view.tensor.use != "parameter":
            found.setdefault(owners[parameter], []).append((nodes[name], view.tensor))
    wanted = set()
    for parameter, ((_, tensor), *others) in found.items():
        for node, other in others:
            tensor = added(made, parameter.removeprefix("model.") + ".grad.sum", node, tensor, other)
        if tensor.use != "parameter_gradient":
            tensor.use, tensor.name = "parameter_gradient", made.name(parameter.removeprefix("model.") + ".grad")
        wanted.add(tensor)
    return wanted


def added(made, name, node, one, other):
    total = made.result(node, name)
    made.emit(node, name, "add", {}, [one, other], [total], (0, 0),
              work=(math.prod(total.shape), 3 * math.prod(total.shape) * SIZES[total.type], False))
    return total


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
    made.left_out = left_out
    return wanted
