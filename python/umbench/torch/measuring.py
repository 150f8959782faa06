"""Measures how long operators take on a GPU: products, convolutions, attention and others once for each shape, generated kernels compiled
one by one or estimated from their bytes.

Times are kept in ~/.cache/umbench for the GPU and the release of PyTorch: another network measures only operators that are new.
A GPU that rests between short measurements runs at a higher clock than in training, so products and copies keep it busy meanwhile.
"""

import bisect
import contextlib
import fcntl
import functools
import json
import math
import os
import re
import time
from pathlib import Path

import torch

from . import chunks, generated
from .operators import argument_of, is_attention, operator_name
from .values import padded_strides

CALLS_PER_ROUND, ROUNDS = 10, 5
BETWEEN_KERNELS_NS = 2500  # from the end of a kernel to the next on one stream: 2.4 to 3.0 us for T5, GPT-2, SqueezeNet and DistilBERT in results/torch/steps.jsonl
MIN_COPY_BYTES, MAX_COPY_BYTES, LINK_COPY_BYTES = 1 << 16, 1 << 31, 1 << 25
CACHE_BYTES = 1 << 27  # more than a GPU's second-level cache holds
METHOD_VERSION = 7             # version of the method; times of another version are not used
ERRORS_OF_GPUS = ("CUDA error", "out of memory", "_STATUS_ALLOC_FAILED")
LOADS_AFTER_REST, LOADS_BEFORE_ROUND = 20, 4  # loads of about 2 ms each before the first round after a rest of the GPU, and before every other round
RESTS_AFTER_S = 0.1    # the GPU has rested if nothing was measured for so long


def measure_durations(converted, operator_times):
    """Writes duration_ns and workspace_bytes of each opaque operator of a Converted in place. `operator_times`: an OperatorTimes, which measures what it does not know."""
    for op in converted.document["ops"]:
        if op["kind"] != "opaque":
            continue
        node, kernel_count = converted.alone.get(op["name"]), converted.launches.get(op["name"], 1)
        cost = operator_times.cost_of_node(node, converted.channels_last) if node is not None else None
        if cost is None:
            kernel = converted.generated.get(op["name"])
            ns = operator_times.ns_of_kernel(kernel, op["bytes"], converted.channels_last) if kernel is not None else operator_times.ns_of_copy(op["bytes"])
        else:
            ns = cost["ns"]
            copied_bytes = converted.copied.get(op["name"], 0)  # adds the copies, since measured operands have channels last
            op["workspace_bytes"] = cost["workspace"] + copied_bytes
            ns += operator_times.ns_of_copy(2 * copied_bytes) if copied_bytes else 0
        op["duration_ns"] = ns + BETWEEN_KERNELS_NS * kernel_count
    operator_times.save_to_file()


