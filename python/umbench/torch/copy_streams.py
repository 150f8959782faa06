"""Copies on separate streams by calls of the CUDA driver. PyTorch's tensors, streams and events take several times as much CPU time."""

import contextlib
import ctypes
import functools

import torch

from . import private

DELAY = {"cycles": 0}  # GPU cycles to wait before each copy; set by tests


@functools.cache
def driver_functions():
    """Three functions of the driver: (records an event, makes a stream wait for an event, copies). They return 0 if they succeed, and take
    handles and addresses."""
    library = ctypes.CDLL("libcuda.so.1")
    handle_type, functions = ctypes.c_void_p, (library.cuEventRecord, library.cuStreamWaitEvent, library.cuMemcpyAsync)
    for function, argument_types in zip(functions,
                                        ((handle_type, handle_type), (handle_type, handle_type, ctypes.c_uint),
                                         (handle_type, handle_type, ctypes.c_size_t, handle_type))):
        function.argtypes = argument_types
    return functions


NO_CONTEXT = contextlib.nullcontext()


def with_gpu_current(gpu_number):
    """A context in which this GPU is the current one, since the handle 0 means the default stream of the current GPU."""
    return NO_CONTEXT if torch.cuda.current_device() == gpu_number else torch.cuda.device(gpu_number)


def raise_if_error(error_code):
    """Raises the error of a driver call, which may be a fault of an earlier kernel."""
    if error_code:
        name_pointer = ctypes.c_char_p()
        ctypes.CDLL("libcuda.so.1").cuGetErrorName(error_code, ctypes.byref(name_pointer))
        error_name = (name_pointer.value or b"an unknown error").decode()
        raise RuntimeError(f"a copy, or a kernel before it, failed: {error_name} ({error_code})")


class CopyStream:
    """A stream for the copies of one GPU in one direction, of pinned memory or of managed memory."""

    def __init__(self, gpu_number, is_managed):
        self.gpu_number, self.managed = gpu_number, is_managed
        self.stream = torch.cuda.Stream(gpu_number)
        self.event = record_new_event(self.stream)
        self.handle, self.ready = self.stream.cuda_stream, self.event.cuda_event
        self.record, self.wait, self.copy = driver_functions()

    def begin_copy(self, target_address, source_address, byte_count, done_event_handle):
        """Copies between two addresses after all that the GPU's current stream was given so far, and records `done_event_handle`, a handle."""
        with with_gpu_current(self.gpu_number):
            raise_if_error(self.record(self.ready, private.read_current_stream_handle(self.gpu_number)) or self.wait(self.handle, self.ready, 0)
                           or self._copy(target_address, source_address, byte_count) or self.record(done_event_handle, self.handle))

    def _copy(self, target_address, source_address, byte_count):
        if DELAY["cycles"]:
            with torch.cuda.stream(self.stream):
                torch.cuda._sleep(DELAY["cycles"])
        if self.managed and kernel_copies_module() and (target_address | source_address | byte_count) % 8 == 0:
            with private.on_stream(self.stream, torch.cuda.current_stream(self.gpu_number)):
                kernel_copies_module().copy_bytes(target_address, source_address, byte_count)
            return 0
        return self.copy(target_address, source_address, byte_count, self.handle)

    def make_current_stream_wait(self, event_handle):
        """Makes the GPU's current stream wait for the event."""
        with with_gpu_current(self.gpu_number):
            raise_if_error(self.wait(private.read_current_stream_handle(self.gpu_number), event_handle, 0))


@functools.cache
def copy_stream(gpu_number, to_host, is_managed):
    """The CopyStream of a GPU for a direction, of pinned or of managed memory."""
    return CopyStream(gpu_number, is_managed)


def record_new_event(stream):
    """A new event, recorded on the stream at once, since it has no handle before."""
    event = torch.cuda.Event()
    event.record(stream)
    return event


@functools.cache
def kernel_copies_module():
    """The module kernel_copies; None without Triton."""
    try:
        from . import kernel_copies as module
    except ImportError:
        return None
    return module
