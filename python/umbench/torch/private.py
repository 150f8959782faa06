"""All uses of PyTorch's private interfaces, so that a new release requires changes in one file only.

Written for torch 2.11. `missing_names()` has what a release lacks.
"""

import contextlib
import importlib
import itertools
import operator
import os
import types

import torch
from torch.utils._pytree import tree_leaves

from .values import output_nodes_of

USED_NAMES = {
    "torch._functorch.partitioners": ("choose_saved_values_set", "classify_nodes",
                                      "min_cut_rematerialization_partition"),
    "torch._functorch.compile_utils": ("fx_graph_cse",),
    "torch._functorch.config": ("force_non_lazy_backward_lowering", "patch"),
    "torch._functorch.aot_autograd": ("aot_module_simplified",),
    "torch._inductor.custom_graph_pass": ("CustomPartitionerFn",),
    "torch._inductor.compile_fx": ("compile_fx", "compile_fx_inner"),
    "torch._inductor.graph": ("GraphLowering.find_nodes_prefer_channels_last", "GraphLowering.run_node"),
    "torch._inductor.ir": ("TensorBox",),
    "torch._inductor.codegen.wrapper": ("AllocateLine.codegen", "AllocateLine.should_reuse_buffer", "EnterDeviceContextManagerLine", "ExitDeviceContextManagerLine",
                                        "ExternKernelAllocLine.codegen", "PythonWrapperCodegen.codegen_device_guard_enter"),
    "torch._inductor.codegen.custom_extern_kernel_codegen": ("CUSTOM_EXTERN_KERNEL_CODEGEN", "CustomCodegen"),
    "torch._inductor.codecache": ("PyCodeCache.modules",),
    "torch._inductor.runtime.triton_heuristics": ("CachingAutotuner.run",),
    "torch._inductor.virtualized": ("V",),
    "torch._inductor.config": ("alignment_asserts", "custom_partitioner_fn", "reorder_for_peak_memory", "size_asserts"),
    "torch._dynamo.backends.common": ("aot_autograd",),
    "torch._dynamo.backends.debugging": ("boxed_nop",),
    "torch._dynamo.exc": ("BackendCompilerFailed", "FailOnRecompileLimitHit", "Unsupported", "UserError"),
    "torch._dynamo.config": ("recompile_limit",),
    "torch.autograd": ("Variable._execution_engine",),
    "torch.nn.parallel": ("DistributedDataParallel._active_ddp_module",),
    "torch.utils._mode_utils": ("no_dispatch",),
    "torch.utils._python_dispatch": ("_disable_current_modes",),
    "torch.utils._triton": ("triton_hash_with_backend",),
    "torch.cuda.memory": ("_record_memory_history", "_snapshot"),
    "torch._C": ("_cuda_clearCublasWorkspaces", "_construct_storage_from_data_pointer", "_storage_Use_Count", "_cuda_memoryStats", "_cuda_setStream", "_cuda_getCurrentRawStream", "_accelerator_setAllocatorSettings", "_cuda_attach_out_of_memory_observer",
                 "_cuda_isHistoryEnabled", "_cuda_cudaCachingAllocator_raw_alloc", "_cuda_cudaCachingAllocator_raw_delete"),
}
# Settings of the caching allocator, with which it maps pages of 12 MiB, its smallest, and gives back empty ones.
ALLOCATOR_SETTINGS = "expandable_segments:True,large_segment_size_mb:12"


def missing_names():
    """Names that this release of PyTorch does not have."""
    missing = []
    for module_name, names in USED_NAMES.items():
        try:
            imported_module = importlib.import_module(module_name)
        except ImportError:
            missing.append(module_name)
            continue
        for name in names:
            try:
                operator.attrgetter(name)(imported_module)
            except AttributeError:
                missing.append(f"{module_name}.{name}")
    return missing


def remove_dead_and_repeated_nodes(joint):
    """Removes dead and repeated nodes from the joint graph as PyTorch's partitioner does."""
    from torch._functorch import config
    from torch._functorch.compile_utils import fx_graph_cse

    joint.graph.eliminate_dead_code()
    if config.cse:
        joint.graph = fx_graph_cse(joint.graph)


