"""Saved tensors that wait on the host for the backward pass: copies on streams of their own, as operators that the graphs have.

begin_copy starts a copy, finish_copy makes the current stream wait for it. finish_copy reads the source: until then nothing writes
over it, neither PyTorch's allocator nor Inductor, which gives the memory of tensors that nothing reads any more to others. It
writes the copy: nothing reads that before. On a CPU the copy itself is made as late as it may be, by finish_copy."""

import itertools

import torch

from . import private
from .planner import NoPlan

SLOWED = {"cycles": 0}  # of the GPU, before each copy: tests set them
GRAIN = 512

library = torch.library.Library("umbench", "FRAGMENT")
# Any strides will do: Inductor would hand over a copy of its own where a tensor's strides are not those that were traced.
library.define("begin_copy(Tensor source, int slot, Device? device) -> Tensor", tags=(torch.Tag.flexible_layout,))
library.define("finish_copy(Tensor source, Tensor(a!) copy) -> ()", tags=(torch.Tag.flexible_layout,))

_slots, _numbers = {}, itertools.count()
_streams, _running = {}, {}


class Slot:
    """A part of a slab. `holds`: a backward pass has yet to read it; a forward pass before that takes other memory."""

    def __init__(self, memory, offset, on_gpu):
        self.memory, self.offset, self.tensor, self.holds = memory, offset, None, False
        if on_gpu:
            self.ready, self.out, self.back = (torch.cuda.Event() for _ in range(3))

    def take(self, source):
        """A tensor like `source` on the host."""
        if self.holds:
            self.memory, self.offset = torch.empty(_spanned_bytes(source), dtype=torch.uint8, pin_memory=source.is_cuda), 0
            self.tensor = None
        if self.tensor is None or self.tensor.shape != source.shape or self.tensor.stride() != source.stride():
            made = torch.empty(0, dtype=source.dtype, device=self.memory.device)
            at = self.memory.storage_offset() + self.offset // source.element_size()
            self.tensor = made.set_(self.memory.untyped_storage(), at, source.shape, source.stride())
        self.holds = True
        return self.tensor

    def give(self, source):
        """The backward pass reads `source`, made by `take`."""
        if self.tensor is not None and source.data_ptr() == self.tensor.data_ptr():
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
        _slots.update({slot: Slot(self.memory, offset, on_gpu) for slot, offset in zip(self.slots, offsets)})

    def close(self):
        for slot in self.slots:
            _slots.pop(slot, None)
        self.free()


def managed_bytes(size):
    """(a tensor in managed memory whose preferred location is the host and that the GPU reaches over the link, what frees it)."""
    import ctypes

    from . import managed

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


def _begin(source, slot, device):
    part = _slots[slot]
    if device is None:
        copy, done = part.take(source), "out"
    else:
        copy, done = torch.empty_strided(source.shape, source.stride(), dtype=source.dtype, device=device), "back"
        part.give(source)
    gpu = next((t.device for t in (source, copy) if t.is_cuda), None)
    if gpu is None:
        _running[copy.data_ptr()] = lambda: copy.copy_(source)
        return copy
    current, stream, event = torch.cuda.current_stream(gpu), _stream(gpu, device is None), getattr(part, done)
    part.ready.record(current)
    stream.wait_event(part.ready)
    with private.on_stream(stream, current):
        if SLOWED["cycles"]:
            torch.cuda._sleep(SLOWED["cycles"])
        copy.copy_(source, non_blocking=True)
    event.record(stream)
    _running[copy.data_ptr()] = lambda: current.wait_event(event)
    return copy


def _finish(source, copy):
    _running.pop(copy.data_ptr())()


def _spanned_bytes(tensor):
    return (sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride())) + 1) * tensor.element_size()


def _stream(gpu, out):
    if (gpu, out) not in _streams:
        _streams[gpu, out] = torch.cuda.Stream(gpu)
    return _streams[gpu, out]


library.impl("begin_copy", _begin, "CompositeExplicitAutograd")
library.impl("finish_copy", _finish, "CompositeExplicitAutograd")


@torch.library.register_fake("umbench::begin_copy", lib=library)
def _(source, slot, device):
    return torch.empty_strided(source.shape, source.stride(), dtype=source.dtype, device=device or _slots[slot].memory.device)


@torch.library.register_fake("umbench::finish_copy", lib=library)
def _(source, copy):
    return None


# --- graphs ---

def bytes_of(node):
    return _spanned_bytes(node.meta["val"])


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
        host = _call(graph, torch.ops.umbench.begin_copy.default, source, slot, None)
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
    device, readers = there.meta["val"].device, list(there.users)
    there.meta["val"] = host.meta["val"]
    first = min(readers, key=order.get)
    begin = min((first, nodes.get(back_before, first)), key=order.get)
    with graph.inserting_before(begin if begin.op != "placeholder" else first):
        copy = _call(graph, torch.ops.umbench.begin_copy.default, there, slot, device)
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
    begun = backward.graph.find_nodes(op="call_function", target=torch.ops.umbench.begin_copy.default)
    return {node.args[0].name for node in begun}
