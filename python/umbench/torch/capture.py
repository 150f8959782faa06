"""Traces the joint forward and backward graph of a model, as torch.compile would get it, with fake tensors only. It allocates no memory and
needs no GPU. An error for a model that cannot be traced names the module.
"""

import contextlib
import logging
import re
from collections import OrderedDict
from dataclasses import dataclass

import torch
import torch._inductor.lowering  # noqa: F401  its decompositions ask for it
from torch._functorch.aot_autograd import aot_module_simplified
from torch._inductor.virtualized import V
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.fx import traceback
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_leaves

from . import as_cuda, checkpoints, private
from .as_cuda import AsCuda, apply_cuda_autocast_on_cpu, report_compiling, keep_undecomposed
from .values import is_tangent

logging.getLogger("torch").setLevel(logging.CRITICAL)  # errors are reported in one line instead


class CannotExport(Exception):
    """A model cannot be exported. The message is one line with the cause and the remedy."""


@dataclass
class Joint:
    """A graph of the forward and the backward pass together. `static_input_numbers`: indices of inputs whose memory stays from step to step.
    `name_of_input`: {input of the graph: name of the parameter, input or label}."""

    graph: torch.fx.GraphModule
    num_fwd_outputs: int
    static_input_numbers: list
    name_of_input: dict
    parameter_and_buffer_names: set  # names of the graph's inputs that are parameters or buffers

    def is_parameter_or_buffer(self, node):
        return node.name in self.parameter_and_buffer_names


class FakeMode(FakeTensorMode):
    """A FakeTensorMode that survives deep copies. While a model is built, short sequences keep their values, since depths and rates of layers
    are often read from torch.linspace."""

    SEQUENCE_OPERATORS = {torch.ops.aten.arange, torch.ops.aten.linspace, torch.ops.aten.logspace}
    MAX_ELEMENTS = 4096
    keeps_sequences = False

    def __deepcopy__(self, memo):
        return self

    def may_turn_const(self, t):
        if not self.keeps_sequences:
            return super().may_turn_const(t)
        return t.numel() <= self.MAX_ELEMENTS and t.device.type == "cpu" and not t.is_sparse and not self.is_our_fake(t)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if self.keeps_sequences and getattr(func, "overloadpacket", None) in self.SEQUENCE_OPERATORS:
            with no_dispatch():
                result = func(*args, **(kwargs or {}))
            if self.may_turn_const(result):
                return self.fake_tensor_converter.from_real_tensor(self, result, make_constant=True)
        return super().__torch_dispatch__(func, types, args, kwargs)


class _Captured(Exception):
    """Carries the joint graph out of AOTAutograd."""


class ModelWithLoss(torch.nn.Module):
    """The model followed by its loss, unless it returns a loss itself."""

    def __init__(self, model, returns_loss, autocast_type):
        super().__init__()
        self.model, self.returns_loss, self.autocast, self.losses_in_shares = model, returns_loss, autocast_type, None

    def forward(self, *inputs):
        with AsCuda(), autocast_context(self.autocast):
            if self.returns_loss:
                with self.losses_in_shares or contextlib.nullcontext():
                    results = self.model(*inputs)
                if self.losses_in_shares:
                    self.losses_in_shares.keep_returned_logits_whole(tree_leaves(results))
                return (loss_or_first_tensor(results),)
            return (torch.nn.functional.cross_entropy(loss_or_first_tensor(self.model(*inputs[:-1])), inputs[-1]),)


class UniqueParameters(torch.nn.Module):
    """A module that registers each parameter and buffer of another module once, even if it has several names, as torch.compile does."""

    def __init__(self, module):
        super().__init__()
        self.run = {"module": module}  # a dictionary, so that the module is not registered as a submodule
        self.paths = {}
        for prefix, named_tensors in (("p", module.named_parameters()), ("b", module.named_buffers())):
            for index, (path, tensor) in enumerate(named_tensors):
                self.paths[f"{prefix}{index}"] = path
                if prefix == "p":
                    self.register_parameter(f"p{index}", tensor)
                else:
                    self.register_buffer(f"b{index}", tensor)

    def forward(self, *inputs):
        tensor_of_path = {path: getattr(self, name) for name, path in self.paths.items()}
        return torch.func.functional_call(self.run["module"], tensor_of_path, inputs)