def classify_nodes(joint, num_fwd_outputs, static_lifetime_input_indices):
    """PyTorch's NodeInfo of the simplified joint graph: which nodes belong to the forward pass."""
    from torch._functorch import partitioners

    return partitioners.classify_nodes(joint, list(static_lifetime_input_indices or []), num_fwd_outputs)


def nodes_saved_by_pytorch(joint, node_info):
    """The nodes that PyTorch would save without a budget. `node_info`: of classify_nodes()."""
    from torch._functorch import partitioners

    for node in reversed(joint.graph.nodes):
        if node.op == "output":
            node.dist_from_bw = int(1e9)
        elif not node_info.is_required_fw(node):
            node.dist_from_bw = 0
        else:
            node.dist_from_bw = min([user.dist_from_bw + 1 for user in node.users], default=int(1e9))
    return partitioners.choose_saved_values_set(joint.graph, node_info, memory_budget=1)


def split_as_pytorch(joint, inputs, num_fwd_outputs, static_inputs):
    """(forward, backward) GraphModules as torch.compile splits a joint graph, which is left as it was; backward is None where no output
    is a gradient."""
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    graph_copy, copy_of_node = torch.fx.Graph(), {}
    output_node = graph_copy.output(graph_copy.graph_copy(joint.graph, copy_of_node))
    output_node.meta = dict(joint.graph.output_node().meta)
    module_copy = torch.fx.GraphModule(joint, graph_copy)
    if len(output_nodes_of(graph_copy)) <= num_fwd_outputs:
        return module_copy, None
    return min_cut_rematerialization_partition(module_copy, inputs, num_fwd_outputs=num_fwd_outputs,
                                               static_lifetime_input_indices=list(static_inputs or ()))


def split_saving(joint, inputs, saved_names, **kwargs):
    """(forward, backward) GraphModules of the joint graph. The named nodes and the inputs are saved for the backward graph. Repeated nodes stay."""
    from torch._functorch import config, partitioners

    def nodes_to_save(graph, info, memory_budget=1):
        return [*info.inputs, *(node for node in graph.nodes if node.name in saved_names)]

    usual_choice, partitioners.choose_saved_values_set = partitioners.choose_saved_values_set, nodes_to_save
    try:
        with config.patch(cse=False):
            return partitioners.min_cut_rematerialization_partition(joint, inputs, **kwargs)
    finally:
        partitioners.choose_saved_values_set = usual_choice


def compile_graph(dynamo_graph, inputs, partition, backend, wrap_pass=None):
    """The callable that `backend` ("inductor" or "aot_eager") makes of Dynamo's graph, split by `partition`. Each compiled pass runs as
    wrap_pass(function of a list of inputs, is_backward), as cuda_graphs.StepGraphs has it."""
    from torch._functorch import config
    from torch._inductor import config as inductor

    # The settings of this call must also apply to the backward graph.
    with config.patch(enable_autograd_cache=False, force_non_lazy_backward_lowering=True), inductor.patch(reorder_for_peak_memory=True):
        if backend == "aot_eager":
            from torch._dynamo.backends.common import aot_autograd
            from torch._dynamo.backends.debugging import boxed_nop

            return aot_autograd(fw_compiler=boxed_nop, partition_fn=partition)(dynamo_graph, inputs)
        from torch._inductor.compile_fx import compile_fx

        call_operators_directly("copies", ("copy_out", "copy_back", "finish_copy"))
        call_operators_directly("chunks", ("after_gradients", "add_product", "add_product_"))
        with keep_traced_strides(), free_unread_memory(), store_marked_values(), insert_calls_before_allocations(), single_device_guard():
            return compile_fx(dynamo_graph, inputs, inner_compile=inner_compile_with(wrap_pass), config_patches={
                "custom_partitioner_fn": make_inductor_partitioner(partition), "fx_graph_cache": False,
                "graph_partition": False,  # serves only Inductor's own CUDA graphs
                "size_asserts": False, "alignment_asserts": False})  # leaves out checks, since launching dominates small kernels


