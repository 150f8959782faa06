"""How long operators take on a GPU: products, convolutions, attention and the like once for each shape, generated kernels by bytes.
And how long the CPU takes to launch them.

Times are kept in ~/.cache/umbench for the GPU and the release of PyTorch: another network measures what is new in it alone.
A GPU that rests between short measurements runs at a higher clock than in training, so products and copies keep it busy meanwhile.
"""

import bisect
import contextlib
import fcntl
import functools
import json
import os
import re
import statistics
import time
from pathlib import Path

import torch

from .operators import is_attention

REPEATS, ROUNDS = 10, 5
BETWEEN_KERNELS_NS = 2500  # from the end of a kernel to the next on one stream: 2.3 to 3.5 us in results/torch/steps.jsonl
LEAST_BYTES, MOST_BYTES, LINK_BYTES = 1 << 16, 1 << 31, 1 << 25
CACHE_BYTES = 1 << 27  # more than a GPU's second-level cache holds
METHOD = 4             # of measuring: times of another method are not read
LOADS_FIRST, LOADS = 20, 4  # of some 2 ms, before the first round and before each other
LAYERS = 10, 30        # of the two compiled steps whose launches are timed


def set_durations(made, times):
    """Writes duration_ns and workspace_bytes of each opaque operator of a Converted in place. Returns by the operators' names how many
    nanoseconds the CPU takes to launch them."""
    host_ns = {}
    for op in made.document["ops"]:
        if op["kind"] != "opaque":
            continue
        node, launches = made.alone.get(op["name"]), made.launches.get(op["name"], 1)
        measured = times.of_node(node, made.channels_last) if node is not None else None
        if measured is None:
            ns, host_ns[op["name"]] = times.of_bytes(op["bytes"]), times.generated_launch() * launches
        else:
            ns, host_ns[op["name"]] = measured["ns"], measured["host_ns"]
            op["workspace_bytes"] = measured["workspace"]
        op["duration_ns"] = ns + BETWEEN_KERNELS_NS * launches
    times.keep()
    return host_ns