class ForwardPass(torch.nn.Module):
    """The model's forward pass alone, as a module that returns its result's tensors as a tuple."""

    def __init__(self, model, autocast_type):
        super().__init__()
        self.model, self.autocast = model, autocast_type

    def forward(self, *inputs):
        with AsCuda(), autocast_context(self.autocast), torch.no_grad():
            return tuple(leaf for leaf in tree_leaves(self.model(*inputs)) if isinstance(leaf, torch.Tensor))


def autocast_context(dtype_or_none):
    return torch.autocast("cpu", dtype=dtype_or_none) if dtype_or_none is not None else contextlib.nullcontext()


def loss_or_first_tensor(model_result):
    """The loss or logits of a model's result, else its first tensor."""
    for name in ("loss", "logits"):
        candidate = model_result.get(name) if isinstance(model_result, dict) else getattr(model_result, name, None)
        if isinstance(candidate, torch.Tensor):
            return candidate
    return next(leaf for leaf in tree_leaves(model_result) if isinstance(leaf, torch.Tensor))


def capture_joint(make_model_and_inputs, *, compiled, inference=False, autocast=None, batch_factor=1, losses_in_shares=None):
    """The Joint of the model. make_model_and_inputs() returns (model, inputs). With `compiled` it has the decompositions and passes of torch.compile, else
    eager PyTorch's operators. The example inputs are repeated `batch_factor` times along the batch. `losses_in_shares`: a
    chunks.LossesInShares for the loss that the model returns. Raises CannotExport."""
    fake_mode = FakeMode(allow_non_fake_inputs=True)
    running_module = _RunningModule()
    with fake_mode, conversions_replace_parameters(), apply_cuda_autocast_on_cpu(), report_compiling(), checkpoints.mark_regions():
        with errors_in_one_line("the function fails", running_module), AsCuda(), refuse_torch_load(), skip_initial_values():
            fake_mode.keeps_sequences = True
            function_result = make_model_and_inputs()
            fake_mode.keeps_sequences = False
        model, inputs = checked_model_and_inputs(function_result)
        running_module.follow(model)
        with errors_in_one_line("the model fails on its example inputs", running_module):
            model._apply(to_fake_cpu)
            inputs = tuple(to_fake_cpu(value) for value in inputs)
            if batch_factor > 1:
                inputs = tuple(torch.cat([value] * batch_factor) if isinstance(value, torch.Tensor) and value.dim() else value for value in inputs)
            has_labels = False
            if inference:
                wrapped_model = ForwardPass(model.eval(), autocast)
            else:
                wrapped_model, inputs, has_labels = add_loss(model.train(), inputs, autocast)
                wrapped_model.losses_in_shares = losses_in_shares
            with contextlib.nullcontext() if compiled else keep_undecomposed():
                joint = _trace_joint(wrapped_model, inputs, has_labels, as_cuda.gpu_decompositions() if compiled else {})
            running_module.remove_hooks()
            if compiled:
                refuse_graph_breaks(model, inputs[:-1] if has_labels else inputs)
                apply_joint_passes(joint.graph, fake_mode)
            else:
                checkpoints.recompute_checkpointed_regions(joint.graph.graph)
                joint.graph.graph.eliminate_dead_code()
            return joint


def _trace_joint(wrapped_model, inputs, has_labels, decompositions):
    def stop_at_joint(graph, joint_inputs, *, num_fwd_outputs, static_lifetime_input_indices=None, **_):
        raise _Captured(graph, num_fwd_outputs, static_lifetime_input_indices)

    def stop_at_forward(graph, example_inputs, **_):
        forward_output_count = next(n for n in graph.graph.nodes if n.op == "output").args[0]
        raise _Captured(graph, len(forward_output_count), None)

    unique_module = UniqueParameters(wrapped_model)
    try:
        aot_module_simplified(unique_module, list(inputs), fw_compiler=stop_at_forward, bw_compiler=stop_at_forward, partition_fn=stop_at_joint,
                              decompositions=decompositions, inference_compiler=stop_at_forward)
    except _Captured as captured:
        graph, forward_output_count, static_input_numbers = captured.args
        placeholders = [n for n in graph.graph.nodes if n.op == "placeholder" and not is_tangent(n)]
        own_input_count = len(placeholders) - len(inputs)
        paths = [path.removeprefix("model.") for path in unique_module.paths.values()]
        names = {n.name: path for n, path in zip(placeholders, paths)}
        names |= {n.name: "labels" if has_labels and i + 1 == len(inputs) else "data" if i == 0 else f"data{i + 1}"
                  for i, n in enumerate(placeholders[own_input_count:])}
        return Joint(graph, forward_output_count,
                     list(range(own_input_count)) if static_input_numbers is None else list(static_input_numbers),
                     names, {n.name for n in placeholders[:own_input_count]})
    raise CannotExport("the model was not traced: it has no tensor that requires a gradient")