class OperatorTimes:
    """The times of operators on one GPU, including those of earlier runs."""

    def __init__(self, device="cuda"):
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        name = re.sub(r"[^A-Za-z0-9.]+", "-", f"{torch.cuda.get_device_name(self.device)}-torch{torch.__version__}-{METHOD_VERSION}")
        self.file = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "umbench" / f"{name}.json"
        self.known, self.compiled, self.has_lock = {}, {}, False
        self.load, self.measured_at = None, -math.inf  # CUDA graph that keeps the GPU busy, with its operands; when a measurement ended last
        self.untimed = {}  # reasons why generated kernels could not be timed, by their keys
        self._read_file()

    def _read_file(self):
        if self.file.exists():
            self.known |= json.loads(self.file.read_text(encoding="utf-8"))

    def save_to_file(self):
        """Writes the times to the file. Keeps those of other processes, and leaves out errors that may not happen again."""
        with self._hold_lock():
            self._read_file()
            temporary_file = self.file.with_suffix(f".{os.getpid()}")
            temporary_file.write_text(json.dumps({key: entry for key, entry in self.known.items()
                                                  if not (isinstance(entry, dict) and "once" in entry)}), encoding="utf-8")
            os.replace(temporary_file, self.file)

    def cost_of_node(self, node, has_channels_last=True):
        """{"ns", "workspace"} of an operator with random operands of its shapes; None if it does not accept random operands.
        `has_channels_last`: whether Inductor lays images out so, however they were traced."""
        key = cache_key_of(node) + ("" if has_channels_last else " as traced")
        if key not in self.known:
            with self._hold_lock():
                self._read_file()
                if key not in self.known:
                    self._measure_and_save(key, node, has_channels_last)
        return None if "refused" in self.known[key] else self.known[key]

    def ns_of_kernel(self, generated_kernel, accessed_bytes, has_channels_last):
        """Nanoseconds of a generated kernel (kernels.Kernel) that reads and writes `accessed_bytes` bytes."""
        if not generated.is_worth_timing(generated_kernel, accessed_bytes):
            return self.ns_of_copy(accessed_bytes)
        separate_kernel = generated.SeparateKernel(generated_kernel, self.device)
        key = separate_kernel.cache_key([self._operand_strides(value, has_channels_last) for value in separate_kernel.values])
        if key not in self.known:
            run_or_error = self.compiled.pop(key, None) or self._compile_kernel(separate_kernel, has_channels_last)
            with self._hold_lock():
                self._read_file()
                if key not in self.known:
                    self.known[key] = self._measure_kernel(run_or_error, separate_kernel, accessed_bytes, has_channels_last)
                    self._empty_cache_if_memory_is_short()
                    self.save_to_file()
        if "ns" in self.known[key]:
            return self.known[key]["ns"]
        self.untimed[key] = self.known[key]["refused"]
        return self.ns_of_copy(accessed_bytes)

    def compile_kernels(self, converted):
        """Compiles the kernels of a Converted whose times are not known, which needs the CPU alone."""
        for op in converted.document["ops"]:
            kernel = converted.generated.get(op["name"])
            if kernel is not None and generated.is_worth_timing(kernel, op["bytes"]):
                separate_kernel = generated.SeparateKernel(kernel, self.device)
                key = separate_kernel.cache_key([self._operand_strides(value, converted.channels_last) for value in separate_kernel.values])
                if key not in self.known and key not in self.compiled:
                    self.compiled[key] = self._compile_kernel(separate_kernel, converted.channels_last)

    def _compile_kernel(self, separate_kernel, has_channels_last):
        """The kernel as a function of the list of its operands, or the exception of its compilation."""
        try:
            return separate_kernel.compile_function([self._operand_strides(value, has_channels_last) for value in separate_kernel.values])
        except Exception as error:  # noqa: BLE001  whatever Inductor raises
            return error

    def _measure_kernel(self, run_or_error, separate_kernel, accessed_bytes, has_channels_last):
        if isinstance(run_or_error, Exception):
            return error_entry(run_or_error)
        try:
            with torch.no_grad():
                operand_sets = [[self._random_operand(value, has_channels_last, integer_limit=separate_kernel.positions)
                                 for value in separate_kernel.values]
                                for _ in range(operand_set_count(accessed_bytes))]
                return {"ns": round(self._measure_ns([functools.partial(run_or_error, operand_set) for operand_set in operand_sets]))}
        except Exception as error:  # noqa: BLE001
            return error_entry(error)

    @contextlib.contextmanager
    def _hold_lock(self):
        """A context in which no other process measures or writes."""
        if self.has_lock:
            yield
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with open(self.file.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.has_lock = True
            try:
                yield
            finally:
                self.has_lock = False

    def _measure_and_save(self, key, node, has_channels_last):
        try:
            self.known[key] = self._measure_node(node, has_channels_last)
        except Exception as error:  # noqa: BLE001  an operator that wants particular values
            self.known[key] = error_entry(error)
        self._empty_cache_if_memory_is_short()
        self.save_to_file()

    def ns_of_copy(self, accessed_bytes):
        """Nanoseconds of a copy that reads and writes `accessed_bytes` bytes in total, from measured copies of similar sizes."""
        if "copies" not in self.known:
            self.known["copies"] = [[accessed_bytes, self._copy_ns(accessed_bytes)] for accessed_bytes in _copy_sizes()]
        bytes_and_ns = self.known["copies"]
        if accessed_bytes <= bytes_and_ns[0][0]:
            return round(bytes_and_ns[0][1])
        index = min(bisect.bisect_left([copy_bytes for copy_bytes, _ in bytes_and_ns], accessed_bytes), len(bytes_and_ns) - 1)
        (small_bytes, small_ns), (large_bytes, large_ns) = bytes_and_ns[index - 1], bytes_and_ns[index]
        return round(small_ns + (large_ns - small_ns) * (accessed_bytes - small_bytes) / (large_bytes - small_bytes))

    def link_bytes_per_ns(self):
        """Bytes a nanosecond of copies between pinned memory and the GPU, in the slower direction."""
        if "link" not in self.known:
            gpu_memory = torch.zeros(LINK_COPY_BYTES, dtype=torch.uint8, device=self.device)
            host_memory = torch.zeros(LINK_COPY_BYTES, dtype=torch.uint8, pin_memory=True)
            slower_ns = max(self._measure_ns([lambda target=target, source=source: target.copy_(source, non_blocking=True)])
                            for target, source in ((gpu_memory, host_memory), (host_memory, gpu_memory)))
            self.known["link"] = LINK_COPY_BYTES / slower_ns
            self.save_to_file()
        return self.known["link"]

    def _copy_ns(self, accessed_bytes):
        def make_call():
            source = torch.zeros(accessed_bytes // 8, dtype=torch.float32, device=self.device)
            result = torch.empty_like(source)
            return lambda: torch.mul(source, 2.0, out=result)

        return self._measure_ns([make_call() for _ in range(operand_set_count(accessed_bytes))])

    def _measure_node(self, node, has_channels_last):
        with torch.no_grad():
            calls = [self._make_call(node, has_channels_last)]
            calls[0]()
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats(self.device)
            bytes_before = torch.cuda.memory_allocated(self.device)
            result = calls[0]()
            torch.cuda.synchronize()
            bytes_after = torch.cuda.memory_allocated(self.device)
            workspace_bytes = torch.cuda.max_memory_allocated(self.device) - bytes_after
            operand_bytes = bytes_after - bytes_before + _operand_bytes(node)
            del result
            calls += [self._make_call(node, has_channels_last) for _ in range(operand_set_count(operand_bytes) - 1)]
            return {"ns": round(self._measure_ns(calls)), "workspace": max(0, workspace_bytes)}

    def _make_call(self, node, has_channels_last):
        """A function that runs the operator with its own random operands."""
        if is_attention(node):
            return self._make_attention_call(node)
        def make_operand(operand_node):
            return self._random_operand(operand_node.meta.get("val"), has_channels_last, operand_node)

        args, kwargs = torch.fx.node.map_arg(node.args, make_operand), torch.fx.node.map_arg(node.kwargs, make_operand)
        if chunks.is_product_added_to_sum(node):
            return lambda: torch.ops.umbench.add_product_(*args)
        if "grouped_mm" in operator_name(node):
            args = with_equal_group_rows(args)
        kwargs = {key: self.device if isinstance(value, torch.device) else value for key, value in kwargs.items()}
        return lambda: node.target(*args, **kwargs)

    def _make_attention_call(self, node):
        """As _make_call(), for attention. The function runs the kernel that PyTorch chooses on this GPU, even if the node names another one."""
        def make_argument(argument_name):
            argument = argument_of(node, argument_name) if any(a.name == argument_name for a in node.target._schema.arguments) else None
            return self._random_operand(argument.meta["val"], False) if isinstance(argument, torch.fx.Node) else argument

        operands = [make_argument(name) for name in ("query", "key", "value")]
        attend = functools.partial(torch.nn.functional.scaled_dot_product_attention, *operands, attn_mask=make_argument("attn_bias"),
                                   dropout_p=make_argument("dropout_p") or 0.0, is_causal=bool(make_argument("is_causal")), scale=make_argument("scale"),
                                   enable_gqa=operands[0].shape[1] != operands[1].shape[1])
        if "backward" not in operator_name(node):
            return attend
        with torch.enable_grad(), torch.cuda.stream(self.stream):  # on the stream of the measurement, with gradients enabled
            for each in operands:
                each.requires_grad_()
            result = attend()
            gradient = torch.ones_like(result)
        return lambda: torch.autograd.grad(result, operands, gradient, retain_graph=True)

    def _measure_ns(self, calls):
        """Nanoseconds of a call: the mean of a round of calls one after the other, in the shortest of some rounds. Several `calls` with operands
        of their own find these in memory, not in the cache."""
        graph = self._record_cuda_graph([calls[call_number % len(calls)] for call_number in range(CALLS_PER_ROUND)])
        self.load = self.load or self._record_load()
        has_rested = time.monotonic() - self.measured_at > RESTS_AFTER_S
        begin_and_end_events = []
        for call_number in range(ROUNDS):
            for _ in range(LOADS_AFTER_REST if has_rested and not call_number else LOADS_BEFORE_ROUND):
                self.load[0].replay()
            begin_and_end_events.append([torch.cuda.Event(enable_timing=True) for _ in range(2)])
            begin_and_end_events[-1][0].record()
            graph.replay()
            begin_and_end_events[-1][1].record()
        torch.cuda.synchronize()
        self.measured_at = time.monotonic()
        return min(begin.elapsed_time(end) for begin, end in begin_and_end_events) * 1e6 / CALLS_PER_ROUND

    def _empty_cache_if_memory_is_short(self):
        """Empties the allocator's cache if less than half of the GPU's memory is free. Must not be called while a graph is recorded."""
        free_bytes, total_bytes = torch.cuda.mem_get_info(self.device)
        if free_bytes < total_bytes / 2:
            torch.cuda.empty_cache()

    def free_memory(self):
        """Frees the memory of the load and of measured operators."""
        if self.measured_at > -math.inf:
            self.load, self.measured_at = None, -math.inf
            torch.cuda.empty_cache()

    def _record_cuda_graph(self, calls):
        """A CUDA graph of calls, so that the GPU does not wait for launches."""
        stream = self.stream  # one stream for all, since libraries keep a workspace for each stream
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            for call in {id(call): call for call in calls}.values():
                call()
        torch.cuda.current_stream(self.device).wait_stream(stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream):  # torch.cuda.graph would also empty the allocator's cache
            graph.capture_begin()
            try:
                for call in calls:
                    call()
            finally:
                graph.capture_end()
        return graph

    def _record_load(self):
        """(CUDA graph that loads the GPU as training does: products for two thirds of the time, copies for the rest; its operands)."""
        a, b = (torch.randn(2048, 2048, device=self.device, dtype=torch.bfloat16) for _ in range(2))
        product_result, copy_source = torch.empty_like(a), torch.zeros(CACHE_BYTES // 8, device=self.device)
        copy_result = torch.empty_like(copy_source)
        run_product, run_copy = lambda: torch.mm(a, b, out=product_result), lambda: copy_result.copy_(copy_source)
        return self._record_cuda_graph(12 * [*4 * [run_product], run_copy]), (a, b, product_result, copy_source, copy_result)

    def _random_operand(self, traced_value, has_channels_last, node=None, integer_limit=1):
        """A tensor of random numbers, integers below `integer_limit`, with the layout of the traced tensor. Values of other types are
        returned unchanged. `node`: the node of a matrix, whose rows may be padded."""
        if isinstance(traced_value, (list, tuple)):
            return type(traced_value)(self._random_operand(v, has_channels_last) for v in traced_value)
        if not isinstance(traced_value, torch.Tensor):
            return traced_value
        strides = padded_strides(node) if node is not None and traced_value.dim() == 2 else traced_value.stride()
        element_count = max(1, sum((extent - 1) * stride for extent, stride in zip(traced_value.shape, strides)) + 1)
        if traced_value.numel() == 0:
            element_count = 0
        flat = (torch.randn(element_count, device=self.device, dtype=torch.float32).mul_(0.02).to(traced_value.dtype)
                if traced_value.dtype.is_floating_point
                else torch.randint(integer_limit, (element_count,), device=self.device, dtype=traced_value.dtype)
                if integer_limit > 1 and traced_value.dtype != torch.bool
                else torch.zeros(element_count, device=self.device, dtype=traced_value.dtype))
        return flat.as_strided(traced_value.shape, self._operand_strides(traced_value, has_channels_last) if traced_value.dim() == 4 else strides)

    @staticmethod
    def _operand_strides(traced_tensor, has_channels_last):
        gets_channels_last = has_channels_last and traced_tensor.dim() == 4 and traced_tensor.is_contiguous()
        return (torch.empty(traced_tensor.shape, device="meta", memory_format=torch.channels_last).stride()
                if gets_channels_last else traced_tensor.stride())


def with_equal_group_rows(operands):
    """Returns the operands of a grouped matrix product with the integer operand, the end of each group's rows, set so that all groups have
    the same number of rows."""
    ends_index = next(i for i, a in enumerate(operands) if isinstance(a, torch.Tensor) and not a.is_floating_point())
    group_ends, row_count = operands[ends_index], max(operands[0].shape) if operands[1].dim() == 2 else operands[0].shape[0]
    group_numbers = torch.arange(1, group_ends.numel() + 1, device=group_ends.device, dtype=group_ends.dtype)
    return *operands[:ends_index], group_numbers * (row_count // group_ends.numel()), *operands[ends_index + 1:]


def error_entry(error):
    """The entry of an operator that could not be timed, with "once" if the cause may be the GPU's state and not the operator."""
    error_text = f"{type(error).__name__}: {str(error).strip()[:200]}"
    may_not_recur = isinstance(error, (torch.OutOfMemoryError, torch.AcceleratorError)) or any(word in str(error) for word in ERRORS_OF_GPUS)
    return {"refused": error_text} | ({"once": True} if may_not_recur else {})


def operand_set_count(operand_bytes):
    """The number of sets of operands, each of `operand_bytes`, that are timed in turns: between two uses of a set the others fill the cache."""
    return min(CALLS_PER_ROUND, 1 + CACHE_BYTES // max(1, operand_bytes))


def _operand_bytes(node):
    traced_values = (n.meta.get("val") for n in node.all_input_nodes)
    return sum(v.numel() * v.element_size() for v in traced_values if isinstance(v, torch.Tensor))


def cache_key_of(node):
    """The text by which the times of an operator are kept: its target, and shapes, types and strides of its operands."""
    return f"{node.target} {_shapes_text(node.args)} {_shapes_text(dict(node.kwargs))}"


def _shapes_text(argument):
    return torch.fx.node.map_arg(argument, lambda n: _shape_text(n.meta.get("val"), n)).__repr__()


def _shape_text(traced_value, node=None):
    if isinstance(traced_value, torch.Tensor):
        return f"{str(traced_value.dtype)[6:]}{list(traced_value.shape)}/{list(traced_value.stride() if node is None else padded_strides(node))}"
    return [_shape_text(v) for v in traced_value] if isinstance(traced_value, (list, tuple)) else repr(traced_value)


def _copy_sizes():
    """Yields the sizes in bytes for which copies are timed."""
    byte_count = MIN_COPY_BYTES
    while byte_count <= MAX_COPY_BYTES:
        yield byte_count
        byte_count *= 2
