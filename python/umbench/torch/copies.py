"""Saved tensors that wait on the host for the backward pass: copies on streams of their own, as operators that the graphs have.

copy_out and copy_back start a copy, finish_copy makes the current stream wait for it. finish_copy reads the source: until then nothing writes
over it, neither PyTorch's allocator nor Inductor, which gives the memory of tensors that nothing reads any more to others. It
writes the copy: nothing reads that before. On a CPU the copy itself is made as late as it may be, by finish_copy."""

import ctypes
import functools
import itertools

import torch

from . import managed, private
from .planner import NoPlan

SLOWED = {"cycles": 0}  # of the GPU, before each copy: tests set them
GRAIN = 512

library = torch.library.Library("umbench", "FRAGMENT")
# What lies on the host is flat: Inductor would copy it once more, before it is there, where it wants a result in other strides.
# The source comes in whatever strides Inductor gave it; a copy of it made for the purpose would be gone before the end.
library.define("copy_out(Tensor source, int slot) -> Tensor", tags=(torch.Tag.flexible_layout,))
library.define("copy_back(Tensor host, int slot, Device device, int[] size, int[] stride) -> Tensor", tags=(torch.Tag.flexible_layout,))
library.define("finish_copy(Tensor source, Tensor(a!) copy) -> ()", tags=(torch.Tag.flexible_layout,))

_slots, _numbers = {}, itertools.count()
_streams, _running = {}, {}


class Slot:
    """A part of a slab. `holds`: a backward pass has yet to read it; a forward pass before that takes other memory, as does a
    tensor that spans more than was planned."""

    def __init__(self, memory, offset, size, on_gpu):
        self.memory, self.offset, self.size, self.tensor, self.holds, self.stride = memory, offset, size, None, False, None
        if on_gpu:
            self.ready, self.out, self.back = (torch.cuda.Event() for _ in range(3))

    def take(self, source):
        """A flat tensor on the host for all that `source` spans."""
        elements, size = _spanned(source), _spanned(source) * source.element_size()
        if self.holds or size > self.size:
            self.memory, self.offset, self.size = torch.empty(size, dtype=torch.uint8, pin_memory=source.is_cuda), 0, size
            self.tensor = None
        if self.tensor is None:
            made = torch.empty(0, dtype=source.dtype, device=self.memory.device)
            at = self.memory.storage_offset() + self.offset // source.element_size()
            self.tensor = made.set_(self.memory.untyped_storage(), at, (elements,), (1,))
        self.holds, self.stride = True, source.stride()
        return self.tensor

    def give(self, host):
        """The backward pass reads `host`, made by `take`."""
        if self.tensor is not None and host.data_ptr() == self.tensor.data_ptr():
            self.holds = False


