"""Lets PyTorch allocate managed memory.

    with umbench.torch.managed_pool(policy="prefetch"):
        loss = model(batch).sum()
        loss.backward()

In this context PyTorch's allocations on the GPU are managed memory, also in the backward pass, which runs on the calling thread. A cap leaves
the GPU free memory. PyTorch's allocator caches and splits this memory as usual. Policies:

none            no hints: pages arrive by faults
prefetch        each segment is populated on the GPU when it is allocated
advise_host     preferred location host, accessed by the GPU: kernels access it over the link
advise_device   preferred location GPU
read_mostly     copies on both sides; slows down writes of kernels
"""

import contextlib
import ctypes
import functools
import os
import shutil
from pathlib import Path

LIBRARY_NAME = "libumbench_pool.so"
POLICIES = ("none", "prefetch", "advise_host", "advise_device", "read_mostly")
MAX_SHARE_OF_FREE_MEMORY = 0.7  # share of the free memory; more managed memory than a GPU has can hang it


class NoLibrary(RuntimeError):
    """libumbench_pool.so was not found. The message says how to build it."""


def library_path():
    """The path of the library: UMBENCH_POOL_LIBRARY, beside the program umbench, or below the repository's build folder. Throws
    NoLibrary."""
    given_path = os.environ.get("UMBENCH_POOL_LIBRARY")
    if given_path:
        return given_path
    program = os.environ.get("UMBENCH_PROGRAM") or shutil.which("umbench")
    program_folders = [Path(program).resolve().parent] if program else []
    folders = program_folders + [folder.parent / name for folder in program_folders for name in ("lib", "lib64")]
    folders += sorted((Path(__file__).resolve().parents[3] / "build").glob("*"))
    for folder in folders:
        if (folder / LIBRARY_NAME).is_file():
            return str(folder / LIBRARY_NAME)
    raise NoLibrary(f"there is no {LIBRARY_NAME}; build umbench with -DUM_CUDA=ON, or let UMBENCH_POOL_LIBRARY name it")


@functools.cache
def _load_library(library_file):
    library = ctypes.CDLL(library_file)
    library.um_pool_configure.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    library.um_pool_used.restype = library.um_pool_peak.restype = ctypes.c_size_t
    return library


@functools.cache
def _make_allocator(library_file):
    import torch
    return torch.cuda.memory.CUDAPluggableAllocator(library_file, "um_pool_alloc", "um_pool_free")


def pool_cap_bytes(free_bytes, requested_bytes=None):
    """The bytes that the pool may take of the free memory. Throws ValueError if more than the safe share is requested."""
    max_bytes = int(MAX_SHARE_OF_FREE_MEMORY * free_bytes)
    if requested_bytes is None:
        return max_bytes
    if not 0 < requested_bytes <= max_bytes:
        raise ValueError(f"cap {requested_bytes} is not between 1 and {max_bytes}, {MAX_SHARE_OF_FREE_MEMORY:.0%} of the free GPU memory: "
                         "more managed memory than a GPU "
                         "holds can hang it")
    return int(requested_bytes)


class Pool:
    """The statistics of a managed pool: bytes in use and their peak."""

    def __init__(self, library, cap_in_bytes):
        self._library, self.cap = library, cap_in_bytes

    @property
    def used(self):
        return self._library.um_pool_used()

    @property
    def peak(self):
        return self._library.um_pool_peak()


def configure_library(policy, additional_bytes):
    """The loaded libumbench_pool.so, set to allocate at most `additional_bytes` bytes in addition to those in use. Raises NoLibrary, and ValueError above the
    safe share."""
    import torch
    library = _load_library(library_path())
    max_bytes = library.um_pool_used() + pool_cap_bytes(torch.cuda.mem_get_info()[0], additional_bytes)
    library.um_pool_configure(policy.encode(), max_bytes)
    return library


@contextlib.contextmanager
def managed_pool(policy="none", cap=None):
    """A context in which PyTorch allocates this thread's GPU memory as managed memory. `cap`: bytes, at most 70 % of the free memory. Only one
    such context may be open at a time."""
    if policy not in POLICIES:
        raise ValueError(f"policy {policy!r} is none of {', '.join(POLICIES)}")
    path = library_path()
    import torch
    library = _load_library(path)
    max_bytes = library.um_pool_used() + pool_cap_bytes(torch.cuda.mem_get_info()[0], cap)  # libraries may still keep memory of an earlier pool
    library.um_pool_configure(policy.encode(), max_bytes)
    memory_pool = torch.cuda.MemPool(_make_allocator(path).allocator())
    with torch.cuda.use_mem_pool(memory_pool), torch.autograd.set_multithreading_enabled(False):
        yield Pool(library, max_bytes)