class Times:
    """Times on one GPU, with those of earlier runs."""

    def __init__(self, device="cuda"):
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        name = re.sub(r"[^A-Za-z0-9.]+", "-", f"{torch.cuda.get_device_name(self.device)}-torch{torch.__version__}-{METHOD}")
        self.file = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "umbench" / f"{name}.json"
        self.known = {}
        self._read()

    def _read(self):
        if self.file.exists():
            self.known |= json.loads(self.file.read_text(encoding="utf-8"))

    def keep(self):
        self.file.parent.mkdir(parents=True, exist_ok=True)
        beside = self.file.with_suffix(f".{os.getpid()}")
        beside.write_text(json.dumps(self.known), encoding="utf-8")
        os.replace(beside, self.file)

    def of_node(self, node, channels_last=True):
        """{"ns", "workspace", "host_ns"} of an operator with random operands of its shapes, None where it takes no random ones.
        `channels_last`: whether Inductor lays images out so, however they were traced."""
        key = key_of(node) + ("" if channels_last else " as traced")
        if key not in self.known:
            with self._alone():
                self._read()
                if key not in self.known:
                    self._measure(key, node, channels_last)
        return None if "refused" in self.known[key] else self.known[key]

    @contextlib.contextmanager
    def _alone(self):
        """No other process measures meanwhile."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with open(self.file.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _measure(self, key, node, channels_last):
        try:
            self.known[key] = self._measured(node, channels_last)
        except Exception as error:  # noqa: BLE001  an operator that wants particular values
            self.known[key] = {"refused": f"{type(error).__name__}: {str(error).strip()[:200]}"}
        torch.cuda.empty_cache()
        self.keep()

    def of_bytes(self, size):
        """Nanoseconds of a kernel that reads and writes `size` bytes, from the times of copies of similar sizes."""
        if "copies" not in self.known:
            self.known["copies"] = [[size, self._copy_ns(size)] for size in _sizes()]
        copies = self.known["copies"]
        if size <= copies[0][0]:
            return round(copies[0][1])
        at = min(bisect.bisect_left([s for s, _ in copies], size), len(copies) - 1)
        (small, short), (large, long) = copies[at - 1], copies[at]
        return round(short + (long - short) * (size - small) / (large - small))

    def link(self):
        """Bytes a nanosecond of copies between pinned memory and the GPU, in the slower direction."""
        if "link" not in self.known:
            here = torch.zeros(LINK_BYTES, dtype=torch.uint8, device=self.device)
            there = torch.zeros(LINK_BYTES, dtype=torch.uint8, pin_memory=True)
            ns = max(self._time([lambda to=to, of=of: to.copy_(of, non_blocking=True)]) for to, of in ((here, there), (there, here)))
            self.known["link"] = LINK_BYTES / ns
            self.keep()
        return self.known["link"]

    def generated_launch(self):
        """Nanoseconds that the CPU takes to launch a kernel that Inductor generated."""
        if "generated_launch" not in self.known:
            self.known["generated_launch"] = generated_launch_ns(self.device)
            self.keep()
        return self.known["generated_launch"]

    def _copy_ns(self, size):
        def call():
            source = torch.zeros(size // 8, dtype=torch.float32, device=self.device)
            result = torch.empty_like(source)
            return lambda: torch.mul(source, 2.0, out=result)

        return self._time([call() for _ in range(operand_sets(size))])

    def _measured(self, node, channels_last):
        with torch.no_grad():
            calls = [self._call(node, channels_last)]
            calls[0]()
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats(self.device)
            held = torch.cuda.memory_allocated(self.device)
            result = calls[0]()
            torch.cuda.synchronize()
            made = torch.cuda.memory_allocated(self.device)
            workspace = torch.cuda.max_memory_allocated(self.device) - made
            operands = made - held + _operand_bytes(node)
            del result
            calls += [self._call(node, channels_last) for _ in range(operand_sets(operands) - 1)]
            host = [launching_ns(lambda: [calls[i % len(calls)]() for i in range(REPEATS)], self.device) for _ in range(ROUNDS)]
            return {"ns": round(self._time(calls)), "workspace": max(0, workspace), "host_ns": round(statistics.median(host) / REPEATS)}

    def _call(self, node, channels_last):
        """A function that runs the operator with operands of its own. Only images are ever turned."""
        channels_last = channels_last and not is_attention(node)
        args = torch.fx.node.map_arg(node.args, lambda n: self._example(n.meta.get("val"), channels_last))
        kwargs = torch.fx.node.map_arg(node.kwargs, lambda n: self._example(n.meta.get("val"), channels_last))
        kwargs = {key: self.device if isinstance(value, torch.device) else value for key, value in kwargs.items()}
        return lambda: node.target(*args, **kwargs)

    def _time(self, calls):
        """Nanoseconds: the shortest of some rounds, each of calls one after the other. Several `calls` with operands of their own find these
        in memory, not in the cache."""
        graph = self._recorded([calls[number % len(calls)] for number in range(REPEATS)])
        load = self._load()
        busy = self._recorded(load)
        marks = []
        for number in range(ROUNDS):
            for _ in range(LOADS if number else LOADS_FIRST):
                busy.replay()
            marks.append([torch.cuda.Event(enable_timing=True) for _ in range(2)])
            marks[-1][0].record()
            graph.replay()
            marks[-1][1].record()
        torch.cuda.synchronize()
        return min(begin.elapsed_time(end) for begin, end in marks) * 1e6 / REPEATS

    def _recorded(self, calls):
        """A CUDA graph of calls: launching costs the GPU no time."""
        stream = self.stream  # one for all: the libraries keep a workspace for each
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            for call in {id(call): call for call in calls}.values():
                call()
        torch.cuda.current_stream(self.device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for call in calls:
                call()
        return graph

    def _load(self):
        """Calls that work a GPU as training does: two thirds of the time products, else copies."""
        a, b = (torch.randn(2048, 2048, device=self.device, dtype=torch.bfloat16) for _ in range(2))
        made, source = torch.empty_like(a), torch.zeros(CACHE_BYTES // 8, device=self.device)
        result = torch.empty_like(source)
        product, copy = lambda: torch.mm(a, b, out=made), lambda: result.copy_(source)
        return 12 * [*4 * [product], copy]

    def _example(self, value, channels_last):
        """Random numbers where a traced value has a shape."""
        if isinstance(value, (list, tuple)):
            return type(value)(self._example(v, channels_last) for v in value)
        if not isinstance(value, torch.Tensor):
            return value
        size = max(1, sum((n - 1) * s for n, s in zip(value.shape, value.stride())) + 1)
        if value.numel() == 0:
            size = 0
        flat = torch.randn(size, device=self.device, dtype=torch.float32).mul_(0.02).to(value.dtype) if value.dtype.is_floating_point \
            else torch.zeros(size, device=self.device, dtype=value.dtype)
        made = flat.as_strided(value.shape, value.stride())
        turns = channels_last and value.dim() == 4 and value.is_contiguous()
        return made.contiguous(memory_format=torch.channels_last) if turns else made


def launching_ns(run, device):
    """Nanoseconds that the CPU takes for run(), whose kernels the GPU may still have to run."""
    synchronize(device)
    began = time.perf_counter_ns()
    run()
    return time.perf_counter_ns() - began


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def generated_launch_ns(device):
    """Nanoseconds for each generated kernel of a compiled training step: of what a longer step takes more, less its products."""
    weight = torch.randn(64, 64, device=device)
    products = [launching_ns(lambda: [torch.mm(weight, weight) for _ in range(100)], device) / 100 for _ in range(ROUNDS)]
    short, long = (_step_ns(layers, weight) for layers in LAYERS)
    more = LAYERS[1] - LAYERS[0]  # each has 3 products and 2 generated kernels, forward and backward
    return max(0, round(((long - short) / more - 3 * statistics.median(products)) / 2))


def _step_ns(layers, x):
    """Median of what the CPU takes to launch a training step of so many layers: a product and a ReLU each."""
    weights = [x.clone().requires_grad_() for _ in range(layers)]

    @functools.partial(torch.compile, dynamic=False)
    def loss_of(x, weights):
        for weight in weights:
            x = torch.relu(x @ weight)
        return x.sum()

    samples = []
    for _ in range(3 + 3 * ROUNDS):
        for weight in weights:
            weight.grad = None
        samples.append(launching_ns(lambda: loss_of(x, weights).backward(), x.device))
    return statistics.median(samples[3:])


def operand_sets(size):
    """How many sets of operands of `size` bytes are timed in turns: between two uses of one the others fill the cache."""
    return min(REPEATS, 1 + CACHE_BYTES // max(1, size))


def _operand_bytes(node):
    values = (n.meta.get("val") for n in node.all_input_nodes)
    return sum(v.numel() * v.element_size() for v in values if isinstance(v, torch.Tensor))


def key_of(node):
    return f"{node.target} {_shapes(node.args)} {_shapes(dict(node.kwargs))}"


def _shapes(argument):
    return torch.fx.node.map_arg(argument, lambda n: _shape(n.meta.get("val"))).__repr__()


def _shape(value):
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype)[6:]}{list(value.shape)}/{list(value.stride())}"
    return [_shape(v) for v in value] if isinstance(value, (list, tuple)) else repr(value)


def _sizes():
    size = LEAST_BYTES
    while size <= MOST_BYTES:
        yield size
        size *= 2
