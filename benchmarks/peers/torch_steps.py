"""Training steps of PyTorch: built from architectures.py, timed, and compared with umbench's gradients.

Importing this module imports torch but does not initialise CUDA, so a parent may import it and fork. Functions with a task (a dict) run in
child processes.
"""

import contextlib
import functools
import math
import statistics
from pathlib import Path

import numpy
import torch
import torch.nn.functional as functional
from torch import nn

import architectures as nets


class Residual(nn.Module):
    """The sum of a body and a shortcut, with a ReLU if `has_relu`."""

    def __init__(self, has_relu, body, shortcut):
        super().__init__()
        self.body, self.shortcut, self.relu = body, shortcut, has_relu

    def forward(self, x):
        y = self.body(x) + self.shortcut(x)
        return functional.relu(y, inplace=True) if self.relu else y


class Branches(nn.Module):
    """Bodies that read the same images; their results are concatenated along channels."""

    def __init__(self, *bodies):
        super().__init__()
        self.bodies = nn.ModuleList(bodies)

    def forward(self, x):
        return torch.cat([body(x) for body in self.bodies], 1)


class Dense(Branches):
    """Bodies each of which reads the images and the results of all earlier bodies."""

    def forward(self, x):
        features = [x]
        for body in self.bodies:
            features.append(body(torch.cat(features, 1) if len(features) > 1 else x))
        return torch.cat(features, 1)


def build_module(layers):
    """(module, {umbench's name: parameter}) of a list of layers."""
    modules, parameters = [], {}
    for layer in layers:
        inner_modules_and_parameters = [build_module(inner_layers) for inner_layers in nets.inner_layer_lists(layer)]
        if inner_modules_and_parameters:
            modules.append(_block_class(layer)(*(module for module, _ in inner_modules_and_parameters)))
            for _, inner_parameters in inner_modules_and_parameters:
                parameters |= inner_parameters
            continue
        modules.append(_torch_module(layer))
        parameters |= {name: getattr(modules[-1], attribute)
                       for name, (attribute, _) in nets.parameters_of(layer).items()}
    return nn.Sequential(*modules), parameters


def _block_class(layer):
    if isinstance(layer, nets.Residual):
        return functools.partial(Residual, layer.relu)
    return Dense if isinstance(layer, nets.Dense) else Branches


def _torch_module(layer):
    if isinstance(layer, nets.Conv):
        return nn.Conv2d(layer.inputs, layer.outputs, layer.kernel, layer.stride, layer.pad, groups=layer.groups, bias=layer.bias)
    if isinstance(layer, nets.Norm):  # only statistics of the batch, as in umbench
        return nn.BatchNorm2d(layer.channels, layer.epsilon, track_running_stats=False)
    if isinstance(layer, nets.Relu):
        return nn.ReLU6(inplace=True) if layer.capped else nn.ReLU(inplace=True)
    if isinstance(layer, nets.Pool):
        return nn.MaxPool2d(layer.window, layer.stride, layer.pad, ceil_mode=layer.ceil)
    if isinstance(layer, nets.AveragePool):
        return nn.AvgPool2d(layer.window, layer.stride)
    if isinstance(layer, nets.Linear):
        return nn.Linear(layer.inputs, layer.outputs)
    return nn.AdaptiveAvgPool2d(1) if isinstance(layer, nets.GlobalPool) else nn.Flatten()