def import_compiler():
    """Imports Inductor, as torch.compile() does for its usual backend, and starts its compiling processes."""
    importlib.import_module("torch._inductor.compile_fx")


def make_triton_key():
    """Makes Inductor's key of Triton beforehand: hashes Triton's 400 MB, compiles its driver, and asks its assembler for the version. Inductor
    meets an error again if it needs the key."""
    from torch.utils._triton import triton_hash_with_backend

    with contextlib.suppress(Exception):
        triton_hash_with_backend()


def inner_compile_with(wrap_pass):
    """Inductor's compiler of a pass, whose result runs as wrap_pass() makes it. It compiles outside of the mode in which AOTAutograd has traced the
    graph, as PyTorch does at the first backward pass: within that mode, each look at a traced value is a call of Python."""
    from torch._inductor.compile_fx import compile_fx_inner
    from torch.utils._python_dispatch import _disable_current_modes

    def compile_pass(module, example_inputs, **options):
        with _disable_current_modes():
            compiled_pass = compile_fx_inner(module, example_inputs, **options)
        if wrap_pass and not options.get("is_inference"):
            compiled_pass.current_callable = wrap_pass(compiled_pass.current_callable, bool(options.get("is_backward")))
        return compiled_pass

    return compile_pass


def unowned_storage_at(address, device, byte_count):
    """A storage of memory on a GPU that does not keep the memory alive."""
    return torch._C._construct_storage_from_data_pointer(address, device, byte_count)


def use_count_of(storage):
    """The number of tensors, and of Python's objects, that use a storage."""
    return torch._C._storage_Use_Count(storage._cdata)


def compile_kernel(module, example_operands):
    """The function that Inductor makes of a traced graph: it takes a list of tensors. `example_operands`: fake tensors of their shapes and types."""
    from torch._inductor.compile_fx import compile_fx_inner

    run_compiled = compile_fx_inner(module, example_operands, is_inference=True)
    return lambda operands: run_compiled(list(operands))


@contextlib.contextmanager
def keep_traced_strides():
    """A context in which contiguous images keep their strides in graphs whose convolutions were traced with channels last. By itself Inductor
    gives channels-last strides to all images before a convolution, also to those whose channels the model has moved to the last dimension."""
    from torch._inductor.graph import GraphLowering

    usual_find = GraphLowering.find_nodes_prefer_channels_last

    def nodes_that_prefer_channels_last(self):
        convolutions = self.module.graph.find_nodes(op="call_function", target=torch.ops.aten.convolution.default)
        any_has_channels_last = any(not node.meta["val"].is_contiguous() for node in convolutions)
        return {node for node in usual_find(self) if not (any_has_channels_last and is_contiguous_image(node.meta.get("val")))}

    GraphLowering.find_nodes_prefer_channels_last = nodes_that_prefer_channels_last
    try:
        yield
    finally:
        GraphLowering.find_nodes_prefer_channels_last = usual_find


def mark_nodes_to_store(module, stored_names):
    """Marks the named nodes of a graph, so that Inductor stores their values within store_marked_values()."""
    for node in module.graph.nodes:
        if node.name in stored_names:
            node.meta["umbench_store"] = True


@contextlib.contextmanager
def store_marked_values():
    """A context in which Inductor stores the values of marked nodes. By itself it computes a sum of few tensors again in each kernel that
    reads it."""
    from torch._inductor.graph import GraphLowering
    from torch._inductor.ir import TensorBox

    usual = GraphLowering.run_node

    def run_node(self, node):
        result = usual(self, node)
        if node.meta.get("umbench_store") and isinstance(result, TensorBox):
            result.realize()
        return result

    GraphLowering.run_node = run_node
    try:
        yield
    finally:
        GraphLowering.run_node = usual


