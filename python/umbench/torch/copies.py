"""Copies of saved tensors to the host and back, on separate streams, as operators of the graphs.

copy_out and copy_back start a copy, and finish_copy makes the current stream wait for it. finish_copy has the source as an operand that it
reads, so neither PyTorch's allocator nor Inductor reuses the source's memory before. It has the copy as an operand that it writes, so
nothing reads the copy before. On a CPU finish_copy makes the copy itself, so that tests find a reader that is too early."""

import ctypes
import itertools
import weakref

import torch

from . import copy_streams, managed
from .planner import NoPlan

GRAIN_BYTES = 512   # slots begin at multiples of these bytes
PADDING_DIVISOR = 16  # a slot is 1/16 larger than its tensor, since Inductor may pad rows

library = torch.library.Library("umbench", "FRAGMENT")
# Copies on the host are flat, since Inductor would copy a result once more to give it other strides, before finish_copy has run.
# The operators take the source in any strides, since Inductor would free a copy of it with other strides before finish_copy has run.
library.define("copy_out(Tensor source, int slot_number) -> Tensor", tags=(torch.Tag.flexible_layout,))
library.define("copy_back(Tensor host, int slot_number) -> Tensor", tags=(torch.Tag.flexible_layout,))
library.define("finish_copy(Tensor source, Tensor(a!) copy, int slot_number, bool to_host) -> ()", tags=(torch.Tag.flexible_layout,))

_slots, _unused_slot_numbers = {}, itertools.count()


class HostSlot:
    """A part of a slab, for the tensor of one node.

    host: a flat tensor of the memory that the last source spanned; None if that is larger than the slot. address, bytes: of `host`.
    stride: of the last source. back: (extents, strides, type, device) of the tensor that the backward graph wants. same_strides: whether
    these strides are those of the source.
    is_awaited: whether a backward pass has yet to read `host`. view: a weak reference to the view of `host` that the graph has.
    By direction (True is to the host): streams; done, events of the last copies; unfinished, what finish_copy() does besides waiting."""

    def __init__(self, slab_memory, byte_offset, byte_count):
        self.memory, self.offset, self.size = slab_memory, byte_offset, byte_count
        self.host = self.stride = self.back = self.streams = None
        self.is_awaited, self.same_strides, self.address, self.bytes, self.unfinished = False, True, 0, 0, {}
        self.view = lambda: None

    def prepare_for(self, source_tensor):
        """Prepares the slot for a source, whose strides may differ from the traced ones."""
        element_count, (extents, wanted_stride, *_) = _spanned_numel(source_tensor), self.back
        self.stride, self.bytes = source_tensor.stride(), element_count * source_tensor.element_size()
        self.same_strides = all(extent == 1 or wanted == own for extent, wanted, own in zip(extents, wanted_stride, self.stride))
        self.host, self.address = None, 0
        if self.bytes <= self.size:
            first_element = self.memory.storage_offset() + self.offset // source_tensor.element_size()
            empty_tensor = torch.empty(0, dtype=source_tensor.dtype, device=self.memory.device)
            self.host = empty_tensor.set_(self.memory.untyped_storage(), first_element, (element_count,), (1,))
            self.address = self.host.data_ptr()
        if source_tensor.is_cuda and self.streams is None:
            self.streams = {to_host: copy_streams.copy_stream(source_tensor.device.index, to_host, self.memory.is_cuda) for to_host in (True, False)}
            self.events = {to_host: copy_streams.record_new_event(copy_stream.stream) for to_host, copy_stream in self.streams.items()}
            self.done = {to_host: event.cuda_event for to_host, event in self.events.items()}

    def begin_copy(self, to_host, source_tensor, copy_tensor):
        """Begins a copy of the memory that the tensors span. It is complete after finish_copy()."""
        on_device, on_host = (source_tensor, copy_tensor) if to_host else (copy_tensor, source_tensor)
        if self.streams is None:
            self.unfinished[to_host] = lambda: _as_flat(copy_tensor).copy_(_as_flat(source_tensor))
        elif on_host.data_ptr() == self.address:
            target_and_source = (self.address, on_device.data_ptr()) if to_host else (on_device.data_ptr(), self.address)
            self.streams[to_host].begin_copy(*target_and_source, self.bytes, self.done[to_host])
        else:  # keeps the memory until the copy has ended
            stream = self.streams[to_host].stream
            stream.wait_stream(torch.cuda.current_stream(stream.device))
            with torch.cuda.stream(stream):
                _as_flat(copy_tensor).copy_(_as_flat(source_tensor), non_blocking=True)
            self.events[to_host].record(stream)