class _DynamoStopped(CannotExport):
    """Stops Dynamo, since the model breaks its graph."""


def refuse_graph_breaks(model, inputs):
    """Throws if the model breaks Dynamo's graph: torch.compile would run several graphs, and keep the tensors between them in memory."""
    def stop_dynamo(*_):
        raise _DynamoStopped

    try:
        with private.graph_breaks_raise(CannotExport):
            torch.compile(model, fullgraph=True, backend=stop_dynamo)(*inputs)
    except _DynamoStopped:
        return
    except CannotExport as error:
        raise CannotExport(f"{error}; --as eager has no graphs") from None
    except Exception:  # noqa: BLE001  a model for a GPU may fail with fake tensors on the CPU
        return


def apply_joint_passes(graph, fake_mode):
    """Applies torch.compile's passes to the joint graph. They are private; if a release lacks them, the graph stays unchanged."""
    try:
        from torch._inductor.compile_fx import _recursive_joint_graph_passes as joint_graph_passes
    except ImportError:
        return
    with V.set_fake_mode(fake_mode), as_cuda.pad_products_without_gpu():
        joint_graph_passes(graph, input_device=torch.device("cpu"))


# --- fake tensors ---

@contextlib.contextmanager
def conversions_replace_parameters():
    """A context in which Module.to(), .half() and others replace parameters, since fake ones cannot be swapped. Parameters that two modules
    share stay shared."""
    usual, conversion_of_id = torch.nn.Module._apply, {}

    def apply_to_module(self, function, recurse=True):
        for child in self.children() if recurse else ():
            child._apply(function)
        for name, parameter in self._parameters.items():
            if parameter is None or id(parameter) in conversion_of_id and conversion_of_id[id(parameter)][1] is parameter:
                continue
            if id(parameter) not in conversion_of_id or conversion_of_id[id(parameter)][2] is not function:
                with torch.no_grad():
                    converted = function(parameter)
                conversion_of_id[id(parameter)] = (parameter, torch.nn.Parameter(converted, parameter.requires_grad), function)
            self._parameters[name] = conversion_of_id[id(parameter)][1]
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = function(buffer)
        return self

    torch.nn.Module._apply = apply_to_module
    try:
        yield
    finally:
        torch.nn.Module._apply = usual


@contextlib.contextmanager
def refuse_torch_load():
    """A context in which torch.load throws, since it would allocate memory."""
    usual = torch.load

    def raise_cannot_export(path, *args, **kwargs):
        raise CannotExport(f"the function reads weights ({path}); leave them out: only shapes and types count")

    torch.load = raise_cannot_export
    try:
        yield
    finally:
        torch.load = usual


@contextlib.contextmanager
def skip_initial_values():
    """A context in which torch.nn.init.trunc_normal_ does nothing, since that of 2.15 reads the values."""
    usual = torch.nn.init._no_grad_trunc_normal_
    torch.nn.init._no_grad_trunc_normal_ = lambda tensor, *_, **__: tensor
    try:
        yield
    finally:
        torch.nn.init._no_grad_trunc_normal_ = usual