class Step:
    """Forward and backward of mean cross-entropy: no optimiser, no dropout."""

    def __init__(self, network, batch_size, precision, memory_order, device="cuda"):
        uses_tf32 = precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = uses_tf32
        torch.backends.cudnn.allow_tf32 = uses_tf32
        torch.manual_seed(0)
        dtype = torch.float64 if precision == "fp64" else torch.float32
        self.layout = torch.channels_last if memory_order == "nhwc" else torch.contiguous_format
        self.precision, self.device = precision, device
        with torch.device(device):
            self.model, self.parameters = build_module(nets.layers_of(network))
            self.model.to(dtype).to(memory_format=self.layout)
            data = torch.randn(batch_size, 3, nets.IMAGE_SIZE, nets.IMAGE_SIZE)
            self.labels = torch.randint(0, nets.CLASS_COUNT, (batch_size,))
        self.data = self.to_input_type(data)
        self.loss_of = lambda data, labels: functional.cross_entropy(self.model(data), labels)

    def to_input_type(self, images):
        dtype = {"bf16": torch.bfloat16, "fp64": torch.float64}.get(self.precision, torch.float32)
        return images.to(dtype).to(memory_format=self.layout)

    def autocast_context(self):
        if self.precision != "bf16":
            return contextlib.nullcontext()
        return torch.autocast(torch.device(self.device).type, torch.bfloat16)

    def __call__(self):
        self.model.zero_grad(set_to_none=True)
        with self.autocast_context():
            loss = self.loss_of(self.data, self.labels)
        loss.backward()
        return loss

    def load_values(self, folder):
        """Loads parameters, inputs and labels from the files that umbench wrote."""
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(read_tensor(folder, name, self.device).reshape(parameter.shape))
        self.data = self.to_input_type(read_tensor(folder, "data", self.device))
        self.labels = read_tensor(folder, "labels", self.device).reshape(-1).long()


def read_tensor(folder, name, device):
    """The tensor of that name that umbench wrote to the folder."""
    return torch.from_numpy(numpy.load(Path(folder) / f"{name}.npy")).to(device)


# --- time and memory ---


def fill_compiler_cache(task):
    """Compiles a step, so that another process finds the results in the compiler's cache."""
    step = Step(task["network"], task["batch"], task["precision"], task["order"])
    compile_loss_of(step, task["compile_mode"])
    step()
    torch.cuda.synchronize()


def compile_loss_of(step, compile_mode):
    """Replaces step.loss_of by its compiled form."""
    step.loss_of = torch.compile(step.loss_of, mode=None if compile_mode == "default" else compile_mode)


def time_ways(task):
    """{way: {ms, samples_ms, peak_bytes} or {reason}} for task["ways"]: eager, graph; compile, compile_graph."""
    torch.backends.cudnn.benchmark = True
    step = Step(task["network"], task["batch"], task["precision"], task["order"])
    result_of_way = {}
    if task["ways"][0].startswith("compile"):
        compile_loss_of(step, task["compile_mode"])
    for way in task["ways"]:
        try:
            result_of_way[way] = _time_as_cuda_graph(step, task) if way.endswith("graph") else _time_launched_by_cpu(step, task)
        except Exception as error:  # the row has the reason, and the other ways still run
            result_of_way[way] = {"reason": error_text(error)}
        torch.cuda.empty_cache()  # cached memory of one way would not be free for the next
    return result_of_way


def error_text(error):
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no message'}"


def _time_launched_by_cpu(step, task):
    """Times a step whose kernels the CPU launches one by one."""
    for _ in range(task["warmup"]):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    return measure_calls(step, task["samples"])


def _time_as_cuda_graph(step, task):
    """Times a step that is captured as a CUDA graph, on a side stream after a warm-up there, as PyTorch requires. The peak covers capture
    and replays: the graph's private pool and the memory outside of it."""
    side_stream = torch.cuda.Stream()
    side_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side_stream):
        for _ in range(task["warmup"]):
            step()
    torch.cuda.current_stream().wait_stream(side_stream)
    torch.cuda.synchronize()
    step.model.zero_grad(set_to_none=True)
    torch.cuda.reset_peak_memory_stats()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for _ in range(task["warmup"]):
        graph.replay()
    return measure_calls(graph.replay, task["samples"])


def measure_calls(call, call_count):
    """{ms, samples_ms, peak_bytes} of calls. The peak counts from the last reset of PyTorch's peak."""
    samples_ms = _milliseconds_of_calls(call, call_count)
    return {"ms": statistics.median(samples_ms), "samples_ms": samples_ms, "peak_bytes": torch.cuda.max_memory_allocated()}


