"""Makes long computations in Python faster: garbage collection is off, and the stack lies in one piece of memory."""

import contextlib
import functools
import gc
import types

STACK_VALUES = 70_000  # values for which a frame of on_one_stack() asks; CPython maps 1 MiB for them, and leaves the rest to the frames above


@contextlib.contextmanager
def garbage_collection_off():
    """A context in which Python collects no cycles. Compiling makes millions of objects and few cycles, and collections go over all of them again
    and again. PyTorch collects when it has compiled. A call of a compiled model is too short to need it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def on_one_stack(function):
    """Returns a form of `function` in which the frames of all calls lie in one piece of memory. CPython maps the stack in pieces of 16 KiB and
    unmaps a piece as soon as it is empty: calls that cross the boundary of two pieces map memory each time."""
    def call(*arguments, **options):
        return function(*arguments, **options)

    return functools.wraps(function)(types.FunctionType(call.__code__.replace(co_stacksize=STACK_VALUES), globals(), closure=call.__closure__))