@contextlib.contextmanager
def free_unread_memory():
    """A context in which Inductor frees memory that is no longer read, unless the next kernel reuses it. By default it keeps the memory for
    any later tensor of the same size."""
    from torch._inductor.codegen.wrapper import AllocateLine

    usual = AllocateLine.should_reuse_buffer
    AllocateLine.should_reuse_buffer = lambda self, freed, size: freed.scheduler_node_index + 1 == self.scheduler_node_index
    try:
        yield
    finally:
        AllocateLine.should_reuse_buffer = usual


@contextlib.contextmanager
def insert_calls_before_allocations():
    """A context in which Inductor's code calls placing.reach_point(number) before each allocation and each operator that allocates, if
    placing.called_at has the number. The numbers are unique."""
    from torch._inductor.codegen.wrapper import AllocateLine, ExternKernelAllocLine
    from torch._inductor.virtualized import V

    def with_call_before(codegen_of_inductor):
        def codegen(self, code):
            V.graph.wrapper_code.add_import_once(f"from {__package__} import placing as umbench_placing")
            point_number = next(_point_numbers)
            code.writeline(f"if {point_number} in umbench_placing.called_at: umbench_placing.reach_point({point_number})")
            codegen_of_inductor(self, code)

        return codegen

    line_classes = (AllocateLine, ExternKernelAllocLine)
    usual = [line_class.codegen for line_class in line_classes]
    for line_class in line_classes:
        line_class.codegen = with_call_before(line_class.codegen)
    try:
        yield
    finally:
        for line_class, codegen in zip(line_classes, usual):
            line_class.codegen = codegen


@contextlib.contextmanager
def single_device_guard():
    """A context in which Inductor's code does not switch the device around operators with tensors of the host, which would take CPU
    time."""
    from torch._inductor.codegen.wrapper import EnterDeviceContextManagerLine, ExitDeviceContextManagerLine, PythonWrapperCodegen

    usual = PythonWrapperCodegen.codegen_device_guard_enter

    def enter_device_guard(self, device, *others, **options):
        guard_line_indices = [index for index, line in enumerate(self.lines)
                              if isinstance(line, (EnterDeviceContextManagerLine, ExitDeviceContextManagerLine))]
        if (guard_line_indices
                and isinstance(self.lines[guard_line_indices[-1]], ExitDeviceContextManagerLine)
                and self.lines[guard_line_indices[-2]].device_idx == device):
            del self.lines[guard_line_indices[-1]]
        else:
            usual(self, device, *others, **options)

    PythonWrapperCodegen.codegen_device_guard_enter = enter_device_guard
    try:
        yield
    finally:
        PythonWrapperCodegen.codegen_device_guard_enter = usual


def skip_launch_checks():
    """Makes the code of fitted models that has run launch its kernels without the checks of settings before each, which take the CPU
    some microseconds. PyTorch's profiler then has no ranges of these launches."""
    from torch._inductor.codecache import PyCodeCache
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    for module in PyCodeCache.modules:
        if not hasattr(module, "umbench_placing"):
            continue
        for kernel in vars(module).values():
            if type(kernel) is CachingAutotuner and len(kernel.launchers) == 1 and not (kernel.dump_launch_params or kernel.dump_launch_tensors):
                kernel.run = kernel.launchers[0]


_point_numbers = itertools.count()


# read_current_stream_handle(gpu): the handle of the current stream of a GPU, by its number.
read_current_stream_handle = getattr(torch._C, "_cuda_getCurrentRawStream", None)
# take_bytes(size, stream): the address of `size` bytes of the current GPU from the caching allocator, in less time than a tensor. stream: as its
# events name it. give_bytes(address) gives them back. None where PyTorch has no GPU.
take_bytes = getattr(torch._C, "_cuda_cudaCachingAllocator_raw_alloc", None)
give_bytes = getattr(torch._C, "_cuda_cudaCachingAllocator_raw_delete", None)


