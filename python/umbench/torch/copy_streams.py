"""Copies on separate streams by calls of the CUDA driver. PyTorch's tensors, streams and events take several times as much CPU time."""

import contextlib
import ctypes
import functools

import torch

from . import private

DELAY = {"cycles": 0}  # GPU cycles to wait before each copy; set by tests


@functools.cache
def driver():
    """Three functions of the driver: (records an event, makes a stream wait for an event, copies). They return 0 if they succeed, and take
    handles and addresses."""
    library = ctypes.CDLL("libcuda.so.1")
    handle, calls = ctypes.c_void_p, (library.cuEventRecord, library.cuStreamWaitEvent, library.cuMemcpyAsync)
    for call, kinds in zip(calls, ((handle, handle), (handle, handle, ctypes.c_uint), (handle, handle, ctypes.c_size_t, handle))):
        call.argtypes = kinds
    return calls


NO_CONTEXT = contextlib.nullcontext()


def current_gpu(gpu_number):
    """A context in which a GPU is the current one, since the handle 0 means the default stream of the current GPU."""
    return NO_CONTEXT if torch.cuda.current_device() == gpu_number else torch.cuda.device(gpu_number)


def raise_error(error):
    """Raises the error of a driver call, which may be a fault of an earlier kernel."""
    if error:
        name = ctypes.c_char_p()
        ctypes.CDLL("libcuda.so.1").cuGetErrorName(error, ctypes.byref(name))
        told = (name.value or b"an unknown error").decode()
        raise RuntimeError(f"a copy, or a kernel before it, failed: {told} ({error})")


class CopyStream:
    """A stream for the copies of one GPU in one direction, of pinned memory or of managed memory."""

    def __init__(self, gpu_number, managed):
        self.gpu_number, self.managed = gpu_number, managed
        self.stream = torch.cuda.Stream(gpu_number)
        self.event = new_event(self.stream)
        self.handle, self.ready = self.stream.cuda_stream, self.event.cuda_event
        self.record, self.wait, self.copy = driver()

    def begin(self, target, source, size, done):
        """Copies `size` bytes between two addresses after all that the GPU's current stream was given so far, and records the event `done`."""
        with current_gpu(self.gpu_number):
            raise_error(self.record(self.ready, private.raw_stream(self.gpu_number)) or self.wait(self.handle, self.ready, 0)
                   or self._move(target, source, size) or self.record(done, self.handle))

    def _move(self, target, source, size):
        if DELAY["cycles"]:
            with torch.cuda.stream(self.stream):
                torch.cuda._sleep(DELAY["cycles"])
        if self.managed and kernel_copies() and (target | source | size) % 8 == 0:
            with private.on_stream(self.stream, torch.cuda.current_stream(self.gpu_number)):
                kernel_copies().copy(target, source, size)
            return 0
        return self.copy(target, source, size, self.handle)

    def finish(self, done):
        """Makes the GPU's current stream wait for the event."""
        with current_gpu(self.gpu_number):
            raise_error(self.wait(private.raw_stream(self.gpu_number), done, 0))


@functools.cache
def copy_stream(gpu_number, out, managed):
    """The CopyStream of a GPU and direction. out: to the host; managed: between the GPU and managed memory."""
    return CopyStream(gpu_number, managed)


def new_event(stream):
    """A new event, recorded on the stream at once, since it has no handle before."""
    event = torch.cuda.Event()
    event.record(stream)
    return event


@functools.cache
def kernel_copies():
    """The module kernel_copies; None without Triton."""
    try:
        from . import kernel_copies as found
    except ImportError:
        return None
    return found