def _milliseconds_of_calls(call, call_count):
    """Milliseconds of each call, by events on the current stream."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(call_count + 1)]
    events[0].record()
    for event in events[1:]:
        call()
        event.record()
    torch.cuda.synchronize()
    return [begin_event.elapsed_time(end_event) for begin_event, end_event in zip(events, events[1:])]


# --- gradients ---


def compare_gradients(task):
    """Compares loss and gradients of umbench, which are files in task["values"], with PyTorch's on the same weights and inputs, and both
    with PyTorch in the precision task["reference"] (fp32 without TF32, or fp64)."""
    device = task.get("device", "cuda")
    umbench_gradients = read_umbench_gradients(task, device)
    pytorch_loss, pytorch_gradients = compute_pytorch_gradients(task, task["precision"], task["order"], device)
    umbench_loss = read_tensor(task["values"], "loss", "cpu").item()
    result = {"batch": task["batch"], "umbench_loss": finite_or_none(umbench_loss), "pytorch_loss": finite_or_none(pytorch_loss),
              "to_pytorch": summarize_relative_errors(umbench_gradients, pytorch_gradients), "reference": task["reference"]}
    if not task["reference"]:
        return result
    try:
        reference_loss, reference_gradients = compute_pytorch_gradients(task, task["reference"], "nchw", device)
    except Exception as error:  # for instance too little memory for fp64; the comparison above is kept
        return result | {"reference_reason": error_text(error)}
    return result | {"reference_loss": finite_or_none(reference_loss),
                     "umbench_to_reference": summarize_relative_errors(umbench_gradients, reference_gradients),
                     "pytorch_to_reference": summarize_relative_errors(pytorch_gradients, reference_gradients)}


def read_umbench_gradients(task, device):
    """{umbench's name of a parameter: the gradient that umbench wrote}."""
    extents_of_parameter = nets.parameter_extents(nets.layers_of(task["network"]))
    return {name: read_tensor(task["values"], nets.gradient_name(name), device) for name in extents_of_parameter}


def compute_pytorch_gradients(task, precision, memory_order, device):
    """(loss, {umbench's name of a parameter: the gradient}) of a step with the weights and inputs that umbench wrote."""
    step = Step(task["network"], task["batch"], precision, memory_order, device)
    step.load_values(task["values"])
    loss = step()
    return loss.item(), {name: parameter.grad for name, parameter in step.parameters.items()}


def summarize_relative_errors(gradients, expected_gradients):
    """The relative errors ||gradient - expected|| / ||expected|| of all tensors: the largest with its name, and the median. None stands for
    an infinite error or NaN, which counts as the largest."""
    error_of_name = {name: relative_error(gradients[name], expected_gradients[name]) for name in expected_gradients}
    worst_name = max(error_of_name, key=error_of_name.get)
    return {"worst": finite_or_none(error_of_name[worst_name]), "worst_tensor": worst_name,
            "median": finite_or_none(statistics.median(error_of_name.values()))}


def finite_or_none(value):
    return value if math.isfinite(value) else None


def relative_error(gradient, expected_gradient):
    expected_gradient = expected_gradient.double().reshape(-1)
    difference_norm = torch.linalg.vector_norm(gradient.double().reshape(-1) - expected_gradient)
    error = (difference_norm / torch.linalg.vector_norm(expected_gradient).clamp_min(1e-300)).item()
    return error if math.isfinite(error) else math.inf


# --- the card ---


def measure_gpu_rates(task):
    """Measures the rates of copies and matrix products; also returns the name of the GPU and the versions of libraries."""
    return {"copy_bytes_per_s": _copy_bytes_per_s(task["copy_bytes"]),
            "matrix_flops_per_s": {p: _matrix_flops_per_s(p, task["matrix_size"]) for p in ("fp32", "tf32", "bf16")},
            "gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version()}


def _copy_bytes_per_s(byte_count):
    source = torch.randn(byte_count // 4, device="cuda")
    target = torch.empty_like(source)
    for _ in range(3):
        target.copy_(source)
    return 2 * byte_count / (1e-3 * statistics.median(_milliseconds_of_calls(lambda: target.copy_(source), 10)))


def _matrix_flops_per_s(precision, matrix_size):
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = (torch.randn(matrix_size, matrix_size, device="cuda").to(dtype) for _ in range(2))
    product = torch.empty_like(a)
    for _ in range(3):
        torch.matmul(a, b, out=product)
    return 2 * matrix_size**3 / (1e-3 * statistics.median(_milliseconds_of_calls(lambda: torch.matmul(a, b, out=product), 10)))