def call_operators_directly(module_name, operator_names):
    """Makes Inductor's code call this package's operators as the functions of the same names in a module of it: a call by PyTorch's dispatcher
    costs the CPU as much as launching a kernel."""
    from torch._inductor.codegen.custom_extern_kernel_codegen import CUSTOM_EXTERN_KERNEL_CODEGEN, CustomCodegen
    from torch._inductor.codegen.wrapper import ExternKernelAllocLine
    from torch._inductor.virtualized import V

    def make_writer(operator_name):
        def write(node, writeline):
            wrapper = V.graph.wrapper_code
            wrapper.add_import_once(f"from {__package__} import {module_name} as umbench_{module_name}")
            node.set_python_kernel_name(f"umbench_{module_name}.{operator_name}")
            wrapper.writeline(ExternKernelAllocLine(wrapper, node))

        return write

    for operator in operator_names:
        CUSTOM_EXTERN_KERNEL_CODEGEN[f"torch.ops.umbench.{operator}.default"] = CustomCodegen(python=make_writer(operator))


def is_contiguous_image(value):
    return isinstance(value, torch.Tensor) and value.dim() == 4 and value.is_contiguous()


def keep_operator_order():
    """Makes Inductor keep the order of operators within the graphs that follow in this call of `compile_graph`. (compile_fx drops patches after
    each graph.)"""
    from torch._inductor import config

    config.reorder_for_peak_memory = False


def make_inductor_partitioner(partition):
    """`partition` in the form of Inductor's partitioners. Inductor does not cache its results."""
    from torch._inductor.custom_graph_pass import CustomPartitionerFn

    class Partitioner(CustomPartitionerFn):
        def __call__(self, gm, joint_inputs, **kwargs):
            return partition(gm, joint_inputs, **kwargs)

        def uuid(self):
            return None

    return Partitioner()


def allow_real_tensors():
    """A context in which operators run on real tensors while a graph is being compiled."""
    from torch.utils._mode_utils import no_dispatch

    return no_dispatch()


def free_cublas_workspaces():
    """Frees the workspaces of cuBLAS for each thread and stream, which it allocates again when it needs them."""
    torch._C._cuda_clearCublasWorkspaces()


