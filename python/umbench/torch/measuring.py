"""How long operators take on a GPU: products, convolutions, attention and the like once for each shape, generated kernels by bytes.

Times are kept in ~/.cache/umbench for the GPU and the release of PyTorch: another network measures what is new in it alone.
"""

import bisect
import contextlib
import fcntl
import json
import math
import os
import re
from pathlib import Path

import torch

REPEATS, ROUNDS = 10, 5
BETWEEN_KERNELS_NS = 2500  # from the end of a kernel to the next on one stream: 2.3 to 3.5 us in results/torch/steps.jsonl
LEAST_BYTES, MOST_BYTES, LINK_BYTES = 1 << 16, 1 << 31, 1 << 25
CACHE_BYTES = 1 << 27  # more than a GPU's second-level cache holds


def set_durations(made, device="cuda"):
    """Writes duration_ns and workspace_bytes of each operator of a Converted in place."""
    times = Times(device)
    for op in made.document["ops"]:
        node = made.alone.get(op["name"])
        measured = times.of_node(node) if node is not None else None
        between = BETWEEN_KERNELS_NS * made.launches.get(op["name"], 1)
        if measured is None:
            op["duration_ns"] = times.of_bytes(op["bytes"]) + between
        else:
            op["duration_ns"] = measured["ns"] + between
            if measured["workspace"]:
                op["workspace_bytes"] = measured["workspace"]
    times.keep()


class Times:
    """Times on one GPU, with those of earlier runs."""

    def __init__(self, device="cuda"):
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        name = re.sub(r"[^A-Za-z0-9.]+", "-", f"{torch.cuda.get_device_name(self.device)}-torch{torch.__version__}-2")  # 2: operands in memory
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

    def of_node(self, node):
        """{"ns", "workspace"} of an operator with random operands of its shapes, None where it takes no random ones."""
        key = key_of(node)
        if key not in self.known:
            with self._alone():
                self._read()
                if key not in self.known:
                    self._measure(key, node)
        return self.known[key]

    @contextlib.contextmanager
    def _alone(self):
        """No other process measures meanwhile."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with open(self.file.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _measure(self, key, node):
        try:
            self.known[key] = self._measured(node)
        except Exception:  # noqa: BLE001  an operator that wants particular values
            self.known[key] = None
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

    def _copy_ns(self, size):
        source = torch.zeros(size // 8, dtype=torch.float32, device=self.device)
        result = torch.empty_like(source)
        return self._time([lambda: torch.mul(source, 2.0, out=result)])

    def _measured(self, node):
        with torch.no_grad():
            calls = [self._call(node)]
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
            calls += [self._call(node) for _ in range(min(REPEATS - 1, CACHE_BYTES // max(1, operands)))]
            return {"ns": round(self._time(calls)), "workspace": max(0, workspace)}

    def _call(self, node):
        """A function that runs the operator with operands of its own."""
        args = torch.fx.node.map_arg(node.args, lambda n: self._example(n.meta.get("val")))
        kwargs = torch.fx.node.map_arg(node.kwargs, lambda n: self._example(n.meta.get("val")))
        kwargs = {key: self.device if isinstance(value, torch.device) else value for key, value in kwargs.items()}
        return lambda: node.target(*args, **kwargs)

    def _time(self, calls):
        """The shortest of some rounds, of calls recorded in a CUDA graph one after the other: launching costs the GPU no time. Several
        `calls` with operands of their own find these in memory, not in the cache."""
        stream = self.stream  # one for all: the libraries keep a workspace for each
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            for call in calls:
                call()
        torch.cuda.current_stream(self.device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for number in range(REPEATS):
                calls[number % len(calls)]()
        best = math.inf
        for _ in range(ROUNDS):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            best = min(best, begin.elapsed_time(end) * 1e6 / REPEATS)
        return best

    def _example(self, value):
        """Random numbers where a traced value has a shape; images with channels last, as Inductor lays them out."""
        if isinstance(value, (list, tuple)):
            return type(value)(self._example(v) for v in value)
        if not isinstance(value, torch.Tensor):
            return value
        size = max(1, sum((n - 1) * s for n, s in zip(value.shape, value.stride())) + 1)
        if value.numel() == 0:
            size = 0
        flat = torch.randn(size, device=self.device, dtype=torch.float32).mul_(0.02).to(value.dtype) if value.dtype.is_floating_point \
            else torch.zeros(size, device=self.device, dtype=value.dtype)
        made = flat.as_strided(value.shape, value.stride())
        return made.contiguous(memory_format=torch.channels_last) if value.dim() == 4 and value.is_contiguous() else made


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