class HostSlab:
    """Host memory with a slot for each offloaded tensor. `tier`: "pinned", or "managed" for managed memory that stays on the host.
    `gpu_number`: the GPU of the tensors, or None for tensors of the CPU, for which the memory is not pinned. `slots`: numbers of the slots."""

    def __init__(self, bytes_of_tensors, tier, gpu_number):
        bytes_of_tensors = [byte_count + byte_count // PADDING_DIVISOR for byte_count in bytes_of_tensors]
        offsets = list(itertools.accumulate((-(-byte_count // GRAIN_BYTES) * GRAIN_BYTES for byte_count in bytes_of_tensors), initial=0))
        self.bytes, self.gpu_number = offsets.pop(), gpu_number
        self.free = lambda: None
        if tier == "managed" and gpu_number is not None:
            with torch.cuda.device(gpu_number):
                self.memory, self.free = allocate_managed(self.bytes)
        else:
            self.memory = torch.empty(self.bytes, dtype=torch.uint8, pin_memory=gpu_number is not None)
        self.slots = [next(_unused_slot_numbers) for _ in bytes_of_tensors]
        _slots.update({slot_number: HostSlot(self.memory, offset, byte_count)
                       for slot_number, offset, byte_count in zip(self.slots, offsets, bytes_of_tensors)})

    def close(self):
        for slot_number in self.slots:
            _slots.pop(slot_number, None)
        if self.gpu_number is not None:
            torch.cuda.synchronize(self.gpu_number)  # PyTorch does not know of the copies
        self.free()


def allocate_managed(byte_count):
    """(a tensor of `byte_count` bytes of managed memory that stays on the host and that the current GPU reaches over the link, a function that frees
    it)."""
    pool_library = managed.configure_library("advise_host", byte_count)
    pool_library.um_pool_alloc.restype = ctypes.c_void_p
    pool_library.um_pool_alloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    pool_library.um_pool_free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    device = torch.cuda.current_device()
    address = pool_library.um_pool_alloc(byte_count, device, None)
    if not address:
        raise NoPlan(f"{byte_count} bytes of managed memory are refused; take tier='pinned'")
    array_interface = {"shape": (byte_count,), "typestr": "|u1", "data": (address, False), "version": 3}
    tensor = torch.as_tensor(type("Managed", (), {"__cuda_array_interface__": array_interface})(), device="cuda")
    return tensor, lambda: pool_library.um_pool_free(address, byte_count, device, None)


def set_layout_of_copy_back(slot_number, layout_tensor):
    """Sets the layout of the tensor that copy_back() returns to that of `layout_tensor`. A compiled forward graph may change it."""
    _slots[slot_number].back = tuple(layout_tensor.shape), tuple(layout_tensor.stride()), layout_tensor.dtype, layout_tensor.device


def copy_out(source, slot_number):
    """Begins the copy of a tensor to its slot; returns the copy on the host, which is complete after finish_copy()."""
    slot = _slots[slot_number]
    if source.stride() != slot.stride:
        slot.prepare_for(source)
    if slot.host is None or slot.is_awaited and slot.view() is not None:  # if its view no longer exists, the earlier backward pass will never run
        host_copy = torch.empty(_spanned_numel(source), dtype=source.dtype, pin_memory=source.is_cuda)
        slot.begin_copy(True, source, host_copy)
        return host_copy
    host_view, slot.is_awaited = slot.host.detach(), True
    slot.view = weakref.ref(host_view)
    slot.begin_copy(True, source, host_view)
    return host_view


def copy_back(host, slot_number):
    """Begins the copy of a slot to the GPU; returns the tensor there, which is complete after finish_copy()."""
    if slot_number not in _slots:
        raise RuntimeError("a backward pass reads tensors of a fitted model that is gone; keep the model until the pass has run")
    slot = _slots[slot_number]
    if slot.unfinished.get(False) and slot.streams:  # waits for the copy of a backward pass that failed
        slot.streams[False].make_current_stream_wait(slot.done[False])
    slot.unfinished.pop(False, None)
    extents, stride, dtype, device = slot.back
    device_tensor = torch.empty_strided(extents, stride, dtype=dtype, device=device)
    if host.data_ptr() == slot.address:
        slot.is_awaited = False
    if slot.same_strides:
        slot.begin_copy(False, host, device_tensor)
        slot.unfinished.setdefault(False, lambda: device_tensor)  # keeps `device_tensor`: the copy writes to it until it has ended
        return device_tensor
    flat_copy, host_stride = torch.empty(host.shape, dtype=dtype, device=device), slot.stride
    slot.begin_copy(False, host, flat_copy)
    finish_flat_copy = slot.unfinished.get(False, lambda: None)

    def spread_landed_copy():
        finish_flat_copy()
        device_tensor.copy_(flat_copy.as_strided(extents, host_stride))

    slot.unfinished[False] = spread_landed_copy
    return device_tensor


def finish_copy(source, copy, slot_number, to_host):
    """Makes the current stream wait for the copy of a slot; `to_host`: its direction."""
    slot = _slots[slot_number]
    if slot.streams:
        slot.streams[to_host].make_current_stream_wait(slot.done[to_host])
    if to_host in slot.unfinished:
        slot.unfinished.pop(to_host)()


def slots_at(address):
    """[the slot at an address on the host]; [] if there is none."""
    return [slot for slot in _slots.values() if slot.address == address]


def unfinished_slot_numbers():
    """The slots with copies for which nothing has waited yet."""
    return [slot_number for slot_number, slot in _slots.items() if slot.unfinished]


def _spanned_numel(tensor):
    """The number of elements from a tensor's first to its last in memory."""
    return sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride())) + 1


def _as_flat(tensor):
    """The memory that a tensor spans as a flat tensor, since PyTorch copies other tensors through temporary memory for which it does not
    wait."""
    return tensor.as_strided((_spanned_numel(tensor),), (1,))


for function in (copy_out, copy_back, finish_copy):
    library.impl(function.__name__, function, "CompositeExplicitAutograd")


@torch.library.register_fake("umbench::copy_out", lib=library)
def _(source, slot_number):
    part = _slots[slot_number]
    if part.back:  # Inductor asks last, when it has fixed the source's strides, and compiles the backward graph later
        part.back = part.back[0], tuple(source.stride()), *part.back[2:]
    return torch.empty(_spanned_numel(source), dtype=source.dtype, device=_slots[slot_number].memory.device)


@torch.library.register_fake("umbench::copy_back", lib=library)
def _(host, slot_number):
    size, stride, dtype, device = _slots[slot_number].back
    return torch.empty_strided(size, stride, dtype=dtype, device=device)


@torch.library.register_fake("umbench::finish_copy", lib=library)
def _(source, copy, slot_number, to_host):
    return None


# --- graphs ---

def spanned_bytes(node):
    """The bytes in memory from the first to the last element of a node's value."""
    value = node.meta["val"]
    return _spanned_numel(value) * value.element_size()


def insert_copies(forward_module, backward_module, num_fwd_outputs, named_moves, slab):
    """Puts the copies into both graphs. `named_moves`: [(tensor, gone_after_name, back_before_name)], names of nodes as torch_offload has
    them, None for the end of the forward graph and for right before the first reader."""
    host_nodes = [_insert_copy_out(forward_module.graph, num_fwd_outputs, tensor_name, gone_after_name, slot_number)
                  for (tensor_name, gone_after_name, _), slot_number in zip(named_moves, slab.slots)]
    copies_back = _copies_back_by_first_reader(backward_module.graph, named_moves, slab.slots, host_nodes)
    for tensor_name, back_before_name, slot_number, host_node in copies_back:
        _insert_copy_back(backward_module.graph, tensor_name, back_before_name, slot_number, host_node)
    for module in (forward_module, backward_module):
        module.graph.lint()
        module.recompile()


def _copies_back_by_first_reader(graph, named_moves, slot_numbers, host_nodes):
    """[(name, back_before_name, slot, host)] of the copies back, sorted by their first readers, so that of copies that begin at the same
    node the one that is read first begins first."""
    index_of_node = {node: i for i, node in enumerate(graph.nodes)}
    first_reader_index = {node.name: min(map(index_of_node.get, node.users)) for node in graph.find_nodes(op="placeholder") if node.users}
    copies_back = [(tensor_name, back_before_name, slot_number, host_node)
                   for (tensor_name, _, back_before_name), slot_number, host_node in zip(named_moves, slot_numbers, host_nodes)]
    return sorted(copies_back, key=lambda copy: first_reader_index[copy[0]])


def _insert_copy_out(graph, num_fwd_outputs, node_name, gone_after_name, slot_number):
    index_of_name = {node.name: i for i, node in enumerate(graph.nodes)}
    nodes = list(graph.nodes)
    source, output = nodes[index_of_name[node_name]], nodes[-1]
    node_before_finish = nodes[max(index_of_name[node_name], index_of_name.get(gone_after_name, 0))] if gone_after_name else output.prev
    with graph.inserting_after(source):
        host_node = _add_call(graph, torch.ops.umbench.copy_out.default, source, slot_number)
    with graph.inserting_after(host_node if node_before_finish is source else node_before_finish):
        _add_call(graph, torch.ops.umbench.finish_copy.default, source, host_node, slot_number, True)
    results = list(output.args[0])
    results[num_fwd_outputs:] = [host_node if result is source else result for result in results[num_fwd_outputs:]]
    output.args = (tuple(results),)
    return host_node


def _insert_copy_back(graph, node_name, back_before_name, slot_number, host_node):
    node_of_name = {node.name: node for node in graph.nodes}
    index_of_node = {node: i for i, node in enumerate(graph.nodes)}
    placeholder = node_of_name[node_name]
    traced_value, readers = placeholder.meta["val"], list(placeholder.users)
    placeholder.meta["val"] = host_node.meta["val"]
    set_layout_of_copy_back(slot_number, traced_value)
    first_reader = min(readers, key=index_of_node.get)
    node_after_copy = min((first_reader, node_of_name.get(back_before_name, first_reader)), key=index_of_node.get)
    with graph.inserting_before(node_after_copy if node_after_copy.op != "placeholder" else first_reader):
        copy = _add_call(graph, torch.ops.umbench.copy_back.default, placeholder, slot_number)
    with graph.inserting_before(first_reader):
        _add_call(graph, torch.ops.umbench.finish_copy.default, placeholder, copy, slot_number, False)
    for reader in readers:
        reader.replace_input_with(placeholder, copy)


def _add_call(graph, operator, *args):
    node = graph.call_function(operator, args)
    traced_args = torch.fx.node.map_arg(args, lambda n: n.meta["val"])
    with torch._guards.detect_fake_mode(traced_args):
        node.meta["val"] = operator(*traced_args)
    return node


def names_copied_back(backward_module):
    """The names of the tensors that a backward graph copies back."""
    copy_back_nodes = backward_module.graph.find_nodes(op="call_function", target=torch.ops.umbench.copy_back.default)
    return {node.args[0].name for node in copy_back_nodes}