class Slab:
    """One piece of host memory. tier: "pinned", or "managed" for managed memory whose home is the host. `slots`: numbers of its parts."""

    def __init__(self, sizes, tier, on_gpu):
        offsets = list(itertools.accumulate((-(-size // GRAIN) * GRAIN for size in sizes), initial=0))
        self.bytes = offsets.pop()
        self.free = lambda: None
        if tier == "managed" and on_gpu:
            self.memory, self.free = managed_bytes(self.bytes)
        else:
            self.memory = torch.empty(self.bytes, dtype=torch.uint8, pin_memory=on_gpu)
        self.slots = [next(_numbers) for _ in sizes]
        _slots.update({slot: Slot(self.memory, offset, size, on_gpu) for slot, offset, size in zip(self.slots, offsets, sizes)})

    def close(self):
        for slot in self.slots:
            _slots.pop(slot, None)
        self.free()


def managed_bytes(size):
    """(a tensor in managed memory whose preferred location is the host and that the GPU reaches over the link, what frees it)."""
    pool = managed.library("advise_host", size)
    pool.um_pool_alloc.restype = ctypes.c_void_p
    pool.um_pool_alloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    pool.um_pool_free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    device = torch.cuda.current_device()
    address = pool.um_pool_alloc(size, device, None)
    if not address:
        raise NoPlan(f"{size} bytes of managed memory are refused; take tier='pinned'")
    interface = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}
    shown = torch.as_tensor(type("Managed", (), {"__cuda_array_interface__": interface})(), device="cuda")
    return shown, lambda: pool.um_pool_free(address, size, device, None)


def _copy_out_now(source, slot):
    part = _slots[slot]
    return _begin(_flat(source), part.take(source), part, "out")


def _copy_back_now(host, slot, device, size, stride):
    part = _slots[slot]
    part.give(host)
    made = torch.empty_strided(size, stride, dtype=host.dtype, device=device)
    if all(n == 1 or a == b for n, a, b in zip(size, stride, part.stride)):
        _begin(host, _flat(made), part, "back")
        return made
    landed = _begin(host, torch.empty(host.shape, dtype=host.dtype, device=device), part, "back")
    wait, was = _running.pop(landed.data_ptr()), part.stride

    def turn():
        wait()
        made.copy_(landed.as_strided(size, was))

    _running[made.data_ptr()] = turn
    return made


def _begin(source, copy, part, way):
    """Both are flat. Returns `copy`, which is there when finish_copy has been called with it."""
    gpu = next((t.device for t in (source, copy) if t.is_cuda), None)
    if gpu is None:
        _running[copy.data_ptr()] = lambda: copy.copy_(source)
        return copy
    current, stream, event = torch.cuda.current_stream(gpu), _stream(gpu, way == "out"), getattr(part, way)
    part.ready.record(current)
    stream.wait_event(part.ready)
    with private.on_stream(stream, current):
        if SLOWED["cycles"]:
            torch.cuda._sleep(SLOWED["cycles"])
        _move(copy, source)
    event.record(stream)
    _running[copy.data_ptr()] = lambda: current.wait_event(event)
    return copy


def _move(copy, source):
    """On the current stream."""
    if not (copy.is_cuda and source.is_cuda and copies_managed()(copy, source)):  # PyTorch takes managed memory for the GPU's own
        copy.copy_(source, non_blocking=True)


@functools.cache
def copies_managed():
    """kernel_copies.try_copy, or what refuses all where there is no Triton."""
    try:
        from . import kernel_copies
    except ImportError:
        return lambda copy, source: False
    return kernel_copies.try_copy


def _finish(source, copy):
    _running.pop(copy.data_ptr())()


def _spanned(tensor):
    """Elements from a tensor's first to its last in memory."""
    return sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride())) + 1


def _flat(tensor):
    """All that a tensor spans, as one piece: PyTorch copies other pieces by way of memory that it does not wait for."""
    return tensor.as_strided((_spanned(tensor),), (1,))


def _stream(gpu, out):
    if (gpu, out) not in _streams:
        _streams[gpu, out] = torch.cuda.Stream(gpu)
    return _streams[gpu, out]


for name, function in (("copy_out", _copy_out_now), ("copy_back", _copy_back_now), ("finish_copy", _finish)):
    library.impl(name, function, "CompositeExplicitAutograd")


@torch.library.register_fake("umbench::copy_out", lib=library)
def _(source, slot):
    return torch.empty(_spanned(source), dtype=source.dtype, device=_slots[slot].memory.device)


@torch.library.register_fake("umbench::copy_back", lib=library)
def _(host, slot, device, size, stride):
    return torch.empty_strided(size, stride, dtype=host.dtype, device=device)


@torch.library.register_fake("umbench::finish_copy", lib=library)
def _(source, copy):
    return None


# --- graphs ---

def bytes_of(node):
    value = node.meta["val"]
    return _spanned(value) * value.element_size()


def offload(forward, backward, num_fwd_outputs, copies, slab):
    """Puts the copies into both graphs. `copies`: (tensor, gone_after, back_before), names of nodes as torch_copy has them, None for
    the end of the forward graph and for right before the first reader."""
    for (name, gone_after, back_before), slot in zip(copies, slab.slots):
        host = _copy_out(forward.graph, num_fwd_outputs, name, gone_after, slot)
        _copy_back(backward.graph, name, back_before, slot, host)
    for module in (forward, backward):
        module.graph.lint()
        module.recompile()


def _copy_out(graph, num_fwd_outputs, name, gone_after, slot):
    at = {node.name: i for i, node in enumerate(graph.nodes)}
    nodes = list(graph.nodes)
    source, output = nodes[at[name]], nodes[-1]
    anchor = nodes[max(at[name], at.get(gone_after, 0))] if gone_after else output.prev
    with graph.inserting_after(source):
        host = _call(graph, torch.ops.umbench.copy_out.default, source, slot)
    with graph.inserting_after(host if anchor is source else anchor):
        _call(graph, torch.ops.umbench.finish_copy.default, source, host)
    results = list(output.args[0])
    results[num_fwd_outputs:] = [host if result is source else result for result in results[num_fwd_outputs:]]
    output.args = (tuple(results),)
    return host


def _copy_back(graph, name, back_before, slot, host):
    nodes = {node.name: node for node in graph.nodes}
    order = {node: i for i, node in enumerate(graph.nodes)}
    there = nodes[name]
    value, readers = there.meta["val"], list(there.users)
    there.meta["val"] = host.meta["val"]
    first = min(readers, key=order.get)
    begin = min((first, nodes.get(back_before, first)), key=order.get)
    with graph.inserting_before(begin if begin.op != "placeholder" else first):
        copy = _call(graph, torch.ops.umbench.copy_back.default, there, slot, value.device, list(value.shape), list(value.stride()))
    with graph.inserting_before(first):
        _call(graph, torch.ops.umbench.finish_copy.default, there, copy)
    for reader in readers:
        reader.replace_input_with(there, copy)


def _call(graph, operator, *args):
    node = graph.call_function(operator, args)
    values = torch.fx.node.map_arg(args, lambda n: n.meta["val"])
    with torch._guards.detect_fake_mode(values):
        node.meta["val"] = operator(*values)
    return node


def offloaded_in(backward):
    """Names of the tensors that a backward graph copies back."""
    begun = backward.graph.find_nodes(op="call_function", target=torch.ops.umbench.copy_back.default)
    return {node.args[0].name for node in begun}