def to_fake_cpu(value):
    """A fake tensor on the CPU in place of a tensor on another device or of a real tensor. Any other value is returned as it is."""
    if not isinstance(value, torch.Tensor) or value.device.type == "cpu" and isinstance(value, torch._subclasses.FakeTensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cpu")


# --- the model ---

class _RunningModule:
    """Follows which module's code is running, and marks every traced operator with it."""

    def __init__(self):
        self.stack, self.hooks = [], []

    def follow(self, model):
        for path, module in model.named_modules():
            self.hooks.append(module.register_forward_pre_hook(lambda *_, path=path, module=module: self.enter_module(path, module)))
            self.hooks.append(module.register_forward_hook(lambda *_: self.leave_module(), always_call=False))

    def remove_hooks(self):
        for hook in self.hooks:
            hook.remove()

    def enter_module(self, path, module):
        self.stack.append((path, type(module)))
        self.mark_next_operators()

    def leave_module(self):
        self.stack.pop()
        self.mark_next_operators()

    def mark_next_operators(self):
        if self.stack:
            traceback.current_meta["nn_module_stack"] = OrderedDict((path, (path, kind)) for path, kind in self.stack)
        else:
            traceback.current_meta.pop("nn_module_stack", None)

    def __str__(self):
        return f"in module {self.stack[-1][0]} " if self.stack and self.stack[-1][0] else ""


@contextlib.contextmanager
def errors_in_one_line(prefix, running_module):
    """A context that turns every error into one line that begins with `prefix`."""
    try:
        yield
    except (CannotExport, _Captured):
        raise
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        raise CannotExport(f"{running_module}the model's operators depend on values of its tensors ({error}), so it has no one graph; "
                           "put torch.where in place of such an if, or leave that part out") from None
    except NotImplementedError as error:
        match = re.search(r"HigherOrderOperator (\w+)", str(error))
        if not match:
            raise
        raise CannotExport(f"{running_module}the model calls {match[1]}, which is not traced; "
                           "call scaled_dot_product_attention or plain operators") from None
    except Exception as error:
        raise CannotExport(f"{prefix}: {running_module}{type(error).__name__}: {first_line(error)}") from error


def first_line(error):
    return (str(error).strip().splitlines() or [""])[0]


def checked_model_and_inputs(function_result):
    """(module, tuple of inputs) of the user's function. Raises CannotExport for any other result."""
    if not isinstance(function_result, tuple) or len(function_result) != 2 or not isinstance(function_result[0], torch.nn.Module):
        raise CannotExport("the function returns something else than (model, inputs): a torch.nn.Module and a tuple of tensors")
    inputs = tuple(function_result[1]) if isinstance(function_result[1], (tuple, list)) else (function_result[1],)
    for i, each in enumerate(inputs):
        if not isinstance(each, (torch.Tensor, int, float, bool)):
            raise CannotExport(f"example input {i + 1} is a {type(each).__name__}, not a tensor; give a tuple of tensors in the order of "
                               "forward's arguments, by a module around the model if need be")
        if isinstance(each, torch.Tensor) and each.numel() == 0:
            raise CannotExport(f"example input {i + 1} is empty ({list(each.shape)}); give a batch of at least 1")
    return unwrapped_module(function_result[0]), inputs


def unwrapped_module(model):
    """The module inside a wrapper of torch.compile or DataParallel, or the model itself."""
    if isinstance(model, torch.nn.DataParallel):
        return unwrapped_module(model.module)
    return unwrapped_module(model._orig_mod) if isinstance(model, torch._dynamo.eval_frame.OptimizedModule) else model


def add_loss(model, inputs, autocast_type):
    """(ModelWithLoss, inputs, whether made-up labels were added as the last input)."""
    if not any(p.requires_grad for p in model.parameters()):
        raise CannotExport("no parameter requires a gradient; give --inference for the forward pass alone")
    with torch.no_grad(), AsCuda(), autocast_context(autocast_type):
        result = loss_or_first_tensor(model(*inputs))
    if not result.is_floating_point():
        raise CannotExport(f"the model's result is of type {str(result.dtype).removeprefix('torch.')}: neither a loss nor logits; return the loss")
    if result.dim() == 0:
        wrapped_model, has_made_up_labels = ModelWithLoss(model, True, autocast_type), False
    elif result.dim() < 2:
        raise CannotExport(f"the model's result is of shape {list(result.shape)}: neither a loss nor logits with a batch; return the loss")
    else:
        labels = torch.zeros([result.shape[0], *result.shape[2:]], dtype=torch.long)
        wrapped_model, inputs, has_made_up_labels = ModelWithLoss(model, False, autocast_type), (*inputs, labels), True
    return wrapped_model, inputs, has_made_up_labels
