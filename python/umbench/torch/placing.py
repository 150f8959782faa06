"""Holds pieces of memory while a compiled step runs, so that PyTorch's caching allocator places its tensors at the addresses of
steering.py.

Inductor's code calls before(number) ahead of an allocation whose number is in `called_at`: a step has hundreds, and the CPU may be what
binds it. Holding pieces changes only the addresses of tensors. A step that allocates differently is still correct, but needs more
memory."""

import torch

from . import private

MARK = 7  # bytes: an allocation of this size is a mark of before() among the allocator's events

_follows = None  # the Marks or Holds whose at() before() calls
called_at = ()   # numbers of the allocations before which it is called


def before(point):
    """Inductor's code is about to allocate. point: the number of this place in the code."""


ignored = before


def follow(follower):
    """From now on before() calls at() of `follower`: a Marks, a Holds, or None for nothing."""
    global _follows, called_at, before
    if _follows is not None:
        _follows.end()
    _follows, called_at, before = (None, (), ignored) if follower is None else (follower, follower.called_at, follower.at)


def stop_following(follower):
    """Makes before() no longer call this follower. Another one stays."""
    if _follows is follower:
        follow(None)


def marks():
    """Whether a Marks follows the step now."""
    return isinstance(_follows, Marks)


class Marks:
    """Marks points among the allocator's events. points: their numbers, in order."""

    called_at = range(2**62)  # all allocations

    def __init__(self):
        self.points = []

    def at(self, point):
        self.points.append(point)
        private.give_bytes(private.take_bytes(MARK, private.raw_stream(torch.cuda.current_device())))

    def end(self):
        pass


class Holds:
    """Holds pieces of memory in each step. points: numbers of the step's points, in order; changes: {index of a point: (keys of pieces to
    release, {key: bytes of a piece to take})}; stream: its number for the allocator. At the last point all pieces are released."""

    def __init__(self, points, changes, stream=0):
        self.changes, self.stream, self.held = changes, stream, {}
        self.called_at = {points[index] for index in changes} | set(points[-1:]) if changes else set()
        steps = [(point, *changes.get(index, ((), {}))) for index, point in enumerate(points) if point in self.called_at]
        self.steps = [(point, let_go, tuple(taken.items())) for point, let_go, taken in steps]
        self.begin()

    def begin(self):
        self.end()
        self.coming = self.steps[::-1]

    def at(self, point):
        """Changes the held pieces at a point. After a point out of order nothing is held."""
        if not self.coming:
            return
        expected, let_go, taken = self.coming.pop()
        if point != expected:
            self.coming = []
        elif let_go or taken:
            self._change(let_go, taken)
        if not self.coming:
            self.end()

    def _change(self, let_go, taken):
        held, give, take = self.held, private.give_bytes, private.take_bytes
        for key in let_go:
            if key in held:
                give(held.pop(key))
        try:
            for key, size in taken:
                held[key] = take(size, self.stream)
        except torch.OutOfMemoryError:
            self.coming = []

    def end(self):
        """Releases all pieces."""
        while self.held:
            private.give_bytes(self.held.popitem()[1])

    def __len__(self):
        """The number of pieces that are taken in a step."""
        return sum(len(taken) for _, taken in self.changes.values())