def configure_allocator():
    """Applies ALLOCATOR_SETTINGS to the caching allocator, unless the user has set something else."""
    if not any(os.environ.get(name) for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")):
        torch._C._accelerator_setAllocatorSettings(ALLOCATOR_SETTINGS)


def allocator_maps_pages():
    """Whether the caching allocator has ALLOCATOR_SETTINGS after configure_allocator()."""
    return all(os.environ.get(name, ALLOCATOR_SETTINGS) == ALLOCATOR_SETTINGS for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"))


def first_page_address(device, stream_handle):
    """The address of a page of large allocations on a stream, by its number in the allocator's events; 0 where there is none."""
    return next((segment["address"] for segment in _large_segments(device, stream_handle)), 0)


def free_bytes_and_growths(device, stream_handle):
    """[(bytes, bytes of address space behind it)] of free memory between large allocations on a stream, outside pools of their own."""
    bytes_and_growths, segments = [], _large_segments(device, stream_handle)
    for segment, next_segment in zip(segments, [*segments[1:], None]):
        for block in segment["blocks"]:
            is_last = block["address"] + block["size"] == segment["address"] + segment["total_size"]
            space_behind = (next_segment["address"] - block["address"] - block["size"] if next_segment else 2**40) if is_last else 0
            if block["state"] == "inactive" or space_behind:
                bytes_and_growths.append((block["size"] if block["state"] == "inactive" else 0, space_behind))
    return bytes_and_growths


def _large_segments(device, stream_handle):
    """The segments of large allocations in the default pool, not in those of CUDA graphs or of the user."""
    wanted_fields = {"device": device.index or 0, "stream": stream_handle, "segment_type": "large", "is_expandable": True, "segment_pool_id": (0, 0)}
    segments = torch.cuda.memory_snapshot(include_traces=False)
    return sorted((each for each in segments if all(each[name] == value for name, value in wanted_fields.items())), key=lambda each: each["address"])


def stream_with_handle(stream_handle, device):
    """The stream that has this number in the allocator's events."""
    return torch.cuda.ExternalStream(stream_handle, device=device) if stream_handle else torch.cuda.default_stream(device)


def observe_out_of_memory(callback):
    """Calls callback(device, bytes asked for, bytes of the device, free bytes) before each torch.OutOfMemoryError."""
    torch._C._cuda_attach_out_of_memory_observer(callback)


def allocator_events_during(run_step):
    """The events of the caching allocator on the first GPU while run_step() runs, with action, addr, size and frames."""
    torch.cuda.memory._record_memory_history(max_entries=200000, context="alloc", stacks="python")
    run_step()
    torch.cuda.synchronize()
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    return events


def set_recording_allocations(is_recording):
    """Begins or ends recording the caching allocator's events, without stacks."""
    torch.cuda.memory._record_memory_history(enabled="all" if is_recording else None, context=None, max_entries=200000, clear_history=True)


def is_recording_allocations():
    """Whether the allocator's events are being recorded."""
    return torch._C._cuda_isHistoryEnabled()


def recorded_allocator_events(device):
    """The allocator's events since recording began, with action, addr, size and stream."""
    torch.cuda.synchronize(device)
    return torch.cuda.memory._snapshot()["device_traces"][device.index or 0]


def allocator_statistics(device):
    """As torch.cuda.memory_stats_as_nested_dict, but faster than torch.cuda.memory_stats."""
    return torch._C._cuda_memoryStats(device.index or 0)


@contextlib.contextmanager
def on_stream(stream, current_stream):
    """As torch.cuda.stream, in a fifth of its time. `current_stream` is restored."""
    torch._C._cuda_setStream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)
    try:
        yield
    finally:
        torch._C._cuda_setStream(stream_id=current_stream.stream_id, device_index=current_stream.device_index, device_type=current_stream.device_type)


def is_within_distributed():
    """Whether this is within the forward pass of DistributedDataParallel."""
    return torch.nn.parallel.DistributedDataParallel._active_ddp_module is not None


def call_after_backward(result, callback):
    """Lets callback() run when a backward pass from a tensor of `result` has ended without an error. Returns whether `result` has a tensor with a
    gradient."""
    engine = torch.autograd.Variable._execution_engine
    tensors = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    for tensor in tensors:
        tensor.register_hook(lambda gradient: engine.queue_callback(callback))
    return bool(tensors)


def forget_dynamic_sizes(inputs):
    """Removes the marks of tensors whose sizes may change. PyTorch marks them after a model was compiled for several sizes."""
    for leaf in tree_leaves(inputs):
        if isinstance(leaf, torch.Tensor):
            vars(leaf).pop("_dynamo_weak_dynamic_indices", None)


def install_call(model, call):
    """Makes model(...) call `call`."""
    model._compiled_call_impl = call


def original_call_of(model):
    """A function that runs `model` with its hooks and without the installed call. Each function has its own code object, since Dynamo limits
    the number of graphs of a code object."""
    def run(*inputs, **keyword_inputs):
        return model._call_impl(*inputs, **keyword_inputs)

    return types.FunctionType(run.__code__.replace(), run.__globals__, run.__name__, run.__defaults__, run.__closure__)


@contextlib.contextmanager
def graph_breaks_raise(error_class):
    """A context that turns a graph break into an error of this class and of one line. Such an error of the backend passes unchanged."""
    from torch._dynamo.exc import BackendCompilerFailed, FailOnRecompileLimitHit, Unsupported, UserError

    try:
        yield
    except BackendCompilerFailed as error:
        if isinstance(error.inner_exception, error_class):
            raise error.inner_exception.with_traceback(None) from None
        raise
    except FailOnRecompileLimitHit:
        raise error_class(f"inputs of more than {torch._dynamo.config.recompile_limit} shapes: each is planned by itself; pad them to fewer") from None
    except (Unsupported, UserError) as error:
        raise error_class(f"the model has no single graph: {str(error).strip().splitlines()[0]}; "
                          "make it run with torch.compile(fullgraph=True) first") from None
